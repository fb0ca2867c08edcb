"""What the controller's readers make of these engines is what clients and engines know to be true, for every part."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from controller.deployment.drain import load_of
from controller.deployment.retirement import Load
from controller.embedded.engine import EngineDialect, EngineKind, EngineLoad, EngineServer
from controller.engines import BodyReader, EngineReading, Role
from controller.foundation import Clock
from controller.plant import ServiceTime
from tests.embedded.conftest import StartEngine
from tests.embedded.engine.test_disaggregated import complete, decode, pair_body, prefill
from tests.embedded.waiting import until

PREFILL, DECODE, ENCODE = EngineKind.PREFILL, EngineKind.DECODE, EngineKind.ENCODE
VLLM, SGLANG = EngineDialect.VLLM, EngineDialect.SGLANG


async def read(http: aiohttp.ClientSession, engine: EngineServer) -> EngineReading:
    async with http.get(f"{engine.url}/metrics") as response:
        body = await response.read()
    config = engine.config
    return BodyReader().read(body, engine=config.dialect.value, models=("m",), role=Role(config.kind.value))


async def drained(http: aiohttp.ClientSession, engine: EngineServer) -> Load:
    return load_of(engine.host, await read(http, engine), Role(engine.config.kind.value)).load


async def serve(http: aiohttp.ClientSession, pair: list[EngineServer], prompt: int, output: int, room: int) -> int:
    """One request through a pair, as a router carries it."""
    first, second = pair
    if first.config.dialect is VLLM:
        return await decode(http, second, prompt, output, await prefill(http, first, prompt))
    body = pair_body(prompt, output, first, room)
    _, tokens = await asyncio.gather(complete(http, first, body), complete(http, second, body))
    return tokens


@pytest.mark.parametrize("dialect", list(EngineDialect), ids=lambda dialect: dialect.value)
@pytest.mark.parametrize("ranks", [1, 2], ids=["one rank", "two ranks"])
async def test_each_part_of_a_pair_is_read_as_doing_its_own_work_only(
    start_engine: StartEngine, http: aiohttp.ClientSession, dialect: EngineDialect, ranks: int
) -> None:
    pair = [await start_engine(kind=kind, dialect=dialect, data_parallel=ranks) for kind in (PREFILL, DECODE)]
    lengths = [(100 * number, 10 * number) for number in range(1, 7)]
    got = await asyncio.gather(*(serve(http, pair, *length, room) for room, length in enumerate(lengths, 1)))
    assert got == [output for _, output in lengths]
    prompts, outputs = (sum(column) for column in zip(*lengths, strict=True))
    first, second = [await read(http, engine) for engine in pair]
    assert first.computed_prompt_tokens == prompts
    assert (first.finished_requests, second.finished_requests) == (6, 6)
    if dialect is VLLM:
        assert second.computed_prompt_tokens == 0  # although it repeats every prompt
        assert second.cached_prompt_tokens == prompts
        assert (first.generation_tokens, second.generation_tokens) == (6, outputs)
    else:
        assert second.computed_prompt_tokens is None  # that mode of its counter was never used
        assert second.generation_tokens == outputs - 6  # the first tokens came with the prompts
    assert second.itl is not None
    assert second.itl.count == outputs - 6
    assert first.itl is None
    for engine in pair:
        assert await drained(http, engine) is Load.IDLE


async def test_requests_that_wait_for_blocks_are_told_from_those_that_wait_for_the_decode_process(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    slow = await start_engine(kind=PREFILL, kv_transfer_tokens_per_second=1.0)
    quick = await start_engine(kind=PREFILL)
    second = await start_engine(kind=DECODE, max_num_seqs=1)
    fetching = [asyncio.create_task(decode(http, second, 1000, 5, await prefill(http, slow, 1000))) for _ in range(2)]
    await until(lambda: second.load() == EngineLoad(0, 2), clock)
    running = asyncio.create_task(decode(http, second, 10, 20_000, await prefill(http, quick, 10)))
    await until(lambda: second.load() == EngineLoad(1, 2), clock)
    queued = [asyncio.create_task(decode(http, second, 10, 5, await prefill(http, quick, 10))) for _ in range(3)]
    await until(lambda: second.load() == EngineLoad(1, 5), clock)
    reading = await read(http, second)
    assert (reading.running_requests, reading.waiting_requests, reading.kv_waiting_requests) == (1, 5, 2)
    assert await drained(http, second) is Load.BUSY
    for task in (*fetching, running, *queued):
        task.cancel()


async def test_an_sglang_prefill_is_busy_while_blocks_are_held_and_a_vllm_one_shows_them_in_its_cache_alone(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(kind=PREFILL, dialect=SGLANG, kv_transfer_tokens_per_second=1.0)
    second = await start_engine(kind=DECODE, dialect=SGLANG)
    body = pair_body(1000, 5, first, 1)
    tasks = [asyncio.create_task(complete(http, engine, body)) for engine in (first, second)]
    await until(lambda: first.load().held == 1, clock)
    reading = await read(http, first)
    assert (reading.running_requests, reading.waiting_requests, reading.handover_requests) == (0, 0, 1)
    assert await drained(http, first) is Load.BUSY
    assert (await read(http, second)).kv_waiting_requests == 1
    assert await drained(http, second) is Load.BUSY
    for task in tasks:
        task.cancel()

    other = await start_engine(kind=PREFILL)
    await prefill(http, other, 1000)
    reading = await read(http, other)
    assert reading.in_flight_requests == 0  # hence the grace before the idle reads of a pair count
    assert reading.kv_cache_usage is not None
    assert reading.kv_cache_usage > 0


@pytest.mark.parametrize("dialect", list(EngineDialect), ids=lambda dialect: dialect.value)
async def test_an_encoder_is_read_as_busy_while_it_encodes_and_idle_after(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock, dialect: EngineDialect
) -> None:
    engine = await start_engine(kind=ENCODE, dialect=dialect, service=ServiceTime(1_000.0, (1,), (0.020,)))
    body: dict[str, Any] = {"prompt_tokens": 1, "mm_items": [30_000], "max_tokens": 1}
    assert await complete(http, engine, body | {"mm_items": [100]}) == 0
    tasks = [asyncio.create_task(complete(http, engine, body)) for _ in range(3)]
    await until(lambda: engine.load().running + engine.load().waiting == 3, clock)
    reading = await read(http, engine)
    assert reading.in_flight_requests == 3
    assert await drained(http, engine) is Load.BUSY
    await asyncio.gather(*tasks)
    assert await drained(http, engine) is Load.IDLE
    assert (await read(http, engine)).finished_requests == 4
