"""Whose series count: models, engines, roles, ranks that sleep, routers."""

from __future__ import annotations

import pytest

from controller.engines import (
    BodyReader,
    Draft,
    EngineReading,
    Family,
    Kind,
    MissingReason,
    Profile,
    Quality,
    Reason,
    Role,
    SleepState,
)
from tests.engines.reading import RUNNING, read, refusal, why

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
