"""Prefill and decode engines over real sockets: what is handed over, what is shown of it, and what ends it early."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.embedded.engine import EngineDialect, EngineKind, EngineLoad, EngineServer
from controller.foundation import Clock
from tests.embedded.conftest import StartEngine
from tests.embedded.waiting import until

SGLANG = {"dialect": EngineDialect.SGLANG}
PREFILL, DECODE = {"kind": EngineKind.PREFILL}, {"kind": EngineKind.DECODE}


async def scrape(http: aiohttp.ClientSession, engine: EngineServer) -> dict[str, float]:
    """Samples by name, and by name/value of the one label that tells them apart."""
    async with http.get(f"{engine.url}/metrics") as response:
        text = await response.text()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
            for label in ("source", "stage", "reason", "mode", "finished_reason", "engine"):
                if label in sample.labels:
                    key = f"{sample.name}/{sample.labels[label]}"
                    found[key] = found.get(key, 0.0) + sample.value
    return found


async def prefill(http: aiohttp.ClientSession, engine: EngineServer, prompt: int) -> dict[str, Any]:
    """What the decode process needs, as a router gets it."""
    body = {"prompt_tokens": prompt, "max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}
    async with http.post(f"{engine.url}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()
        answer = await response.json()
    assert answer["usage"]["completion_tokens"] == 1
    params: dict[str, Any] = answer["kv_transfer_params"]
    return params


async def decode(
    http: aiohttp.ClientSession, engine: EngineServer, prompt: int, output: int, params: dict[str, Any]
) -> int:
    """Tokens of a stream; raises RuntimeError for an error frame."""
    body = {
        "prompt_tokens": prompt,
        "max_tokens": output,
        "stream": True,
        "stream_options": {"continuous_usage_stats": True},
        "kv_transfer_params": params,
    }
    async with http.post(f"{engine.url}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()
        frames = [orjson.loads(line[6:]) async for line in response.content if line.startswith(b"data: {")]
    if "error" in frames[-1]:
        raise RuntimeError(frames[-1]["error"]["message"])
    return int(frames[-1]["usage"]["completion_tokens"])


# What a real pair showed for one request of 1,000 prompt and 50 output tokens (vLLM 0.32, NixlConnector).
PREFILL_SHOWS = {
    "vllm:prompt_tokens_total": 1000,
    "vllm:prompt_tokens_by_source_total/local_compute": 1000,
    "vllm:prompt_tokens_by_source_total/external_kv_transfer": 0,
    "vllm:generation_tokens_total": 1,
    "vllm:request_success_total/length": 1,
    "vllm:time_to_first_token_seconds_count": 1,
    "vllm:inter_token_latency_seconds_count": 0,
    "vllm:request_time_per_output_token_seconds_count": 1,
    "vllm:request_time_per_output_token_seconds_sum": 0,
    "vllm:request_decode_time_seconds_sum": 0,
    "vllm:external_prefix_cache_queries_total": 1000,
    "vllm:external_prefix_cache_hits_total": 0,
}
DECODE_SHOWS = {
    "vllm:prompt_tokens_total": 1000,
    "vllm:prompt_tokens_by_source_total/local_compute": 0,
    "vllm:prompt_tokens_by_source_total/external_kv_transfer": 1000,
    "vllm:prompt_tokens_cached_by_source_total/p2p": 1000,
    "vllm:generation_tokens_total": 50,
    "vllm:request_success_total/length": 1,
    "vllm:time_to_first_token_seconds_count": 1,
    "vllm:inter_token_latency_seconds_count": 49,
    "vllm:request_prefill_kv_computed_tokens_sum": 1000,
    "vllm:external_prefix_cache_queries_total": 1000,
    "vllm:external_prefix_cache_hits_total": 1000,
    "vllm:nixl_xfer_time_seconds_count": 1,
    "vllm:nixl_num_failed_transfers_total": 0,
}


async def test_a_pair_counts_one_request_as_a_real_pair_does(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first, second = await start_engine(**PREFILL), await start_engine(**DECODE)
    assert await decode(http, second, 1000, 50, await prefill(http, first, 1000)) == 50
    for engine, expected in ((first, PREFILL_SHOWS), (second, DECODE_SHOWS)):
        shown = await scrape(http, engine)
        assert {name: shown[name] for name in expected} == expected
        assert engine.load() == EngineLoad(0, 0, 0)
    # 50 ms of prefill there, none of it here.
    assert (await scrape(http, first))["vllm:time_to_first_token_seconds_sum"] == pytest.approx(0.050, abs=0.001)


async def test_a_prefill_process_looks_idle_while_it_holds_blocks_and_frees_them_when_they_are_fetched(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, kv_cache_tokens=4000)
    second = await start_engine(**DECODE)
    params = await prefill(http, first, 1000)
    held = await scrape(http, first)
    assert held["vllm:num_requests_running"] == held["vllm:num_requests_waiting"] == 0
    assert held["vllm:kv_cache_usage_perc"] == 0.25
    assert first.load() == EngineLoad(0, 0, 1)
    await decode(http, second, 1000, 2, params)
    assert (await scrape(http, first))["vllm:kv_cache_usage_perc"] == 0
    with pytest.raises(RuntimeError, match="does not hold the blocks"):
        await decode(http, second, 1000, 2, params)  # they are gone: nobody fetches them twice


async def test_held_blocks_leave_no_room_for_the_next_prompt(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, kv_cache_tokens=1500)
    second = await start_engine(**DECODE)
    params = await prefill(http, first, 1000)
    following = asyncio.create_task(prefill(http, first, 1000))
    await until(lambda: first.load() == EngineLoad(0, 1, 1), clock)
    await decode(http, second, 1000, 2, params)
    await following


async def test_blocks_that_nobody_fetches_are_let_go_when_their_lease_ends(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, hold_seconds=5.0, hold_wall_seconds=0.0)
    second = await start_engine(**DECODE)
    params = await prefill(http, first, 1000)
    await until(lambda: first.load().held == 0, clock)
    assert (await scrape(http, first))["vllm:nixl_num_kv_expired_reqs_total"] == 1
    with pytest.raises(RuntimeError, match="does not hold the blocks"):
        await decode(http, second, 1000, 5, params)


async def test_a_request_that_waits_at_the_decode_process_keeps_its_blocks_held(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    # The lease is 30 s, a heartbeat comes every five, and the slot is taken for 200.
    first = await start_engine(**PREFILL)
    second = await start_engine(**DECODE, max_num_seqs=1)
    busy = asyncio.create_task(decode(http, second, 10, 10_000, await prefill(http, first, 10)))
    await until(lambda: second.load().running == 1, clock)
    waiting = asyncio.create_task(decode(http, second, 100, 5, await prefill(http, first, 100)))
    await until(lambda: second.load().waiting == 1, clock)
    shown = await scrape(http, second)
    assert shown["vllm:num_requests_waiting_by_reason/capacity"] == 1
    assert shown["vllm:num_requests_kv_fetch_by_stage/waiting_to_start"] == 1
    await busy
    assert await waiting == 5


async def test_a_transfer_under_way_is_shown_as_such(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, kv_transfer_tokens_per_second=40.0)  # 25 s for 1,000 tokens
    second = await start_engine(**DECODE)
    answer = asyncio.create_task(decode(http, second, 1000, 5, await prefill(http, first, 1000)))
    await until(lambda: second.load() == EngineLoad(0, 1), clock)
    shown = await scrape(http, second)
    assert shown["vllm:num_requests_waiting_by_reason/deferred"] == 1
    assert shown["vllm:num_requests_kv_fetch_by_stage/in_progress"] == 1
    assert shown["vllm:kv_cache_usage_perc"] > 0
    assert await answer == 5
    assert (await scrape(http, second))["vllm:nixl_xfer_time_seconds_sum"] >= 24.9


@pytest.mark.parametrize("restarted", [pytest.param(False, id="and is gone"), pytest.param(True, id="and is back")])
async def test_a_prefill_process_that_ends_before_its_blocks_are_fetched_makes_the_decode_fail(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock, restarted: bool
) -> None:
    first, second = await start_engine(**PREFILL), await start_engine(**DECODE)
    params = await prefill(http, first, 1000)
    await first.crash(down_seconds=0.5 if restarted else None)
    if restarted:
        await until(lambda: first.restart_count == 1, clock)
        await prefill(http, first, 10)
    with pytest.raises(RuntimeError, match="blocks"):
        await decode(http, second, 1000, 50, params)
    shown = await scrape(http, second)
    assert shown["vllm:request_success_total/error"] == shown["vllm:nixl_num_failed_transfers_total"] == 1
    assert shown["vllm:generation_tokens_total"] == shown["vllm:kv_cache_usage_perc"] == 0
    body = {"prompt_tokens": 1000, "max_tokens": 5, "kv_transfer_params": params}
    async with http.post(f"{second.url}/v1/completions", json=body) as response:
        assert response.status == 500  # not streamed: the status line was still to come


async def test_a_prefill_process_that_ends_during_a_transfer_makes_the_decode_fail(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, kv_transfer_tokens_per_second=1.0)
    second = await start_engine(**DECODE)
    answer = asyncio.create_task(decode(http, second, 1000, 5, await prefill(http, first, 1000)))
    await until(lambda: second.load().waiting == 1, clock)
    await first.stop()
    with pytest.raises(RuntimeError, match="the blocks"):
        await answer
    assert second.load() == EngineLoad(0, 0)


async def test_a_client_that_goes_away_during_a_transfer_leaves_nothing_behind(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, kv_transfer_tokens_per_second=10.0)
    second = await start_engine(**DECODE)
    answer = asyncio.create_task(decode(http, second, 1000, 5, await prefill(http, first, 1000)))
    await until(lambda: second.load().waiting == 1, clock)
    answer.cancel()
    await until(lambda: second.load() == EngineLoad(0, 0) and first.load() == EngineLoad(0, 0, 0), clock)
    assert (await scrape(http, second))["vllm:kv_cache_usage_perc"] == 0


async def test_a_prefill_process_asked_for_a_whole_answer_gives_one(
    start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    engine = await start_engine(**PREFILL)
    async with http.post(f"{engine.url}/v1/completions", json={"prompt_tokens": 10, "max_tokens": 5}) as response:
        answer = await response.json()
    assert answer["usage"]["completion_tokens"] == 5
    assert "kv_transfer_params" not in answer


# --- SGLang ---


def pair_body(prompt: int, output: int, first: EngineServer, room: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "max_tokens": output,
        "bootstrap_host": first.host,
        "bootstrap_port": first.port,
        "bootstrap_room": room,
    }


async def complete(http: aiohttp.ClientSession, engine: EngineServer, body: dict[str, Any]) -> int:
    async with http.post(f"{engine.url}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()
        return int((await response.json())["usage"]["completion_tokens"])


async def test_an_sglang_pair_computes_when_the_decode_side_has_asked_and_counts_each_its_part(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, **SGLANG)
    second = await start_engine(**DECODE, **SGLANG)
    body = pair_body(1000, 50, first, 7)
    prompt = asyncio.create_task(complete(http, first, body))
    await until(lambda: first.load() == EngineLoad(0, 1), clock)
    shown = await scrape(http, first)
    assert shown["sglang:num_prefill_bootstrap_queue_reqs"] == 1
    assert "sglang:realtime_tokens_total" not in shown  # nothing has been computed
    assert await complete(http, second, body) == 50
    assert await prompt == 1
    shown = await scrape(http, first)
    assert shown["sglang:realtime_tokens_total/prefill_compute"] == 1000
    assert "sglang:realtime_tokens_total/decode" not in shown
    assert shown["sglang:generation_tokens_total"] == 1
    assert shown["sglang:num_requests_total"] == 1
    shown = await scrape(http, second)
    assert "sglang:realtime_tokens_total/prefill_compute" not in shown
    assert shown["sglang:realtime_tokens_total/decode"] == 49  # the first token came with the prompt
    assert shown["sglang:prompt_tokens_total"] == 1000
    assert shown["sglang:generation_tokens_total"] == 50
    assert first.load() == second.load() == EngineLoad(0, 0, 0)


async def test_the_queues_of_an_sglang_pair_show_who_waits_for_what(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, **SGLANG, kv_transfer_tokens_per_second=30.0)
    second = await start_engine(**DECODE, **SGLANG, kv_cache_tokens=1100)
    bodies = [pair_body(1000, 5, first, room) for room in (1, 2)]
    answers = [asyncio.create_task(complete(http, second, body)) for body in bodies]
    await until(lambda: second.load() == EngineLoad(0, 2), clock)
    shown = await scrape(http, second)
    # One has a place in the cache and waits for its prompt, which nobody has sent to the prefill process yet.
    assert (shown["sglang:num_decode_prealloc_queue_reqs"], shown["sglang:num_decode_transfer_queue_reqs"]) == (1, 1)
    prompts = [asyncio.create_task(complete(http, first, body)) for body in bodies]
    await until(lambda: first.load() == EngineLoad(0, 1, 1), clock)
    shown = await scrape(http, first)
    queues = ("sglang:num_prefill_bootstrap_queue_reqs", "sglang:num_prefill_inflight_queue_reqs")
    assert [shown[queue] for queue in queues] == [1, 1]
    assert await asyncio.gather(*answers) == [5, 5]
    assert await asyncio.gather(*prompts) == [1, 1]


async def test_an_sglang_prefill_nobody_asks_for_fails_after_its_time(
    start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    first = await start_engine(**PREFILL, **SGLANG, hold_seconds=5.0, hold_wall_seconds=0.0)
    async with http.post(f"{first.url}/v1/completions", json=pair_body(10, 5, first, 1)) as response:
        assert response.status == 500
        assert "no decode process asked" in (await response.json())["error"]["message"]
    assert first.load() == EngineLoad(0, 0, 0)


async def test_an_sglang_router_that_gives_up_its_prefill_request_ends_the_decode_too(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    first = await start_engine(**PREFILL, **SGLANG, kv_transfer_tokens_per_second=1.0)
    second = await start_engine(**DECODE, **SGLANG)
    body = pair_body(1000, 5, first, 1)
    prompt = asyncio.create_task(complete(http, first, body))
    answer = asyncio.create_task(complete(http, second, body))
    await until(lambda: first.load().held == 1, clock)
    prompt.cancel()
    await until(lambda: first.load() == EngineLoad(0, 0, 0), clock)
    answer.cancel()
    await until(lambda: second.load() == EngineLoad(0, 0), clock)


@pytest.mark.parametrize("kind", [PREFILL, DECODE])
async def test_an_sglang_pair_refuses_requests_that_do_not_say_where_to_meet(
    start_engine: StartEngine, http: aiohttp.ClientSession, kind: dict[str, EngineKind]
) -> None:
    engine = await start_engine(**kind, **SGLANG)
    async with http.post(f"{engine.url}/v1/completions", json={"prompt_tokens": 10}) as response:
        assert response.status == 400
        assert "bootstrap_room" in (await response.json())["error"]["message"]


async def test_the_gauges_of_sglang_stand_still_between_two_reports(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine(**SGLANG, max_num_seqs=1)
    streams = [asyncio.create_task(complete(http, engine, {"prompt_tokens": 10, "max_tokens": 3000}))]
    await until(lambda: engine.load().running == 1, clock)
    streams.append(asyncio.create_task(complete(http, engine, {"prompt_tokens": 10, "max_tokens": 5})))
    await until(lambda: engine.load() == EngineLoad(1, 1), clock)
    shown: list[float] = []
    while not shown or shown[-1] == 0:
        await clock.sleep(0.1)
        shown.append((await scrape(http, engine))["sglang:num_queue_reqs"])
        assert (await scrape(http, engine))["sglang:num_running_reqs"] == 1
    assert shown[-1] == 1
    await asyncio.gather(*streams)
    idle = await scrape(http, engine)
    assert idle["sglang:num_running_reqs"] == idle["sglang:num_queue_reqs"] == idle["sglang:gen_throughput"] == 0


# --- Encoders and data-parallel ranks ---


async def test_an_encoder_computes_media_and_makes_no_token(
    start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    engine = await start_engine(kind=EngineKind.ENCODE)
    body = {"prompt_tokens": 20, "mm_items": [1000, 500], "max_tokens": 1}
    assert await complete(http, engine, body) == 0
    shown = await scrape(http, engine)
    assert shown["vllm:prompt_tokens_total"] == 1500
    assert shown["vllm:generation_tokens_total"] == 0
    assert shown["vllm:request_success_total/stop"] == shown["vllm:request_success_total"] == 1
    async with http.post(f"{engine.url}/v1/completions", json={"prompt_tokens": 20}) as response:
        assert response.status == 400


async def test_requests_spread_over_the_ranks_of_one_server_by_their_load(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine(data_parallel=2, max_num_seqs=2)
    answers = [asyncio.create_task(complete(http, engine, {"prompt_tokens": 10, "max_tokens": 500})) for _ in range(6)]
    await until(lambda: engine.load() == EngineLoad(4, 2), clock)
    shown = await scrape(http, engine)
    for rank in ("0", "1"):
        assert shown[f"vllm:num_requests_running/{rank}"] == 2
        assert shown[f"vllm:num_requests_waiting/{rank}"] == 1
    await asyncio.gather(*answers)
    shown = await scrape(http, engine)
    assert shown["vllm:generation_tokens_total/0"] == shown["vllm:generation_tokens_total/1"] == 1500
    assert "process_start_time_seconds" not in shown
