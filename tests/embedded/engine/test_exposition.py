"""The page is the captured one, with our numbers in it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from controller.embedded.engine import EngineConfig, EngineKind, exposition
from controller.embedded.engine.counters import Gauges
from controller.embedded.engine.exposition import Page, Template, format_value
from controller.embedded.engine.vllm import VllmPage, vllm_template
from controller.plant import BatchLimits, ContinuousBatch, ServiceTime

CAPTURE = gzip.decompress((Path(exposition.__file__).parent / "data" / "vllm-v0.32-idle.txt.gz").read_bytes()).decode()


def template(model: str, max_model_len: int, kv_cache_tokens: int) -> Template:
    return vllm_template(EngineKind.SERVER, model, max_model_len, kv_cache_tokens)


def parsed(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def page(model: str = "tiny-llama", max_model_len: int = 2048, names: frozenset[str] | None = None) -> str:
    return Page(template(model, max_model_len, 100_000), 1.75e9).render(names).decode()


def test_an_idle_page_has_the_families_labels_bounds_and_values_of_the_capture() -> None:
    captured = {name: family for name, family in parsed(CAPTURE).items() if name.startswith("vllm:")}
    made = parsed(page())
    assert captured.keys() == made.keys() - {"process_start_time_seconds"}
    for name, family in captured.items():
        if name == "vllm:cache_config_info":
            continue  # its labels carry sizes
        assert (made[name].type, made[name].documentation) == (family.type, family.documentation)
        ours, theirs = made[name].samples, family.samples
        assert [(sample.name, sample.labels) for sample in ours] == [(sample.name, sample.labels) for sample in theirs]
        if not name.endswith("_created"):
            assert [sample.value for sample in ours] == [sample.value for sample in theirs]


def test_creation_times_are_those_of_this_process() -> None:
    families = parsed(page())
    created = [sample for family in families.values() for sample in family.samples if sample.name.endswith("_created")]
    assert len(created) > 40
    assert {sample.value for sample in created} == {1.75e9}
    assert families["process_start_time_seconds"].samples[0].value == 1.75e9


def test_a_model_name_may_hold_anything() -> None:
    name = 'a"b\\c\nd'
    labels = {sample.labels.get("model_name") for family in parsed(page(name)).values() for sample in family.samples}
    assert labels == {name, None}


@pytest.mark.parametrize(
    ("max_model_len", "last"), [pytest.param(2048, 2000, id="as captured"), pytest.param(40_960, 20_000, id="longer")]
)
def test_bounds_of_token_counts_go_up_to_the_models_length(max_model_len: int, last: float) -> None:
    made = template("m", max_model_len, 100_000)
    bounds, _ = made.bounds("vllm:request_prompt_tokens")
    assert bounds[:4] == (1, 2, 5, 10)
    assert bounds[-2:] == (last, float("inf"))
    assert made.bounds("vllm:request_params_n")[0][-2] == 20  # the same series, but not cut at the length
    assert made.bounds("vllm:iteration_tokens_total")[0][-2] == 16384


def test_the_cache_size_is_stated_in_the_info_series() -> None:
    info = parsed(page(max_model_len=1000))["vllm:cache_config_info"].samples[0].labels
    assert (info["kv_cache_size_tokens"], info["num_gpu_blocks"], info["block_size"]) == ("100000", "6250", "16")
    assert info["kv_cache_max_concurrency"] == "100.0"


def test_a_filter_gives_the_named_samples_with_their_headers_and_nothing_else() -> None:
    names = frozenset(
        {"vllm:num_requests_running", "vllm:time_to_first_token_seconds_sum", "vllm:request_success", "x"}
    )
    lines = page(names=names).splitlines()
    assert [line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")] == [
        "vllm:num_requests_running",
        "vllm:time_to_first_token_seconds_sum",
    ]
    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == [
        "vllm:num_requests_running",
        "vllm:time_to_first_token_seconds",
    ]
    assert len(lines) == 6


def test_many_different_filters_do_not_accumulate() -> None:
    subject = Page(template("m", 2048, 100_000), 0.0)
    for number in range(200):
        assert subject.render(frozenset({f"name{number}"})) == b""
    assert len(subject._selections) <= 16


@pytest.mark.parametrize(
    "value", [0, 1, 8, 0.25, 1e-7, 999999, 1000000, 1234567, 1.795957966309613e9, 2.10157568e9, 1e12, 123456789.5]
)
def test_numbers_are_written_as_the_python_client_writes_them(value: float) -> None:
    assert format_value(value) == floatToGoString(value)
    assert float(format_value(value)) == value


def test_counters_move_when_those_of_a_real_engine_do() -> None:
    service = ServiceTime(1000.0, (1, 8), (0.010, 0.010))
    metrics = VllmPage(EngineConfig("m", service, max_model_len=4096), 0.0)
    batch = ContinuousBatch(service, BatchLimits(8, frame_tokens=100), metrics.rank(0))

    def read() -> dict[str, float]:
        body = metrics.render([Gauges(running=batch.running, queued=batch.waiting)])
        return {
            sample.name
            + "".join(sample.labels.get(label, "") for label in ("le", "source", "finished_reason")): sample.value
            for family in parsed(body.decode()).values()
            for sample in family.samples
            if not sample.name.endswith("_created")
        }

    batch.submit("a", 100, 21, now=0.0)
    batch.advance(0.099)
    before = read()
    assert before["vllm:num_requests_running"] == 1
    assert before["vllm:prompt_tokens_total"] == 0  # the prompt is not complete
    batch.advance(0.201)
    during = read()
    assert during["vllm:prompt_tokens_total"] == during["vllm:prompt_tokens_by_source_totallocal_compute"] == 100
    assert during["vllm:generation_tokens_total"] == 11  # one with the prompt, ten steps
    assert during["vllm:time_to_first_token_seconds_count"] == 1
    assert during["vllm:time_to_first_token_seconds_sum"] == pytest.approx(0.100)
    assert during["vllm:inter_token_latency_seconds_count"] == 10
    assert during["vllm:e2e_request_latency_seconds_count"] == 0
    batch.submit("gone", 50, 500, now=0.201)
    batch.advance(0.280)
    batch.abort(batch.submit("never", 10, 10, now=0.280))
    batch.advance(1.0)
    after = read()
    assert after["vllm:request_success_totallength"] == 1
    assert after["vllm:request_success_totalabort"] == 0
    assert after["vllm:e2e_request_latency_seconds_count"] == 1
    assert after["vllm:e2e_request_latency_seconds_sum"] == pytest.approx(0.100 + 0.200 + 0.050, abs=0.011)
    assert after["vllm:request_generation_tokens_bucket20.0"] == 0
    assert after["vllm:request_generation_tokens_bucket50.0"] == 1
    assert after["vllm:prompt_tokens_total"] == 150
