"""A small client of the Kubernetes API for the embedded world's own parts: a few verbs and a list+watch.

Deliberately apart from `controller.kube`: what stands in for an operator, a kubelet and a router must not share the
controller's client, or a defect of it would hide itself. Objects are plain dictionaries. There are no retries in the
verbs; `ListWatch` never gives up.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import orjson

from controller.foundation import MdscalerError, Resource

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
# Wall time between two attempts after a failure; the server is in the same process or on the same machine.
_RETRY_SECONDS = 0.2
_WATCH_SECONDS = 300


class ApiFailure(MdscalerError):
    """The API server refused a request. `status` is the HTTP status, `reason` the Status reason."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class ApiClient:
    """Verbs over HTTP. Raises ApiFailure for what the server refuses, aiohttp.ClientError when it cannot be reached."""

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._url = url
        self._tls = tls
        self._headers = {"Accept": "application/json", "User-Agent": "mdscaler-embedded", **(headers or {})}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def create(
        self, resource: Resource, namespace: str, obj: Object, *, name: str = "", subresource: str | None = None
    ) -> Object:
        """POST, to the collection or to a subresource of one object; the answer."""
        path = resource.path(namespace, name, subresource) if name else resource.path(namespace)
        return await self._call("POST", path, obj)

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """GET of one object."""
        return await self._call("GET", resource.path(namespace, name))

    async def merge_patch(
        self, resource: Resource, namespace: str, name: str, patch: Object, *, subresource: str | None = None
    ) -> Object:
        """PATCH with a merge patch; the object as stored."""
        return await self._call("PATCH", resource.path(namespace, name, subresource), patch, MERGE_PATCH)

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str) -> None:
        """DELETE at once, of this very object; one that is gone already is fine."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        }
        try:
            await self._call("DELETE", resource.path(namespace, name), options)
        except ApiFailure as failure:
            if failure.status not in (404, 409):  # 409: an object of the same name with another uid
                raise

    async def list(self, resource: Resource, namespace: str, selector: str = "") -> tuple[list[Object], str]:
        """All objects and the resourceVersion to watch from."""
        body = await self._call("GET", resource.path(namespace) + (f"?labelSelector={selector}" if selector else ""))
        return body.get("items") or [], body["metadata"]["resourceVersion"]

    async def watch(
        self, resource: Resource, namespace: str, version: str, on_event: Callable[[str, Object], None], selector: str
    ) -> None:
        """Hand every event to `on_event` until the server ends the watch. Raises ApiFailure for an ERROR event."""
        query = f"?watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}&resourceVersion={version}"
        query += f"&labelSelector={selector}" if selector else ""
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_WATCH_SECONDS + 30)
        async with self._open().get(self._url + resource.path(namespace) + query, timeout=timeout) as response:
            if response.status != 200:
                raise _failure(response.status, await response.read())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiFailure(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                    on_event(event["type"], event["object"])

    async def _call(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Object:
        data = None if body is None else orjson.dumps(body)
        async with self._open().request(
            method, self._url + path, data=data, headers={"Content-Type": kind}
        ) as response:
            answer = await response.read()
            if response.status >= 400:
                raise _failure(response.status, answer)
            decoded: Object = orjson.loads(answer)
            return decoded

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._tls) if self._tls else aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), connector=connector
            )
        return self._session


class ListWatch:
    """Keeps `objects` (by name) what the API server holds in one namespace, and calls `on_change` when they change.

    `run` until cancelled: list, watch from there, list again when the watch cannot go on. `synced` is set after the
    first list. Failures are retried for ever; `last_failure` tells the latest.
    """

    def __init__(
        self, api: ApiClient, resource: Resource, namespace: str, on_change: Callable[[], None], selector: str = ""
    ) -> None:
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._on_change = on_change
        self._selector = selector
        self._version = ""
        self.objects: dict[str, Object] = {}
        self.synced = asyncio.Event()
        self.last_failure = ""

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                items, self._version = await self._api.list(self._resource, self._namespace, self._selector)
                self.objects = {item["metadata"]["name"]: item for item in items}
                self.synced.set()
                self._on_change()
                while True:
                    await self._api.watch(self._resource, self._namespace, self._version, self._event, self._selector)
            except ApiFailure as failure:
                self.last_failure = str(failure)
                if failure.status != 410:  # too old a version: list again at once
                    await asyncio.sleep(_RETRY_SECONDS)
            except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError) as error:
                self.last_failure = f"{type(error).__name__}: {error}"
                await asyncio.sleep(_RETRY_SECONDS)

    def _event(self, kind: str, obj: Object) -> None:
        metadata = obj["metadata"]
        self._version = metadata["resourceVersion"]
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            self.objects.pop(metadata["name"], None)
        else:
            self.objects[metadata["name"]] = obj
        self._on_change()


def _failure(status: int, body: bytes) -> ApiFailure:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = {}
    if not isinstance(answer, dict):
        answer = {}
    return ApiFailure(
        status, str(answer.get("reason", "")), str(answer.get("message", body[:200].decode(errors="replace")))
    )
