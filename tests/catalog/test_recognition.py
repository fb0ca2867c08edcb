"""A file that is not what `--from` says: the refusal says what it is and what to type instead."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import CONFIG_MAP_KEY, retire
from catalog.identity import parse_identity
from catalog.importers import FORMATS, ImportOptions, ImportReport, Refusal, Rule, import_files
from catalog.importers.recognition import RESULT_FILES, TOOL_NAMES, recognise
from tests.catalog import tools
from tests.catalog.builders import DATA, catalog_document
from tests.catalog.tools import IDENTITY, Run, Writer

SWEEPS, INFERENCEX = DATA / "samples" / "sweeps", DATA / "samples" / "inferencex"
OPTIONS = ImportOptions(identity=parse_identity(IDENTITY))
# What a file is by the folder that it lies in; longer parts first.
TOOL_OF_FOLDER = {
    "inferencex/raw/benchmarks": "vllm",
    "inferencex/raw/local-results": "vllm",
    "samples/inferencex/": "inferencex",
    "sweeps/vllm_bench_serve": "vllm",
    "sweeps/token_position_decode_slo": "vllm",
    "sweeps/sglang_bench_serving": "sglang",
    "sweeps/guidellm": "guidellm",
    "sweeps/aiperf": "aiperf",
    "sweeps/inference-perf": "inference-perf",
    "sweeps/llm-d-benchmark": "llm-d",
}
# Lists of contents, an empty run, manifests and logs lie among the samples.
NO_RESULTS = (
    "availability.json",
    "workflow-info.json",
    "run_20768696438/agg_bmk.json",
    "manifests.yaml",
    ".txt",
    ".md",
)
SAMPLES = [
    (tool, path)
    for path in sorted((DATA / "samples").rglob("*"))
    if path.is_file() and not str(path).endswith(NO_RESULTS)
    for tool in [next(tool for folder, tool in TOOL_OF_FOLDER.items() if folder in str(path))]
]
# One writes the other's layout.
ALIKE = [{"guidellm", "benchmark-runner"}]


def _import(path: Path, format_name: str) -> ImportReport:
    return import_files([path], format_name, OPTIONS)


def _right(tool: str, format_name: str, path: Path) -> bool:
    tables = path.suffix == ".csv" and {tool, format_name} <= {"aiperf", "genai-perf"}
    return tool == format_name or tables or any({tool, format_name} <= pair for pair in ALIKE)


def test_the_samples_are_of_seven_tools() -> None:
    assert {tool for tool, _ in SAMPLES} == set(FORMATS) - {"genai-perf", "benchmark-runner"}


@pytest.mark.parametrize(("tool", "path"), SAMPLES, ids=[f"{tool}: {path.name[-40:]}" for tool, path in SAMPLES])
def test_every_importer_names_the_tool_of_a_real_file_of_another(tool: str, path: Path) -> None:
    for format_name in FORMATS:
        report = _import(path, format_name)
        if _right(tool, format_name, path):
            assert not any("--from" in refusal.detail for refusal in report.refusals if path.suffix != ".jsonl")
            continue
        (refusal,) = report.refusals
        assert (report.read, sum(report.refused_files.values()), refusal.rule) == (0, 1, Rule.NOT_THIS_FORMAT)
        assert f"--from {tool}" in refusal.detail


@pytest.mark.parametrize(("tool", "write"), tools.WRITERS.values(), ids=tools.WRITERS.keys())
def test_every_importer_names_the_tool_of_a_plain_file_of_another(tool: str, write: Writer, tmp_path: Path) -> None:
    path = write(tmp_path, Run())
    for format_name in FORMATS:
        report = _import(path, format_name)
        if _right(tool, format_name, path):
            assert report.read == 1
            continue
        (refusal,) = report.refusals
        named = "guidellm" if tool == "benchmark-runner" else tool
        assert (report.read, refusal.rule) == (0, Rule.NOT_THIS_FORMAT)
        assert refusal.detail == f"this is a result of {TOOL_NAMES[named]}: use --from {named}"


def _config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "my-priors"}, "data": data}


CATALOG = yaml.safe_dump(catalog_document())
MERGE = "put it together with others by mdscaler priors merge"
DEPLOYMENT = (DATA / "qwen3-8b-deployment.yaml").read_text()
OTHERS: dict[str, tuple[str, str, str]] = {
    "a catalog": ("a.yaml", CATALOG, f"this is a catalog already: {MERGE}"),
    "a catalog as JSON": ("a.json", json.dumps(catalog_document()), f"this is a catalog already: {MERGE}"),
    "a ConfigMap with a catalog": (
        "cm.yaml",
        yaml.safe_dump(_config_map(**{CONFIG_MAP_KEY: CATALOG})),
        f"this is a ConfigMap with a catalog: {MERGE}",
    ),
    "a list of ConfigMaps as kubectl writes it": (
        "cm.json",
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [_config_map(**{CONFIG_MAP_KEY: CATALOG})]}),
        f"this is a ConfigMap with a catalog: {MERGE}",
    ),
    "another ConfigMap": ("cm.yaml", yaml.safe_dump(_config_map(a="b")), "this is a Kubernetes object (ConfigMap)"),
    "a manifest": ("deployment.yaml", DEPLOYMENT, "this is a Kubernetes object (ModelDeployment) and no result"),
    "guidellm's report as YAML": (
        "benchmarks.yaml",
        yaml.safe_dump(tools.guidellm_report(tools.guidellm_benchmark(Run()))),
        "this is a result of guidellm as YAML: import its JSON with --from guidellm",
    ),
    "single requests": (
        "profile_export.jsonl",
        (SWEEPS / "aiperf" / "run1_profile_export_first5.jsonl").read_text(),
        "these are single requests of AIPerf: --from aiperf reads profile_export_aiperf.json and .csv",
    ),
    "an empty file": ("a.json", "", "the file is empty"),
    "a file of blank lines": ("a.json", "\n \n", "the file is empty"),
    "an empty list": ("a.json", "[]", "the file holds no"),
    "an empty object": ("a.json", "{}", "the file holds no"),
}


def _refused_whole(path: Path, content: str, format_name: str) -> Refusal:
    """The one refusal of a file with this content, which gave no row."""
    path.write_text(content)
    report = _import(path, format_name)
    (refusal,) = report.refusals
    assert (report.read, sum(report.refused_files.values())) == (0, 1)
    return refusal


@pytest.mark.parametrize(("name", "content", "said"), OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_that_is_no_result_is_called_by_its_name(
    format_name: str, name: str, content: str, said: str, tmp_path: Path
) -> None:
    refusal = _refused_whole(tmp_path / name, content, format_name)
    assert said in refusal.detail


UNKNOWN: dict[str, tuple[str, str, str]] = {
    "a table of something": ("a.csv", "t_s,prompt,output\n0,1,2\n", "this is CSV"),
    "a page": ("a.html", "<!DOCTYPE html><html></html>", "this is HTML"),
    "YAML of something": ("a.yaml", "port: 8080\nhost: x\n", "this is YAML"),
    "JSON of something": ("a.json", '{"port": 8080}', "reads"),
    "a list of something": ("a.json", '[{"port": 8080}, {"port": 1}]', ""),
    "text": ("a.log", "Successful requests: 100\n", "reads"),
}


@pytest.mark.parametrize(("name", "content", "said"), UNKNOWN.values(), ids=UNKNOWN.keys())
@pytest.mark.parametrize("format_name", FORMATS)
def test_where_nothing_tells_what_a_file_is_the_refusal_says_what_the_importer_reads(
    format_name: str, name: str, content: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    refusal = _refused_whole(path, content, format_name)
    if refusal.rule is not Rule.NOT_A_POINT:
        assert f"--from {format_name} reads {RESULT_FILES[format_name]}" in refusal.detail
        assert said in refusal.detail or path.suffix == ".csv"


def test_the_json_beside_a_log_is_named(tmp_path: Path) -> None:
    log, result = tmp_path / "run.txt", tmp_path / "run.jsonl"
    log.write_text("Successful requests: 100\n")
    result.write_text(json.dumps(tools.sglang_record(Run())))
    (refusal,) = _import(log, "sglang").refusals
    assert refusal.detail.endswith("import run.jsonl beside it")


def test_a_table_with_another_name_is_told_how_to_be_called(tmp_path: Path) -> None:
    path = tools.write_aiperf_csv(tmp_path, Run()).rename(tmp_path / "profile.txt")
    (refusal,) = _import(path, "aiperf").refusals
    assert refusal.detail.endswith("let it end in .csv")


FOLDERS: dict[str, tuple[tuple[str, ...], str]] = {
    "of results": (("a.json", "b.csv"), "*.json"),
    "of reports": (("a.yaml", "log.txt"), "*.yaml"),
    "of folders": (("run_1/agg_bmk.json", "run_2/agg_bmk.json"), "*/*.json"),
    "of nothing": ((), "*.json"),
}


@pytest.mark.parametrize(("names", "pattern"), FOLDERS.values(), ids=FOLDERS.keys())
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_folder_is_told_what_to_give_in_its_place(
    format_name: str, names: tuple[str, ...], pattern: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    report = _import(tmp_path, format_name)
    assert report.read == 0
    assert report.refusals[0].detail.endswith(f"it is a folder; give the files in it, such as {tmp_path}/{pattern}")


def test_files_that_cannot_be_read_are_no_rows(tmp_path: Path) -> None:
    missing, pattern, whole = tmp_path / "absent.json", tmp_path / "*.json", tmp_path / "a.jsonl"
    whole.write_text("\n".join(json.dumps(tools.vllm_record(Run(concurrency=c))) for c in (4, 8)) + '\n{"cut')
    report = import_files([missing, pattern, whole], "vllm", OPTIONS)
    assert (report.read, report.imported, sum(report.refused_rows.values()), sum(report.refused_files.values())) == (
        3,
        2,
        1,
        2,
    )
    assert [refusal.detail for refusal in report.refusals[:2]] == [
        "cannot be read: No such file or directory",
        "cannot be read: No such file or directory: no name matches this pattern",
    ]


def test_a_point_that_a_tombstone_retires_is_told_by_its_file_and_row(tmp_path: Path) -> None:
    path = tools.write_vllm(tmp_path, Run())
    catalog = _import(path, "vllm").catalog
    stones = retire(catalog, catalog.profiles, date="2026-02-01", reason="x").retired
    report = import_files([path], "vllm", OPTIONS, tombstones=stones)
    (refusal,) = report.refusals
    assert (report.read, report.imported, refusal.rule) == (1, 0, Rule.RETIRED)
    assert (refusal.file, refusal.row) == (str(path), "row 0")
    assert "at concurrency 32 is retired by a tombstone" in refusal.detail


@given(data=st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_recognising_never_fails(data: bytes) -> None:
    recognise([], data)


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "blanks after a name": lambda n: b"kind:" + b" " * n + b"x",
    "blanks before a name": lambda n: b"apiVersion: v1\nkind: List\n" + b" " * n,
    "commas": lambda n: b"," * n,
    "names": lambda n: b"a:\n" * (n // 3),
    "one long name": lambda n: b"a" * n,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_text_costs_one_pass(make: Callable[[int], bytes]) -> None:
    # Quadratic in four million bytes would not end; linear is a fraction of a second.
    recognise([], make(4_000_000))


def test_the_order_of_rows_does_not_hide_what_a_file_is(tmp_path: Path) -> None:
    rows: list[Any] = [tools.inferencex_row(Run(concurrency=c)) for c in range(1, 10)] + [None, 3, []]
    random.Random(1).shuffle(rows)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows))
    (refusal,) = _import(path, "vllm").refusals
    assert refusal.detail == "this is a result of InferenceX: use --from inferencex"
