"""Every kind of engine prints the series that a real one was recorded with, no more and no fewer."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.embedded.engine import EngineConfig, EngineDialect, EngineKind
from controller.embedded.engine.counters import EnginePage, Gauges
from controller.embedded.engine.process import make_page
from controller.embedded.engine.streams import Stream
from controller.plant import ContinuousBatch, ServiceTime

RECORDED = Path(__file__).resolve().parents[2] / "data" / "metrics"
SERVICE = ServiceTime(20_000.0, (1, 8), (0.020, 0.024))
Key = tuple[str, tuple[tuple[str, str], ...]]

# Label values that say which model, and how the recorded engine was built.
_NAMES = re.compile(r"^(vllm|sglang):")
_CACHE_INFO = "vllm:cache_config_info"


def recorded(name: str) -> str:
    (path,) = RECORDED.glob(f"{name}-*.txt.gz")
    return gzip.decompress(path.read_bytes()).decode()


def series(text: str) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if _NAMES.match(sample.name):
                labels = () if sample.name == _CACHE_INFO else tuple(sorted(sample.labels.items()))
                assert (sample.name, labels) not in found or sample.name == _CACHE_INFO, "one series twice"
                found[sample.name, labels] = sample.value
    return found


def page_of(config: EngineConfig) -> EnginePage:
    return make_page(config, 1.7e9)


def worked(config: EngineConfig) -> str:
    """The page after some streamed and some whole answers."""
    page = page_of(config)
    for number in range(config.data_parallel):
        batch = ContinuousBatch(config.service, config.limits, page.rank(number))
        prefills, decodes = config.kind is EngineKind.PREFILL, config.kind is EngineKind.DECODE
        requests = [
            batch.submit(Stream(streaming), 100, 1 if prefills else 50, 0.0, remote=decodes, keep=prefills)
            for streaming in (True, False)
        ]
        for request in requests:
            page.rank(number).submitted(request)
        batch.next_event_seconds()
        for request in page.rank(number).take_receiving():
            batch.deliver(request)
        batch.advance(1000.0)
        for request in requests if prefills else ():
            page.rank(number).handed_over(request, 1000.0)
    page.rank(0).aborted(requests[0])
    return page.render([Gauges()] * config.data_parallel).decode()


# SGLang prints cached tokens after the first hit of its cache, which no prompt of ours makes; our encoders keep nothing,
# and neither preprocessing nor the way of the embeddings takes them time.
_UNBORN = {
    "sglang:cached_tokens_total",
    "sglang:realtime_tokens_total/prefill_cache",
    "sglang:encoder_cache_size_mb",
    "sglang:encoder_cache_entries",
}
_UNBORN_FAMILIES = ("sglang:encoder_preprocess_seconds", "sglang:encoder_transfer_seconds")


def born(found: dict[Key, float]) -> set[Key]:
    def is_born(key: Key) -> bool:
        name, labels = key
        if name.startswith(_UNBORN_FAMILIES):
            return False
        return name not in _UNBORN and f"{name}/{dict(labels).get('mode')}" not in _UNBORN

    return {key for key in found if is_born(key)}


@pytest.mark.parametrize(
    ("recording", "model", "changes"),
    [
        pytest.param("vllm-01", "tiny-llama", {}, id="a vLLM server"),
        pytest.param("vllm-07", "tiny-llama", {"kind": EngineKind.PREFILL}, id="a vLLM prefill process"),
        pytest.param("vllm-08", "tiny-llama", {"kind": EngineKind.DECODE}, id="a vLLM decode process"),
        pytest.param("vllm-05", "tiny-llama", {"data_parallel": 2}, id="a vLLM server of two data-parallel ranks"),
        pytest.param("sglang-01", "example/model-8b", {}, id="an SGLang server"),
        pytest.param("sglang-02", "example/model-8b", {"kind": EngineKind.PREFILL}, id="an SGLang prefill process"),
        pytest.param("sglang-04", "example/model-8b", {"data_parallel": 4}, id="an SGLang server of four ranks"),
        pytest.param("sglang-08", "example/model-8b", {"kind": EngineKind.ENCODE}, id="an SGLang encoder"),
    ],
)
def test_a_page_after_work_has_the_series_of_the_recorded_one(
    recording: str, model: str, changes: dict[str, object]
) -> None:
    dialect = EngineDialect.VLLM if recording.startswith("vllm") else EngineDialect.SGLANG
    config = EngineConfig(model, SERVICE, max_model_len=2048, dialect=dialect, **changes)  # type: ignore[arg-type]
    ours, theirs = born(series(worked(config))), born(series(recorded(recording)))
    without_pid = {(name, tuple(pair for pair in labels if pair[0] != "pid")) for name, labels in theirs}
    assert {(name, tuple(pair for pair in labels if pair[0] != "pid")) for name, labels in ours} == without_pid


def test_an_sglang_decode_process_is_a_server_that_says_decode_and_computes_no_prompts() -> None:
    config = EngineConfig("example/model-8b", SERVICE, kind=EngineKind.DECODE, dialect=EngineDialect.SGLANG)
    ours = born(series(worked(config)))
    server = born(series(recorded("sglang-01")))

    def unified(key: Key) -> Key:
        name, labels = key
        changed = {label: "unified" if label == "engine_type" else value for label, value in labels}
        return name, tuple(sorted(changed.items()))

    computed = {key for key in server if dict(key[1]).get("mode") == "prefill_compute"}
    assert len(computed) == 1
    assert {unified(key) for key in ours} == server - computed
    assert {dict(labels)["engine_type"] for _, labels in ours} == {"decode"}


@pytest.mark.parametrize("kind", list(EngineKind))
@pytest.mark.parametrize("dialect", list(EngineDialect))
def test_a_page_before_any_work_counts_nothing(kind: EngineKind, dialect: EngineDialect) -> None:
    config = EngineConfig("m", SERVICE, kind=kind, dialect=dialect, data_parallel=2)
    page = page_of(config)
    text = page.render([Gauges()] * 2).decode()
    counted = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        if family.type in ("counter", "histogram")
        for sample in family.samples
        if sample.value and not sample.name.endswith("_created")
    }
    assert counted == {}
    if (dialect, kind) == (EngineDialect.SGLANG, EngineKind.ENCODE):
        assert text == ""  # every series of it has labels of its own, and none was used
    else:
        assert len(series(text)) > 100


def test_what_describes_an_sglang_engine_fits_its_size() -> None:
    config = EngineConfig("m", SERVICE, dialect=EngineDialect.SGLANG, kv_cache_tokens=64_000, max_model_len=8192)
    shown = {key[0]: value for key, value in series(page_of(config).render([Gauges()]).decode()).items()}
    assert shown["sglang:max_total_num_tokens"] == shown["sglang:kv_available_tokens"] == 64_000
    assert shown["sglang:num_pages"] * shown["sglang:page_size"] == 64_000
    assert shown["sglang:context_len"] == 8192
    assert math.isnan(shown["sglang:fwd_occupancy"])  # as recorded: no device timer
