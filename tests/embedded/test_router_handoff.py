"""Requests that go from member to member: what clients get, what the engines count, what is repeated and what is not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from controller.embedded.engine import EngineDialect, EngineKind, EngineLoad, EngineServer
from controller.embedded.httpserver import HttpServer
from controller.embedded.router import Member, Router
from controller.foundation import Clock
from tests.embedded.conftest import StartEngine
from tests.embedded.engine.test_disaggregated import scrape
from tests.embedded.waiting import until

BODY = {"prompt_tokens": 100, "max_tokens": 20, "stream": True, "stream_options": {"continuous_usage_stats": True}}
PREFILL, DECODE, ENCODE = EngineKind.PREFILL, EngineKind.DECODE, EngineKind.ENCODE
BOTH = pytest.mark.parametrize("dialect", list(EngineDialect), ids=lambda dialect: dialect.value)
MakeRouter = Callable[..., "asyncio.Future[Router]"]


@pytest.fixture
async def make_router(clock: Clock) -> AsyncIterator[Callable[..., Any]]:
    routers: list[Router] = []

    async def make(**options: float) -> Router:
        router = Router(clock, **({"hold_seconds": 60.0} | options))  # type: ignore[arg-type]
        await router.start()
        routers.append(router)
        return router

    yield make
    for router in routers:
        await router.stop()


@pytest.fixture
async def router(make_router: Callable[..., Any]) -> Router:
    made: Router = await make_router()
    return made


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Any]]:
    """Members that behave as a test needs them to."""
    servers: list[HttpServer] = []

    async def start(kind: EngineKind, handler: Any) -> Member:
        server = HttpServer(handler)
        await server.start("127.0.0.1", 0)
        servers.append(server)
        return Member(server.url, kind.value, server.url, kind)

    yield start
    for server in servers:
        await server.abort()


def members(*engines: EngineServer) -> list[Member]:
    return [
        Member(engine.host, engine.host, engine.url, engine.config.kind, engine.config.dialect) for engine in engines
    ]


async def post(http: aiohttp.ClientSession, router: Router, **changes: Any) -> tuple[int, int]:
    """The status, and how many tokens came; raises where a stream was cut."""
    async with http.post(f"{router.url}/v1/completions", json=BODY | changes) as response:
        body = await response.read()
        if response.status != 200:
            return response.status, 0
    if response.content_type == "application/json":
        return 200, int(orjson.loads(body)["usage"]["completion_tokens"])
    frames = [orjson.loads(frame[6:]) for frame in body.split(b"\n\n") if frame.startswith(b"data: {")]
    assert all("error" not in frame for frame in frames), frames
    return 200, int(frames[-1]["usage"]["completion_tokens"])


@BOTH
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_what_the_engines_count_is_what_the_clients_got(
    router: Router,
    start_engine: StartEngine,
    http: aiohttp.ClientSession,
    clock: Clock,
    dialect: EngineDialect,
    streamed: bool,
) -> None:
    firsts = [await start_engine(kind=PREFILL, dialect=dialect) for _ in range(2)]
    seconds = [await start_engine(kind=DECODE, dialect=dialect, max_num_seqs=4) for _ in range(2)]
    router.set_members(members(*firsts, *seconds))
    lengths = [(50 * number, 3 * number) for number in range(1, 13)]
    got = await asyncio.gather(
        *(post(http, router, prompt_tokens=prompt, max_tokens=output, stream=streamed) for prompt, output in lengths)
    )
    assert got == [(200, output) for _, output in lengths]
    prompts, outputs = (sum(column) for column in zip(*lengths, strict=True))
    shown = [await scrape(http, engine) for engine in (*firsts, *seconds)]
    names = {
        EngineDialect.VLLM: ("vllm:prompt_tokens_by_source_total/local_compute", "vllm:generation_tokens_total"),
        EngineDialect.SGLANG: ("sglang:realtime_tokens_total/prefill_compute", "sglang:generation_tokens_total"),
    }
    computed, generated = names[dialect]
    assert sum(page.get(computed, 0) for page in shown) == prompts
    assert sum(page[generated] for page in shown) == outputs + len(lengths)  # prefill members make one each
    await until(lambda: [view.in_flight for view in router.members] == [0] * 4, clock)
    assert sum(view.selections for view in router.members) == 2 * len(lengths)
    for engine in (*firsts, *seconds):
        assert engine.load() == EngineLoad(0, 0, 0)


async def test_a_prefill_member_counts_as_in_use_until_its_blocks_are_where_they_belong(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(kind=PREFILL, kv_transfer_tokens_per_second=10.0)  # ten seconds for 100 tokens
    second = await start_engine(kind=DECODE)
    router.set_members(members(first, second))
    request = asyncio.create_task(post(http, router, max_tokens=5000))
    await until(lambda: first.load() == EngineLoad(0, 0, 1) and second.load().waiting == 1, clock)
    router.set_members(members(second))  # it is retired now
    assert {view.member.url: (view.eligible, view.in_flight) for view in router.members} == {
        first.url: (False, 1),
        second.url: (True, 1),
    }
    await until(lambda: second.load().running == 1, clock)
    await until(lambda: [view.member.url for view in router.members] == [second.url], clock)
    assert not request.done(), "let go at the first token, not with the last"
    assert await request == (200, 5000)


@BOTH
async def test_members_that_retire_when_nothing_is_in_flight_at_them_lose_no_request(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock, dialect: EngineDialect
) -> None:
    engines = [await start_engine(kind=kind, dialect=dialect) for kind in (PREFILL, DECODE)]
    router.set_members(members(*engines))
    results: list[tuple[int, int]] = []
    served = Counter[int]()
    stopped = False

    async def client(number: int) -> None:
        while not stopped:
            results.append(await post(http, router, prompt_tokens=200 + number, max_tokens=40))
            served[number] += 1

    clients = [asyncio.create_task(client(number)) for number in range(6)]
    for turn in range(6):
        index = turn % 2
        old = engines[index]
        engines[index] = await start_engine(kind=old.config.kind, dialect=dialect)
        router.set_members(members(*engines))
        await until(lambda gone=old.url: all(view.member.url != gone for view in router.members), clock)  # type: ignore[misc]
        assert old.load() == EngineLoad(0, 0, 0)
        await old.stop()
        before = served.copy()  # every client is served once more before the next one retires
        await until(lambda before=before: all(served[n] > before[n] for n in range(6)), clock)  # type: ignore[misc]
    stopped = True
    await asyncio.gather(*clients)
    assert set(results) == {(200, 40)}


@BOTH
async def test_a_prefill_member_that_dies_before_the_first_token_costs_another_try_and_no_token(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock, dialect: EngineDialect
) -> None:
    dying = await start_engine(kind=PREFILL, dialect=dialect, kv_transfer_tokens_per_second=1.0)
    second = await start_engine(kind=DECODE, dialect=dialect)
    router.set_members(members(dying, second))
    request = asyncio.create_task(post(http, router, max_tokens=30))
    await until(lambda: dying.load().held == 1, clock)
    other = await start_engine(kind=PREFILL, dialect=dialect)
    router.set_members(members(dying, other, second))
    await dying.crash(down_seconds=None)
    assert await request == (200, 30)
    generated = "vllm:generation_tokens_total" if dialect is EngineDialect.VLLM else "sglang:generation_tokens_total"
    assert (await scrape(http, second))[generated] == 30


async def test_a_decode_member_that_dies_after_the_first_token_cuts_the_stream(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first, dying = await start_engine(kind=PREFILL), await start_engine(kind=DECODE)
    router.set_members(members(first, dying))
    request = asyncio.create_task(post(http, router, max_tokens=5000))
    await until(lambda: dying.load().running == 1, clock)
    await clock.sleep(1.0)
    await dying.crash(down_seconds=None)
    with pytest.raises(aiohttp.ClientError):
        await request
    assert (await scrape(http, first))["vllm:generation_tokens_total"] == 1


@BOTH
async def test_a_decode_member_that_refuses_costs_no_second_prefill(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, dialect: EngineDialect
) -> None:
    first, second = [await start_engine(kind=kind, dialect=dialect) for kind in (PREFILL, DECODE)]
    nobody = Member("gone", "gone", "http://127.0.0.1:1", DECODE, dialect)
    router.set_members([nobody, *members(first, second)])
    assert [await post(http, router) for _ in range(3)] == [(200, 20)] * 3
    generated = "vllm:generation_tokens_total" if dialect is EngineDialect.VLLM else "sglang:generation_tokens_total"
    assert (await scrape(http, first))[generated] == 3


@BOTH
@pytest.mark.parametrize("late", [PREFILL, DECODE], ids=lambda kind: kind.value)
async def test_a_member_that_still_loads_is_tried_again_until_it_accepts(
    router: Router,
    start_engine: StartEngine,
    http: aiohttp.ClientSession,
    dialect: EngineDialect,
    late: EngineKind,
) -> None:
    engines = [
        await start_engine(kind=kind, dialect=dialect, startup_seconds=8.0 if kind is late else 0.0, wait=False)
        for kind in (PREFILL, DECODE)
    ]
    router.set_members(members(*engines))
    assert await post(http, router) == (200, 20)


async def test_a_request_that_breaks_every_time_ends_with_502_after_five_tries(
    router: Router, start_engine: StartEngine, serve: Callable[..., Any], http: aiohttp.ClientSession
) -> None:
    async def fails(_: web.BaseRequest) -> web.Response:
        return web.json_response({"error": {"message": "out of memory"}}, status=500)

    broken = await serve(PREFILL, fails)
    router.set_members([broken, *members(await start_engine(kind=DECODE))])
    async with http.post(f"{router.url}/v1/completions", json=BODY) as response:
        assert response.status == 502
        assert "out of memory" in (await response.json())["error"]["message"]
    assert {view.member.kind: view.selections for view in router.members}[PREFILL] == 5


@BOTH
@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b'{"max_tokens": 1}', "prompt", id="no prompt"),
        pytest.param(b"[1]", "not a JSON object", id="no object"),
        pytest.param(b"{", "not JSON", id="no JSON"),
    ],
)
async def test_a_wrong_request_gets_its_answer_and_is_not_repeated(
    router: Router,
    start_engine: StartEngine,
    http: aiohttp.ClientSession,
    clock: Clock,
    dialect: EngineDialect,
    body: bytes,
    words: str,
) -> None:
    engines = [await start_engine(kind=kind, dialect=dialect) for kind in (PREFILL, DECODE)]
    router.set_members(members(*engines))
    async with http.post(f"{router.url}/v1/completions", data=body) as response:
        assert response.status == 400
        assert words in (await response.json())["error"]["message"]
    assert all(view.selections <= 1 for view in router.members)
    await until(lambda: all(view.in_flight == 0 for view in router.members), clock)
    async with http.get(f"{router.url}/v1/models") as response:
        assert response.status == 200


@BOTH
async def test_a_client_that_goes_away_leaves_nothing_at_any_member(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock, dialect: EngineDialect
) -> None:
    first = await start_engine(kind=PREFILL, dialect=dialect, kv_transfer_tokens_per_second=1.0)
    second = await start_engine(kind=DECODE, dialect=dialect)
    router.set_members(members(first, second))
    request = asyncio.create_task(post(http, router))
    await until(lambda: first.load().held == 1 and second.load().waiting == 1, clock)
    request.cancel()
    await until(lambda: first.load() == EngineLoad(0, 0, 0) and second.load() == EngineLoad(0, 0, 0), clock)
    await until(lambda: all(view.in_flight == 0 for view in router.members), clock)


# --- members that are not there ---


@pytest.mark.parametrize(
    ("kinds", "word"),
    [
        pytest.param((), "no replica", id="nobody"),
        pytest.param((DECODE,), "no Prefill worker", id="no prefill member"),
        pytest.param((PREFILL,), "no Decode worker", id="no decode member"),
    ],
)
async def test_without_patience_a_missing_worker_is_a_fast_503(
    make_router: Callable[..., Any],
    start_engine: StartEngine,
    http: aiohttp.ClientSession,
    clock: Clock,
    kinds: tuple[EngineKind, ...],
    word: str,
) -> None:
    router = await make_router(hold_seconds=0.0)
    engines = [await start_engine(kind=kind) for kind in kinds]
    router.set_members(members(*engines))
    async with http.post(f"{router.url}/v1/completions", json=BODY) as response:
        assert response.status == 503
        assert word in (await response.json())["error"]["message"]
    assert all(engine.load() == EngineLoad(0, 0, 0) for engine in engines)  # no prompt is computed in vain


async def test_a_worker_that_is_gone_and_still_listed_is_a_fast_503(
    make_router: Callable[..., Any], start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    router = await make_router(hold_seconds=0.0)
    gone = Member("gone", "gone", "http://127.0.0.1:1", PREFILL)
    router.set_members([gone, *members(await start_engine(kind=DECODE))])
    assert await post(http, router) == (503, 0)


async def test_a_new_worker_helps_only_when_it_is_registered(
    make_router: Callable[..., Any], start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    router = await make_router(hold_seconds=0.0, membership_delay_seconds=40.0)
    engines = [await start_engine(kind=kind) for kind in (PREFILL, DECODE)]
    router.set_members(members(*engines))
    assert await post(http, router) == (503, 0)
    async with http.get(f"{router.url}/observer/endpoints") as response:
        assert (await response.json())["workers"] == []
    await clock.sleep(41.0)
    assert await post(http, router) == (200, 20)
    async with http.get(f"{router.url}/observer/endpoints") as response:
        workers = {worker["url"]: worker for worker in (await response.json())["workers"]}
    assert workers == {
        engine.url: {"url": engine.url, "selection": 1, "inFlight": 0, "eligible": True} for engine in engines
    }


async def test_a_patient_router_serves_what_it_held_as_soon_as_a_worker_is_registered(
    make_router: Callable[..., Any], start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    router = await make_router(hold_seconds=6000.0, membership_delay_seconds=30.0)
    router.set_members(members(await start_engine()))
    began = clock.now()
    assert await post(http, router) == (200, 20)
    assert 29.0 <= clock.now() - began < 60.0


# --- encoders ---


async def test_media_are_encoded_item_by_item_before_the_prefill_and_text_skips_the_encoders(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    encoders = [await start_engine(kind=ENCODE) for _ in range(2)]
    first, second = await start_engine(kind=PREFILL), await start_engine(kind=DECODE)
    router.set_members(members(*encoders, first, second))
    assert await post(http, router, prompt_tokens=100, mm_items=[1000, 600, 400]) == (200, 20)
    assert await post(http, router) == (200, 20)
    shown = [await scrape(http, engine) for engine in encoders]
    assert sum(page["vllm:prompt_tokens_total"] for page in shown) == 2000
    assert sum(page["vllm:request_success_total/stop"] for page in shown) == 3
    assert min(page["vllm:request_success_total"] for page in shown) == 1  # both took part
    assert (await scrape(http, first))["vllm:prompt_tokens_total"] == 2200


async def test_media_wait_for_an_encoder_while_text_is_served(
    router: Router, start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    encoder = await start_engine(kind=ENCODE, startup_seconds=20.0, wait=False)
    pair = [await start_engine(kind=kind) for kind in (PREFILL, DECODE)]
    router.set_members(members(encoder, *pair))
    picture = asyncio.create_task(post(http, router, mm_items=[500]))
    assert await post(http, router) == (200, 20)
    assert not picture.done()
    assert await picture == (200, 20)
    assert (await scrape(http, encoder))["vllm:prompt_tokens_total"] == 500


async def test_an_encoder_that_fails_is_avoided(
    router: Router, start_engine: StartEngine, serve: Callable[..., Any], http: aiohttp.ClientSession
) -> None:
    async def fails(_: web.BaseRequest) -> web.Response:
        return web.Response(status=500)

    broken = await serve(ENCODE, fails)
    engines = [await start_engine(kind=kind) for kind in (ENCODE, PREFILL, DECODE)]
    router.set_members([broken, *members(*engines)])
    assert [await post(http, router, mm_items=[50, 60]) for _ in range(2)] == [(200, 20)] * 2
