"""Readings of recorded bodies against what is known about them."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from controller.engines import (
    BodyReader,
    BodyRefused,
    EngineReading,
    MissingReason,
    Quality,
    Reason,
    Role,
    SleepState,
)
from tests.engines import dumps

READER = BodyReader()


def read(name: str, **options: Any) -> EngineReading:
    return READER.read(dumps.dump(name), **options)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "vllm-02",
            {
                "running_requests": 8.0,
                "waiting_requests": 16.0,
                "deferred_requests": 0.0,
                "computed_prompt_tokens": 2_860.0,
                "cached_prompt_tokens": 640.0,
                "generation_tokens": 2_146.0,
                "finished_requests": 1.0,
                "process_start_time_seconds": 1_795_957_923.36,
                "sleep_state": SleepState.AWAKE,
                "kv_cache_usage": 0.002624671916010457,
                "in_flight_requests": 24.0,
                "models": ("tiny-llama",),
                "engine": "vllm",
                "quality": frozenset(),
            },
            id="vllm-02 runs 8 and has 16 waiting",
        ),
        pytest.param(
            "vllm-03",
            {
                "running_requests": 0.0,
                "waiting_requests": 0.0,
                "deferred_requests": 0.0,
                "kv_cache_usage": 0.0,
                "in_flight_requests": 0.0,
            },
            id="vllm-03 is idle after all clients aborted",
        ),
        pytest.param(
            "vllm-04",
            {"running_requests": 8.0, "waiting_requests": 16.0, "process_start_time_seconds": None},
            id="vllm-04 has two API servers and no start time",
        ),
        pytest.param(
            "vllm-05",
            {
                "running_requests": 16.0,
                "waiting_requests": 8.0,
                "computed_prompt_tokens": 6_700.0,
                "generation_tokens": 2_660.0,
            },
            id="vllm-05 sums two data-parallel engines",
        ),
        pytest.param(
            "vllm-06",
            {"running_requests": 0.0, "computed_prompt_tokens": 52.0, "generation_tokens": 5_022.0},
            id="vllm-06 has underscores in its sample names",
        ),
        pytest.param(
            "vllm-07",
            {"computed_prompt_tokens": 11_904.0, "cached_prompt_tokens": 896.0, "generation_tokens": 14.0},
            id="vllm-07 computes prompts and makes one token each",
        ),
        pytest.param(
            "vllm-08",
            {
                "running_requests": 8.0,
                "waiting_requests": 3.0,
                "deferred_requests": 1.0,
                # All slots are taken: two wait for one and have not begun to fetch, one has its blocks.
                "kv_waiting_requests": 0.0,
                "computed_prompt_tokens": 0.0,
                "cached_prompt_tokens": 10_100.0,
                "generation_tokens": 962.0,
            },
            id="vllm-08 computes no prompt although it repeats them",
        ),
        pytest.param(
            "vllm-11",
            {"running_requests": 0.0, "computed_prompt_tokens": 58.0, "generation_tokens": 300.0, "ttft": None},
            id="vllm-11 is wrapped by Ray Serve",
        ),
        pytest.param(
            "vllm-12",
            {
                "running_requests": 0.0,
                "waiting_requests": 0.0,
                "computed_prompt_tokens": 5.0,
                "cached_prompt_tokens": None,
                "generation_tokens": 7.0,
                "kv_cache_usage": 0.0,
                "quality": frozenset({Quality.CACHED_TOKENS_UNKNOWN}),
            },
            id="vllm-12 is the V0 engine",
        ),
        pytest.param(
            "vllm-14",
            {"running_requests": 0.0, "computed_prompt_tokens": 148.0, "finished_requests": 4.0},
            id="vllm-14 is the V0 engine behind another runtime",
        ),
        pytest.param(
            "sglang-01",
            {
                "engine": "sglang",
                "running_requests": 24.0,
                "waiting_requests": 3.0,
                "computed_prompt_tokens": 412_331.0,
                "cached_prompt_tokens": 198_234.0,
                "generation_tokens": 91_822.0,
                "finished_requests": 400.0,
                "kv_cache_usage": 0.73,
                "quality": frozenset(),
            },
            id="sglang-01 is read from its realtime counters",
        ),
        pytest.param(
            "sglang-02",
            {
                "running_requests": 4.0,
                "waiting_requests": 10.0,
                "handover_requests": 5.0,
                "in_flight_requests": 19.0,
                "computed_prompt_tokens": 412_331.0,
                "generation_tokens": None,
                "ttft": None,
                "itl": None,
            },
            id="sglang-02 is a prefill process that waits for handshakes and transfers",
        ),
        pytest.param(
            "sglang-04",
            {
                "running_requests": 66.0,
                "waiting_requests": 6.0,
                "computed_prompt_tokens": 4 * 412_331.0,
                "generation_tokens": 4 * 91_822.0,
                "kv_cache_usage": 0.73,
            },
            id="sglang-04 sums four data-parallel ranks and takes the fullest",
        ),
        pytest.param(
            "sglang-05",
            {"running_requests": None, "waiting_requests": None},
            id="sglang-05 lacks ranks, so its queue is unknown, not short",
        ),
        pytest.param(
            "sglang-06",
            {
                "models": ("example/Llama-3.2-3B",),
                "computed_prompt_tokens": 230_794.0,
                "quality": frozenset({Quality.FINISH_TIME_COUNTERS, Quality.CACHED_TOKENS_UNKNOWN}),
            },
            id="sglang-06 names its model by an old label",
        ),
        pytest.param(
            "sglang-08",
            {
                "running_requests": 2.0,
                "waiting_requests": 0.0,
                "in_flight_requests": 2.0,
                "finished_requests": 38.0,
                "computed_prompt_tokens": None,
                "generation_tokens": None,
            },
            id="sglang-08 is an encoder: what it received and has not ended is in flight",
        ),
    ],
)
def test_known_truth(name: str, expected: dict[str, object]) -> None:
    reading = read(name)
    assert {field: getattr(reading, field) for field in expected} == expected


@pytest.mark.parametrize(
    ("left_out", "running"),
    [
        pytest.param(b"sglang:encoder_requests_total", 40.0, id="none has ended yet"),
        pytest.param(b"sglang:encoder_requests_received_total", None, id="what came in is not told"),
    ],
)
def test_an_encoder_is_busy_until_what_it_received_has_ended(left_out: bytes, running: float | None) -> None:
    body = without(dumps.dump("sglang-08"), left_out)
    if running is None:
        assert READER.read(body).in_flight_requests is None
    else:
        assert READER.read(body, role=Role.ENCODE).in_flight_requests == running


def test_an_encoder_that_ended_more_than_it_received_is_not_idle_but_unknown() -> None:
    body = dumps.dump("sglang-08").replace(b'model-8b"} 40.0', b'model-8b"} 7.0')
    reading = READER.read(body, role=Role.ENCODE)
    assert reading.in_flight_requests is None
    missing = reading.why_missing("running_requests")
    assert missing is not None
    assert missing.reason is MissingReason.INCONSISTENT


def test_histograms_are_summed_over_engines() -> None:
    reading = read("vllm-05")
    assert reading.ttft is not None
    assert reading.itl is not None
    assert reading.ttft.count == 17.0
    assert reading.ttft.sum == pytest.approx(2.127979040145874 + 1.7986204624176025)
    assert dict(reading.ttft.buckets)[0.25] == 8.0
    assert reading.ttft.buckets[-1] == (math.inf, 17.0)
    assert (
        reading.itl.count == reading.generation_tokens - reading.ttft.count - 4
    )  # 4 requests have no second token yet


def test_histograms_are_summed_over_streaming_and_not() -> None:
    reading = read("sglang-01")
    assert reading.ttft is not None
    assert (reading.ttft.count, len(reading.ttft.buckets)) == (400.0, 19)


@pytest.mark.parametrize("path", dumps.FILES, ids=lambda path: path.name)
def test_every_recorded_body_gives_a_reading_or_a_refusal(path: Path) -> None:
    engine = path.name.partition("-")[0]
    if engine in ("vllm", "sglang") and "router" not in path.name and not path.name.startswith("vllm-15"):
        assert READER.read(dumps.read(path)).engine == engine
        return
    with pytest.raises(BodyRefused) as refused:
        READER.read(dumps.read(path))
    expected = Reason.MALFORMED if path.name.startswith("vllm-15") else Reason.NO_ENGINE_SERIES
    assert refused.value.reason is expected


@pytest.mark.parametrize("path", dumps.FILES, ids=lambda path: path.name)
def test_every_missing_value_has_exactly_one_reason(path: Path) -> None:
    try:
        reading = READER.read(dumps.read(path))
    except BodyRefused:
        return
    optional = [field for field in reading.__struct_fields__ if getattr(reading, field) is None]
    assert [missing.field for missing in reading.missing] == optional
    assert all(missing.detail for missing in reading.missing)


def test_the_order_of_families_and_ranks_does_not_matter() -> None:
    for name in ("vllm-05", "sglang-04"):
        lines = dumps.dump(name).splitlines(keepends=True)
        assert READER.read(b"".join(reversed(lines))) == read(name)


def test_metadata_lines_do_not_matter() -> None:
    for name in ("vllm-05", "sglang-04"):
        lines = [line for line in dumps.dump(name).splitlines(keepends=True) if not line.startswith(b"#")]
        assert READER.read(b"".join(lines)) == read(name)


def test_older_vllm_is_read_by_what_the_prefix_cache_missed() -> None:
    """0.32 prints both, so the fallback can be checked: it is ahead only by requests without a first token."""
    for record in dumps.restart_series():
        if "text" not in record:
            continue
        body = record["text"].encode()
        newest = READER.read(body)
        older = READER.read(without(body, b"vllm:prompt_tokens_by_source", b"vllm:prompt_tokens_cached"))
        assert older.counter_basis == "prefix_cache_queries"
        assert Quality.PROMPT_TOKENS_WHEN_SCHEDULED in older.quality
        assert newest.computed_prompt_tokens is not None
        assert older.computed_prompt_tokens is not None
        assert 0.0 <= older.computed_prompt_tokens - newest.computed_prompt_tokens <= 300.0
    for name in ("vllm-07", "vllm-08"):
        body = without(dumps.dump(name), b"vllm:prompt_tokens_by_source")
        assert READER.read(body).computed_prompt_tokens == read(name).computed_prompt_tokens


def test_before_by_source_a_decode_process_has_no_prefill_work_to_tell() -> None:
    reading = READER.read(without(dumps.dump("vllm-08"), b"vllm:prompt_tokens_by_source"), role=Role.DECODE)
    assert reading.computed_prompt_tokens is None
    missing = reading.why_missing("computed_prompt_tokens")
    assert missing is not None
    assert missing.reason is MissingReason.NOT_THIS_ROLE


def test_without_a_prefix_cache_every_prompt_token_is_computed() -> None:
    body = without(dumps.dump("vllm-02"), b"vllm:prompt_tokens_by_source", b"vllm:prefix_cache_queries")
    body = body.replace(b"\nvllm:prompt_tokens_total", b"\nvllm:prefix_cache_queries_total 0\nvllm:prompt_tokens_total")
    reading = READER.read(body)
    assert (reading.computed_prompt_tokens, reading.counter_basis) == (3_500.0, "prompt_tokens")
    assert Quality.CACHED_TOKENS_UNKNOWN not in reading.quality


def test_roles_change_what_latencies_mean() -> None:
    prefill, decode = read("vllm-07", role=Role.PREFILL), read("vllm-08", role=Role.DECODE)
    assert prefill.itl is None
    assert prefill.ttft is not None
    assert Quality.TTFT_EXCLUDES_PREFILL in decode.quality
    assert Quality.TTFT_EXCLUDES_PREFILL not in prefill.quality


def test_before_kv_fetch_stages_a_decode_process_defers_what_waits_for_blocks() -> None:
    body = without(dumps.dump("vllm-08"), b"vllm:num_requests_kv_fetch_by_stage")
    assert READER.read(body, role=Role.DECODE).kv_waiting_requests == 1.0
    assert READER.read(body, role=Role.SERVER).kv_waiting_requests is None


def test_a_process_whose_statistics_are_off_is_mute_not_idle() -> None:
    lines = [line for line in dumps.dump("vllm-02").splitlines(keepends=True) if b"vllm:" not in line]
    with pytest.raises(BodyRefused) as refused:
        READER.read(b"".join(lines))
    assert refused.value.reason is Reason.NO_ENGINE_SERIES


def test_rates_over_a_restart_are_never_negative_and_each_segment_adds_up() -> None:
    """vllm-10: SIGKILL at 101.3 s, healthy again at 131.4 s."""
    fields = ("computed_prompt_tokens", "cached_prompt_tokens", "generation_tokens", "finished_requests")
    segments: list[list[EngineReading]] = [[]]
    failed = resets = 0
    for record in dumps.restart_series():
        if "text" not in record:
            failed += 1
            continue
        reading = READER.read(record["text"].encode())
        if segments[-1] and reading.process_start_time_seconds != segments[-1][-1].process_start_time_seconds:
            resets += 1
            segments.append([])
        segments[-1].append(reading)
    assert (failed, resets) == (15, 1)
    for segment in segments:
        for field in fields:
            values = [getattr(reading, field) for reading in segment]
            increases = [later - earlier for earlier, later in pairwise(values)]
            assert min(increases) >= 0.0
            assert sum(increases) == values[-1] - values[0]
        for reading in segment:
            assert reading.ttft is not None
            assert reading.itl is not None
            # Every token is a request's first one or ends an interval. A scrape may fall into a step of the batch of 8.
            assert reading.generation_tokens == pytest.approx(reading.ttft.count + reading.itl.count, abs=8)
    assert segments[0][-1].computed_prompt_tokens == 224_655.0
    assert segments[1][0].computed_prompt_tokens == 7_750.0


def without(body: bytes, *names: bytes) -> bytes:
    """The body as a version that does not print these families would have sent it."""
    return b"".join(line for line in body.splitlines(keepends=True) if not line.startswith(names))
