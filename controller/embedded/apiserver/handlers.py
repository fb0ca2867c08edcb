"""Resource requests over HTTP: from a request info to the verbs and back to an answer."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import yaml
from aiohttp import web

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.access import Access
from controller.embedded.apiserver.builtin_tables import columns_of
from controller.embedded.apiserver.deletion import DeleteOptions, delete
from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.faults import Action
from controller.embedded.apiserver.listing import Page, list_head, list_page, required_resource_version, watch_start
from controller.embedded.apiserver.negotiation import Accepted, Form, negotiate, read_body, warning_header
from controller.embedded.apiserver.operations import Operations
from controller.embedded.apiserver.patch_json import apply_json_patch
from controller.embedded.apiserver.patch_merge import apply_merge_patch, apply_strategic_patch
from controller.embedded.apiserver.pod_binding import bind_pod
from controller.embedded.apiserver.pruning import duplicate_members
from controller.embedded.apiserver.rbac import User
from controller.embedded.apiserver.reading import read_as
from controller.embedded.apiserver.requests import ListOptions, RequestInfo, WriteOptions, parse_resource_version
from controller.embedded.apiserver.resources import Registry, ServedVersion
from controller.embedded.apiserver.reviews import answer_review, issue_token
from controller.embedded.apiserver.selectors import parse_selector
from controller.embedded.apiserver.shapes import root_shape
from controller.embedded.apiserver.storage import Store, Stored, encode
from controller.embedded.apiserver.streams import stream_lines
from controller.embedded.apiserver.table import PartialLines, TableFormat, partial_metadata
from controller.embedded.apiserver.targets import Outcome, Target, strict_error
from controller.embedded.apiserver.watch import LAST_BOOKMARK_SECONDS, LineFormat, ObjectLines, Watcher
from controller.foundation import Clock

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
# The real server compresses lists beyond this size, and never watches.
_GZIP_FROM_BYTES = 128 * 1024
# Range in which the real server draws the length of a watch that names none.
_DEFAULT_WATCH_SECONDS = (1800.0, 3600.0)


@dataclass(slots=True)
class Settings:
    """Timings of the server, injectable so that tests need not wait."""

    bookmark_interval_seconds: float = 60.0
    future_wait_seconds: float = 3.0  # how long a read waits for a resourceVersion that is still to come


@dataclass(slots=True)
class ResourceHandler:
    """Answers the requests about resources."""

    store: Store
    registry: Registry
    operations: Operations
    clock: Clock
    rng: random.Random
    settings: Settings
    access: Access
    watchers: set[Watcher]

    async def handle(
        self, request: web.BaseRequest, info: RequestInfo, user: User, actions: Sequence[Action]
    ) -> web.StreamResponse:
        """The answer, already streamed for a watch. Raises ApiError."""
        served = self.registry.find(info.group, info.version, info.resource)
        if served is None:
            if info.version in self.registry.groups().get(info.group, ()):
                raise errors.no_such_path()
            return web.Response(status=404, text="404 page not found\n")  # the real server's router, not its API
        if info.namespace and not served.type.namespaced and info.resource != "namespaces":
            raise errors.no_such_path()
        if info.resource == "serviceaccounts" and info.subresource == "token" and request.method == "POST":
            body = read_body(request.headers.get("Content-Type", ""), await _read(request))
            made = issue_token(body, info.namespace, info.name, self.access)
            return _respond(request, orjson.dumps(made), Accepted(), 201)
        if served.type.resource == _PODS and info.subresource == "binding" and request.method == "POST":
            return await self._bind(request, Target(served, info.namespace, info.name, "", user))
        if info.subresource and (info.subresource != "status" or not served.status):
            raise errors.not_found(served.type.resource, info.name) if served.type.custom else errors.no_such_path()
        namespace = info.namespace if served.type.namespaced else ""
        target = Target(served, namespace, info.name, info.subresource, user)
        if not served.deprecation:
            return await self._dispatch(request, info, target, actions)
        try:
            response = await self._dispatch(request, info, target, actions)
        except errors.ApiError as error:
            error.warnings.append(served.deprecation)
            raise
        if not response.prepared:
            response.headers.add("Warning", warning_header(served.deprecation))
        return response

    async def _bind(self, request: web.BaseRequest, target: Target) -> web.Response:
        options = WriteOptions.parse(request.query, request.headers.get("User-Agent", ""), "create")
        body = read_body(request.headers.get("Content-Type", ""), await _read(request))
        return _respond(request, orjson.dumps(bind_pod(self.operations, target, body, options)), Accepted(), 201)

    async def _dispatch(
        self, request: web.BaseRequest, info: RequestInfo, target: Target, actions: Sequence[Action]
    ) -> web.StreamResponse:
        served, query = target.served, request.query
        if request.method == "HEAD" and not served.type.custom:
            raise errors.method_not_allowed()
        if not info.name and request.method in ("PUT", "PATCH"):
            raise errors.bad_request("name must be provided") if served.type.custom else errors.method_not_allowed()
        if info.name and request.method == "POST" and not served.type.custom:
            raise errors.method_not_allowed()
        if served.type.traits.virtual and info.verb != "create":
            raise errors.method_not_allowed()
        if info.verb == "watch":
            return await self._watch(request, target, query, actions)
        if info.verb == "list":
            return await self._list(request, target, query)
        if info.verb == "get":
            return await self._get(request, target, query)
        if info.verb == "create":
            return await self._create(request, target, query)
        if info.verb == "update":
            options, body, warnings = await self._read_write(request, target, query)
            with errors.warned(warnings):
                outcome = await self.operations.update(target, body, options)
            return self._answer(request, served, outcome, warnings)
        if info.verb == "patch":
            return await self._patch(request, target, query)
        if info.verb == "delete":
            return await self._delete(request, target, query)
        if info.verb == "deletecollection":
            return await self._delete_collection(request, target, query)
        raise errors.method_not_allowed()

    # -- reads -----------------------------------------------------------------------------------------------------

    async def _get(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        await self._reach(parse_resource_version(query.get("resourceVersion", "")) or 0)
        stored = self.store.of(target.served).get(target.key)
        if stored is None:
            raise target.not_found()
        return self._one(request, target.served, stored)

    def _one(self, request: web.BaseRequest, served: ServedVersion, stored: Stored) -> web.Response:
        accepted = negotiate(request.headers.get("Accept", ""))
        if accepted.form is Form.OBJECT:
            return _respond(request, encode(stored, served), accepted)
        return self._shaped(request, served, Outcome(served.view(stored.object)), accepted)

    def _shaped(
        self,
        request: web.BaseRequest,
        served: ServedVersion,
        outcome: Outcome,
        accepted: Accepted,
    ) -> web.Response:
        obj, warnings = outcome.object, outcome.warnings
        status = 201 if outcome.created else 200
        if accepted.form is Form.TABLE:
            table = TableFormat(served, columns_of(served), self.clock, request.query.get("includeObject", "Metadata"))
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return _respond(request, table.table([obj], metadata), accepted, status, warnings)
        body = orjson.dumps(partial_metadata(obj) if accepted.form is Form.PARTIAL else obj)
        return _respond(request, body, accepted, status, warnings)

    async def _reach(self, resource_version: int) -> None:
        """Wait a while for a resourceVersion that is still to come. Raises ApiError 504."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.future_wait_seconds
        while self.store.resource_version < resource_version:
            remaining = deadline - loop.time()
            if remaining <= 0:
                raise errors.too_large_resource_version(resource_version, self.store.resource_version)
            await asyncio.sleep(min(remaining, 0.05))

    async def _list(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        served = target.served
        options = ListOptions.parse(query, watching=False)
        selector = parse_selector(options.label_selector, options.field_selector, served.fields)
        accepted = negotiate(request.headers.get("Accept", ""))
        await self._reach(required_resource_version(options))
        page = list_page(self.store, served, target.namespace, options, selector)
        if accepted.form is Form.TABLE:
            return _respond(request, self._table(request, served, page), accepted)
        if accepted.form is Form.PARTIAL:
            rendered = [orjson.dumps(partial_metadata(stored.object)) for stored in page.items]
            head = list_head(_META_VERSION, page, "PartialObjectMetadataList")
        else:
            rendered = [_list_item(stored, served) for stored in page.items]
            head = list_head(served.api_version, page, served.type.list_kind, custom=served.type.custom)
        return _respond(request, b"".join((head, b",".join(rendered), b"]}")), accepted)

    def _table(self, request: web.BaseRequest, served: ServedVersion, page: Page) -> bytes:
        table = TableFormat(served, columns_of(served), self.clock, request.query.get("includeObject", "Metadata"))
        metadata: Object = {"resourceVersion": str(page.resource_version)}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        return table.table([served.view(stored.object) for stored in page.items], metadata)

    async def _watch(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str], actions: Sequence[Action]
    ) -> web.StreamResponse:
        served = target.served
        options = ListOptions.parse(query, watching=True)
        selector = parse_selector(options.label_selector, options.field_selector, served.fields)
        accepted = negotiate(request.headers.get("Accept", ""))
        begin = watch_start(options)
        if begin.initial:
            await self._reach(parse_resource_version(options.resource_version) or 0)
        collection = self.store.of(served)
        lines: LineFormat = ObjectLines(served)
        if accepted.form is Form.TABLE:
            lines = TableFormat(served, columns_of(served), self.clock, query.get("includeObject", "Metadata"))
        elif accepted.form is Form.PARTIAL:
            lines = PartialLines(served)
        watcher = Watcher(
            collection, served, lines, namespace=target.namespace, selector=selector, after=begin.after or 0
        )
        try:
            replay = collection.since(begin.after) if begin.after is not None else []
        except errors.ApiError as error:
            watcher.fail(error)
        else:
            mark = self.store.resource_version if begin.mark else None
            watcher.start(collection.scan(target.namespace) if begin.initial else (), replay, mark)
            self._set_timers(watcher, options, self.store.resource_version if begin.after is None else begin.after)
        self.watchers.add(watcher)
        try:
            return await stream_lines(request, watcher, actions)
        finally:
            watcher.close()
            self.watchers.discard(watcher)

    def _set_timers(self, watcher: Watcher, options: ListOptions, began: int) -> None:
        """The end of a watch and its bookmarks: only those that are newer than what it began with."""
        seconds = float(options.timeout_seconds or self.rng.uniform(*_DEFAULT_WATCH_SECONDS))
        watcher.schedule("timeout", seconds, watcher.close)
        if not options.allow_bookmarks:
            return

        def bookmark() -> None:
            if self.store.resource_version > began:
                watcher.bookmark(self.store.resource_version)

        def tick() -> None:
            bookmark()
            watcher.schedule("bookmark", self.settings.bookmark_interval_seconds, tick)

        watcher.schedule("bookmark", self.settings.bookmark_interval_seconds, tick)
        if seconds > LAST_BOOKMARK_SECONDS:
            watcher.schedule("last bookmark", seconds - LAST_BOOKMARK_SECONDS, bookmark)

    # -- writes ----------------------------------------------------------------------------------------------------

    async def _read_write(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str]
    ) -> tuple[WriteOptions, Any, list[str]]:
        """Options, parsed body and warnings (duplicate members) of a write."""
        verb = "update" if request.method == "PUT" else "create"
        options = WriteOptions.parse(query, request.headers.get("User-Agent", ""), verb)
        raw = await _read(request)
        body = read_body(request.headers.get("Content-Type", ""), raw)
        return options, body, _duplicates(raw, body, target, options, patched=False)

    async def _create(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        if target.served.type.namespaced and not target.namespace:
            raise errors.method_not_allowed()
        options, body, warnings = await self._read_write(request, target, query)
        if target.served.type.traits.virtual:
            asked = read_as(target.served, body)
            made = answer_review(target.served.type.kind, asked, target.user, target.namespace, self.access)
            return _respond(request, orjson.dumps(made), Accepted(), 201)
        with errors.warned(warnings):
            outcome = await self.operations.create(target, body, options)
        return self._answer(request, target.served, outcome, warnings)

    async def _patch(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        served = target.served
        options = WriteOptions.parse(query, request.headers.get("User-Agent", ""))
        form = request.headers.get("Content-Type", "").split(";", 1)[0].strip().lower()
        accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
        if not served.type.custom:
            accepted.insert(2, STRATEGIC_PATCH)
        if form not in accepted:
            raise errors.unsupported_media_type(accepted)
        raw = await _read(request)
        patch = read_body(form, raw)
        warnings = [] if form == JSON_PATCH else _duplicates(raw, patch, target, options, patched=True)
        with errors.warned(warnings):
            if form == APPLY_PATCH:
                outcome = await self.operations.apply(target, patch, options)
            else:
                outcome = await self.operations.patch(
                    target, lambda current: _patched(form, current, patch, served), options
                )
        return self._answer(request, served, outcome, warnings)

    async def _delete(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        options = await _delete_options(request, query)
        stored = self.store.of(target.served).get(target.key)
        outcome = await delete(self.operations, target, options)
        if outcome.removed and not target.served.type.traits.returns_deleted:
            details: Object = {"name": target.name, "kind": target.served.type.plural}
            if target.served.type.group:
                details["group"] = target.served.type.group
            if stored is not None:
                details["uid"] = stored.uid
            body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
            return _respond(request, orjson.dumps(body), Accepted())
        return self._answer(request, target.served, outcome, [])

    async def _delete_collection(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str]
    ) -> web.Response:
        served = target.served
        if served.type.namespaced and not target.namespace:
            raise errors.method_not_allowed()
        options = await _delete_options(request, query)
        selected = ListOptions.parse(query, watching=False)
        selector = parse_selector(selected.label_selector, selected.field_selector, served.fields)
        page = list_page(self.store, served, target.namespace, selected, selector)
        for stored in page.items:
            one = Target(served, target.namespace, stored.name, "", target.user)
            try:
                await delete(self.operations, one, options)
            except errors.ApiError as error:
                if error.code != 404:
                    raise
        head = list_head(served.api_version, page, served.type.list_kind, custom=served.type.custom)
        items = b",".join(_list_item(stored, served) for stored in page.items)
        return _respond(request, head + items + b"]}", Accepted())

    def _answer(
        self, request: web.BaseRequest, served: ServedVersion, outcome: Outcome, warnings: list[str]
    ) -> web.Response:
        outcome.warnings[:0] = warnings
        return self._shaped(request, served, outcome, negotiate(request.headers.get("Accept", "")))


_META_VERSION = "meta.k8s.io/v1"
_PODS = errors.GroupResource("", "pods")


def _list_item(stored: Stored, served: ServedVersion) -> bytes:
    """An item of a list: those of built-in types lack kind and apiVersion (control-plane.md §5)."""
    body = encode(stored, served)
    if not served.type.custom and body.startswith(served.prefix):
        return b"{" + body[len(served.prefix) :].removeprefix(b",")
    return body


def _patched(form: str, current: Object, patch: Any, served: ServedVersion) -> Any:
    if form == JSON_PATCH:
        return apply_json_patch(current, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: json: a merge patch must be an object")
    if form == MERGE_PATCH:
        return apply_merge_patch(current, patch)
    return apply_strategic_patch(current, patch, root_shape(served.schema))


def _duplicates(raw: bytes, body: Any, target: Target, options: WriteOptions, *, patched: bool) -> list[str]:
    if options.field_validation == "Ignore" or not raw.lstrip().startswith(b"{"):
        return []
    texts = [f'duplicate field "{path}"' for path in duplicate_members(raw, body)]
    if texts and options.field_validation == "Strict":
        raise strict_error(target, texts, patched=patched)
    return texts


async def _delete_options(request: web.BaseRequest, query: Mapping[str, str]) -> DeleteOptions:
    raw = await _read(request)
    body = read_body(request.headers.get("Content-Type", ""), raw) if raw.strip() else {}
    return DeleteOptions.parse(body, query)


async def _read(request: web.BaseRequest) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise errors.too_large("limit is 3145728") from None


def _respond(
    request: web.BaseRequest, body: bytes, accepted: Accepted, status: int = 200, warnings: Sequence[str] = ()
) -> web.Response:
    content_type = "application/json"
    if accepted.yaml:
        body, content_type = yaml.safe_dump(orjson.loads(body), sort_keys=False).encode(), "application/yaml"
    response = web.Response(body=body, status=status, content_type=content_type)
    response.headers["Cache-Control"] = "no-cache, private"
    for text in warnings:
        response.headers.add("Warning", warning_header(text))
    if len(body) > _GZIP_FROM_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
        response.body = gzip.compress(body, compresslevel=1)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
    return response
