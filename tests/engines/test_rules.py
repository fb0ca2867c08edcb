"""The rules by which samples become a reading, one by one, on small bodies."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.engines import (
    BodyReader,
    BodyRefused,
    Draft,
    EngineReading,
    Family,
    Histogram,
    Kind,
    MissingReason,
    Profile,
    Quality,
    Reason,
    Role,
    SleepState,
)

READER = BodyReader()


def read(text: str, **options: Any) -> EngineReading:
    return READER.read(text.encode(), **options)


def why(text: str, field: str, **options: Any) -> MissingReason:
    reading = read(text, **options)
    assert getattr(reading, field) is None
    missing = reading.why_missing(field)
    assert missing is not None
    return missing.reason


def refusal(text: str, **options: Any) -> BodyRefused:
    with pytest.raises(BodyRefused) as refused:
        read(text, **options)
    return refused.value


RUNNING = "vllm:num_requests_running 3\n"
SGLANG_DECODE = (
    "sglang:num_queue_reqs 1\nsglang:num_decode_prealloc_queue_reqs 2\nsglang:num_decode_transfer_queue_reqs 3\n"
)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        pytest.param("vllm_num_requests_running 3\n", "running_requests", 3.0, id="underscores read like colons"),
        pytest.param(
            "vllm_num_requests_running 3\nvllm:num_requests_running 4\n",
            "running_requests",
            4.0,
            id="two spellings are never added",
        ),
        pytest.param("ray_vllm:num_requests_running 3\n", "running_requests", 3.0, id="Ray Serve's prefix"),
        pytest.param(
            "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n",
            "kv_cache_usage",
            0.25,
            id="0.9.2 prints two names and the newer one wins",
        ),
        pytest.param("vllm:gpu_cache_usage_perc 0.5\n", "kv_cache_usage", 0.5, id="the older name where it is alone"),
        pytest.param(
            "vllm:generation_tokens 7\n", "generation_tokens", 7.0, id="a counter without _total is still that counter"
        ),
        pytest.param(
            "vllm:generation_tokens 7\nvllm:generation_tokens_total 9\n",
            "generation_tokens",
            9.0,
            id="with and without _total are never added",
        ),
        pytest.param(
            'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n',
            "running_requests",
            7.0,
            id="engines are summed",
        ),
        pytest.param(
            'sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3\nsglang:num_running_reqs{dp_rank="1",tp_rank="1"} 4\n',
            "running_requests",
            7.0,
            id="data-parallel ranks are summed even where their tensor ranks differ",
        ),
        pytest.param(
            'sglang:num_running_reqs{tp_rank="0",pp_rank="0"} 3\n'
            'sglang:num_running_reqs{tp_rank="1",pp_rank="0"} 3\n'
            'sglang:num_running_reqs{tp_rank="0",pp_rank="1"} 2\n',
            "running_requests",
            3.0,
            id="tensor and pipeline ranks repeat one number",
        ),
        pytest.param(
            'sglang:num_running_reqs{moe_ep_rank="0"} 3\nsglang:num_running_reqs{moe_ep_rank="1"} 3\n',
            "running_requests",
            3.0,
            id="expert ranks repeat one number",
        ),
        pytest.param(
            'sglang:num_queue_reqs{priority=""} 5\n'
            'sglang:num_queue_reqs{priority="1"} 2\n'
            'sglang:num_queue_reqs{priority="2"} 3\n',
            "waiting_requests",
            5.0,
            id="the total over priorities is not summed with its parts",
        ),
        pytest.param(
            'sglang:num_queue_reqs{priority="1"} 2\nsglang:num_queue_reqs{priority="2"} 3\n',
            "waiting_requests",
            5.0,
            id="priorities without a total are summed",
        ),
        pytest.param(
            'vllm:kv_cache_usage_perc{engine="0",pid="7"} 0.5\nvllm:kv_cache_usage_perc{engine="0",pid="8"} 0.25\n',
            "kv_cache_usage",
            0.5,
            id="a share duplicated by process is not summed",
        ),
        pytest.param(
            'vllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:kv_cache_usage_perc{engine="1"} 0.75\n',
            "kv_cache_usage",
            0.75,
            id="the fullest engine counts",
        ),
        pytest.param(
            'vllm:num_requests_running{pid="7"} 3\nvllm:num_requests_running{pid="8"} 3\n',
            "running_requests",
            3.0,
            id="processes repeat one number",
        ),
        pytest.param(
            RUNNING + RUNNING, "running_requests", 3.0, id="one series printed twice with one value counts once"
        ),
        pytest.param(
            'vllm:request_success_total{finished_reason="stop"} 3\n'
            'vllm:request_success_total{finished_reason="abort"} 1\n',
            "finished_requests",
            4.0,
            id="every way of finishing is finished",
        ),
        pytest.param(
            "vllm:num_requests_waiting 2\nvllm:num_requests_swapped 3\n",
            "waiting_requests",
            5.0,
            id="V0's swapped requests wait, too",
        ),
        pytest.param(
            "sglang:num_queue_reqs 2\nsglang:num_grammar_queue_reqs 3\n",
            "waiting_requests",
            5.0,
            id="requests that wait for a grammar are not in SGLang's queue",
        ),
        pytest.param(
            SGLANG_DECODE,
            "waiting_requests",
            6.0,
            id="a decode process also waits for KV blocks",
        ),
        pytest.param(
            SGLANG_DECODE,
            "kv_waiting_requests",
            5.0,
            id="and says how many do",
        ),
        pytest.param(
            "sglang:num_queue_reqs 1\nsglang:num_prefill_prealloc_queue_reqs 2\n",
            "waiting_requests",
            3.0,
            id="the bootstrap queue by its older name",
        ),
        pytest.param(
            "sglang:num_prefill_infight_queue_reqs 2\n", "handover_requests", 2.0, id="the inflight queue misspelled"
        ),
        pytest.param(
            'sglang:realtime_tokens_total{mode="prefill_compute"} 5\nsglang:prompt_tokens_total 9\n',
            "computed_prompt_tokens",
            5.0,
            id="realtime counters before finish-time counters",
        ),
        pytest.param(
            "sglang:prompt_tokens_total 9\nsglang:cached_tokens_total 4\n",
            "computed_prompt_tokens",
            5.0,
            id="finish-time prompts without what was cached",
        ),
        pytest.param(
            'sglang:prompt_tokens_total{is_streaming="true"} 9\nsglang:prompt_tokens_total{is_streaming="false"} 4\n',
            "computed_prompt_tokens",
            13.0,
            id="streaming and not are summed",
        ),
        pytest.param(
            'vllm:prompt_tokens_by_source_total{source="local_compute"} 5\nvllm:prompt_tokens_total 9\n',
            "computed_prompt_tokens",
            5.0,
            id="prompt tokens by their source",
        ),
        pytest.param(
            "vllm:gpu_prefix_cache_queries_total 9\nvllm:gpu_prefix_cache_hits_total 4\nvllm:prompt_tokens_total 8\n",
            "computed_prompt_tokens",
            5.0,
            id="prefix-cache misses by their older name",
        ),
        pytest.param(
            "process_start_time_seconds 1.7e+09\n" + RUNNING, "process_start_time_seconds", 1.7e9, id="the start time"
        ),
        pytest.param("vllm:kv_cache_usage_perc 1.0000001\n", "kv_cache_usage", 1.0, id="a share a hair above full"),
    ],
)
def test_a_value(text: str, field: str, expected: float) -> None:
    assert getattr(read(text), field) == expected


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        pytest.param(RUNNING, "waiting_requests", MissingReason.ABSENT, id="a family that is absent"),
        pytest.param("vllm:num_requests_running NaN\n", "running_requests", MissingReason.NOT_FINITE, id="NaN"),
        pytest.param("vllm:num_requests_running -nan\n", "running_requests", MissingReason.NOT_FINITE, id="-nan"),
        pytest.param("vllm:num_requests_running +Inf\n", "running_requests", MissingReason.NOT_FINITE, id="infinity"),
        pytest.param(
            "vllm:num_requests_running -1\n", "running_requests", MissingReason.NEGATIVE, id="a negative gauge"
        ),
        pytest.param(
            "vllm:generation_tokens_total -1\n", "generation_tokens", MissingReason.NEGATIVE, id="a negative counter"
        ),
        pytest.param(
            'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} NaN\n',
            "running_requests",
            MissingReason.NOT_FINITE,
            id="one rank that is NaN makes the sum unknown",
        ),
        pytest.param(
            "vllm:kv_cache_usage_perc NaN\nvllm:gpu_cache_usage_perc 0.5\n",
            "kv_cache_usage",
            MissingReason.NOT_FINITE,
            id="a newer name that is NaN is not replaced by an older one",
        ),
        pytest.param("vllm:kv_cache_usage_perc 73\n", "kv_cache_usage", MissingReason.OUT_OF_RANGE, id="a percentage"),
        pytest.param(
            'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1" 4\n',
            "running_requests",
            MissingReason.MALFORMED,
            id="a rank whose line cannot be read",
        ),
        pytest.param(
            "vllm:num_requests_running 3\nvllm:num_requests_running 4\n",
            "running_requests",
            MissingReason.AMBIGUOUS,
            id="one series twice with different values",
        ),
        pytest.param(
            'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_waiting{engine="0"} 0\n'
            'vllm:num_requests_running{engine="1"} 3\n',
            "waiting_requests",
            MissingReason.INCOMPLETE,
            id="a rank that prints one gauge and not the other",
        ),
        pytest.param(
            "sglang:num_queue_reqs 1\nsglang:num_decode_transfer_queue_reqs NaN\n",
            "waiting_requests",
            MissingReason.NOT_FINITE,
            id="a part of the waiting that is unknown",
        ),
        pytest.param(
            'sglang:realtime_tokens_total{mode="prefill_compute"} 5\nsglang:generation_tokens_total 9\n',
            "generation_tokens",
            MissingReason.ABSENT,
            id="no finish-time counter beside realtime ones",
        ),
        pytest.param(
            'vllm:prompt_tokens_by_source_total{source="local_cache_hit"} 5\nvllm:prompt_tokens_total 9\n',
            "computed_prompt_tokens",
            MissingReason.ABSENT,
            id="a source that was not used yet",
        ),
        pytest.param(
            "vllm:prefix_cache_queries_total 4\nvllm:prefix_cache_hits_total 9\nvllm:prompt_tokens_total 8\n",
            "computed_prompt_tokens",
            MissingReason.INCONSISTENT,
            id="more hits than queries",
        ),
        pytest.param(
            "sglang:prompt_tokens_total 4\nsglang:cached_tokens_total 9\n",
            "computed_prompt_tokens",
            MissingReason.INCONSISTENT,
            id="more cached than prompt tokens",
        ),
        pytest.param(
            'process_start_time_seconds{pid="1"} 5\nprocess_start_time_seconds{pid="2"} 6\n' + RUNNING,
            "process_start_time_seconds",
            MissingReason.AMBIGUOUS,
            id="start times of several processes",
        ),
        pytest.param(RUNNING, "handover_requests", MissingReason.ABSENT, id="a field that the engine never prints"),
    ],
)
def test_a_value_that_is_not_observed(text: str, field: str, reason: MissingReason) -> None:
    assert why(text, field) is reason


def test_a_bad_value_costs_its_own_field_only() -> None:
    reading = read("vllm:num_requests_running NaN\nvllm:num_requests_waiting 4\nvllm:generation_tokens_total 5\n")
    assert (reading.running_requests, reading.waiting_requests, reading.generation_tokens) == (None, 4.0, 5.0)
    assert reading.in_flight_requests is None


# ---------------------------------------------------------------- models, engines, routers

TWO_MODELS = (
    'vllm:num_requests_running{model_name="base"} 3\n'
    'vllm:num_requests_running{model_name="adapter"} 4\n'
    'vllm:num_requests_running{model_name="other"} 5\n'
    "process_start_time_seconds 7\n"
)


def test_only_the_series_of_the_served_model_count() -> None:
    reading = read(TWO_MODELS, models=("base",))
    assert (reading.running_requests, reading.models, reading.process_start_time_seconds) == (3.0, ("base",), 7.0)


def test_a_model_and_its_adapters_are_summed() -> None:
    reading = read(TWO_MODELS, models={"base", "adapter", "adapter-never-used"})
    assert (reading.running_requests, reading.models) == (7.0, ("adapter", "base"))


def test_several_models_and_no_name_are_ambiguous() -> None:
    refused = refusal(TWO_MODELS)
    assert refused.reason is Reason.AMBIGUOUS_MODEL
    assert '"adapter", "base", "other"' in refused.message


def test_a_name_the_engine_does_not_use_is_refused_and_says_what_it_uses() -> None:
    refused = refusal(TWO_MODELS, models=("Base",))
    assert refused.reason is Reason.NO_SERIES_FOR_MODEL
    assert '"Base"' in refused.message
    assert '"base"' in refused.message


def test_series_without_a_model_label_belong_to_every_model() -> None:
    assert read(RUNNING, models=("base",)).running_requests == 3.0


def test_the_body_tells_the_engine_and_the_hint_decides_between_two() -> None:
    both = RUNNING + "sglang:num_running_reqs 5\n"
    assert refusal(both).reason is Reason.AMBIGUOUS_ENGINE
    assert read(both, engine="sglang").running_requests == 5.0
    assert read(both, engine="vllm").running_requests == 3.0
    assert read(RUNNING, engine="sglang").engine == "vllm"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('vllm:num_requests_running{server="http://a:8000"} 3\n', id="production-stack's router"),
        pytest.param('sglang_num_running_reqs{worker_addr="http://a:8000"} 3\n', id="the SGLang gateway"),
    ],
)
def test_a_router_that_repeats_engine_series_is_not_an_engine(text: str) -> None:
    assert refusal(text).reason is Reason.ROUTER


def test_the_process_prints_its_role_where_nobody_told_it() -> None:
    text = 'sglang:num_queue_reqs{engine_type="prefill"} 1\nsglang:time_to_first_token_seconds_bucket{le="+Inf"} 1\n'
    assert why(text, "ttft") is MissingReason.NOT_THIS_ROLE
    assert read(text, role=Role.SERVER).ttft is not None


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param({"awake": 1, "weights_offloaded": 0, "discard_all": 0}, SleepState.AWAKE, id="awake"),
        pytest.param(
            {"awake": 0, "weights_offloaded": 1, "discard_all": 0}, SleepState.WEIGHTS_OFFLOADED, id="level 1"
        ),
        pytest.param({"awake": 0, "weights_offloaded": 0, "discard_all": 1}, SleepState.DISCARDED, id="level 2"),
        pytest.param({"awake": 0, "weights_offloaded": 0, "discard_all": 0}, SleepState.ASLEEP, id="neither"),
        pytest.param({"weights_offloaded": 0}, None, id="not told"),
    ],
)
def test_sleep_states(states: dict[str, int], expected: SleepState | None) -> None:
    lines = [
        f'vllm:engine_sleep_state{{engine="0",sleep_state="{state}"}} {value}\n' for state, value in states.items()
    ]
    assert read("".join(lines)).sleep_state is expected


def test_one_sleeping_rank_is_a_sleeping_engine() -> None:
    lines = [f'vllm:engine_sleep_state{{engine="{rank}",sleep_state="awake"}} {1 - rank}\n' for rank in (0, 1)]
    assert read("".join(lines)).sleep_state is SleepState.ASLEEP


def test_finish_time_counters_are_marked() -> None:
    finish_time = read("sglang:prompt_tokens_total 5\nsglang:cached_tokens_total 1\nsglang:generation_tokens_total 9\n")
    assert finish_time.quality == {Quality.FINISH_TIME_COUNTERS}
    realtime = read('sglang:realtime_tokens_total{mode="decode"} 9\n')
    assert realtime.quality == frozenset()
    assert finish_time.counter_basis != realtime.counter_basis


# ---------------------------------------------------------------- histograms


def ttft(*lines: str) -> str:
    return "".join(f"vllm:time_to_first_token_seconds{line}\n" for line in lines)


def test_a_histogram_is_read_in_the_order_of_its_bounds() -> None:
    text = ttft('_bucket{le="+Inf"} 5', '_bucket{le="1e1"} 4', '_bucket{le="0.5"} 2', "_sum 9.5", "_count 5")
    assert read(text).ttft == Histogram(((0.5, 2.0), (10.0, 4.0), (math.inf, 5.0)), 9.5, 5.0)


def test_bounds_are_compared_as_numbers() -> None:
    text = ttft(
        '_bucket{engine="0",le="0.00015000000000000001"} 1',
        '_bucket{engine="0",le="+Inf"} 1',
        '_bucket{engine="1",le="0.00015"} 2',
        '_bucket{engine="1",le="inf"} 3',
    )
    reading = read(text)
    assert reading.ttft == Histogram(((0.00015, 3.0), (math.inf, 4.0)), None, 4.0)
    assert reading.quality == frozenset()


def test_ranks_with_different_bounds_keep_the_common_ones() -> None:
    text = ttft(
        '_bucket{engine="0",le="1"} 1',
        '_bucket{engine="0",le="2"} 2',
        '_bucket{engine="0",le="+Inf"} 3',
        '_bucket{engine="1",le="2"} 4',
        '_bucket{engine="1",le="3"} 5',
        '_bucket{engine="1",le="+Inf"} 6',
        '_sum{engine="0"} 4',
        '_sum{engine="1"} 8',
    )
    reading = read(text)
    assert reading.ttft == Histogram(((2.0, 6.0), (math.inf, 9.0)), 12.0, 9.0)
    assert reading.quality == {Quality.BUCKETS_INTERSECTED}


def test_tensor_ranks_repeat_a_histogram() -> None:
    text = "".join(
        f'sglang:inter_token_latency_seconds_bucket{{tp_rank="{rank}",le="{le}"}} {count}\n'
        for rank in (0, 1)
        for le, count in (("0.01", 4), ("+Inf", 5))
    )
    assert read(text).itl == Histogram(((0.01, 4.0), (math.inf, 5.0)), None, 5.0)


def test_the_newer_latency_wins_and_the_older_one_stands_in() -> None:
    old = 'vllm:time_per_output_token_seconds_bucket{le="+Inf"} 1\n'
    new = 'vllm:inter_token_latency_seconds_bucket{le="+Inf"} 2\n'
    assert read(old).itl == Histogram(((math.inf, 1.0),), None, 1.0)
    assert read(old + new).itl == Histogram(((math.inf, 2.0),), None, 2.0)


def test_a_histogram_without_its_last_bucket_ends_with_its_count() -> None:
    assert read(ttft('_bucket{le="1"} 1', "_count 4")).ttft == Histogram(((1.0, 1.0), (math.inf, 4.0)), None, 4.0)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param(['_bucket{le="1"} 1'], MissingReason.INCOMPLETE, id="neither last bucket nor count"),
        pytest.param(["_count 4", "_sum 3"], MissingReason.INCOMPLETE, id="no buckets"),
        pytest.param(['_bucket{le="1"} 5', '_bucket{le="+Inf"} 4'], MissingReason.INCONSISTENT, id="counts that fall"),
        pytest.param(['_bucket{le="1"} -1', '_bucket{le="+Inf"} 4'], MissingReason.NEGATIVE, id="a negative count"),
        pytest.param(
            ['_bucket{le="1"} NaN', '_bucket{le="+Inf"} 4'], MissingReason.NOT_FINITE, id="a count that is NaN"
        ),
        pytest.param(['_bucket{le="+Inf"} 4', '_bucket{le="+Inf"} 5'], MissingReason.AMBIGUOUS, id="a bucket twice"),
        pytest.param(['_bucket{le="soon"} 4'], MissingReason.MALFORMED, id="a bound that is a word"),
        pytest.param(['_bucket{le="NaN"} 4'], MissingReason.MALFORMED, id="a bound that is NaN"),
        pytest.param(["_bucket 4"], MissingReason.MALFORMED, id="a bucket without a bound"),
        pytest.param(['_bucket{le="+Inf"} 4', "_sum x"], MissingReason.MALFORMED, id="a sum that cannot be read"),
        pytest.param(
            ['_bucket{le="0.001"} 1000', '_bucket{le="+Inf"} 1000', "_sum 900"],
            MissingReason.INCONSISTENT,
            id="minutes in the sum and everything in the first bucket",
        ),
        pytest.param(
            ['_bucket{le="10"} 0', '_bucket{le="+Inf"} 1000', "_sum 0"],
            MissingReason.INCONSISTENT,
            id="slow observations that sum to nothing",
        ),
    ],
)
def test_a_histogram_that_is_not_observed(lines: list[str], reason: MissingReason) -> None:
    assert why(ttft(*lines), "ttft") is reason


def test_a_histogram_survives_a_sum_that_is_nan() -> None:
    assert read(ttft('_bucket{le="+Inf"} 4', "_sum NaN")).ttft == Histogram(((math.inf, 4.0),), None, 4.0)


VLLM_TTFT = Histogram(tuple((bound, 0.0) for bound in (0.25, 0.5, 0.75, 1.0, 2.5, math.inf)), 0.0, 0.0)


@pytest.mark.parametrize(
    ("seconds", "bounds"),
    [
        pytest.param(0.5, (0.25, 0.5), id="a target on a bound is the upper end of its bucket"),
        pytest.param(2.0, (1.0, 2.5), id="a target between bounds cannot be told from either"),
        pytest.param(0.01, (0.0, 0.25), id="the first bucket starts at zero"),
        pytest.param(99.0, (2.5, math.inf), id="beyond the last bound there is no end"),
    ],
)
def test_the_bucket_around_a_target(seconds: float, bounds: tuple[float, float]) -> None:
    assert VLLM_TTFT.bucket_of(seconds) == bounds


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from([0.1, 0.2, 0.5, 1.0]), st.integers(0, 50)), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_summing_ranks_conserves_observations(ranks: list[dict[float, int]], random: Any) -> None:
    """Whatever the bounds and the order of lines: counts never fall, and the total is the sum of the ranks' totals."""
    lines = []
    for rank, buckets in enumerate(ranks):
        below = 0
        for upper, inside in sorted(buckets.items()):
            below += inside
            lines.append(f'_bucket{{engine="{rank}",le="{upper}"}} {below}')
        lines.append(f'_bucket{{engine="{rank}",le="+Inf"}} {below + rank}')
    random.shuffle(lines)
    histogram = read(ttft(*lines)).ttft
    assert histogram is not None
    assert histogram.count == sum(sum(buckets.values()) + rank for rank, buckets in enumerate(ranks))
    counts = [count for _, count in histogram.buckets]
    assert counts == sorted(counts)
    assert {bound for bound, _ in histogram.buckets} == set.intersection(*(set(buckets) for buckets in ranks)) | {
        math.inf
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=5), st.integers(1, 4), st.randoms(use_true_random=False))
def test_gauges_are_summed_over_data_ranks_and_not_over_tensor_ranks(loads: list[int], width: int, random: Any) -> None:
    lines = [
        f'sglang:num_running_reqs{{tp_rank="{rank * width + shard}",dp_rank="{rank}"}} {load}\n'
        for rank, load in enumerate(loads)
        for shard in range(width)
    ]
    random.shuffle(lines)
    assert read("".join(lines)).running_requests == sum(loads)


# ---------------------------------------------------------------- another engine


def test_a_new_engine_is_one_profile() -> None:
    slots = Family(Kind.GAUGE, ("requests_processing",))

    def fill(draft: Draft) -> EngineReading:
        return EngineReading(
            engine="llamacpp", running_requests=draft.take("running_requests", draft.view.total, slots)
        )

    profile = Profile("llamacpp", ("llamacpp:",), (slots,), ("model",), fill)
    reading = BodyReader([profile]).read(b'llamacpp:requests_processing{model="m"} 3\n')
    assert (reading.engine, reading.running_requests, reading.models) == ("llamacpp", 3.0, ("m",))
    assert reading.why_missing("waiting_requests") is not None
