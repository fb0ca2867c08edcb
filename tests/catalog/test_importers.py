"""Every importer on a run of every kind, and on what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catalog.identity import Role, parse_identity
from catalog.importers import FORMATS, ImportOptions, Rule, import_files
from catalog.schema import PointFlag
from tests.catalog import tools
from tests.catalog.importing import OPTIONS, RUN, import_one, rule_of
from tests.catalog.tools import IDENTITY, WRITERS, Run, Writer


def test_every_format_has_a_writer() -> None:
    assert {name for name, _ in WRITERS.values()} == set(FORMATS)


@pytest.mark.parametrize(("format_name", "write"), WRITERS.values(), ids=WRITERS.keys())
def test_every_tool_gives_the_same_point(format_name: str, write: Writer, tmp_path: Path) -> None:
    report = import_one(write(tmp_path, RUN), format_name)
    assert report.refusals == ()
    (profile,) = report.catalog.profiles
    (point,) = profile.points
    assert str(profile.identity) == str(OPTIONS.identity)
    assert point.concurrency == 32
    assert point.total_tokens_per_second == pytest.approx(RUN.total, rel=1e-6)
    assert point.output_tokens_per_second == pytest.approx(RUN.output, rel=1e-6)
    lengths = profile.workload.lengths
    assert lengths == pytest.approx((1024, 256), rel=0.002)
    ttft, per_token = dict(point.ttft), dict(point.per_token)
    for quantile in (50.0, 90.0, 99.0):
        assert ttft[quantile] == pytest.approx(RUN.quantiles(RUN.ttft)[quantile], rel=1e-6)
        assert per_token[quantile] == pytest.approx(RUN.quantiles(RUN.per_token)[quantile], rel=1e-6)


WITH_CONCURRENCY = {name: pair for name, pair in WRITERS.items() if pair[1] is not tools.write_aiperf_csv}


@pytest.mark.parametrize(("format_name", "write"), WITH_CONCURRENCY.values(), ids=WITH_CONCURRENCY.keys())
def test_every_tool_gives_a_curve_over_its_files(format_name: str, write: Writer, tmp_path: Path) -> None:
    paths = [write(tmp_path / str(c), Run(concurrency=c, per_token=10 + c / 8)) for c in (4, 16, 64)]
    report = import_files(paths, format_name, ImportOptions(identity=OPTIONS.identity))
    assert [point.concurrency for profile in report.catalog.profiles for point in profile.points] == [4, 16, 64]


def _only_median(key: str) -> bool:
    return key.startswith("p") and key[1:2].isdigit()


MUTATIONS: dict[str, tuple[dict[str, Any], Rule]] = {
    "nothing completed": (
        tools.vllm_record(RUN, completed=0, output_throughput=0.0, total_token_throughput=0.0),
        Rule.NOTHING_COMPLETED,
    ),
    "one request in ten failed": (tools.vllm_record(RUN, completed=288, failed=32), Rule.FAILURE_RATE),
    "failures derived where no count is written": (
        {k: v for k, v in tools.vllm_record(RUN, completed=288).items() if k != "failed"},
        Rule.FAILURE_RATE,
    ),
    "a zero median": (tools.vllm_record(RUN, median_ttft_ms=0.0), Rule.NOT_POSITIVE),
    "a negative throughput": (tools.vllm_record(RUN, output_throughput=-5.0), Rule.NOT_POSITIVE),
    "a throughput that is NaN": (tools.vllm_record(RUN, output_throughput=float("nan")), Rule.NOT_FINITE),
    "an infinite latency": (tools.vllm_record(RUN, p99_ttft_ms=float("inf")), Rule.NOT_FINITE),
    "a throughput that is a list": (tools.vllm_record(RUN, output_throughput=[1]), Rule.MALFORMED),
    "output above total": (tools.vllm_record(RUN, total_token_throughput=RUN.output / 2), Rule.TOKEN_SUM),
    "output stored as total": (tools.vllm_record(RUN, total_token_throughput=RUN.output), Rule.TOKEN_RATIO),
    "a table of another workload": (
        tools.vllm_record(RUN, total_input_tokens=RUN.requests * 4096),
        Rule.TOKEN_RATIO,
    ),
    "p99 below p90": (tools.vllm_record(RUN, p90_itl_ms=50.0), Rule.DECREASING_QUANTILES),
    "a median far above the mean": (tools.vllm_record(RUN, mean_ttft_ms=50.0), Rule.SKEWED_MEDIAN),
    "medians only": (
        {k: v for k, v in tools.vllm_record(RUN).items() if not _only_median(k)},
        Rule.TAIL_QUANTILE_MISSING,
    ),
    "throughput of eight accelerators in one row": (
        tools.vllm_record(RUN, output_throughput=RUN.output * 8, total_token_throughput=RUN.total * 8),
        Rule.LITTLES_LAW,
    ),
    "a run that hung": (tools.vllm_record(RUN, mean_e2el_ms=RUN.end_to_end * 40), Rule.LITTLES_LAW),
    "latencies that do not add up": (
        tools.vllm_record(RUN, mean_tpot_ms=RUN.per_token / 2, mean_itl_ms=RUN.per_token / 2),
        Rule.END_TO_END,
    ),
    "a served name of another model": (tools.vllm_record(RUN, model_id="Qwen/Qwen3-32B"), Rule.IDENTITY_CONTRADICTED),
    "a speculative run": (tools.vllm_record(RUN, spec_decode_acceptance_rate=0.7), Rule.SPECULATIVE),
    "a result of another tool": (tools.sglang_record(RUN), Rule.NOT_THIS_FORMAT),
}


@pytest.mark.parametrize(("record", "rule"), MUTATIONS.values(), ids=MUTATIONS.keys())
def test_broken_run_is_refused_by_its_rule(record: dict[str, Any], rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(record))
    assert rule_of(import_one(path, "vllm")) is rule


INFERENCEX: dict[str, tuple[dict[str, Any], Rule]] = {
    "per-accelerator numbers that do not add up": ({"input_tput_per_gpu": 1.0}, Rule.TOKEN_SUM),
    "an absent output throughput": ({"output_tput_per_gpu": None}, Rule.MISSING_VALUE),
    "an unknown hardware": ({"hw": "950dt"}, Rule.UNKNOWN_HARDWARE),
    "an unknown framework": ({"framework": "tilert"}, Rule.UNKNOWN_ENGINE),
    "an unknown precision": ({"precision": "fp6"}, Rule.UNKNOWN_PRECISION),
    "a mount path that no table knows": ({"model": "/models/DeepSeek-R1"}, Rule.UNKNOWN_MODEL),
    "speculative decoding": ({"spec_decoding": "mtp"}, Rule.SPECULATIVE),
    "the old speculative switch": ({"spec_decoding": None, "mtp": "on"}, Rule.SPECULATIVE),
    "a disaggregated pair": (
        {"disagg": True, "num_prefill_gpu": 1, "num_decode_gpu": 1, "tput_per_gpu": RUN.total / 2},
        Rule.DISAGGREGATED,
    ),
    "an orchestrator without the flag": ({"disagg": None, "framework": "dynamo-trt"}, Rule.DISAGGREGATED),
    "an agentic trace": ({"users": 4}, Rule.AGENTIC),
    "a flag that is no boolean": ({"dp_attention": "maybe"}, Rule.MALFORMED),
    "a field that is a list": ({"image": ["x"]}, Rule.MALFORMED),
    "an identity that the person contradicts": ({"hw": "h100"}, Rule.IDENTITY_CONTRADICTED),
}


@pytest.mark.parametrize(("changes", "rule"), INFERENCEX.values(), ids=INFERENCEX.keys())
def test_inferencex_row_is_refused_by_its_rule(changes: dict[str, Any], rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / "agg_bmk.json"
    path.write_text(json.dumps([tools.inferencex_row(RUN, **changes)]))
    assert rule_of(import_one(path, "inferencex")) is rule


PARALLEL: dict[str, tuple[dict[str, Any], str]] = {
    "SGLang runs attention data parallelism inside the tensor ranks": (
        {"framework": "sglang", "tp": 8, "ep": 8, "dp_attention": "true"},
        "gpus=8,tp=8,ep=8,pp=1,dp=8,ldp=1,cp=1",
    ),
    "vLLM recipes run data parallel ranks of one accelerator with experts across them": (
        {"framework": "vllm", "tp": 8, "ep": 1, "dp_attention": True},
        "gpus=8,tp=1,ep=8,pp=1,dp=8,ldp=1,cp=1",
    ),
    "text false is false": ({"tp": 4, "dp_attention": "False"}, "gpus=4,tp=4,ep=1,pp=1,dp=1,ldp=1,cp=1"),
    "pipeline and prefill context parallelism widen the replica": (
        {"tp": 2, "pp": 2, "pcp_size": 2},
        "gpus=8,tp=2,ep=1,pp=2,dp=1,ldp=1,cp=2",
    ),
    "decode context parallelism does not": ({"tp": 4, "dcp_size": 2}, "gpus=4,tp=4,ep=1,pp=1,dp=1,ldp=1,cp=2"),
}


@pytest.mark.parametrize(("changes", "parallel"), PARALLEL.values(), ids=PARALLEL.keys())
def test_inferencex_degrees(changes: dict[str, Any], parallel: str, tmp_path: Path) -> None:
    row = tools.inferencex_row(RUN, **changes)
    gpus = int(parallel.split(",", maxsplit=1)[0].removeprefix("gpus="))
    for key in ("tput_per_gpu", "output_tput_per_gpu", "input_tput_per_gpu"):
        row[key] /= gpus
    path = tmp_path / "agg_bmk.json"
    path.write_text(json.dumps([row]))
    report = import_one(path, "inferencex", ImportOptions())
    assert report.refusals == ()
    assert str(report.catalog.profiles[0].parallel) == parallel
    assert report.catalog.profiles[0].points[0].total_tokens_per_second == pytest.approx(RUN.total, rel=1e-6)


def test_chunked_gaps_are_flagged_and_tpot_answers_for_them(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    gaps = {f"p{q}_itl_ms": 100.0 * n for n, q in enumerate((90, 95, 99, "99.9"), 1)}
    path.write_text(json.dumps(tools.vllm_record(RUN, median_itl_ms=100.0, mean_itl_ms=100.0, **gaps)))
    (point,) = import_one(path, "vllm").catalog.profiles[0].points
    assert point.flags == (PointFlag.CHUNKED_ITL,)
    assert point.per_token == point.tpot
    assert point.itl[0] == (50.0, 100.0)


def test_one_realised_length_apart_is_one_workload_and_another_length_is_another(tmp_path: Path) -> None:
    for index, (c, tokens) in enumerate(((4, 1023), (8, 1024), (16, 4096))):
        run = Run(concurrency=c, input_tokens=tokens)
        (tmp_path / f"{index}.json").write_text(json.dumps(tools.vllm_record(run)))
    report = import_files(sorted(tmp_path.glob("*.json")), "vllm", ImportOptions(identity=OPTIONS.identity))
    curves = {p.workload.label: [point.concurrency for point in p.points] for p in report.catalog.profiles}
    assert curves == {"1024/256": [4, 8], "4096/256": [16]}


def test_stated_lengths_must_be_near_the_realised_ones(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(tools.vllm_record(RUN)))
    near = ImportOptions(identity=OPTIONS.identity, input_tokens=1100, output_tokens=256)
    assert import_one(path, "vllm", near).catalog.profiles[0].workload.label == "1100/256"
    far = ImportOptions(identity=OPTIONS.identity, input_tokens=2048, output_tokens=256)
    assert rule_of(import_one(path, "vllm", far)) is Rule.LENGTH_MISMATCH


def test_open_loop_takes_the_mean_in_flight_and_refuses_overload(tmp_path: Path) -> None:
    path = tmp_path / "stage_0_lifecycle_metrics.json"
    rate = RUN.requests_per_second
    path.write_text(json.dumps(tools.inference_perf_stage(RUN, {"requested_rate": rate, "achieved_rate": rate})))
    (point,) = import_one(path, "inference-perf").catalog.profiles[0].points
    assert point.concurrency == 32
    path.write_text(json.dumps(tools.inference_perf_stage(RUN, {"requested_rate": rate * 1.5})))
    assert rule_of(import_one(path, "inference-perf")) is Rule.OVERLOADED


STRATEGIES: dict[str, tuple[dict[str, Any], int | Rule]] = {
    "streams of a concurrent strategy": ({"type_": "concurrent", "streams": 32}, 32),
    "the limit of a throughput strategy": ({"type_": "throughput", "max_concurrency": 32}, 32),
    "a rate takes the mean in flight, not its internal cap": (
        {"type_": "constant", "rate": RUN.requests_per_second, "max_concurrency": 10240},
        32,
    ),
    "a rate beyond what was served": ({"type_": "poisson", "rate": RUN.requests_per_second * 2}, Rule.OVERLOADED),
    "a throughput strategy without a limit": (
        {"type_": "throughput", "max_concurrency": None},
        Rule.CONCURRENCY_UNKNOWN,
    ),
    "an unknown strategy": ({"type_": "zigzag"}, Rule.MALFORMED),
}


@pytest.mark.parametrize(("strategy", "expected"), STRATEGIES.values(), ids=STRATEGIES.keys())
def test_guidellm_axis_depends_on_the_strategy(strategy: dict[str, Any], expected: int | Rule, tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(tools.guidellm_report(tools.guidellm_benchmark(RUN, strategy))))
    report = import_one(path, "guidellm", ImportOptions(identity=OPTIONS.identity))
    if isinstance(expected, Rule):
        assert rule_of(report) is expected
    else:
        assert report.catalog.profiles[0].points[0].concurrency == expected


LLM_D: dict[str, tuple[dict[str, Any], Rule]] = {
    "a prefill engine": ({"role": "prefill"}, Rule.DISAGGREGATED),
    "an unknown accelerator": ({"accelerator": {"model": "NVIDIA-A100-SXM4-80GB", "count": 1}}, Rule.UNKNOWN_HARDWARE),
    "a slower board": ({"accelerator": {"model": "NVIDIA-H100-NVL", "count": 1}}, Rule.UNKNOWN_HARDWARE),
}


@pytest.mark.parametrize(("changes", "rule"), LLM_D.values(), ids=LLM_D.keys())
def test_llm_d_report_is_refused_by_its_rule(changes: dict[str, Any], rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(tools.llm_d_report(RUN, **changes)))
    assert rule_of(import_one(path, "llm-d", ImportOptions())) is rule


def test_llm_d_report_needs_no_identity_from_the_person(tmp_path: Path) -> None:
    report = import_one(tools.write_llm_d(tmp_path, RUN), "llm-d", ImportOptions())
    assert str(report.catalog.profiles[0].identity) == str(OPTIONS.identity)
    assert report.catalog.profiles[0].source.run == "38b1"


def test_a_file_without_identity_names_what_it_lacks(tmp_path: Path) -> None:
    report = import_one(tools.write_vllm(tmp_path, RUN), "vllm", ImportOptions())
    assert rule_of(report) is Rule.IDENTITY_MISSING
    assert "role, model, quantization, engine, hardware, gpus, tp" in report.refusals[0].detail


def test_a_folder_named_after_a_speculative_method_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "vllm+eagle3" / "results"
    folder.mkdir(parents=True)
    assert rule_of(import_one(tools.write_guidellm(folder, RUN), "guidellm")) is Rule.SPECULATIVE


def test_a_prefill_run_of_one_token_needs_no_time_per_token(tmp_path: Path) -> None:
    run = Run(output_tokens=1)
    zeros = {key: 0.0 for key in tools.vllm_record(run) if "_tpot_" in key or "_itl_" in key}
    path = tmp_path / "prefill.json"
    path.write_text(json.dumps(tools.vllm_record(run, **zeros)))
    prefill = ImportOptions(identity=parse_identity(IDENTITY.replace("Server", "Prefill")))
    (profile,) = import_one(path, "vllm", prefill).catalog.profiles
    assert (profile.role, profile.points[0].per_token) == (Role.PREFILL, ())
    assert rule_of(import_one(path, "vllm")) is Rule.NOT_POSITIVE


def test_a_decode_run_needs_no_ttft(tmp_path: Path) -> None:
    record = {key: value for key, value in tools.vllm_record(RUN).items() if "ttft" not in key}
    path = tmp_path / "decode.json"
    path.write_text(json.dumps(record))
    decode = ImportOptions(identity=parse_identity(IDENTITY.replace("Server", "Decode")))
    (profile,) = import_one(path, "vllm", decode).catalog.profiles
    assert (profile.role, profile.points[0].ttft) == (Role.DECODE, ())
    assert rule_of(import_one(path, "vllm")) is Rule.MISSING_VALUE


def test_an_early_aiperf_report_is_read_from_its_records(tmp_path: Path) -> None:
    records = {
        {"time_to_first_token": "ttft"}.get(key, key): value
        for key, value in tools.aiperf_document(RUN).items()
        if isinstance(value, dict)
        and "avg" in value
        and "sequence_length" not in key
        and key != "total_token_throughput"
    }
    records |= {
        "total_isl": {"unit": "tokens", "avg": RUN.requests * RUN.input_tokens},
        "total_osl": {"unit": "tokens", "avg": RUN.requests * RUN.output_tokens},
        "benchmark_duration": {"unit": "sec", "avg": RUN.duration},
    }
    path = tmp_path / "profile_export_aiperf.json"
    path.write_text(json.dumps({"records": records, "input_config": {"loadgen": {"concurrency": 32}}}))
    (profile,) = import_one(path, "aiperf").catalog.profiles
    assert profile.workload.label == "1024/256"
    assert profile.points[0].total_tokens_per_second == pytest.approx(RUN.total, rel=1e-6)


def test_a_line_that_repeats_another_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(json.dumps(tools.sglang_record(RUN)) for _ in range(2)))
    report = import_files([path], "sglang", OPTIONS)
    assert report.imported == 1
    assert [refusal.rule for refusal in report.refusals] == [Rule.DUPLICATE]
    assert report.refusals[0].row == "line 2"


def test_progress_counts_files_and_rows(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    paths = [tools.write_inferencex(tmp_path / str(n), RUN) for n in range(3)]
    import_files(paths, "inferencex", OPTIONS, progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 3, 1), (2, 3, 2), (3, 3, 3)]


def test_an_import_does_not_depend_on_the_order_of_its_files(tmp_path: Path) -> None:
    paths = [
        tools.write_inferencex(tmp_path / f"run_{20667906000 + n}", Run(concurrency=c, per_token=10 + n))
        for n, c in enumerate((4, 8, 4, 8, 16))
    ]
    forward = import_files(paths, "inferencex", OPTIONS)
    backward = import_files(paths[::-1], "inferencex", OPTIONS)
    assert forward.catalog == backward.catalog
    assert [point.concurrency for point in forward.catalog.profiles[0].points] == [4, 8, 16]


def test_a_name_inside_a_file_does_not_move_the_cursor(tmp_path: Path) -> None:
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"a\x1b[2J": [tools.inferencex_row(Run(), conc=-1)]}))
    (refusal,) = import_files([path], "inferencex", ImportOptions()).refusals
    assert str(refusal).isprintable()
    assert refusal.row == "a\\u001b[2J row 0"
