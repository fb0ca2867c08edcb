"""`mdscaler priors …`: what it prints, writes and exits with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.cli import priors as priors_module
from controller.foundation import OperationFailed, UsageError
from tests.catalog import tools
from tests.catalog.builders import DATA, catalog_document, profile_document
from tests.catalog.command import run as _run
from tests.catalog.command import run_json as _json
from tests.catalog.tools import IDENTITY, Run

GPT_OSS = "Server/openai/gpt-oss-120b/fp4/vllm/nvidia-h200/gpus=1,tp=1"
SAMPLES = DATA / "samples" / "inferencex"
SWEEP = DATA / "h200-sweep.yaml"


def _official(*runs: str) -> list[Path]:
    return [SAMPLES / f"run_{run}" / "agg_bmk.json" for run in runs]


def test_import_writes_a_valid_catalog_and_sums_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "catalog.yaml"
    mount = sorted((SAMPLES / "disaggregated").rglob("agg_bmk.json"))
    files = [*_official("20218553330", "20667906037", "20768696438"), *mount]
    status, summary = _json(capsys, "import", "--from", "inferencex", *files, "--out", out)
    assert status == 0
    assert {key: summary[key] for key in ("read", "imported", "profiles", "superseded")} == {
        "read": 19,
        "imported": 14,
        "profiles": 3,
        "superseded": 3,
    }
    assert (summary["refused"], summary["filesRefused"]) == ({"Disaggregated": 4, "Empty": 1}, {"Empty": 1})
    assert summary["examples"]["Empty"]["file"].endswith("run_20768696438/agg_bmk.json")
    status, checked = _json(capsys, "validate", out)
    assert (status, checked["valid"], checked["files"][0]["digest"]) == (0, True, summary["digest"])


def test_import_makes_a_folder_where_one_works_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = _official("20667906037", "20768696438")
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
    files = _official("20218553330", "20667906037")
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
    assert _run("import", "--from", "inferencex", *_official("20667906037"), "--out", before) == 0
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
    assert _run("import", "--from", "inferencex", *_official("20768696438"), "--out", out) == 1
    assert out.read_bytes() == SWEEP.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalog.yaml"]


def test_an_import_does_not_drop_the_profiles_of_the_file_that_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "catalog.yaml"
    out.write_bytes(SWEEP.read_bytes())
    arguments = ("import", "--from", "inferencex", *_official("20218553330"), "--out", out)
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


USAGE: dict[str, tuple[tuple[object, ...], str]] = {
    "an unknown format": (("import", "--from", "jmeter", SWEEP), "unknown format; one of inferencex"),
    "half of the lengths": (("import", "--from", "vllm", SWEEP, "--input-tokens", 8), "belong together"),
    "half of the traffic's lengths": (("resolve", "--identity", GPT_OSS, "--input-tokens", 8), "belong together"),
    "an identity that is none": (("resolve", "--identity", "x"), "--identity: 'x' is not an identity"),
    "an identity without its degrees": (
        ("resolve", "--identity", GPT_OSS.rpartition("/")[0], "--ttft", 1, "--itl", 1),
        "does not say the degrees: end it with /gpus=1,tp=1",
    ),
    "no latencies": (("resolve", "--identity", GPT_OSS), "--ttft and --itl: give the latency that role server"),
    "one latency of two": (("resolve", "--identity", GPT_OSS, "--ttft", 9), "--itl: give the latency"),
    "another mix than was measured, without one": (
        ("resolve", "--identity", GPT_OSS, "--ttft", 9, "--itl", 9, "--workload", "observed"),
        "--workload Observed needs the mix of the traffic: give --input-tokens and --output-tokens",
    ),
    "cache hits without traffic": (
        ("resolve", "--identity", GPT_OSS, "--ttft", 9, "--itl", 9, "--hit-ratio", 0.5),
        "--hit-ratio needs the mix of the traffic",
    ),
    "nothing to resolve": (("resolve",), "either --identity or --deployment"),
    "two things to resolve": (("resolve", "--identity", GPT_OSS, "--deployment", SWEEP), "either --identity or"),
    "a deployment file without one": (
        ("resolve", "--deployment", SWEEP),
        "h200-sweep.yaml: the file must hold exactly one ModelDeployment, found 0",
    ),
    "a missing catalog": (("show", DATA / "absent.yaml"), "No such file"),
    "a manifest for a catalog": (
        ("show", DATA / "qwen3-8b-deployment.yaml"),
        "is no catalog: this is a Kubernetes object (ModelDeployment); a catalog has the kind ModelDeploymentScaler",
    ),
    "a result for a catalog": (
        ("merge", *_official("20667906037")),
        "is no catalog: this is a file of InferenceX: make a catalog of it with mdscaler priors import --from inferencex",
    ),
    "a folder for a catalog": (
        ("show", DATA),
        f"data/priors: it is a folder; give the files in it, such as {DATA}/*.yaml",
    ),
    "two files that are no catalogs": (
        ("merge", DATA / "absent.yaml", SWEEP, DATA / "gone.yaml"),
        "absent.yaml: No such file or directory; ",
    ),
    "a model table that is none": (
        ("import", "--from", "inferencex", SWEEP, "--model", "dsr1"),
        "write SHORT=owner/name",
    ),
    "nothing to retire": (("retire", SWEEP, "--reason", "x"), "either --identity or --digest"),
    "a day that is none": (
        ("import", "--from", "vllm", SWEEP, "--date", "2026-13-45"),
        "--date 2026-13-45: write a day",
    ),
    "a text of two lines": (("import", "--from", "vllm", SWEEP, "--run", "a\nb"), "--run takes one line"),
    "a tombstone without a reason": (("retire", SWEEP, "--reason", " ", "--identity", IDENTITY), "--reason is empty"),
    "a profile that is not there": (("retire", SWEEP, "--reason", "x", "--identity", GPT_OSS), "no such profile"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE.keys())
def test_wrong_use_is_one_clear_line(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _run(*arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def _manifest(tmp_path: Path, change: Callable[[list[Any]], Any]) -> Path:
    documents = list(yaml.safe_load_all((DATA / "qwen3-8b-deployment.yaml").read_text()))
    path = tmp_path / "deployment.yaml"
    changed = change(documents)
    path.write_text(changed if isinstance(changed, str) else yaml.safe_dump_all(changed))
    return path


def _node(**labels: str) -> dict[str, Any]:
    keys = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": keys}}


def _unnamed(documents: list[Any], *nodes: dict[str, Any]) -> list[Any]:
    """An InstanceType whose group an administrator named, and which nobody has filled in."""
    documents[2]["spec"]["acceleratorGroup"] = "bench"
    documents[2].pop("status", None)
    return [*documents, *nodes]


MANIFESTS: dict[str, tuple[Callable[[list[Any]], Any], int, str]] = {
    "the List that kubectl writes": (lambda d: [{"kind": "List", "items": d}], 0, "17135.159 tokens/s"),
    "a part that is repeated by an alias": (lambda d: [*d, {"kind": "Other", "a": d[1], "b": d[1]}], 0, "17135.159"),
    "an integer beyond any register": (lambda d: [d[0] | {"x": 10**40}, *d[1:]], 0, "17135.159"),
    "nodes where the pool does not say its hardware": (
        lambda d: _unnamed(d, _node(nvidia_com__gpu_product="NVIDIA-H200")),
        0,
        "/nvidia-h200/",
    ),
    "a node of the pool that names no accelerator": (
        lambda d: _unnamed(d, _node(nvidia_com__gpu_product="NVIDIA-H200"), _node()),
        1,
        "no label that names an accelerator",
    ),
    "nodes of the pool beside others": (
        lambda d: _unnamed(d, _node(nvidia_com__gpu_product="NVIDIA-H200", acceleratable_feature_gpustack_ai__bench="true"), _node()),
        0,
        "/nvidia-h200/",
    ),
    "no node": (_unnamed, 1, "of which no node is known"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "status", "part"), MANIFESTS.values(), ids=MANIFESTS.keys())
def test_resolve_reads_the_manifests_that_people_have(
    change: Callable[[list[Any]], Any], status: int, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _manifest(tmp_path, change)
    assert _run("resolve", "--deployment", path, "--catalog", SWEEP, "--ttft", 2000, "--itl", 33) == status
    assert part in capsys.readouterr().out


HOSTILE_MANIFESTS = {
    "an exponential alias": "a: &a [1, 2]\n" + "".join(f"k{i}: &{'abcdefghijklmnopqrstuvwxyz'[i + 1]} [{', '.join(['*' + 'abcdefghijklmnopqrstuvwxyz'[i]] * 9)}]\n" for i in range(20)),
    "an alias to itself": "a: &a [*a]\n",
    "a merge key": "a: &a {b: c}\nd: {<<: *a}\n",
    "no end of brackets": "[" * 100_000,
    "UTF-16": "a: b".encode("utf-16").decode("latin-1"),
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE_MANIFESTS.values(), ids=HOSTILE_MANIFESTS.keys())
def test_a_hostile_manifest_is_one_clear_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"deployment\.yaml: (line|byte) "):
        _run("resolve", "--deployment", path, "--ttft", 2000, "--itl", 33)


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_secret_of_a_deployment_is_printed(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def planted(documents: list[Any]) -> list[Any]:
        role = documents[0]["spec"]["roles"][0]
        role["env"] = [{"name": "HF_TOKEN", "value": "hunter2-secret"}, {"name": "MODEL", "value": "Qwen/Qwen3-8B"}]
        role["extraArgs"] = ["--quantization", "hunter2-secret"]
        return documents

    path = _manifest(tmp_path, planted)
    arguments = ("--catalog", SWEEP, "--ttft", 2000, "--itl", 33, "--output", output)
    assert _run("resolve", "--deployment", path, *arguments) == 1
    out = capsys.readouterr()
    for secret in ("hunter2", "Qwen/Qwen3-8B"):
        assert secret not in out.out + out.err


_RETIRE = ("--identity", GPT_OSS, "--reason", "incorrect recipe", "--date", "2026-02-01")


@pytest.mark.parametrize("verb", ["import", "merge", "retire"])
def test_no_command_writes_over_a_tombstone(verb: str, tmp_path: Path) -> None:
    out, other = tmp_path / "out.yaml", tmp_path / "other.yaml"
    files = _official("20218553330", "20667906037")
    for path in (out, other):
        assert _run("import", "--from", "inferencex", *files, "--out", path) == 0
    assert _run("retire", out, "--workload", "8192/1024", *_RETIRE) == 0
    kept = len(yaml.safe_load(out.read_text())["retired"])
    assert kept > 0
    if verb == "import":
        _run("import", "--from", "inferencex", *files, "--out", out)
    elif verb == "merge":
        _run("merge", other, "--out", out)
    else:
        _run("retire", other, "--workload", "1024/1024", *_RETIRE, "--out", out)
    after = yaml.safe_load(out.read_text())
    assert len(after["retired"]) >= kept
    assert not any(profile["workload"]["inputTokens"] == 8192 for profile in after["profiles"])


@pytest.mark.parametrize("verb", ["import", "merge", "retire"])
def test_a_file_that_is_no_catalog_is_not_written_over(verb: str, tmp_path: Path) -> None:
    out, catalog = tmp_path / "results.json", tmp_path / "catalog.yaml"
    out.write_text('{"results": "of a week"}')
    files = _official("20667906037")
    assert _run("import", "--from", "inferencex", *files, "--out", catalog) == 0
    arguments = {
        "import": ("--from", "inferencex", *files),
        "merge": (catalog,),
        "retire": (catalog, *_RETIRE),
    }[verb]
    with pytest.raises(UsageError, match=r"results\.json has .* errors"):
        _run(verb, *arguments, "--out", out)
    assert out.read_text() == '{"results": "of a week"}'


def test_a_tombstone_that_is_written_during_an_import_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "catalog.yaml"
    files = _official("20218553330", "20667906037")
    assert _run("import", "--from", "inferencex", *files, "--out", out) == 0
    real = priors_module.import_files

    def slow(*arguments: Any, **options: Any) -> Any:
        report = real(*arguments, **options)
        _run("retire", out, *_RETIRE)
        return report

    monkeypatch.setattr(priors_module, "import_files", slow)
    with pytest.raises(OperationFailed, match="changed by another command meanwhile; nothing was written"):
        _run("import", "--from", "inferencex", *files, "--out", out)
    assert yaml.safe_load(out.read_text())["profiles"] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalog.yaml"]


def test_an_output_that_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priors_module, "import_files", lambda *_, **__: pytest.fail("the work was done in vain"))
    with pytest.raises(UsageError, match="Is a directory"):
        _run("import", "--from", "inferencex", *_official("20667906037"), "--out", tmp_path)
    with pytest.raises(UsageError, match=r"nope/a\.yaml: there is no folder .*nope: make it first"):
        _run("import", "--from", "inferencex", *_official("20667906037"), "--out", tmp_path / "nope" / "a.yaml")


@pytest.mark.parametrize("arguments", [("merge", SWEEP), ("retire", SWEEP, "--identity", IDENTITY, "--reason", "x")])
def test_no_command_makes_a_folder(arguments: tuple[object, ...], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        _run(*arguments, "--out", tmp_path / "nope" / "a.yaml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("h200.yaml", "h200", id="a catalog is called like its file"),
        pytest.param(f"{'x' * 250}.json", "x" * 250, id="a long name that a catalog may have"),
        pytest.param("x" * 255, "imported", id="a name longer than a catalog's"),
        pytest.param(" .yaml", "imported", id="a blank name"),
        pytest.param("a\x1b[2Jb.yaml", "imported", id="a name that moves the cursor"),
    ],
)
def test_the_name_of_a_new_catalog(name: str, expected: str, tmp_path: Path) -> None:
    out = tmp_path / name
    assert _run("import", "--from", "inferencex", *_official("20667906037"), "--out", out) == 0
    assert yaml.safe_load(out.read_text())["metadata"]["name"] == expected


@pytest.mark.parametrize("output", ["text", "json"])
def test_nothing_in_a_file_or_its_name_moves_the_cursor_or_breaks_the_printing(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad\udcff\x1b[2J.json"
    path.write_text('{"\\ud800": 1, "a\\u001b[2J": 2, "kind": "\\u202e"}')
    assert _run("validate", path, "--output", output) == 2
    text = capsys.readouterr().out
    text.encode()
    assert all(line.isprintable() for line in text.splitlines())
    assert "bad\\udcff\\u001b[2J.json" in text
    if output == "json":
        assert json.loads(text)["files"][0]["file"] == str(path)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _run("import", "--from", "vllm", tmp_path / "pipe", "--identity", IDENTITY) == 1
    assert _run("validate", tmp_path / "pipe") == 2


def test_a_device_that_never_ends_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("validate", "/dev/zero") == 2
    assert capsys.readouterr().out.endswith("  cannot be read: more than 8,388,608 bytes\n")
    with pytest.raises(UsageError, match="/dev/zero: more than"):
        _run("show", "/dev/zero")


def _heads(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith("  ")]


def test_every_file_is_validated_whatever_is_wrong_with_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, empty = tmp_path / "bad.yaml", tmp_path / "empty.yaml"
    bad.write_text(json.dumps(catalog_document(profile_document(role="X", hardware="y"))))
    empty.touch()
    files = [SWEEP, tmp_path / "nofile.yaml", bad, tmp_path, empty, SWEEP]
    assert _run("validate", *files) == 2
    lines = capsys.readouterr().out.splitlines()
    counts = [line.removeprefix(f"{path}: ") for path, line in zip(files, _heads(lines), strict=True)]
    assert [count.split(",")[0] for count in counts] == ["valid", "INVALID", "INVALID", "INVALID", "INVALID", "valid"]
    assert "  cannot be read: No such file or directory" in lines
    assert f"  cannot be read: it is a folder; give the files in it, such as {tmp_path}/*.yaml" in lines
    assert "  the document is empty" in lines
    status, answer = _json(capsys, "validate", *files)
    assert (status, [entry["valid"] for entry in answer["files"]]) == (2, [True, False, False, False, False, True])
