"""Whatever a file holds, an import accounts for every row and raises nothing."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.canonical import catalog_yaml
from catalog.identity import parse_identity
from catalog.importers import FORMATS, MEANING, ImportOptions, Rule, import_files
from catalog.loading import LoadedCatalog, load_text
from tests.catalog import tools
from tests.catalog.builders import DATA

# Set MDSCALER_BENCHMARK_DATA to a folder of results to import them all as well; the samples are a small part.
_FOLDERS = [DATA / "samples", *(Path(name) for name in [os.environ.get("MDSCALER_BENCHMARK_DATA")] if name)]
SAMPLES = sorted(path for folder in _FOLDERS for path in folder.rglob("*") if path.is_file())
IDENTITY = parse_identity("Server/openai/gpt-oss-120b/fp4/vllm/nvidia-h200/gpus=8,tp=8")


@pytest.mark.parametrize("options", [ImportOptions(), ImportOptions(identity=IDENTITY)], ids=["bare", "with identity"])
@pytest.mark.parametrize("format_name", FORMATS)
def test_every_sample_in_every_format_is_accounted_for(format_name: str, options: ImportOptions) -> None:
    report = import_files(SAMPLES, format_name, options)
    assert report.read == report.imported + sum(report.refused_rows.values())
    assert report.read + sum(report.refused_files.values()) >= len(SAMPLES)
    assert all(refusal.detail for refusal in report.refusals)
    mentioned = {refusal.file for refusal in report.refusals}
    assert len(mentioned) >= len(SAMPLES) - report.imported


def test_an_imported_catalog_is_valid() -> None:
    report = import_files(SAMPLES, "inferencex", ImportOptions())
    assert report.catalog.profiles
    loaded = load_text(catalog_yaml(report.catalog), "imported")
    assert isinstance(loaded, LoadedCatalog), loaded
    assert loaded.catalog == report.catalog


def test_every_rule_has_a_meaning() -> None:
    assert set(MEANING) == set(Rule)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[]", b"null", b"3", b'"x"', b"[[[[", b"a: b", b"\n\n"])
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_of_rubbish_gives_one_refusal(content: bytes, format_name: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    report = import_files([path], format_name, ImportOptions())
    assert report.imported == 0
    assert len(report.refusals) == 1


def test_a_missing_file_and_a_folder_are_refusals(tmp_path: Path) -> None:
    report = import_files([tmp_path / "absent.json", tmp_path], "vllm", ImportOptions())
    assert report.refused == {"Unreadable": 2}


_RUN = tools.Run()
_DOCUMENTS: dict[str, Any] = {
    "inferencex": [tools.inferencex_row(_RUN)],
    "vllm": tools.vllm_record(_RUN),
    "sglang": tools.sglang_record(_RUN, server_info={"tp_size": 1, "model_path": "Qwen/Qwen3-8B"}),
    "guidellm": tools.guidellm_report(tools.guidellm_benchmark(_RUN)),
    "benchmark-runner": tools.guidellm_report(tools.guidellm_benchmark(_RUN)),
    "aiperf": tools.aiperf_document(_RUN),
    "genai-perf": {k: v for k, v in tools.aiperf_document(_RUN).items() if k != "aiperf_version"},
    "inference-perf": tools.inference_perf_stage(_RUN),
    "llm-d": tools.llm_d_report(_RUN),
}
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.just([])
    | st.just({})
    | st.just([{}])
)


def _paths(document: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [prefix] if prefix else []
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        found += _paths(value, (*prefix, key))
    return found


def _replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = _replaced(copy[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_value_in_any_field_is_accounted_for(format_name: str, data: st.DataObject, tmp_path: Path) -> None:
    document = _DOCUMENTS[format_name]
    for _ in range(data.draw(st.integers(1, 2))):
        where = data.draw(st.sampled_from(_paths(document)))
        document = _replaced(document, where, data.draw(_VALUES))
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document))
    report = import_files([path], format_name, ImportOptions(identity=parse_identity(tools.IDENTITY)))
    assert report.read == report.imported + sum(report.refused_rows.values())
    # The net under the importers stays empty: they refuse row by row, with the field named.
    assert not any("shape that this importer does not know" in refusal.detail for refusal in report.refusals)
    for refusal in report.refusals:
        assert str(refusal).isprintable()
    loaded = load_text(catalog_yaml(report.catalog), "imported")
    assert isinstance(loaded, LoadedCatalog), loaded.message
    assert loaded.catalog == report.catalog


def _reversed(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _reversed(value) for key, value in reversed(document.items())}
    return [_reversed(value) for value in document] if isinstance(document, list) else document


def _with_more(document: Any) -> Any:
    """Fields that no tool writes yet, at every level."""
    if isinstance(document, dict):
        return {key: _with_more(value) for key, value in document.items()} | {"x_new": {"p50": -1, "avg": "?"}}
    return [_with_more(value) for value in document] if isinstance(document, list) else document


SAME: dict[str, Callable[[Any], bytes]] = {
    "fields in another order": lambda document: json.dumps(_reversed(document)).encode(),
    "fields that nobody knows": lambda document: json.dumps(_with_more(document)).encode(),
    "indented, with the line ends of Windows": lambda d: json.dumps(d, indent=2).replace("\n", "\r\n").encode(),
    "a byte order mark": lambda document: b"\xef\xbb\xbf" + json.dumps(document).encode(),
}


@pytest.mark.parametrize("written", SAME.values(), ids=SAME.keys())
@pytest.mark.parametrize("format_name", FORMATS)
def test_the_same_run_written_otherwise_is_the_same_catalog(
    format_name: str, written: Callable[[Any], bytes], tmp_path: Path
) -> None:
    engine = "sglang" if format_name == "sglang" else "vllm"
    options = ImportOptions(identity=parse_identity(tools.IDENTITY.replace("vllm", engine)))
    name = "profile_export_aiperf.json" if format_name == "aiperf" else "result.json"
    catalogs = []
    for folder, content in (
        ("a", json.dumps(_DOCUMENTS[format_name]).encode()),
        ("b", written(_DOCUMENTS[format_name])),
    ):
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_bytes(content)
        report = import_files([path], format_name, options)
        assert report.imported == 1, [str(refusal) for refusal in report.refusals]
        catalogs.append(catalog_yaml(report.catalog))
    assert catalogs[0] == catalogs[1]


def _zipped(document: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("result.json", json.dumps(document))
    return buffer.getvalue()


UNREADABLE: dict[str, tuple[Callable[[Any], bytes], str]] = {
    "compressed with gzip": (lambda document: gzip.compress(json.dumps(document).encode()), "gzip"),
    "in a zip archive": (_zipped, "zip"),
    "cut off in the middle": (lambda document: json.dumps(document).encode()[:-40], ""),
    "cut off in the middle of a character": (lambda _: '{"a": "ü'.encode()[:-1], ""),
}


@pytest.mark.parametrize(("written", "hint"), UNREADABLE.values(), ids=UNREADABLE.keys())
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_that_cannot_be_read_is_one_refusal_that_says_why(
    format_name: str, written: Callable[[Any], bytes], hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(written(_DOCUMENTS[format_name]))
    report = import_files([path], format_name, ImportOptions())
    assert report.refused == {"Unreadable": 1}
    assert hint in report.refusals[0].detail


BEYOND: dict[str, tuple[dict[str, Any], Rule]] = {
    "a throughput that no replica has": (tools.vllm_record(tools.Run(per_token=1e-6, ttft=1e-3)), Rule.UNITS),
    "a day of latency": (tools.vllm_record(tools.Run(ttft=90_000_000.0, rounds=1)), Rule.UNITS),
    "a latency that rounds to nothing": (tools.vllm_record(_RUN, median_itl_ms=1e-5), Rule.NOT_POSITIVE),
    "a negative number of failures": (tools.vllm_record(_RUN, failed=-3), Rule.NOT_POSITIVE),
    "more requests than any run has": (tools.vllm_record(_RUN, completed=3e9, num_prompts=3e9), Rule.MALFORMED),
    "fewer requests than slots": (tools.vllm_record(tools.Run(concurrency=32, rounds=1), completed=31, num_prompts=31, total_input_tokens=31 * 1024, total_output_tokens=31 * 256), Rule.LITTLES_LAW),
    "a name of a model that is a paragraph": (tools.vllm_record(_RUN, model_id="x" * 600), Rule.MALFORMED),
    "degrees in the metadata that contradict": (tools.vllm_record(_RUN, tp="4"), Rule.IDENTITY_CONTRADICTED),
    "an export of AIPerf": (tools.aiperf_document(_RUN), Rule.NOT_THIS_FORMAT),
}  # fmt: skip


@pytest.mark.parametrize(("record", "rule"), BEYOND.values(), ids=BEYOND.keys())
def test_what_a_catalog_could_not_hold_is_refused_row_by_row(
    record: dict[str, Any], rule: Rule, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in (tools.vllm_record(tools.Run(concurrency=8)), record)))
    report = import_files([path], "vllm", ImportOptions(identity=parse_identity(tools.IDENTITY)))
    assert report.refused == {rule.value: 1}
    assert report.imported == 1


SECRET = "sk-Sesam/oeffne"
SPOTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "a variable": lambda report: report | {"env": {"HF_TOKEN": SECRET}},
    "a list of variables": lambda report: report | {"environment": [{"name": "HF_TOKEN", "value": SECRET}]},
    "a list of texts": lambda report: report | {"envs": [f"HF_TOKEN={SECRET}"]},
    "a key of the endpoint": lambda report: report | {"endpoint": {"api_key": SECRET}},
    "a header": lambda report: report | {"headers": {"Authorization": SECRET}},
    "a command line": lambda report: report | {"cli_command": f"aiperf profile --api-key {SECRET} --url http://x"},
}


@pytest.mark.parametrize("planted", SPOTS.values(), ids=SPOTS.keys())
@pytest.mark.parametrize("format_name", ["vllm", "llm-d", "aiperf", "inferencex"])
def test_no_secret_of_a_file_is_repeated_in_a_refusal(
    format_name: str, planted: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    document = copy.deepcopy(_DOCUMENTS[format_name])
    row = document[0] if isinstance(document, list) else document
    # Where a refusal quotes what it found.
    wrong = {
        "vllm": lambda: row.update(output_throughput=f"x{SECRET}"),
        "llm-d": lambda: row["results"]["request_performance"]["aggregate"]["latency"]["request_latency"].update(
            units=f"x{SECRET}"
        ),
        "aiperf": lambda: row["time_to_first_token"].update(unit=f"x{SECRET}"),
        "inferencex": lambda: row.update(hw=f"x{SECRET}"),
    }
    wrong[format_name]()
    row = planted(row)
    path = tmp_path / "result.json"
    path.write_text(json.dumps([row] if isinstance(document, list) else row))
    report = import_files([path], format_name, ImportOptions(identity=parse_identity(tools.IDENTITY)))
    (refusal,) = report.refusals
    assert SECRET not in refusal.detail
    assert "[redacted]" in refusal.detail


def test_a_long_file_tells_its_progress_before_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps([{"tput_per_gpu": 1.0}] * 5000))
    heard: list[tuple[int, int, int]] = []
    import_files([path], "inferencex", ImportOptions(), progress=lambda *told: heard.append(told))
    assert heard == [(0, 1, 2000), (0, 1, 4000), (1, 1, 5000)]
