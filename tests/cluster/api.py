"""Plain HTTP requests to a server under test: what is sent and what comes back, with nothing in between."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Self

import aiohttp
import orjson

from controller.foundation import Resource
from tests.cluster.servers import Server

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
# Longer than any answer takes on a loaded machine; the real server holds a read from the future for three seconds.
_SECONDS = 120.0

Body = dict[str, Any]


class Answer:
    """Status, headers and body of one answer."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = body
        self.warnings = [text.split('"', 1)[1][:-1].replace('\\"', '"') for text in headers.getall("Warning", [])]

    @property
    def json(self) -> Body:
        parsed: Body = orjson.loads(self.raw)
        return parsed

    def ok(self) -> Body:
        """The body of a success."""
        assert self.status in (200, 201), f"{self.status}: {self.raw[:2000].decode(errors='replace')}"
        return self.json

    @property
    def failure(self) -> tuple[int, str]:
        """Status and reason of a failure, which must be a well-formed Status."""
        body = self.json
        assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
        assert body["code"] == self.status
        return self.status, body.get("reason", "")

    @property
    def message(self) -> str:
        return str(self.json["message"])

    @property
    def details(self) -> Body:
        found: Body = self.json.get("details") or {}
        return found

    @property
    def causes(self) -> dict[str, str]:
        """Field → message of the causes of a failure."""
        return {cause.get("field", ""): cause["message"] for cause in self.details.get("causes", [])}

    @property
    def version(self) -> str:
        return str(self.ok()["metadata"]["resourceVersion"])

    @property
    def names(self) -> list[str]:
        """Names of the items of a list."""
        return [item["metadata"]["name"] for item in self.ok()["items"]]


class Stream:
    """One open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.status = response.status

    async def next(self, seconds: float | None = _SECONDS) -> Body:
        # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with a line.
        async with asyncio.timeout(seconds):
            line = await self.response.content.readline()
        assert line.endswith(b"\n"), f"the stream ended with {line!r}"
        found: Body = orjson.loads(line)
        return found

    async def take(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def until_marked(self) -> tuple[list[Body], Body]:
        """The events of a streamed list, and the bookmark that ends it."""
        events = []
        while True:
            event = await self.next()
            if event["type"] == "BOOKMARK":
                annotations = event["object"]["metadata"].get("annotations") or {}
                if annotations.get("k8s.io/initial-events-end") == "true":
                    return events, event
            else:
                events.append(event)

    async def rest(self) -> bytes:
        """What still comes until the end."""
        async with asyncio.timeout(_SECONDS):
            return await self.response.content.read()

    async def is_silent(self, seconds: float = 0.2) -> bool:
        """Whether nothing comes for a moment; the stream cannot be read afterwards."""
        try:
            async with asyncio.timeout(seconds):
                await self.response.content.readline()
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self.response.close()


class Api:
    """Requests of one user to one server, by default in one namespace that belongs to the test alone."""

    def __init__(self, server: Server, namespace: str, token: str | None = None) -> None:
        self.server = server
        self.namespace = namespace
        self._token = server.admin_token if token is None else token
        self._tls = ssl.create_default_context(cafile=server.authority)
        self._session: aiohttp.ClientSession | None = None
        self._streams: list[Stream] = []

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS))
        return self

    async def __aexit__(self, *_: object) -> None:
        for stream in self._streams:
            stream.close()
        if self._session is not None:
            await self._session.close()

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
        sent = {**self._headers(), **(headers or {})}
        if data is not None:
            sent["Content-Type"] = content_type
        async with (
            asyncio.timeout(_SECONDS),
            self._http.request(
                method, self.server.url + path, data=data, headers=sent, params=_query(query), ssl=self._tls
            ) as response,
        ):
            return Answer(response.status, response.headers, await response.read())

    def path(self, resource: Resource, name: str | None = None, subresource: str | None = None) -> str:
        return resource.path(self.namespace, name, subresource)

    async def create(self, resource: Resource, obj: Any, **options: Any) -> Answer:
        return await self("POST", self.path(resource), obj, **options)

    async def read(self, resource: Resource, name: str, subresource: str | None = None, **options: Any) -> Answer:
        return await self("GET", self.path(resource, name, subresource), **options)

    async def list(self, resource: Resource, **options: Any) -> Answer:
        return await self("GET", self.path(resource), **options)

    async def update(self, resource: Resource, obj: Body, subresource: str | None = None, **options: Any) -> Answer:
        return await self("PUT", self.path(resource, obj["metadata"]["name"], subresource), obj, **options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
        **options: Any,
    ) -> Answer:
        return await self("PATCH", self.path(resource, name, subresource), body, content_type=content_type, **options)

    async def apply(self, resource: Resource, obj: Body, manager: str, **options: Any) -> Answer:
        return await self.patch(resource, obj["metadata"]["name"], obj, APPLY_PATCH, fieldManager=manager, **options)

    async def delete(self, resource: Resource, name: str, options: Any = None, **query: Any) -> Answer:
        return await self("DELETE", self.path(resource, name), options, **query)

    async def watch(self, target: Resource | str, *, accept: str = "application/json", **query: Any) -> Stream:
        """An open watch on a collection (or a path), closed with this client."""
        path = target if isinstance(target, str) else self.path(target)
        response = await self._http.get(
            self.server.url + path,
            params=_query({"watch": "1", **query}),
            headers={**self._headers(), "Accept": accept},
            ssl=self._tls,
        )
        stream = Stream(response)
        self._streams.append(stream)
        return stream

    async def newest(self, resource: Resource) -> str:
        """The resourceVersion that a watch of the future starts from."""
        return (await self.list(resource)).version

    @property
    def _http(self) -> aiohttp.ClientSession:
        assert self._session is not None, "use `async with`"
        return self._session

    def _headers(self) -> dict[str, str]:
        authorization = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {"User-Agent": "tests/1", **authorization}


def _query(query: dict[str, Any]) -> dict[str, str]:
    """Query parameters; Python names cannot be keywords, so `continue_` stands for `continue`."""
    return {
        name.rstrip("_"): str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()
    }
