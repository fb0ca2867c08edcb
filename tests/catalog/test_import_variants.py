"""The same tools in other versions, other settings and other hands: the right point, or a refusal by the right rule."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.identity import parse_identity
from catalog.importers import ImportOptions, Rule, import_files
from tests.catalog import tools
from tests.catalog.tools import IDENTITY, Run

RUN = Run()
SGLANG = IDENTITY.replace("/vllm/", "/sglang/")


def _with(document: Any, path: str, value: Any) -> Any:
    """A copy with the value at a dotted path set, making the objects on the way."""
    changed = copy.deepcopy(document)
    *parents, last = path.split(".")
    holder = changed
    for part in parents:
        holder = holder[int(part)] if isinstance(holder, list) else holder.setdefault(part, {})
    if value is None:
        holder.pop(last, None)
    else:
        holder[last] = value
    return changed


def _guidellm_02(**totals: int) -> dict[str, Any]:
    """The layout up to 0.3: the strategy under `args`, the totals beside the metrics."""
    benchmark = tools.guidellm_benchmark(RUN, {"type_": "concurrent", "streams": RUN.concurrency})
    strategy = benchmark.pop("config")["strategy"]
    metrics = benchmark["metrics"]
    metrics.pop("request_totals", None)
    metrics.pop("prompt_tokens_per_second")
    made = {"successful": RUN.requests, "errored": 0, "incomplete": 0, "total": RUN.requests} | totals
    return {
        "benchmarks": [
            benchmark
            | {"args": {"strategy": strategy}, "request_totals": made, "run_stats": {"requests_made": made}}
            | {"request_loader": {"data": "prompt_tokens=1024,output_tokens=256"}}
        ]
    }


def _inference_perf_server_counts(cached: float) -> dict[str, Any]:
    """After 0.6.1: `prompt_tokens` in place of `prompt_len`; the client's count of the answers is 8 % too low."""
    stage = tools.inference_perf_stage(RUN, {"count": RUN.requests, "requested_rate": 9, "concurrency": 32})
    successes = stage["successes"]
    del successes["prompt_len"]
    total = RUN.requests * RUN.input_tokens
    successes["prompt_tokens"] = {"total": total, "cached": cached * total, "mean": RUN.input_tokens}
    successes["output_len"] = {"mean": RUN.output_tokens * 0.92}
    successes["output_tokens"] = {"total": 1.0, "mean": RUN.output_tokens}
    return stage


def _aiperf_phases(*phases: dict[str, Any]) -> dict[str, Any]:
    config = {"models": {"items": [{"name": "Qwen/Qwen3-8B"}]}, "phases": list(phases)}
    return tools.aiperf_document(RUN, input_config=config)


def _genai(config: dict[str, Any] | None = None) -> dict[str, Any]:
    document = {key: value for key, value in tools.aiperf_document(RUN).items() if key != "aiperf_version"}
    stimulus = {"perf_analyzer": {"stimulus": {"concurrency": RUN.concurrency}}}
    return document | {"input_config": stimulus | (config or {})}


def _lines(*records: Any) -> str:
    return "\n".join(record if isinstance(record, str) else json.dumps(record) for record in records)


INFO = {"model_path": "Qwen/Qwen3-8B", "tp_size": 1, "dp_size": 1, "version": "0.5.4", "kv_cache_dtype": "auto"}
SERVER = {"enforce_eager": False, "kv_cache_dtype": "auto", "max_num_seqs": 64, "enable_lora": False, "dtype": "auto"}
MEASURED = {"name": "profiling", "type": "concurrency", "concurrency": 32, "requests": 320}

IMPORTED: dict[str, tuple[str, Any]] = {
    "a vLLM sweep with settings of the server that leave it plain": ("vllm", tools.vllm_record(RUN) | SERVER),
    "a vLLM sweep with degrees in dashes": ("vllm", tools.vllm_record(RUN) | {"tensor-parallel-size": 1, "dp": "1"}),
    "a vLLM result with client queue times and probes": (
        "vllm",
        tools.vllm_record(RUN, p99_client_queue_time_ms=9e5, p99_e2el_including_client_queue_ms=9e5, probe_failed=3),
    ),
    "a vLLM result in strings, as a shell script writes it": (
        "vllm",
        {k: str(v) if isinstance(v, int | float) else v for k, v in tools.vllm_record(RUN).items()},
    ),
    "a vLLM result without speculation, which a sweep writes out": (
        "vllm",
        tools.vllm_record(RUN, speculative_config=None, num_speculative_tokens=0),
    ),
    "a vLLM result with unknown standard deviations": ("vllm", tools.vllm_record(RUN, std_itl_ms=float("nan"))),
    "an SGLang server that says what it is": ("sglang", tools.sglang_record(RUN, server_info=INFO)),
    "an SGLang result with statistics of its peaks": (
        "sglang",
        tools.sglang_record(RUN, max_output_tokens_per_s=9e9, max_concurrent_requests=9e9),
    ),
    "a guidellm report up to 0.3": ("guidellm", _guidellm_02()),
    "an inference-perf stage that counts by the server": ("inference-perf", _inference_perf_server_counts(0.0)),
    "an AIPerf export with phases": ("aiperf", _aiperf_phases(MEASURED)),
    "an AIPerf export with a warm-up phase": (
        "aiperf",
        _aiperf_phases({"name": "warmup", "concurrency": 4}, MEASURED),
    ),
    "an AIPerf export with an empty pool of prefixes": (
        "aiperf",
        _with(tools.aiperf_document(RUN), "input_config.input.prompt.prefix_prompt", {"pool_size": 0, "length": 0}),
    ),
    "an AIPerf export in seconds": (
        "aiperf",
        _with(
            tools.aiperf_document(RUN),
            "time_to_first_token",
            {k: "sec" if k == "unit" else v / 1000 for k, v in tools.aiperf_document(RUN)["time_to_first_token"].items()},
        ),
    ),
    "a GenAI-Perf export with its defaults": (
        "genai-perf",
        _genai({"input": {"num_dataset_entries": 1000, "prefix_prompt": {"num": 0, "length": 100}}}),
    ),
    "an InferenceX row in a file of lines": ("inferencex", _lines(tools.inferencex_row(RUN), tools.inferencex_row(RUN, disagg="true"))),
    "an InferenceX row with a time for a day": ("inferencex", [tools.inferencex_row(RUN, date="2026-05-17T00:00:00.000Z")]),
    "an InferenceX row in strings": (
        "inferencex",
        [{k: str(v) if isinstance(v, int | float) else v for k, v in tools.inferencex_row(RUN).items()}],
    ),
    "an llm-d report of an engine with plain settings": (
        "llm-d",
        _with(
            tools.llm_d_report(RUN),
            "scenario.stack.0.native.args",
            {"--kv-cache-dtype": "auto", "--max-num-seqs": 256, "--no-enable-log-requests": None, "--dtype": "bfloat16"},
        ),
    ),
    "a vLLM file of lines of which a killed run cut the last": (
        "vllm",
        _lines(tools.vllm_record(RUN), tools.vllm_record(Run(concurrency=16)), '{"date": "2026'),
    ),
}  # fmt: skip


def _import(format_name: str, document: Any, folder: Path, name: str = "result.json", **options: Any) -> Any:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    engine = SGLANG if format_name == "sglang" else IDENTITY
    stated = None if format_name in ("llm-d", "inferencex") else parse_identity(engine)
    return import_files([path], format_name, ImportOptions(identity=stated, **options))


@pytest.mark.parametrize(("format_name", "document"), IMPORTED.values(), ids=IMPORTED.keys())
def test_a_variant_of_a_plain_run_gives_its_point(format_name: str, document: Any, tmp_path: Path) -> None:
    report = _import(format_name, document, tmp_path)
    assert report.imported >= 1, [str(refusal) for refusal in report.refusals]
    (profile,) = report.catalog.profiles
    point = next(point for point in profile.points if point.concurrency == RUN.concurrency)
    assert str(profile.identity).startswith(SGLANG if format_name == "sglang" else IDENTITY)
    assert profile.workload.mean_input_tokens in (None, pytest.approx(RUN.input_tokens, rel=0.001))
    assert point.total_tokens_per_second == pytest.approx(RUN.total, rel=1e-4)
    assert point.output_tokens_per_second == pytest.approx(RUN.output, rel=1e-4)
    assert dict(point.ttft)[50.0] == pytest.approx(RUN.ttft)
    assert dict(point.ttft)[99.0] == pytest.approx(RUN.ttft * 2)
    assert dict(point.per_token)[50.0] == pytest.approx(RUN.per_token)


REFUSED: dict[str, tuple[str, Any, Rule]] = {
    "a vLLM sweep over the type of the KV cache": ("vllm", tools.vllm_record(RUN, kv_cache_dtype="fp8_e4m3"), Rule.ENGINE_SETTING),
    "the same in dashes": ("vllm", tools.vllm_record(RUN) | {"kv-cache-dtype": "fp8"}, Rule.ENGINE_SETTING),
    "a vLLM sweep without CUDA graphs": ("vllm", tools.vllm_record(RUN, enforce_eager=True), Rule.ENGINE_SETTING),
    "a vLLM sweep with adapters": ("vllm", tools.vllm_record(RUN, enable_lora=True), Rule.ENGINE_SETTING),
    "a vLLM sweep with weights on the host": ("vllm", tools.vllm_record(RUN, cpu_offload_gb=10), Rule.ENGINE_SETTING),
    "a vLLM sweep with speculation": ("vllm", tools.vllm_record(RUN, speculative_config={"method": "ngram"}), Rule.SPECULATIVE),
    "a vLLM sweep over members of the speculation": (
        "vllm",
        tools.vllm_record(RUN) | {"speculative_config.num_speculative_tokens": 3},
        Rule.SPECULATIVE,
    ),
    "a vLLM sweep over quantizations": ("vllm", tools.vllm_record(RUN, quantization="fp8"), Rule.IDENTITY_CONTRADICTED),
    "a vLLM sweep over degrees in dashes": ("vllm", tools.vllm_record(RUN) | {"data-parallel-size": 2}, Rule.IDENTITY_CONTRADICTED),
    "a vLLM sweep with expert parallelism": (
        "vllm",
        tools.vllm_record(RUN, tensor_parallel_size=8, enable_expert_parallel=True),
        Rule.IDENTITY_CONTRADICTED,
    ),
    "a vLLM sweep over shared prefixes": ("vllm", tools.vllm_record(RUN, random_prefix_len=512), Rule.CACHE_HITS),
    "a vLLM sweep over a dataset of prefixes": ("vllm", tools.vllm_record(RUN, dataset_name="prefix_repetition"), Rule.CACHE_HITS),
    "vLLM's client against SGLang": ("vllm", tools.vllm_record(RUN, backend="sglang"), Rule.IDENTITY_CONTRADICTED),
    "vLLM's client against another engine": ("vllm", tools.vllm_record(RUN, backend="tgi"), Rule.UNKNOWN_ENGINE),
    "a request rate that rises": ("vllm", tools.vllm_record(RUN, ramp_up_strategy="linear"), Rule.NOT_A_POINT),
    "a request rate below what the limit lets through": ("vllm", tools.vllm_record(RUN, max_concurrency=256, request_rate=4.0), Rule.LITTLES_LAW),
    "an embedding run": ("vllm", tools.vllm_record(RUN, output_throughput=0, total_output_tokens=0), Rule.NOT_POSITIVE),
    "a latency that is not a number": ("vllm", tools.vllm_record(RUN, p99_ttft_ms=float("nan")), Rule.NOT_FINITE),
    "a latency in words": ("vllm", tools.vllm_record(RUN, p99_ttft_ms="n/a"), Rule.MALFORMED),
    "a quantized repository under a 16-bit identity": ("vllm", tools.vllm_record(RUN, model_id="Qwen/Qwen3-8B-FP8"), Rule.IDENTITY_CONTRADICTED),
    "an SGLang server with another KV cache": (
        "sglang",
        tools.sglang_record(RUN, server_info=INFO | {"kv_cache_dtype": "fp8_e5m2"}),
        Rule.ENGINE_SETTING,
    ),
    "an SGLang server without CUDA graphs": (
        "sglang",
        tools.sglang_record(RUN, server_info=INFO | {"disable_cuda_graph": True}),
        Rule.ENGINE_SETTING,
    ),
    "an SGLang server with adapters": (
        "sglang",
        tools.sglang_record(RUN, server_info=INFO | {"lora_paths": ["a=b"]}),
        Rule.ENGINE_SETTING,
    ),
    "an SGLang result that counts its failures": ("sglang", tools.sglang_record(RUN, num_prompts=400, failed=80), Rule.FAILURE_RATE),
    "an SGLang run that was stopped": ("sglang", tools.sglang_record(RUN, num_prompts=640), Rule.FAILURE_RATE),
    "an SGLang result with the texts of its failures": ("sglang", tools.sglang_record(RUN, errors=["", "boom"] * 40), Rule.FAILURE_RATE),
    "an SGLang run over a trace": ("sglang", tools.sglang_record(RUN, dataset_name="agentic-trace"), Rule.CACHE_HITS),
    "an SGLang run over shared prefixes": ("sglang", tools.sglang_record(RUN, dataset_name="generated_shared_prefix"), Rule.CACHE_HITS),
    "an SGLang router over prefill and decode": (
        "sglang",
        tools.sglang_record(RUN, server_info={"prefill": [INFO], "decode": [INFO]}),
        Rule.DISAGGREGATED,
    ),
    "a guidellm report up to 0.3 whose requests failed": ("guidellm", _guidellm_02(errored=64), Rule.FAILURE_RATE),
    "a guidellm report with a shared prefix on the command line": (
        "guidellm",
        _with(tools.guidellm_report(tools.guidellm_benchmark(RUN)), "args.data", ["prompt_tokens=512,prefix_tokens=512"]),
        Rule.CACHE_HITS,
    ),
    "the same in JSON": (
        "guidellm",
        _with(tools.guidellm_report(tools.guidellm_benchmark(RUN)), "args.data", '{"prompt_tokens": 512, "prefix_tokens": 64}'),
        Rule.CACHE_HITS,
    ),
    "a guidellm replay of a trace": (
        "guidellm",
        tools.guidellm_report(tools.guidellm_benchmark(RUN, {"type_": "trace"})),
        Rule.AGENTIC,
    ),
    "an inference-perf stage whose prompts were cached": ("inference-perf", _inference_perf_server_counts(0.4), Rule.CACHE_HITS),
    "an AIPerf export of two measured phases": (
        "aiperf",
        _aiperf_phases(MEASURED, MEASURED | {"name": "more", "concurrency": 64}),
        Rule.CONCURRENCY_UNKNOWN,
    ),
    "an AIPerf export with a pool of prefixes": (
        "aiperf",
        _with(tools.aiperf_document(RUN), "input_config.input.prompt.prefix_prompt", {"pool_size": 4, "length": 512}),
        Rule.CACHE_HITS,
    ),
    "an AIPerf export of conversations": (
        "aiperf",
        _with(tools.aiperf_document(RUN), "input_config.input.conversation.turn.mean", 3),
        Rule.CACHE_HITS,
    ),
    "an AIPerf export of a trace": (
        "aiperf",
        _with(tools.aiperf_document(RUN), "input_config.input.custom_dataset_type", "mooncake_trace"),
        Rule.CACHE_HITS,
    ),
    "an AIPerf export that sent its prompts again and again": (
        "aiperf",
        _with(tools.aiperf_document(RUN), "input_config.input.conversation.num_dataset_entries", 100),
        Rule.CACHE_HITS,
    ),
    "a GenAI-Perf export with prefixes": (
        "genai-perf",
        _genai({"input": {"prefix_prompt": {"num": 5, "length": 100}}}),
        Rule.CACHE_HITS,
    ),
    "an early GenAI-Perf export with prefixes": ("genai-perf", _genai({"num_prefix_prompts": 5}), Rule.CACHE_HITS),
    "a GenAI-Perf export of another model": ("genai-perf", _genai({"model": ["a/b"]}), Rule.IDENTITY_CONTRADICTED),
    "a GenAI-Perf export of two models": ("genai-perf", _genai({"model": ["a/b", "c/d"]}), Rule.NOT_A_POINT),
    "an llm-d report of an engine with another KV cache": (
        "llm-d",
        _with(tools.llm_d_report(RUN), "scenario.stack.0.native.args", {"--kv-cache-dtype": "fp8"}),
        Rule.ENGINE_SETTING,
    ),
    "an llm-d report of an engine without CUDA graphs": (
        "llm-d",
        json.dumps(tools.llm_d_report(RUN)).replace('"args": {}', '"args": {"--enforce-eager": null}'),
        Rule.ENGINE_SETTING,
    ),
    "an llm-d report of experts that it does not state": (
        "llm-d",
        _with(
            tools.llm_d_report(RUN, accelerator={"model": "NVIDIA-H200", "count": 8, "parallelism": {"tp": 8, "ep": 1}}),
            "scenario.stack.0.native.args",
            {"--tensor-parallel-size": 8, "--enable-expert-parallel": True},
        ),
        Rule.IDENTITY_CONTRADICTED,
    ),
    "an InferenceX row of disaggregated workers, in text": ("inferencex", [tools.inferencex_row(RUN, disagg="True")], Rule.DISAGGREGATED),
    "an InferenceX row of data parallelism that counted one card": (
        "inferencex",
        [tools.inferencex_row(RUN, dp_attention="true")],
        Rule.TOPOLOGY,
    ),
    "an InferenceX row on no accelerator": ("inferencex", [tools.inferencex_row(RUN) | {"tp": None, "decode_tp": 0}], Rule.TOPOLOGY),
    "an InferenceX row on fewer than none": ("inferencex", [tools.inferencex_row(RUN, tp=-1)], Rule.TOPOLOGY),
    "an InferenceX row on more accelerators than there are": ("inferencex", [tools.inferencex_row(RUN, tp=10**30)], Rule.TOPOLOGY),
    "a row of InferenceX's database": (
        "inferencex",
        [{k: v for k, v in tools.inferencex_row(RUN, config_id=4).items() if k not in ("tp", "hw", "model")}],
        Rule.MISSING_VALUE,
    ),
    "an InferenceX row of an early schema with speculation": ("inferencex", [tools.inferencex_row(RUN, spec_decoding=None, mtp="on")], Rule.SPECULATIVE),
    "an InferenceX row whose output stands under its total": ("inferencex", [tools.inferencex_row(RUN, tput_per_gpu=RUN.output, input_tput_per_gpu=None)], Rule.TOKEN_RATIO),
    "an InferenceX row in milliseconds": (
        "inferencex",
        [{k: v * 1000 if k.endswith(("ttft", "tpot", "itl", "e2el")) else v for k, v in tools.inferencex_row(RUN).items()}],
        Rule.LITTLES_LAW,
    ),
    "an InferenceX row without a single latency": (
        "inferencex",
        [{k: v for k, v in tools.inferencex_row(RUN).items() if not k.endswith(("ttft", "tpot", "itl", "e2el"))}],
        Rule.MISSING_VALUE,
    ),
    "an InferenceX row whose repository says another precision": ("inferencex", [tools.inferencex_row(RUN, model="Qwen/Qwen3-8B-FP8")], Rule.IDENTITY_CONTRADICTED),
}  # fmt: skip


@pytest.mark.parametrize(("format_name", "document", "rule"), REFUSED.values(), ids=REFUSED.keys())
def test_a_variant_that_is_no_plain_run_is_refused(format_name: str, document: Any, rule: Rule, tmp_path: Path) -> None:
    report = _import(format_name, document, tmp_path)
    assert [refusal.rule for refusal in report.refusals] == [rule], [str(refusal) for refusal in report.refusals]
    assert report.catalog.profiles == ()


STATED: dict[str, Callable[[], Any]] = {
    name: lambda d=d, f=f: (f, d) for name, (f, d, r) in REFUSED.items() if r is Rule.CACHE_HITS
}


@pytest.mark.parametrize("variant", STATED.values(), ids=STATED.keys())
def test_who_states_that_the_cache_was_off_is_believed(variant: Callable[[], Any], tmp_path: Path) -> None:
    format_name, document = variant()
    assert _import(format_name, document, tmp_path, all_misses=True).imported == 1


def test_a_line_that_was_cut_off_is_one_refusal_and_costs_no_other_line(tmp_path: Path) -> None:
    records = [tools.vllm_record(Run(concurrency=c)) for c in (8, 16, 32)]
    report = _import("vllm", _lines(*records) + '\n{"date": "2026', tmp_path)
    assert (report.read, report.imported) == (4, 3)
    (refusal,) = report.refusals
    assert (refusal.row, refusal.rule) == ("line 4", Rule.UNREADABLE)


@pytest.mark.parametrize("suffix", [".csv", ".yaml", ".html"])
def test_a_table_beside_the_json_names_the_json(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "summary.json").touch()
    (refusal,) = _import("vllm", "a,b\n1,2\n", tmp_path, name=f"summary{suffix}").refusals
    assert refusal.rule is Rule.UNREADABLE
    assert "import summary.json beside it" in refusal.detail


@pytest.mark.parametrize("folder", ["spec-decode", "vllm_spec_decoding", "run-ngram", "specdec"])
def test_a_folder_named_after_speculation_is_refused(folder: str, tmp_path: Path) -> None:
    report = _import("vllm", tools.vllm_record(RUN), tmp_path, name=f"{folder}/result.json")
    assert report.refused == {Rule.SPECULATIVE.value: 1}


@pytest.mark.parametrize("folder", ["spec-none", "specification", "spectrum_decode"])
def test_a_folder_that_only_sounds_like_it_is_not(folder: str, tmp_path: Path) -> None:
    assert _import("vllm", tools.vllm_record(RUN), tmp_path, name=f"{folder}/result.json").imported == 1
