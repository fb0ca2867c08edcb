"""The small client against a scripted server: what it keeps, and how it goes on after trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
import pytest
from aiohttp import web

from controller.embedded.apiclient import ApiClient, ApiFailure, ListWatch
from controller.embedded.contract import PODS
from controller.embedded.httpserver import HttpServer

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[ApiClient]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[HttpServer] = []
    clients: list[ApiClient] = []

    async def start(handler: Handler) -> ApiClient:
        server = HttpServer(handler)
        await server.start("127.0.0.1", 0)
        servers.append(server)
        clients.append(ApiClient(server.url))
        return clients[-1]

    yield start
    for client in clients:
        await client.close()
    for server in servers:
        await server.abort()


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def listed(version: int, *names: str) -> web.Response:
    items = [pod(name, version) for name in names]
    return web.Response(body=orjson.dumps({"metadata": {"resourceVersion": str(version)}, "items": items}))


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {}}


async def test_a_list_watch_follows_additions_changes_and_deletions_across_split_lines(serve: Serve) -> None:
    stays = asyncio.Event()
    watched: list[str] = []

    async def server(request: web.BaseRequest) -> web.StreamResponse:
        assert request.query["labelSelector"] == "a=b"
        if "watch" not in request.query:
            return listed(5, "one", "two")
        watched.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        if len(watched) == 1:
            changed = pod("two", 6) | {"spec": {"x": 1}}
            lines = event("MODIFIED", changed) + event("ADDED", pod("three", 7)) + event("DELETED", pod("one", 8))
            await response.write(lines[:30])
            await asyncio.sleep(0)
            await response.write(lines[30:] + event("BOOKMARK", {"metadata": {"resourceVersion": "20"}}))
            return response
        await stays.wait()
        return response

    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    subject = ListWatch(await serve(server), PODS, "demo", changed, "a=b")
    run = asyncio.create_task(subject.run())
    async with asyncio.timeout(60):
        while len(watched) < 2:
            await asyncio.sleep(0.001)
    assert watched == ["5", "20"]  # goes on from the bookmark, without a new list
    assert set(subject.objects) == {"two", "three"}
    assert subject.objects["two"]["spec"] == {"x": 1}
    assert changes == 4  # the list and three events
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(event("ERROR", GONE), id="an expired version in the stream"),
        pytest.param(b'{"type": "ADDED", "obj\n', id="a damaged line"),
        pytest.param(None, id="a connection that breaks"),
    ],
)
async def test_a_watch_that_cannot_go_on_lists_again(serve: Serve, trouble: bytes | None) -> None:
    lists = 0
    stays = asyncio.Event()

    async def server(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal lists
        if "watch" not in request.query:
            lists += 1
            return listed(lists, "old") if lists == 1 else listed(lists, "new")
        response = web.StreamResponse()
        await response.prepare(request)
        if lists == 1:
            if trouble is None:
                assert request.transport is not None
                request.transport.abort()
            else:
                await response.write(trouble)
            return response
        await stays.wait()
        return response

    subject = ListWatch(await serve(server), PODS, "demo", lambda: None)
    run = asyncio.create_task(subject.run())
    async with asyncio.timeout(60):
        while set(subject.objects) != {"new"}:
            await asyncio.sleep(0.001)
    assert subject.last_failure
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def test_a_refusal_is_told_with_status_reason_and_message(serve: Serve) -> None:
    async def server(_: web.BaseRequest) -> web.Response:
        body = {"kind": "Status", "reason": "Invalid", "message": "spec.replicas: must be at least 1"}
        return web.Response(status=422, body=orjson.dumps(body))

    client = await serve(server)
    with pytest.raises(ApiFailure, match=r"422 Invalid: spec\.replicas") as refused:
        await client.create(PODS, "demo", {})
    assert refused.value.status == 422


@pytest.mark.parametrize("status", [404, 409], ids=["gone already", "another object of that name"])
async def test_deleting_what_is_not_there_any_more_is_fine(serve: Serve, status: int) -> None:
    bodies: list[Any] = []

    async def server(request: web.BaseRequest) -> web.Response:
        bodies.append(orjson.loads(await request.read()))
        return web.Response(status=status, body=b"not even JSON")

    client = await serve(server)
    await client.delete(PODS, "demo", "one", uid="u-1")
    assert bodies[0]["preconditions"] == {"uid": "u-1"}


async def test_a_deletion_that_is_forbidden_is_not_taken_for_done(serve: Serve) -> None:
    async def server(_: web.BaseRequest) -> web.Response:
        return web.Response(status=403, body=b'"no"')

    with pytest.raises(ApiFailure):
        await (await serve(server)).delete(PODS, "demo", "one", uid="u-1")
