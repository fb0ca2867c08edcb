"""The dispatcher over real sockets: whom it chooses, what it retries, what it holds."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack

import aiohttp
import orjson
import pytest
from aiohttp import web

from controller.embedded.engine import EngineServer
from controller.embedded.httpserver import HttpServer
from controller.embedded.router import Member, Router
from controller.foundation import Clock
from tests.embedded.conftest import StartEngine
from tests.embedded.waiting import until

BODY = {
    "prompt_tokens": 10,
    "max_tokens": 20,
    "stream": True,
    "stream_options": {"continuous_usage_stats": True},
}


@pytest.fixture
async def router(clock: Clock) -> AsyncIterator[Router]:
    router = Router(clock, hold_seconds=60.0)
    await router.start()
    yield router
    await router.stop()


Serve = Callable[..., "asyncio.Future[Member]"]


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., object]]:
    """Members that behave as a test needs them to."""
    servers: list[HttpServer] = []

    async def start(name: str, handler: Callable[[web.BaseRequest], object]) -> Member:
        server = HttpServer(handler)  # type: ignore[arg-type]
        await server.start("127.0.0.1", 0)
        servers.append(server)
        return Member(name, name, server.url)

    yield start
    for server in servers:
        await server.abort()


def member(engine: EngineServer, name: str = "") -> Member:
    return Member(name or engine.host, name or engine.host, engine.url)


async def tokens(http: aiohttp.ClientSession, url: str, **changes: object) -> int:
    """Tokens received; raises where the stream was cut."""
    async with http.post(f"{url}/v1/completions", json=BODY | changes) as response:
        assert response.status == 200, await response.text()
        body = await response.read()
    return int(orjson.loads(body.split(b"\n\n")[-3][6:])["usage"]["completion_tokens"])


async def test_requests_go_to_the_member_with_the_fewest_in_flight(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first, second = await start_engine(), await start_engine()
    router.set_members([member(first, "a")])
    busy = [asyncio.create_task(tokens(http, router.url, max_tokens=10_000)) for _ in range(3)]
    await until(lambda: first.load().running == 3, clock)
    router.set_members([member(first, "a"), member(second, "b")])
    more = [asyncio.create_task(tokens(http, router.url, max_tokens=10_000)) for _ in range(5)]
    await until(lambda: sum(view.in_flight for view in router.members) == 8, clock)
    assert {view.member.name: view.in_flight for view in router.members} == {"a": 4, "b": 4}
    for task in (*busy, *more):
        task.cancel()


async def test_among_idle_members_requests_take_turns(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    engines = [await start_engine() for _ in range(3)]
    router.set_members([member(engine) for engine in engines])
    for _ in range(6):
        await tokens(http, router.url, max_tokens=1)
    assert [view.selections for view in router.members] == [2, 2, 2]


async def test_a_withdrawn_member_gets_nothing_new_and_stays_in_view_until_its_last_answer(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    leaving, staying = await start_engine(), await start_engine()
    router.set_members([member(leaving, "leaving")])
    last = asyncio.create_task(tokens(http, router.url, max_tokens=2500))
    await until(lambda: leaving.load().running == 1, clock)
    router.set_members([member(staying, "staying")])
    assert {view.member.name: view.eligible for view in router.members} == {"leaving": False, "staying": True}
    for _ in range(3):
        await tokens(http, router.url, max_tokens=1)
    async with http.get(f"{router.url}/observer/endpoints") as response:
        workers = {worker["url"]: worker for worker in (await response.json())["workers"]}
    assert workers[leaving.url] == {"url": leaving.url, "selection": 1, "inFlight": 1, "eligible": False}
    assert workers[staying.url]["selection"] == 3
    assert router.holds("leaving")
    assert await last == 2500
    await until(lambda: not router.holds("leaving"), clock)


async def test_a_member_that_is_withdrawn_and_comes_back_keeps_its_count(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine()
    router.set_members([member(engine)])
    request = asyncio.create_task(tokens(http, router.url, max_tokens=2500))
    await until(lambda: engine.load().running == 1, clock)
    router.set_members([])
    router.set_members([member(engine)])
    assert [(view.eligible, view.in_flight) for view in router.members] == [(True, 1)]
    assert await request == 2500


async def test_a_member_that_refuses_is_passed_over_and_the_request_served(
    router: Router, start_engine: StartEngine, serve: Callable[..., object], http: aiohttp.ClientSession
) -> None:
    async def loading(_: web.BaseRequest) -> web.Response:
        return web.Response(status=503)

    engine = await start_engine()
    full = await serve("full", loading)  # type: ignore[misc]
    nobody = Member("nobody", "nobody", "http://127.0.0.1:1")
    router.set_members([full, nobody, member(engine)])
    assert [await tokens(http, router.url) for _ in range(4)] == [20] * 4
    assert engine.load().running == 0


async def test_a_member_that_does_not_take_connections_is_passed_over(
    clock: Clock, start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    """As on a machine that stalls: nothing was sent, so another one may have the request."""
    engine = await start_engine()
    router = Router(clock)
    await router.start()
    with socket.socket() as stalled, ExitStack() as waiting:
        stalled.bind(("127.0.0.1", 0))
        stalled.listen(0)
        address = stalled.getsockname()
        for _ in range(2):  # the queue of connections that nobody accepts is full
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        full = Member("full", "full", f"http://{address[0]}:{address[1]}")
        router.set_members([full])
        request = asyncio.create_task(tokens(http, router.url))
        await until(lambda: router.members[0].in_flight == 1, clock)
        router.set_members([full, member(engine)])
        assert await request == 20
    await router.stop()


async def test_a_request_that_all_members_refuse_is_tried_again_until_one_accepts(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    engine = await start_engine(startup_seconds=8.0, wait=False)
    router.set_members([member(engine)])
    assert await tokens(http, router.url) == 20


async def test_without_members_a_request_is_held_until_one_comes(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    request = asyncio.create_task(tokens(http, router.url))
    await until(lambda: router.held == 1, clock)
    router.set_members([member(await start_engine())])
    assert await request == 20
    assert router.held == 0


async def test_a_request_is_not_held_for_ever(router: Router, http: aiohttp.ClientSession, clock: Clock) -> None:
    began = clock.now()
    async with http.post(f"{router.url}/v1/completions", json=BODY) as response:
        assert response.status == 503
        assert "no replica" in (await response.json())["error"]["message"]
    assert round(clock.now() - began, 3) >= 60


async def test_no_more_requests_are_held_than_allowed(clock: Clock, http: aiohttp.ClientSession) -> None:
    router = Router(clock, most_held=1)
    await router.start()
    try:
        held = asyncio.create_task(tokens(http, router.url))
        await until(lambda: router.held == 1, clock)
        async with http.post(f"{router.url}/v1/completions", json=BODY) as response:
            assert response.status == 503
        held.cancel()
        await until(lambda: router.held == 0, clock)  # its client has gone
    finally:
        await router.stop()


async def test_a_member_that_dies_in_mid_answer_cuts_the_stream_and_the_request_is_not_repeated(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    dying, other = await start_engine(), await start_engine()
    router.set_members([member(dying)])
    cut = asyncio.create_task(tokens(http, router.url, max_tokens=5000))
    await until(lambda: dying.load().running == 1, clock)
    router.set_members([member(dying), member(other)])
    await dying.crash(down_seconds=None)
    with pytest.raises(aiohttp.ClientError):
        await cut
    assert other.load().running == 0
    assert sum(view.selections for view in router.members) == 1


async def test_a_member_that_breaks_off_before_it_answers_is_a_502_and_the_request_is_not_repeated(
    router: Router, start_engine: StartEngine, serve: Callable[..., object], http: aiohttp.ClientSession
) -> None:
    async def vanish(request: web.BaseRequest) -> web.Response:
        await request.read()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    broken = await serve("broken", vanish)  # type: ignore[misc]
    router.set_members([broken, member(await start_engine(), "fine")])
    async with http.post(f"{router.url}/v1/completions", json=BODY) as response:
        assert response.status == 502
    assert {view.member.name: view.selections for view in router.members} == {"broken": 1, "fine": 0}


async def test_a_client_that_goes_away_takes_its_request_with_it(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine()
    router.set_members([member(engine)])
    leaving = asyncio.create_task(tokens(http, router.url, max_tokens=10_000))
    await until(lambda: engine.load().running == 1, clock)
    leaving.cancel()
    await until(lambda: engine.load().running == 0, clock)
    await until(lambda: router.members[0].in_flight == 0, clock)


async def test_errors_and_whole_answers_are_passed_on(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    router.set_members([member(await start_engine())])
    async with http.post(f"{router.url}/v1/completions", json={"prompt": "abc", "max_tokens": 2}) as response:
        assert (await response.json())["usage"]["completion_tokens"] == 2
    async with http.post(f"{router.url}/v1/completions", json={"max_tokens": 2}) as response:
        assert response.status == 400
        assert response.content_type == "application/json"
    async with http.get(f"{router.url}/v1/models") as response:
        assert response.status == 200
    async with http.get(f"{router.url}/nowhere") as response:
        assert response.status == 404


async def test_no_request_is_sent_on_a_connection_that_a_member_may_be_about_to_close(
    router: Router, serve: Callable[..., Awaitable[Member]], http: aiohttp.ClientSession
) -> None:
    connections: list[object] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        connections.append(request.transport.get_extra_info("peername"))
        return web.Response()

    router.set_members([await serve("m", answer)])
    for _ in range(3):
        async with http.get(f"{router.url}/v1/models") as response:
            assert response.status == 200
    assert len(set(connections)) == 3
