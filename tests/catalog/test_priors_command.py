"""`mdscaler priors`: import, resolve, retire and merge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.foundation import OperationFailed, UsageError
from tests.catalog import tools
from tests.catalog.builders import DATA, catalog_document, profile_document
from tests.catalog.command import run as _run
from tests.catalog.command import run_json as _json
from tests.catalog.official import GPT_OSS, SAMPLES, SWEEP, official
from tests.catalog.tools import IDENTITY, Run


def test_import_writes_a_valid_catalog_and_sums_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "catalog.yaml"
    mount = sorted((SAMPLES / "disaggregated").rglob("agg_bmk.json"))
    files = [*official("20218553330", "20667906037", "20768696438"), *mount]
    status, summary = _json(capsys, "import", "--from", "inferencex", *files, "--out", out)
    assert status == 0
    assert {key: summary[key] for key in ("read", "imported", "profiles", "superseded")} == {
        "read": 19,
        "imported": 14,
        "profiles": 3,
        "superseded": 3,
    }
    assert (summary["refused"], summary["filesRefused"]) == ({"Disaggregated": 4, "Empty": 1}, {"Empty": 1})
    assert summary["read"] == summary["imported"] + sum(summary["refused"].values()), "superseded is among the imported"
    assert summary["examples"]["Empty"]["file"].endswith("run_20768696438/agg_bmk.json")
    status, checked = _json(capsys, "validate", out)
    assert (status, checked["valid"], checked["files"][0]["digest"]) == (0, True, summary["digest"])


def test_import_makes_a_folder_where_one_works_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = official("20667906037", "20768696438")
    assert _run("import", "--from", "inferencex", *files, "--out", "build/catalog.yaml") == 0
    told = capsys.readouterr()
    assert told.err == "mdscaler: made the folder build\n"
    assert told.out.startswith(
        "7 rows read, 7 imported into 3 profiles (0 superseded by newer runs), 0 refused; 1 file"
    )


def test_import_in_text_groups_refusals_by_rule_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("import", "--from", "inferencex", SAMPLES / "app-api" / "benchmarks.json") == 1
    text = capsys.readouterr().out
    assert "LittlesLaw: throughput × latency does not give the concurrency" in text
    assert "e.g. " in text
    assert "give --model dsr1=owner/name" in text
    assert text.endswith("nothing to write\n")


def test_import_takes_short_names_and_lists_every_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--model", "dsr1=deepseek-ai/DeepSeek-R1-0528", "--list-refusals")
    path = SAMPLES / "app-api" / "benchmarks.json"
    status, summary = _json(capsys, "import", "--from", "inferencex", path, *arguments)
    assert status == 0
    assert summary["imported"] > 0
    assert len(summary["refusals"]) == summary["read"] - summary["imported"]


def test_a_sweep_of_files_without_identity_becomes_one_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for concurrency in (4, 8, 16):
        run = Run(concurrency=concurrency, per_token=6 + concurrency / 8)
        (tmp_path / f"c{concurrency}.json").write_text(json.dumps(tools.vllm_record(run)))
    files = sorted(tmp_path.glob("*.json"))
    status, summary = _json(
        capsys,
        "import",
        "--from",
        "vllm",
        *files,
        "--identity",
        IDENTITY,
        "--engine-version",
        "0.13.0",
        "--out",
        tmp_path / "c.yaml",
    )
    assert (status, summary["profiles"], summary["imported"]) == (0, 1, 3)
    status, answer = _json(
        capsys, "resolve", "--identity", IDENTITY, "--catalog", tmp_path / "c.yaml", "--ttft", 2000, "--itl", 33
    )
    assert (status, answer["operatingPoint"]["concurrency"], answer["selection"]) == (0, 16, "ExplicitSaturation")


def test_a_retired_profile_stays_out_of_the_next_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "catalog.yaml"
    files = official("20218553330", "20667906037")
    assert _run("import", "--from", "inferencex", *files, "--out", out) == 0
    reason = ("--reason", "incorrect recipe", "--date", "2026-02-01")
    assert _run("retire", out, "--identity", GPT_OSS, "--workload", "8192/1024", *reason) == 0
    capsys.readouterr()
    status, summary = _json(capsys, "import", "--from", "inferencex", *files, "--out", out)
    assert (status, summary["profiles"], summary["refused"]) == (0, 2, {"Retired": 10})
    assert _run("show", out) == 0
    text = capsys.readouterr().out
    assert "8192/1024\n" not in text
    assert "retired 2026-02-01: " in text
    assert "(incorrect recipe)" in text


def test_retiring_by_digest_and_merging_keep_the_tombstone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after, merged = tmp_path / "before.yaml", tmp_path / "after.json", tmp_path / "merged.yaml"
    assert _run("import", "--from", "inferencex", *official("20667906037"), "--out", before) == 0
    capsys.readouterr()
    _, listing = _json(capsys, "show", before)
    digest = listing["profiles"][0]["digest"]
    assert _run("retire", before, "--digest", digest, "--reason", "wrong board", "--out", after) == 0
    capsys.readouterr()
    status, summary = _json(capsys, "merge", after, before, "--out", merged)
    assert (status, summary["profiles"], summary["retired"]) == (0, 2, 1)
    status, checked = _json(capsys, "validate", merged, after)
    assert [entry["retired"] for entry in checked["files"]] == [1, 1]


def test_tombstones_can_go_to_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stones = tmp_path / "retired.yaml"
    stones.write_text(json.dumps(catalog_document()))
    before = SWEEP.read_bytes()
    assert _run("retire", SWEEP, "--identity", IDENTITY, "--reason", "old engine", "--tombstones", stones) == 0
    assert SWEEP.read_bytes() == before
    capsys.readouterr()
    status, summary = _json(capsys, "merge", stones, SWEEP)
    assert (status, summary["profiles"], summary["retired"]) == (0, 0, 1)


def test_resolve_answers_for_an_identity_of_the_embedded_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    targets = ("--ttft", 2000, "--itl", 33, "--headroom", 0.75)
    status, answer = _json(capsys, "resolve", "--identity", GPT_OSS, *targets)
    assert (status, round(answer["seedTokensPerSecond"]), answer["reason"]) == (0, 714, "CatalogResolved")
    lengths = ("--input-tokens", 8192, "--output-tokens", 1024)
    status, answer = _json(capsys, "resolve", "--identity", GPT_OSS, *targets, *lengths)
    assert (status, round(answer["seedTokensPerSecond"]), answer["selection"]) == (0, 4621, "Bracketed")
    assert answer["operatingPoint"]["concurrency"] == 4
    assert answer["mixFactor"] == pytest.approx(1.0, abs=0.01)
    status, answer = _json(capsys, "resolve", "--identity", GPT_OSS, *targets, *lengths, "--workload", "Observed")
    assert (answer["unit"], answer["selection"]) == ("OutputEquivalentTokens", "LatencyNotTransferable")


def test_resolve_in_text_says_where_the_latencies_were_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("resolve", "--identity", GPT_OSS, "--ttft", 2000, "--itl", 33) == 0
    assert "measured at concurrency 4, TTFT 182.579 ms (p50..p99), ITL 6.7052 ms (p50..p99)" in capsys.readouterr().out


def test_resolve_answers_for_a_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    deployment = DATA / "qwen3-8b-deployment.yaml"
    status, answer = _json(
        capsys, "resolve", "--deployment", deployment, "--catalog", SWEEP, "--ttft", 2000, "--itl", 33
    )
    assert (status, answer["resolved"], answer["seedTokensPerSecond"]) == (0, True, 17135.159)
    assert answer["effectiveTokensPerSecond"] == 12851.37
    assert answer["roles"][0]["operatingPoint"]["concurrency"] == 32
    assert answer["roles"][0]["role"] == "server"


def test_an_unresolved_identity_exits_with_one_and_explains(capsys: pytest.CaptureFixture[str]) -> None:
    status = _run("resolve", "--identity", GPT_OSS.replace("h200", "b300"), "--ttft", 2000, "--itl", 33)
    assert status == 1
    text = capsys.readouterr().out
    assert text.startswith("ProfileNotFound\n")
    assert "nearest is Server/openai/gpt-oss-120b/fp4/vllm/nvidia-b200/" in text


def test_an_invalid_catalog_lists_every_finding_and_exits_with_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(json.dumps(catalog_document(profile_document(role="X", hardware="y"))))
    assert _run("validate", bad, SWEEP) == 2
    text = capsys.readouterr().out
    assert f"{bad}: INVALID, 2 errors" in text
    assert "  profiles[0].hardware: must be one of" in text
    assert f"{SWEEP}: valid, 1 profile, 6 points" in text
    status, answer = _json(capsys, "validate", bad)
    assert (status, answer["valid"], len(answer["files"][0]["errors"])) == (2, False, 2)


def test_an_import_without_a_result_leaves_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "catalog.yaml"
    out.write_bytes(SWEEP.read_bytes())
    assert _run("import", "--from", "inferencex", *official("20768696438"), "--out", out) == 1
    assert out.read_bytes() == SWEEP.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalog.yaml"]


def test_an_import_does_not_drop_the_profiles_of_the_file_that_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "catalog.yaml"
    out.write_bytes(SWEEP.read_bytes())
    arguments = ("import", "--from", "inferencex", *official("20218553330"), "--out", out)
    with pytest.raises(UsageError, match=r"has 1 profiles that these files do not bring.*qwen3-8b.*merge.*--replace"):
        _run(*arguments)
    assert out.read_bytes() == SWEEP.read_bytes()
    assert _run(*arguments, "--replace") == 0
    assert _run(*arguments) == 0, "what is brought again is no loss"
    assert "Qwen3-8B" not in out.read_text()


def test_a_run_of_the_future_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("import", "--from", "vllm", "--identity", IDENTITY)
    run = tools.write_vllm(tmp_path, Run())
    assert _run(*arguments, run, "--date", "2999-01-01") == 0
    assert "dated after today" in capsys.readouterr().err
    assert _run(*arguments, run, "--date", "2026-01-01") == 0
    assert "dated" not in capsys.readouterr().err


def test_a_catalog_beyond_its_limits_is_not_written(tmp_path: Path) -> None:
    results = tmp_path / "many.jsonl"
    results.write_text("\n".join(json.dumps(tools.vllm_record(Run(concurrency=c))) for c in range(1, 300)))
    out = tmp_path / "catalog.yaml"
    with pytest.raises(OperationFailed, match="has 299 entries; the limit is 256"):
        _run("import", "--from", "vllm", results, "--identity", IDENTITY, "--out", out)
    assert not out.exists()
