"""Open-loop clients over real sockets: what they count, and what they call lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import orjson
import pytest
from aiohttp import web

from controller.embedded.clients import OpenLoopClients
from controller.embedded.httpserver import HttpServer
from controller.foundation import Clock
from controller.plant import Arrival
from tests.embedded.conftest import SERVICE, StartEngine
from tests.embedded.waiting import until

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[HttpServer] = []

    async def start(handler: Handler) -> str:
        server = HttpServer(handler)
        await server.start("127.0.0.1", 0)
        servers.append(server)
        return server.url

    yield start
    for server in servers:
        await server.abort()


async def test_a_run_counts_what_was_sent_and_served(start_engine: StartEngine, clock: Clock) -> None:
    engine = await start_engine()
    clients = OpenLoopClients(clock, engine.url, "m", interval_seconds=5.0)
    arrivals = [Arrival(0.5 * n, 100, 20) for n in range(30)]
    await clients.run(arrivals)
    totals = clients.totals
    assert (totals.requests, totals.completed, totals.lost, totals.in_flight) == (30, 30, 0, 0)
    assert (totals.tokens, totals.output_tokens) == (30 * 120, 30 * 20)
    intervals = clients.series.intervals
    assert [interval.requests for interval in intervals[:3]] == [10, 10, 10]
    assert sum(interval.arrived_tokens for interval in intervals) == 30 * 120
    assert sum(interval.served_tokens for interval in intervals) == 30 * 120
    assert sum(interval.completed for interval in intervals) == 30
    assert clients.ttft.count == sum(interval.ttft.count for interval in intervals) == 30
    # A reader that is late finds the first token together with the next ones; those have no latency of their own.
    assert 0 < clients.itl.count == sum(interval.itl.count for interval in intervals) <= 30 * 19
    # What it has too much for the first token it has too little for the others; together it is what the engine took.
    step = SERVICE.decode_step_seconds(1)
    assert clients.ttft.total + clients.itl.total >= 30 * 19 * step
    mean = clients.itl.mean
    assert mean is not None
    assert mean < 5 * step


@pytest.mark.parametrize(
    ("media_tokens", "prompt", "media"),
    [
        pytest.param(0, 100, None, id="text alone"),
        pytest.param(30, 70, [30], id="an image takes its tokens from the prompt"),
        pytest.param(80, 50, [50], id="at most half of it"),
    ],
)
async def test_an_image_stands_for_a_part_of_the_prompt(
    serve: Serve, clock: Clock, media_tokens: int, prompt: int, media: list[int] | None
) -> None:
    asked: list[dict[str, object]] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(orjson.loads(await request.read()))
        return web.Response(status=400)

    clients = OpenLoopClients(clock, await serve(handler), "m", media_tokens=media_tokens)
    await clients.run([Arrival(0.0, 100, 20)])
    (body,) = asked
    assert (body["prompt_tokens"], body.get("mm_items")) == (prompt, media)
    (interval,) = clients.series.intervals
    assert (interval.arrived_prompt_tokens, interval.arrived_tokens) == (100, 120)


async def test_requests_are_sent_at_their_time_whether_or_not_others_were_answered(serve: Serve, clock: Clock) -> None:
    at: list[float] = []
    never = asyncio.Event()

    async def silent(_: web.BaseRequest) -> web.StreamResponse:
        at.append(clock.now())
        await never.wait()
        return web.Response()

    clients = OpenLoopClients(clock, await serve(silent), "m")
    began = clock.now()
    await clients.run([Arrival(2.0 * n, 1, 1) for n in range(10)], drain_seconds=5.0)
    assert len(at) == 10
    assert all(moment - began >= 2.0 * n for n, moment in enumerate(at))
    assert clients.totals.abandoned == 10
    assert clients.totals.lost == 0


async def test_a_client_that_lags_tells_how_many_requests_were_late_and_by_how_much(serve: Serve, clock: Clock) -> None:
    async def wrong(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=400)

    clients = OpenLoopClients(clock, await serve(wrong), "m")
    lags: list[float] = []

    def arrivals() -> Iterator[Arrival]:
        yield Arrival(0.0, 1, 1)
        for _ in range(3):  # due half a minute before the clients began: as after a stall of the machine
            yield Arrival(-30.0, 1, 1)
        lags.append(clients.lag_seconds)
        yield Arrival(1.0 + clock.now() - clients.series.start_seconds, 1, 1)
        lags.append(clients.lag_seconds)

    await clients.run(arrivals())
    assert clients.late == 3
    assert clients.latest_seconds >= 30.0
    assert lags[0] >= 30.0
    assert clients.lag_seconds == 0.0


def frames(*tokens: int) -> bytes:
    return b"".join(b'data: {"choices":[],"usage":{"completion_tokens":%d}}\n\n' % count for count in tokens)


@pytest.mark.parametrize(
    ("parts", "status", "reason"),
    [
        pytest.param([frames(1, 9), frames(10), b"data: [DONE]\n\n"], 200, None, id="an orderly stream"),
        pytest.param(
            [frames(1, 9)[:20], frames(1, 9)[20:] + frames(10), b"data: [DO", b"NE]\n\n"], 200, None, id="split"
        ),
        pytest.param([frames(1, 9)], 200, "without its end mark", id="a stream that just ends"),
        pytest.param([frames(1, 9), b"data: [DONE]\n\n"], 200, "9 of 10", id="a token too few"),
        pytest.param([frames(1), b"data: {oops\n\n"], 200, "cannot be read", id="a frame that is no JSON"),
        pytest.param([b'data: {"error":{"message":"out"}}\n\n'], 200, "out", id="an error in the stream"),
        pytest.param([frames(1), None], 200, "", id="a connection that breaks"),
        pytest.param([b"busy"], 503, "status 503: busy", id="nobody there"),
        pytest.param([b"broken"], 502, "status 502", id="a bad gateway"),
        pytest.param([b"too long"], 400, None, id="a request that was wrong"),
    ],
)
async def test_what_is_lost_and_why(
    serve: Serve, clock: Clock, parts: list[bytes | None], status: int, reason: str | None
) -> None:
    lost = 0 if reason is None else 1

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        for part in parts:
            if part is None:
                assert request.transport is not None
                request.transport.abort()
                return response
            await response.write(part)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    clients = OpenLoopClients(clock, await serve(answer), "m")
    await clients.run([Arrival(0.0, 5, 10)])
    totals = clients.totals
    assert totals.lost == lost
    assert totals.rejected == (1 if status == 400 else 0)
    assert totals.completed == 1 - totals.lost - totals.rejected
    assert sum(clients.losses.values()) == lost
    assert all(reason is not None and reason in loss for loss in clients.losses)
    assert sum(interval.lost for interval in clients.series.intervals) == lost


async def test_without_a_server_every_request_is_lost_and_the_run_ends(clock: Clock) -> None:
    clients = OpenLoopClients(clock, "http://127.0.0.1:1", "m")
    await clients.run([Arrival(0.0, 5, 10)] * 40)
    assert clients.totals.lost == 40
    assert list(clients.losses.values()) == [40]  # one reason, told once


async def test_cancelling_a_run_abandons_what_is_in_flight(start_engine: StartEngine, clock: Clock) -> None:
    engine = await start_engine()
    clients = OpenLoopClients(clock, engine.url, "m")
    run = asyncio.create_task(clients.run([Arrival(0.0, 10, 10_000), Arrival(1e6, 10, 1)]))
    await until(lambda: engine.load().running, clock)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (clients.totals.abandoned, clients.totals.lost, clients.totals.in_flight) == (1, 0, 0)
    await until(lambda: not engine.load().running, clock)
