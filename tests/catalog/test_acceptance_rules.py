"""The twenty acceptance rules for imports, merges and retirements, with the numbers of the public record.

Each test carries the number of its rule. The rows are real (tests/data/priors/samples, with provenance) unless a rule
asks for a kind of which no sample is public.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catalog.canonical import profile_digest
from catalog.identity import Engine, parse_identity
from catalog.importers import ColdTail, ImportOptions, ImportReport, Rule, import_files
from catalog.importers.fields import boolean
from catalog.importers.models import repository
from catalog.merge import merge_catalogs
from catalog.quantiles import read_quantile
from catalog.retire import retire
from catalog.schema import Point, PointFlag, Profile
from tests.catalog import tools
from tests.catalog.builders import DATA
from tests.catalog.tools import IDENTITY, Run

SAMPLES = DATA / "samples"
INFERENCEX = SAMPLES / "inferencex"
NEW_RUN = INFERENCEX / "run_20667906037" / "agg_bmk.json"  # vLLM v0.13.0
OLD_RUN = INFERENCEX / "run_20218553330" / "agg_bmk.json"  # vLLM v0.11.2
POLLUTED = INFERENCEX / "run_20621824084" / "agg_bmk.json"  # the newer of the two
RERUN = INFERENCEX / "run_20613446912" / "agg_bmk.json"
API = INFERENCEX / "app-api" / "benchmarks.json"
R1 = ImportOptions(models={"dsr1": "deepseek-ai/DeepSeek-R1-0528"})


def _import(*paths: Path, options: ImportOptions | None = None, format_name: str = "inferencex") -> ImportReport:
    return import_files(paths, format_name, options or ImportOptions())


def _profile(report: ImportReport, label: str, identity: str = "") -> Profile:
    found = [p for p in report.catalog.profiles if p.workload.label == label and identity in str(p.identity)]
    assert len(found) == 1, [str(p.identity) for p in report.catalog.profiles]
    return found[0]


def _point(profile: Profile, concurrency: int) -> Point:
    return next(point for point in profile.points if point.concurrency == concurrency)


def test_rule_01_official_row_imports_with_its_published_numbers() -> None:
    point = _point(_profile(_import(NEW_RUN), "8192/1024"), 8)
    assert round(point.total_tokens_per_second, 1) == 6390.9
    assert point.output_tokens_per_second == pytest.approx(718.5, abs=0.06)
    assert {q: round(v) for q, v in point.ttft} == {50.0: 343, 99.0: 2409}
    assert {q: round(v, 2) for q, v in point.itl} == {50.0: 8.40, 99.0: 18.23}
    assert dict(point.tpot) == pytest.approx({50.0: 10.54, 99.0: 11.99}, abs=0.006)


def test_rule_02_two_runs_merge_to_the_newest_and_both_digests_stay() -> None:
    old, new = _import(OLD_RUN), _import(NEW_RUN)
    assert round(_point(_profile(old, "8192/1024"), 8).total_tokens_per_second, 1) == 6371.2
    merged = merge_catalogs([old.catalog, new.catalog])
    profile = next(p for p in merged.catalog.profiles if p.workload.label == "8192/1024")
    assert profile.source.image == "vllm/vllm-openai:v0.13.0"
    assert round(_point(profile, 8).total_tokens_per_second, 1) == 6390.9
    assert profile.source.digests == tuple(
        sorted(profile_digest(_profile(report, "8192/1024")) for report in (old, new))
    )
    assert merged.superseded == 3


def test_rule_03_polluted_tail_is_flagged_and_a_clean_rerun_of_the_image_serves_the_point() -> None:
    polluted = _point(_profile(_import(POLLUTED), "8192/1024"), 16)
    assert round(dict(polluted.ttft)[99.0] / 1000) == 71
    assert round(dict(polluted.ttft)[50.0] / 1000, 2) == 0.55
    assert PointFlag.COLD_TAIL in polluted.flags
    refusing = _import(POLLUTED, options=ImportOptions(cold_tail=ColdTail.REFUSE))
    assert refusing.refused["ColdTail"] >= 1
    clean = _point(_profile(_import(RERUN), "8192/1024"), 16)
    assert round(dict(clean.ttft)[99.0] / 1000) == 4
    merged = _profile(_import(POLLUTED, RERUN), "8192/1024")
    assert _point(merged, 16).ttft == clean.ttft
    assert _point(merged, 16).run == "20613446912"
    # Where both are polluted the point stays flagged.
    assert [p.concurrency for p in merged.points if PointFlag.COLD_TAIL in p.flags] == [64]


def test_rule_04_the_hung_run_of_the_public_api_breaks_littles_law_and_no_other_row_does() -> None:
    report = _import(API, options=R1)
    broken = [refusal for refusal in report.refusals if refusal.rule is Rule.LITTLES_LAW]
    assert len(broken) == 1
    assert "0.024 at concurrency 512" in broken[0].detail


@pytest.mark.parametrize("value", ["false", "False", False, "FALSE"])
def test_rule_05_text_false_is_false(value: object) -> None:
    assert boolean({"dp_attention": value}, "dp_attention") is False


HARDWARE = {
    "mi355x-amd_0": "amd-mi355x",
    "b200-trt": "nvidia-b200",
    "cluster:b300-nv": "nvidia-b300",
    "H200": "nvidia-h200",
}


@pytest.mark.parametrize(("spelling", "family"), HARDWARE.items())
def test_rule_06_runner_names_resolve_to_hardware(spelling: str, family: str, tmp_path: Path) -> None:
    path = tmp_path / "agg_bmk.json"
    path.write_text(json.dumps([tools.inferencex_row(Run(), hw=spelling)]))
    assert _import(path).catalog.profiles[0].hardware == family


def test_rule_07_image_and_mount_path_resolve_only_through_the_table(tmp_path: Path) -> None:
    assert repository("/mnt/lustre01/models/gpt-oss-120b", "gptoss") == "openai/gpt-oss-120b"
    assert repository("/mnt/lustre01/models/gpt-oss-120b", "other") is None
    snapshot = "/models/models--openai--gpt-oss-120b/snapshots/b5c939de8f754692c1647ca79fbf85e8c1e70f8a/"
    assert repository(snapshot) == "openai/gpt-oss-120b"
    path = tmp_path / "agg_bmk.json"
    row = tools.inferencex_row(Run(), image="nvcr.io#nvidia/tensorrt-llm/release:1.2.0rc2", framework="trt")
    path.write_text(json.dumps([row]))
    assert _import(path).catalog.profiles[0].source.image == "nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc2"


def test_rule_08_vllm_file_with_p99_only_keeps_two_quantiles_and_needs_a_concurrency(tmp_path: Path) -> None:
    (path,) = (SAMPLES / "sweeps" / "vllm_bench_serve").glob("*Qwen3-32B*TP8_DP1_CTX1024*")
    identity = parse_identity("Server/Qwen/Qwen3-32B/bf16/vllm/nvidia-h200/gpus=8,tp=8")
    (profile,) = _import(path, options=ImportOptions(identity=identity), format_name="vllm").catalog.profiles
    (point,) = profile.points
    assert (point.concurrency, [q for q, _ in point.ttft]) == (100, [50.0, 99.0])
    assert round(point.total_tokens_per_second) == 35268
    unlimited = tmp_path / "result.json"
    unlimited.write_text(json.dumps(json.loads(path.read_text()) | {"max_concurrency": None}))
    refused = _import(unlimited, options=ImportOptions(identity=identity), format_name="vllm")
    assert refused.refused == {"ConcurrencyUnknown": 1}
    given = _import(unlimited, options=ImportOptions(identity=identity, concurrency=100), format_name="vllm")
    assert given.imported == 1


def test_rule_09_sglang_lines_of_2024_are_read_and_refused_for_their_missing_tail() -> None:
    (path,) = (SAMPLES / "sweeps" / "sglang_bench_serving").glob("datacrunch*offline*")
    assert "Infinity" in path.read_text()
    report = _import(path, format_name="sglang")
    assert report.read == len(path.read_text().splitlines())
    assert report.refused == {"TailQuantileMissing": report.read}


def test_rule_10_guidellm_keys_and_inference_perf_units(tmp_path: Path) -> None:
    options = ImportOptions(identity=parse_identity(IDENTITY))
    (profile,) = _import(
        tools.write_guidellm(tmp_path, Run()), options=options, format_name="guidellm"
    ).catalog.profiles
    assert [q for q, _ in profile.points[0].ttft] == [0.1, 1.0, 5.0, 50.0, 90.0, 95.0, 99.0, 99.9]
    stage = tools.write_inference_perf(tmp_path, Run())
    (profile,) = _import(stage, options=options, format_name="inference-perf").catalog.profiles
    assert dict(profile.points[0].ttft)[50.0] == 300.0
    folder = SAMPLES / "sweeps" / "inference-perf"
    summaries = sorted(folder.rglob("*summary*"))
    assert len(summaries) == 2
    assert _import(*summaries, format_name="inference-perf").refused == {"NotAPoint": 2}


def test_rule_11_aiperf_csv_with_eleven_failures_of_a_hundred_is_refused() -> None:
    path = SAMPLES / "sweeps" / "aiperf" / "run1_profile_export_aiperf.csv"
    report = _import(path, format_name="aiperf")
    assert report.refused == {"FailureRate": 1}
    assert "11 of 100 requests failed (11%)" in report.refusals[0].detail


def test_rule_12_seconds_without_a_unit_are_found_by_littles_law(tmp_path: Path) -> None:
    (path,) = (SAMPLES / "sweeps" / "token_position_decode_slo").glob("*conc48*")
    identity = parse_identity("Server/MiniMaxAI/MiniMax-M2.5/fp8/vllm/nvidia-h200/gpus=8,tp=1,dp=8,ep=8")
    (profile,) = _import(path, options=ImportOptions(identity=identity), format_name="vllm").catalog.profiles
    assert round(dict(profile.points[0].ttft)[50.0]) == 1648
    assert round(profile.points[0].total_tokens_per_second) == round(9601.812548878564 + 1200.2265686098206)
    neither = tmp_path / "result.json"
    neither.write_text(json.dumps(json.loads(path.read_text()) | {"median_e2el": 60.0}))
    refused = _import(neither, options=ImportOptions(identity=identity), format_name="vllm")
    assert refused.refused == {"Units": 1}


def test_rule_13_short_sglang_run_passes_littles_law_in_its_wider_band() -> None:
    paths = sorted((SAMPLES / "sweeps" / "sglang_bench_serving").glob("benchmaq*.jsonl"))
    for path, parallel in zip(paths, ("gpus=8,tp=4,dp=2", "gpus=8,tp=8"), strict=True):
        identity = parse_identity(f"Server/openai/gpt-oss-120b/fp4/sglang/nvidia-h200/{parallel}")
        report = _import(path, options=ImportOptions(identity=identity), format_name="sglang")
        assert report.imported == 1, [str(refusal) for refusal in report.refusals]


def test_rule_14_failed_runs_and_mock_rows_are_refused() -> None:
    failed = INFERENCEX / "raw" / "local-results" / "minimax-eagle3-conc64" / "minimaxm2.5_8k1k_conc64.json"
    assert _import(failed, format_name="vllm").refused == {"NothingCompleted": 1}
    mock = sorted((INFERENCEX / "mock-do-not-import").glob("*.json"))
    assert _import(*mock).refused == {"NotPositive": 1}


def test_rule_15_a_tombstone_keeps_a_retired_profile_out() -> None:
    report = _import(OLD_RUN, NEW_RUN)
    gone = _profile(report, "8192/1024")
    after = retire(report.catalog, (gone,), date="2026-02-01", reason="incorrect recipe")
    assert gone.key not in {profile.key for profile in after.profiles}
    again = import_files([OLD_RUN, NEW_RUN], "inferencex", ImportOptions(), tombstones=after.retired)
    assert [p.workload.label for p in again.catalog.profiles] == [p.workload.label for p in after.profiles]
    assert again.refused == {"Retired": len(gone.points) * 2}
    assert {stone.reason for stone in again.catalog.retired} == {"incorrect recipe"}


def test_rule_16_every_profile_carries_its_provenance() -> None:
    profile = _profile(_import(NEW_RUN), "8192/1024")
    assert profile.source.tool == "InferenceX"
    assert profile.source.image == "vllm/vllm-openai:v0.13.0"
    assert profile.source.run == "20667906037"
    assert profile.engine_version == "0.13.0"
    assert profile.workload.lengths == (7372.8, 921.6)
    assert all(point.requests == 10 * point.concurrency for point in profile.points)


def test_rule_17_speculative_rows_never_join_a_plain_identity() -> None:
    report = _import(API, options=R1)
    assert report.refused["Speculative"] >= 5
    assert report.catalog.profiles
    assert all(profile.engine is not Engine.ATOM for profile in report.catalog.profiles)  # its rows there are all MTP


def test_rule_18_workloads_stay_apart() -> None:
    report = _import(NEW_RUN)
    concurrencies = {p.workload.label: [point.concurrency for point in p.points] for p in report.catalog.profiles}
    assert concurrencies == {"1024/1024": [4], "1024/8192": [4], "8192/1024": [4, 8, 16, 32, 64]}


def test_rule_19_a_quantile_is_read_between_its_two_nearest_and_never_beyond() -> None:
    # MiniMax-M2.5, 8k/1k, concurrency 64.
    measured = ((50.0, 336.0), (90.0, 1109.0), (99.0, 15083.0))
    wide = read_quantile((measured[0], measured[2]), 95)
    narrow = read_quantile(measured, 95)
    assert wide is not None
    assert narrow is not None
    assert (round(narrow.milliseconds), narrow.basis) == (8872, "p90..p99")
    assert (round(wide.milliseconds), wide.basis) == (13879, "p50..p99")
    assert read_quantile(measured, 99.9) is None


def test_rule_20_an_imported_point_is_the_raw_measurement() -> None:
    # Headroom belongs to the resolution: nothing in a catalog is scaled.
    row = next(r for r in json.loads(NEW_RUN.read_text()) if (r["isl"], r["conc"]) == (8192, 8))
    point = _point(_profile(_import(NEW_RUN), "8192/1024"), 8)
    assert point.total_tokens_per_second == pytest.approx(row["tput_per_gpu"], abs=0.0005)
