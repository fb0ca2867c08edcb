"""A running server and a thin client for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from controller.embedded.apiserver import ApiServer
from controller.foundation import ManualClock, Resource

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
PODS = Resource("", "v1", "pods", "Pod")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
WIDGET_CRD: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("widgets.yaml").read_text())

# Of patience with what has to come; nothing here takes longer than a moment, but a loaded machine may.
SECONDS = 120.0

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def widget(name: str = "one", *, api_version: str = "example.com/v1", **spec: Any) -> dict[str, Any]:
    """A small valid Widget."""
    return {
        "apiVersion": api_version,
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"mode": "Shadow", "targetRef": {"name": "t"}, **spec},
    }


def config_map(name: str = "one", namespace: str = "default", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A Pod of one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


class Answer:
    """Status, headers and parsed body of one answer."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = body
        self.warnings = [text.split('"', 1)[1][:-1].replace('\\"', '"') for text in headers.getall("Warning", [])]

    @property
    def json(self) -> Any:
        return orjson.loads(self.raw)

    @property
    def reason(self) -> str:
        return str(self.json.get("reason", ""))

    @property
    def causes(self) -> dict[str, str]:
        """Field → message of the causes of a failure."""
        return {cause["field"]: cause["message"] for cause in self.json.get("details", {}).get("causes", [])}


class Client:
    """Requests to one server."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        data = body if isinstance(body, bytes | None) else orjson.dumps(body)
        sent = {"User-Agent": "tests/1", **(headers or {})}
        if data is not None:
            sent["Content-Type"] = content_type
        async with self.session.request(
            method, self.server.url + path, data=data, headers=sent, params=_query(query)
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **options: Any) -> Answer:
        return await self("GET", path, **options)

    async def create(self, resource: Resource, obj: Any, **options: Any) -> Answer:
        namespace = obj.get("metadata", {}).get("namespace", "default") if isinstance(obj, dict) else "default"
        return await self("POST", resource.path(namespace), obj, **options)

    async def update(self, resource: Resource, obj: Any, subresource: str | None = None, **options: Any) -> Answer:
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace", "default"), metadata["name"], subresource)
        return await self("PUT", path, obj, **options)

    async def patch(
        self, resource: Resource, name: str, body: Any, content_type: str = MERGE_PATCH, **options: Any
    ) -> Answer:
        path = resource.path("default", name, options.pop("subresource", None))
        return await self("PATCH", path, body, content_type=content_type, **options)

    async def read(self, resource: Resource, name: str, **options: Any) -> Answer:
        return await self("GET", resource.path("default", name), **options)

    async def delete(self, resource: Resource, name: str, body: Any = None, **options: Any) -> Answer:
        return await self("DELETE", resource.path("default", name), body, **options)

    async def watch(self, path: str, **query: Any) -> Stream:
        accept = query.pop("accept", "application/json")
        response = await self.session.get(
            self.server.url + path, params=_query({"watch": "1", **query}), headers={"Accept": accept}
        )
        return Stream(response)


def _query(query: dict[str, Any]) -> dict[str, str]:
    """Query parameters; Python names cannot be keywords, so `continue_` stands for `continue`."""
    return {
        name.rstrip("_"): str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()
    }


class Stream:
    """One open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self.response.content.readline(), SECONDS)
        assert line.endswith(b"\n"), f"the stream ended with {line!r}"
        found: dict[str, Any] = orjson.loads(line)
        return found

    async def take(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def rest(self) -> bytes:
        """What still comes until the end."""
        return await asyncio.wait_for(self.response.content.read(), SECONDS)

    async def is_silent(self, seconds: float = 0.05) -> bool:
        try:
            await asyncio.wait_for(self.response.content.readline(), seconds)
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self.response.close()


Start = Callable[..., Awaitable[Client]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts servers with options of one's own; the Widget CRD is installed."""
    clients: list[Client] = []

    async def run(**options: Any) -> Client:
        options = {"clock": ManualClock(), "future_wait_seconds": 0.0, "seed": 1, **options}
        server = ApiServer(**options)
        server.install_crd(WIDGET_CRD)
        await server.start()
        client = Client(server, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)))
        clients.append(client)
        return client

    yield run
    for client in clients:
        await client.session.close()
        await client.server.stop()


@pytest.fixture
async def api(start: Start) -> Client:
    """A client of a server with default options."""
    return await start()
