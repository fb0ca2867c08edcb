"""Whatever a file holds, an import accounts for every row and raises nothing."""

from __future__ import annotations

import json
import os
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
    assert report.read == report.imported + len(report.refusals)
    assert report.read >= len(SAMPLES)
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
    "sglang": tools.sglang_record(_RUN, server_info={"tp_size": 1, "model_path": "a/b"}),
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
    assert report.read == report.imported + len(report.refusals)
    # The net under the importers stays empty: they refuse row by row, with the field named.
    assert not any("shape that this importer does not know" in refusal.detail for refusal in report.refusals)
