"""The verbs of the Kubernetes API over one connection.

Promised: typed answers are decoded from the bytes straight into the msgspec type that is asked for, without a
dictionary in between; without a type the answer is a dictionary; every failure is an `ApiError`; names that would
lead to another path are refused here. Deadlines, retries and the write gate are those of `wire`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec
import orjson

from controller.foundation import Resource
from controller.kube.connection import Connection
from controller.kube.errors import BadAnswer, Expired, Invalid, Outcome
from controller.kube.observers import SILENT, RequestObserver
from controller.kube.pages import PAGE_SIZE, ListPage, PageRequest, PageWalk
from controller.kube.patches import APPLY_PATCH, Patch
from controller.kube.recovery import recovered
from controller.kube.retries import READS
from controller.kube.streaming import StreamingSupport
from controller.kube.transport import Gate
from controller.kube.watching import ByteStream, WatchStream
from controller.kube.wire import (
    JSON,
    MAX_CONCURRENT_REQUESTS,
    REQUEST_TIMEOUT_SECONDS,
    CallOptions,
    Query,
    Request,
    Wire,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # A call without a type gives a dictionary: for the type checker that is a default (PEP 696), at run time nothing.
    T = TypeVar("T", default=dict[str, Any])
else:
    from typing import TypeVar

    T = TypeVar("T")
Body = Mapping[str, Any] | msgspec.Struct | bytes

# A watch cache may answer with everything at once; on a slow line that takes minutes.
LIST_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ListResult(Generic[T]):
    """A complete list and the resourceVersion that a watch can start from."""

    items: list[T]
    resource_version: str


class KubeClient:
    """A client of one API server; use it from one event loop, close it at the end.

    gate: called before every mutation; raises NotLeader to refuse it. The elector installs it; None lets all through.
    field_manager: sent with every write, so that managedFields name us.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        field_manager: str = "",
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        max_concurrent_requests: int = MAX_CONCURRENT_REQUESTS,
        observer: RequestObserver = SILENT,
        rng: random.Random | None = None,
    ) -> None:
        self.connection = connection
        self.gate: Gate | None = None
        self.streaming = StreamingSupport()  # learnt by the first reflector, used by all
        self._field_manager = field_manager
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
        self._wire = Wire(
            connection,
            user_agent=user_agent,
            timeout_seconds=timeout_seconds,
            max_concurrent_requests=max_concurrent_requests,
            observer=observer,
            rng=rng,
        )

    async def close(self) -> None:
        """Close all connections. Requests in flight fail with ConnectionLost."""
        await self._wire.close()
        await self.connection.close()

    # ---- reading -----------------------------------------------------------------------------------------------

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        type_: type[T] | None = None,
        subresource: str | None = None,
        timeout_seconds: float | None = None,
        urgent: bool = False,
    ) -> T:
        """One object, from etcd (never from the server's cache). Raises NotFound."""
        request = Request("GET", object_path(resource, namespace, name, subresource))
        return self._decode(await self._wire.call(request, CallOptions(timeout_seconds, urgent)), type_)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        type_: type[T] | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        resource_version: str = "",
        page_size: int = PAGE_SIZE,
    ) -> ListResult[T]:
        """All objects, page by page; one complete answer when a continue token expires on the way."""
        path = collection_path(resource, namespace)
        selectors = selector_query(label_selector, field_selector)
        walk = PageWalk(PageRequest(resource_version, limit=page_size))
        items: list[T] = []
        version = ""
        while (request := walk.request) is not None:
            try:
                body = await self._wire.call(Request("GET", path, (*request.query(), *selectors)))
            except Expired as failure:
                walk.expired(failure)
                items, version = [], ""
                continue
            page = self._decode(body, cast("type[ListPage[T]]", ListPage[type_ or dict]))  # type: ignore[misc]
            if not page.kind.endswith("List"):
                raise BadAnswer(f"a list was asked for, the server sent {page.kind or 'no kind'}", reason="NotAList")
            version = version or page.metadata.resource_version
            items += page.items or ()
            walk.arrived(page.metadata)
        return ListResult(items, version)

    @asynccontextmanager
    async def open_list(self, path: str, request: PageRequest, selectors: Query = ()) -> AsyncIterator[ByteStream]:
        """One page of a list as it comes; never retried here, the reflector has its own rules. Raises ApiError."""
        asked = Request("GET", path, (*request.query(), *selectors))
        async with self._wire.stream(
            asked, total_seconds=LIST_TIMEOUT_SECONDS, inactivity_seconds=REQUEST_TIMEOUT_SECONDS
        ) as stream:
            yield stream

    @asynccontextmanager
    async def watch(
        self, path: str, query: Query, *, total_seconds: float, inactivity_seconds: float
    ) -> AsyncIterator[WatchStream]:
        """An open watch on a collection; `query` is complete except `watch=true`.

        Raises ApiError when the server does not answer 200. The stream ends regularly after `total_seconds` at the
        latest and fails as TimedOut when nothing arrives for `inactivity_seconds`.
        """
        asked = Request("GET", path, (("watch", "true"), *query))
        async with self._wire.stream(
            asked, total_seconds=total_seconds, inactivity_seconds=inactivity_seconds
        ) as stream:
            yield WatchStream(stream)

    # ---- writing -----------------------------------------------------------------------------------------------

    async def create(
        self,
        resource: Resource,
        body: Body,
        namespace: str | None = None,
        *,
        type_: type[T] | None = None,
        name: str | None = None,
        subresource: str | None = None,
        timeout_seconds: float | None = None,
        gated: bool = True,
        urgent: bool = False,
    ) -> T:
        """POST to the collection, or with name and subresource to one object's (`pods/eviction`).

        Raises AlreadyExists.
        """
        path = object_path(resource, namespace, name, subresource) if name else collection_path(resource, namespace)
        request = self._mutation("POST", path, encode(body), gated=gated)
        return self._decode(await self._wire.call(request, CallOptions(timeout_seconds, urgent)), type_)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str | None = None,
        *,
        type_: type[T] | None = None,
        subresource: str | None = None,
        timeout_seconds: float | None = None,
        gated: bool = True,
        urgent: bool = False,
    ) -> T:
        """PUT. The body's metadata.resourceVersion is the precondition. Raises Conflict."""
        path = object_path(resource, namespace, name, subresource)
        request = self._mutation("PUT", path, encode(body), gated=gated)
        return self._decode(await self._wire.call(request, CallOptions(timeout_seconds, urgent)), type_)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        type_: type[T] | None = None,
        subresource: str | None = None,
        force: bool = False,
        field_manager: str | None = None,
        gated: bool = True,
    ) -> T:
        """PATCH. `force` takes fields over from other managers (apply patches only).

        Raises Conflict for a stale resourceVersion or a field of another manager, Invalid for a failed `test`.
        """
        path = object_path(resource, namespace, name, subresource)
        request = self._mutation(
            "PATCH", path, patch.body, content_type=patch.content_type, manager=field_manager, gated=gated
        )
        if patch.content_type == APPLY_PATCH:
            if not any(key == "fieldManager" for key, _ in request.query):
                raise Invalid("a server-side apply needs a field manager", outcome=Outcome.NOT_SENT)
            if force:
                request = replace(request, query=(*request.query, ("force", "true")))
        return self._decode(await self._wire.call(request), type_)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> dict[str, Any]:
        """DELETE with preconditions. The answer is the object (Pods) or a Status (custom resources).

        Raises NotFound when it is gone, Conflict when `uid` or `resource_version` do not match.
        """
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {key: value for key, value in conditions.items() if value is not None} or None,
            "gracePeriodSeconds": grace_seconds,
            "propagationPolicy": propagation,
        }
        body = encode({key: value for key, value in options.items() if value is not None})
        request = replace(self._mutation("DELETE", object_path(resource, namespace, name), body), query=())
        return self._decode(await self._wire.call(request), dict)

    async def request_raw(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Any other request (`/version`, `/openapi/v3`, TokenRequest, …); the body of a 2xx answer as it came."""
        gate = None if method in READS else self.gate
        request = Request(method, path, tuple(query), body, content_type, accept, gate)
        return await self._wire.call(request, CallOptions(timeout_seconds))

    def _mutation(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = JSON,
        manager: str | None = None,
        gated: bool = True,
    ) -> Request:
        manager = manager or self._field_manager
        query = (("fieldManager", manager),) if manager else ()
        return Request(method, path, query, body, content_type, gate=self.gate if gated else None)

    def _decode(self, body: bytes, type_: type[T] | None) -> T:
        try:
            if type_ is None:
                return cast("T", orjson.loads(body))
            decoder = self._decoders.get(type_)
            if decoder is None:
                decoder = self._decoders[type_] = msgspec.json.Decoder(type_)
            return cast("T", decoder.decode(body))
        except (msgspec.DecodeError, orjson.JSONDecodeError, RecursionError) as failure:
            view = None if type_ is None else recovered(type_, body)
            if view is not None:
                return view
            what = "it is nested too deeply" if isinstance(failure, RecursionError) else str(failure)
            raise BadAnswer(
                f"the answer cannot be read: {what}", reason="BadAnswer", outcome=Outcome.UNKNOWN
            ) from failure


def encode(body: Body) -> bytes:
    """JSON bytes of a mapping or struct; bytes are taken as they are."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, msgspec.Struct):
        return msgspec.json.encode(body)
    return orjson.dumps(body)


def collection_path(resource: Resource, namespace: str | None) -> str:
    """The checked path of a collection."""
    _check_segment("namespace", namespace)
    return resource.path(namespace)


def object_path(resource: Resource, namespace: str | None, name: str, subresource: str | None = None) -> str:
    """The checked path of an object. Raises Invalid for a name that would lead elsewhere: names come from user data."""
    if not name:
        raise Invalid(f"a {resource.kind} needs a name", outcome=Outcome.NOT_SENT)
    if resource.namespaced and not namespace:
        raise Invalid(f"{resource.kind} {name!r} needs a namespace", outcome=Outcome.NOT_SENT)
    _check_segment("name", name)
    _check_segment("namespace", namespace)
    return resource.path(namespace, name, subresource)


def selector_query(label_selector: str | None, field_selector: str | None) -> list[tuple[str, str]]:
    """Selectors as query parameters."""
    pairs = (("labelSelector", label_selector), ("fieldSelector", field_selector))
    return [(key, value) for key, value in pairs if value]


def _check_segment(what: str, segment: str | None) -> None:
    if segment and (segment in (".", "..") or any(character in segment for character in "/%?#")):
        raise Invalid(f"not a usable {what}: {segment!r}", outcome=Outcome.NOT_SENT)
