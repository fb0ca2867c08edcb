"""Requests that are about no resource: health, version, discovery, OpenAPI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import orjson
from aiohttp import web

from controller.embedded.apiserver import errors, openapi
from controller.embedded.apiserver.discovery import (
    AGGREGATED,
    VERSION,
    aggregated,
    core_versions,
    group_list,
    group_object,
    resource_list,
)
from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.negotiation import media_types
from controller.embedded.apiserver.resources import Registry

_HEALTH = ("healthz", "livez", "readyz")


@dataclass(slots=True)
class Documents:
    """Answers them. Documents that are functions of the registry are kept until it changes."""

    registry: Registry
    _cache: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def handle(self, request: web.BaseRequest) -> web.Response:
        """The answer. Raises ApiError 404 for unknown paths, 406 for an unknown form of a document."""
        parts = request.path.strip("/").split("/")
        if parts[0] in _HEALTH:
            return web.Response(text="ok")
        if parts == ["version"]:
            return _json(orjson.dumps(VERSION))
        if parts == [""]:
            return _json(orjson.dumps({"paths": self._root_paths()}))
        if parts[0] == "openapi":
            return self._openapi(request, parts)
        if parts in (["api"], ["apis"]):
            return self._groups(request, core=parts[0] == "api")
        found: Object | None = None
        if parts[0] == "api" and len(parts) == 2:
            found = resource_list(self.registry, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            versions = self.registry.groups().get(parts[1])
            found = {"kind": "APIGroup", "apiVersion": "v1", **group_object(parts[1], versions)} if versions else None
        elif parts[0] == "apis" and len(parts) == 3:
            found = resource_list(self.registry, parts[1], parts[2])
        if found is None:
            raise errors.no_such_path()
        return _json(orjson.dumps(found))

    def _root_paths(self) -> list[str]:
        groups = self.registry.groups()
        listed = [f"/apis/{g}" + (f"/{v}" if v else "") for g, vs in groups.items() if g for v in ("", *vs)]
        return [
            "/api",
            "/api/v1",
            "/apis",
            *sorted(listed),
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]

    def _groups(self, request: web.BaseRequest, *, core: bool) -> web.Response:
        for _, parameters in media_types(request.headers.get("Accept", "")):
            if parameters.get("g") == AGGREGATED and parameters.get("as") == "APIGroupDiscoveryList":
                version = parameters.get("v", "v2")
                api_version = f"{AGGREGATED}/{version}"
                make = partial(aggregated, self.registry, api_version, core=core)
                body = self._cached(f"{api_version} {core}", make)
                content_type = f"application/json;g={AGGREGATED};v={version};as=APIGroupDiscoveryList"
                return web.Response(body=body, headers={"Content-Type": content_type})
        if core:
            return _json(orjson.dumps(core_versions(request.host)))
        return _json(orjson.dumps(group_list(self.registry)))

    def _openapi(self, request: web.BaseRequest, parts: list[str]) -> web.Response:
        accepted = [name for name, _ in media_types(request.headers.get("Accept", "*/*"))]
        if not any(name in ("application/json", "*/*", "application/*") for name in accepted):
            raise errors.not_acceptable(["application/json"])
        if parts == ["openapi", "v2"]:
            return _json(self._cached("v2", lambda: openapi.swagger(self.registry)))
        if parts == ["openapi", "v3"]:
            return _json(self._cached("v3", lambda: openapi.index(self.registry)))
        group, version = ("", parts[3]) if parts[2:3] == ["api"] and len(parts) == 4 else ("", "")
        if parts[2:3] == ["apis"] and len(parts) == 5:
            group, version = parts[3], parts[4]
        found = openapi.document(self.registry, group, version) if parts[1:2] == ["v3"] and version else None
        if found is None:
            raise errors.no_such_path()
        return _json(orjson.dumps(found))

    def _cached(self, name: str, make: Callable[[], Object]) -> bytes:
        kept = self._cache.get(name)
        if kept is None or kept[0] != self.registry.generation:
            kept = self._cache[name] = (self.registry.generation, orjson.dumps(make()))
        return kept[1]


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
