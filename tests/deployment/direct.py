"""The verbs of the embedded API server without sockets, in the shape of `KubeClient`: same semantics, a hundred times
the speed, and a place to break every single write.

`fail` is asked before and after each write and may raise: before, the write is not made; after, it is made and its
answer is lost with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import msgspec
import orjson

from controller.embedded.apiserver import ApiServer
from controller.embedded.apiserver.deletion import DeleteOptions, delete
from controller.embedded.apiserver.errors import ApiError as ServerError
from controller.embedded.apiserver.operations import Target
from controller.embedded.apiserver.patch_merge import apply_merge_patch
from controller.embedded.apiserver.requests import WriteOptions
from controller.foundation import Resource
from controller.kube import ListResult, NotFound, Patch
from controller.kube.classify import classify_status, read_status

MANAGER = "model-deployment-scaler"


class Moment(Enum):
    """Relative to the API server's own part of a write."""

    BEFORE = "before"
    AFTER = "after"


Fail = Callable[[Moment, str, str, str], None]  # moment, verb, plural, name


class DirectClient:
    """What this room uses of a client."""

    def __init__(self, server: ApiServer, fail: Fail | None = None) -> None:
        self._server = server
        self.fail = fail
        self.writes: list[tuple[str, str, str]] = []

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, type_: Any = None, **_: Any
    ) -> Any:
        found = self._server.get(resource, name, namespace or "")
        if found is None:
            raise NotFound(f"{resource.plural} {name!r} not found", status=404, reason="NotFound")
        return found if type_ is None else msgspec.json.decode(orjson.dumps(found), type=type_)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, type_: Any, label_selector: str | None = None
    ) -> ListResult[Any]:
        wanted = dict(part.split("=", 1) for part in (label_selector or "").split(",") if part)
        items = [
            msgspec.json.decode(orjson.dumps(item), type=type_)
            for item in self._server.list(resource, namespace or "")
            if wanted.items() <= (item["metadata"].get("labels") or {}).items()
        ]
        return ListResult(items, "")

    async def request_raw(self, method: str, path: str) -> bytes:
        assert method == "GET"
        parts = path.strip("/").split("/")
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) == 4:
            namespace, rest = rest[1], rest[2:]
        served = self._server.registry.find(group, version, rest[0])
        if served is None:
            raise NotFound("the server could not find the requested resource", status=404, reason="NotFound")
        resource = Resource(group, version, rest[0], served.type.kind, served.type.namespaced)
        return orjson.dumps(await self.get(resource, rest[1], namespace))

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> Any:
        target = self._target(resource, namespace, "")

        async def do() -> Any:
            return (await self._server.operations.create(target, dict(body), self._options())).object

        return await self._write("create", resource, body["metadata"]["name"], do)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Any:
        assert patch.content_type == "application/merge-patch+json"
        change = orjson.loads(patch.body)
        target = self._target(resource, namespace, name, subresource or "")

        async def do() -> Any:
            build = lambda current: apply_merge_patch(current, change)  # noqa: E731
            return (await self._server.operations.patch(target, build, self._options())).object

        return await self._write("patch", resource, name, do)

    async def delete(self, resource: Resource, name: str, namespace: str | None = None, *, uid: str) -> Any:
        target = self._target(resource, namespace, name)

        async def do() -> Any:
            return (await delete(self._server.operations, target, DeleteOptions(uid=uid))).object

        return await self._write("delete", resource, name, do)

    async def _write(self, verb: str, resource: Resource, name: str, do: Callable[[], Any]) -> Any:
        if self.fail is not None:
            self.fail(Moment.BEFORE, verb, resource.plural, name)
        try:
            answer = await do()
        except ServerError as error:
            status = read_status(orjson.dumps(error.status()))
            assert status is not None
            raise classify_status(status, http_status=error.code) from None
        self.writes.append((verb, resource.plural, name))
        if self.fail is not None:
            self.fail(Moment.AFTER, verb, resource.plural, name)
        return orjson.loads(orjson.dumps(answer))

    def _target(self, resource: Resource, namespace: str | None, name: str, subresource: str = "") -> Target:
        served = self._server.registry.find(resource.group, resource.version, resource.plural)
        if served is None:
            raise NotFound("the server could not find the requested resource", status=404, reason="NotFound")
        return Target(served, namespace or "", name, subresource)

    def _options(self) -> WriteOptions:
        return WriteOptions(manager=MANAGER, explicit_manager=True)
