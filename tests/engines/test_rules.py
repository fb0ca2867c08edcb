"""The rules by which samples become a reading, one by one, on small bodies."""

from __future__ import annotations

import pytest

from controller.engines import (
    MissingReason,
)
from tests.engines.reading import RUNNING, read, why

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
