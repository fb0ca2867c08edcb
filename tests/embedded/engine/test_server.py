"""Engine servers over real sockets, on virtual time."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import aiohttp
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.embedded.engine import EngineConfig, EngineKind, EngineLoad, EngineServer, EngineState
from controller.embedded.loopback import LoopbackAddresses
from controller.foundation import Clock, OperationFailed
from tests.embedded.conftest import SERVICE, StartEngine
from tests.embedded.waiting import until


async def stream(http: aiohttp.ClientSession, url: str, prompt: int, output: int) -> list[int]:
    """Completion token counts as the frames brought them."""
    body = {
        "prompt_tokens": prompt,
        "max_tokens": output,
        "stream": True,
        "stream_options": {"continuous_usage_stats": True},
    }
    async with http.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        frames = [line async for line in response.content if line.startswith(b"data: {")]
    return [orjson.loads(frame[6:])["usage"]["completion_tokens"] for frame in frames]


async def scrape(http: aiohttp.ClientSession, url: str, path: str = "/metrics") -> dict[str, float]:
    async with http.get(url + path) as response:
        assert response.status == 200
        text = await response.text()
    samples: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name] = samples.get(sample.name, 0.0) + sample.value
    return samples


async def test_a_stream_starts_with_the_first_token_and_goes_on_in_frames(
    start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    engine = await start_engine()
    assert engine.host.startswith("127.")
    counts = await stream(http, engine.url, 100, 30)
    assert set(counts) <= {1, 9, 17, 25, 30}  # the first token, then frames of eight; a late reader finds two in one
    assert counts[-1] == 30
    assert counts == sorted(set(counts))


async def test_what_the_counters_say_is_what_the_clients_got(
    start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    engine = await start_engine(max_num_seqs=4)
    lengths = [(50 * n, 5 * n) for n in range(1, 13)]
    got = await asyncio.gather(*(stream(http, engine.url, prompt, output) for prompt, output in lengths))
    assert [counts[-1] for counts in got] == [output for _, output in lengths]
    samples = await scrape(http, engine.url)
    assert samples["vllm:prompt_tokens_total"] == sum(prompt for prompt, _ in lengths)
    assert samples["vllm:generation_tokens_total"] == sum(output for _, output in lengths)
    assert samples["vllm:request_success_total"] == len(lengths)
    assert samples["vllm:inter_token_latency_seconds_count"] == sum(output - 1 for _, output in lengths)
    assert samples["vllm:num_requests_running"] == samples["vllm:num_requests_waiting"] == 0
    assert samples["vllm:kv_cache_usage_perc"] == 0


async def test_token_rates_between_two_scrapes_agree_with_the_streams_in_between(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine()
    streams = [asyncio.create_task(stream(http, engine.url, 200, 10_000)) for _ in range(4)]
    await until(lambda: engine.load() == EngineLoad(4, 0), clock)

    async def generated() -> tuple[float, float, float]:
        before = clock.now()
        samples = await scrape(http, engine.url, "/metrics/?name[]=vllm:generation_tokens_total")
        return before, samples["vllm:generation_tokens_total"], clock.now()

    first_before, first, first_after = await generated()
    await clock.sleep(5)
    second_before, second, second_after = await generated()
    step = SERVICE.decode_step_seconds(4)
    # Each page was made at some moment of its scrape; a step at either end may be in or out.
    assert (second_before - first_after) / step - 2 <= (second - first) / 4 <= (second_after - first_before) / step + 2
    for task in streams:
        task.cancel()


async def test_requests_beyond_the_slots_wait_and_are_shown_waiting(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine(max_num_seqs=2)
    streams = [asyncio.create_task(stream(http, engine.url, 10, 500)) for _ in range(5)]
    await until(lambda: engine.load() == EngineLoad(2, 3), clock)
    samples = await scrape(http, engine.url)
    assert (samples["vllm:num_requests_running"], samples["vllm:num_requests_waiting"]) == (2, 3)
    assert samples["vllm:num_requests_waiting_by_reason"] == 3
    assert [counts[-1] for counts in await asyncio.gather(*streams)] == [500] * 5


async def test_a_whole_answer_and_the_list_of_models(start_engine: StartEngine, http: aiohttp.ClientSession) -> None:
    engine = await start_engine()
    async with http.post(f"{engine.url}/v1/completions", json={"prompt": "x" * 40, "max_tokens": 5}) as response:
        assert (await response.json())["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    async with http.get(f"{engine.url}/v1/models") as response:
        assert (await response.json())["data"][0]["id"] == "m"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        pytest.param("/v1/completions", b"{}", 400, id="a completion without a prompt"),
        pytest.param("/v1/completions", b'{"prompt_tokens": 30, "max_tokens": 30}', 400, id="beyond the cache"),
        pytest.param("/v1/completions", b" " * (17 << 20), 413, id="a body beyond every measure"),
        pytest.param("/v1/completions", None, 404, id="a completion by GET"),
        pytest.param("/nowhere", None, 404, id="an unknown path"),
    ],
)
async def test_requests_that_cannot_be_served_get_a_status_and_harm_nobody(
    start_engine: StartEngine, http: aiohttp.ClientSession, path: str, body: bytes | None, status: int
) -> None:
    engine = await start_engine(kv_cache_tokens=50)
    async with http.request("POST" if body else "GET", engine.url + path, data=body) as response:
        assert response.status == status
    assert (await stream(http, engine.url, 10, 5))[-1] == 5


async def test_while_the_model_loads_everything_answers_503(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine(startup_seconds=20.0, wait=False)
    began = clock.now()
    for path in ("/health", "/metrics"):
        async with http.get(engine.url + path) as response:
            assert response.status == 503
    await until(lambda: engine.state is EngineState.SERVING, clock)
    assert round(clock.now() - began, 3) >= 20
    async with http.get(f"{engine.url}/health") as response:
        assert response.status == 200


@pytest.mark.parametrize("slots", [pytest.param(2, id="while it runs"), pytest.param(1, id="while it waits")])
async def test_a_client_that_goes_away_frees_its_place_and_is_not_counted_as_finished(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock, slots: int
) -> None:
    engine = await start_engine(max_num_seqs=slots)
    staying = asyncio.create_task(stream(http, engine.url, 10, 2000))
    await until(lambda: engine.load().running == 1, clock)
    leaving = asyncio.create_task(stream(http, engine.url, 10, 10_000))
    await until(lambda: sum((engine.load().running, engine.load().waiting)) == 2, clock)
    leaving.cancel()
    await until(lambda: engine.load() == EngineLoad(1, 0), clock)
    assert (await staying)[-1] == 2000
    samples = await scrape(http, engine.url)
    assert samples["vllm:request_success_total"] == 1


async def test_a_crash_cuts_its_streams_and_comes_back_with_counters_at_zero(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine(startup_seconds=1.0)
    await stream(http, engine.url, 10, 5)
    before = await scrape(http, engine.url)
    cut = asyncio.create_task(stream(http, engine.url, 10, 10_000))
    await until(lambda: engine.load().running == 1, clock)
    await engine.crash(down_seconds=2.0)
    assert engine.state is EngineState.DOWN
    with pytest.raises(aiohttp.ClientError):
        await cut
    with pytest.raises(aiohttp.ClientConnectorError):
        await scrape(http, engine.url)
    host = engine.host
    await until(lambda: engine.state is EngineState.SERVING, clock)
    after = await scrape(http, engine.url)
    assert (engine.host, engine.restart_count) == (host, 1)
    assert before["vllm:generation_tokens_total"] == 5
    assert after["vllm:generation_tokens_total"] == 0
    assert after["process_start_time_seconds"] > before["process_start_time_seconds"]
    assert (await stream(http, engine.url, 10, 5))[-1] == 5


async def test_a_hung_engine_answers_nothing_and_loses_nothing_when_it_goes_on(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine()
    running = asyncio.create_task(stream(http, engine.url, 10, 1000))
    await until(lambda: engine.load().running == 1, clock)
    engine.hang()
    page = asyncio.create_task(scrape(http, engine.url))
    hung_at = clock.now()
    await clock.sleep(30)  # more than the stream needs
    assert not running.done()
    assert not page.done()
    assert engine.load() == EngineLoad(1, 0)
    hung_for = clock.now() - hung_at
    engine.resume()
    assert (await page)["vllm:num_requests_running"] == 1
    assert (await running)[-1] == 1000
    samples = await scrape(http, engine.url)
    assert samples["vllm:e2e_request_latency_seconds_sum"] >= hung_for + 999 * SERVICE.decode_step_seconds(1)


async def test_an_address_whose_port_is_taken_is_passed_over(clock: Clock) -> None:
    addresses, twin = LoopbackAddresses(5), LoopbackAddresses(5)
    first, second = (EngineServer(EngineConfig("m", SERVICE), clock) for _ in range(2))
    try:
        await first.start(addresses, 18001)
        await second.start(twin, 18001)
        assert first.host != second.host
    finally:
        await first.stop()
        await second.stop()


async def test_a_port_that_is_taken_everywhere_is_one_clear_error(clock: Clock) -> None:
    with socket.socket() as everywhere:
        everywhere.bind(("0.0.0.0", 0))
        everywhere.listen()
        port = everywhere.getsockname()[1]
        with pytest.raises(OperationFailed, match=rf"port {port} is taken .* stop that process or choose another port"):
            await EngineServer(EngineConfig("m", SERVICE), clock).start(LoopbackAddresses(), port)


def test_addresses_differ_and_avoid_the_ends_of_each_block() -> None:
    addresses = LoopbackAddresses(1)
    taken = [next(addresses) for _ in range(2000)]
    assert len(set(taken)) == 2000
    assert all(address.startswith("127.") and address.rpartition(".")[2] not in ("0", "255") for address in taken)
    assert not any(address.startswith("127.0.") for address in taken)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"data_parallel": 0}, "data_parallel", id="no rank"),
        pytest.param({"kv_transfer_tokens_per_second": 0.0}, "kv_transfer_tokens_per_second", id="no way out"),
    ],
)
def test_an_engine_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        EngineConfig("m", SERVICE, **changes)


async def test_blocks_are_handed_over_by_prefill_processes_alone_and_only_to_those_who_say_which(
    start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    for kind, body, status in (
        (EngineKind.SERVER, b'{"id": "a"}', 404),
        (EngineKind.PREFILL, b'{"id": "a"}', 404),
        (EngineKind.PREFILL, b'{"id": 5}', 400),
        (EngineKind.PREFILL, b"{", 400),
    ):
        engine = await start_engine(kind=kind)
        async with http.post(f"{engine.url}/kv/fetch", data=body) as response:
            assert response.status == status
