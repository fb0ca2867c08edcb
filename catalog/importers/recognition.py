"""What a file is that an importer was given: told by its content, so that a refusal can name the way out.

Only signs that one writer has and no other are trusted; None where there is none. Nothing is built out of text that is
no JSON: of YAML and CSV only the names at the outermost level are looked at, so a hostile file costs one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, Final, NamedTuple

from catalog.schema import CONFIG_MAP_KEY, KIND


class FileKind(StrEnum):
    """What kinds of files people give."""

    RESULT = "result"
    # Of a tool, but no measurement: the name says what.
    REQUESTS = "single requests"
    CATALOG = "catalog"
    CONFIG_MAP = "ConfigMap with a catalog"
    OBJECT = "Kubernetes object"
    OTHER_TEXT = "text"


class Layout(StrEnum):
    """How it is written."""

    JSON = "JSON"
    YAML = "YAML"
    CSV = "CSV"
    HTML = "HTML"


class Recognised(NamedTuple):
    """`name` is the `--from` of a tool, the kind of an object, or empty."""

    kind: FileKind
    name: str = ""
    layout: Layout = Layout.JSON


TOOL_NAMES: Final[dict[str, str]] = {
    "inferencex": "InferenceX",
    "vllm": "vllm bench serve",
    "sglang": "sglang.bench_serving",
    "guidellm": "guidellm",
    "aiperf": "AIPerf",
    "genai-perf": "GenAI-Perf",
    "inference-perf": "inference-perf",
    "llm-d": "llm-d-benchmark",
    "benchmark-runner": "GPUStack benchmark-runner",
}
# What each importer reads: said where a file is nothing that is known.
RESULT_FILES: Final[dict[str, str]] = {
    "inferencex": "agg_bmk.json and the replies of InferenceX's API",
    "vllm": "the JSON of vllm bench serve --save-result",
    "sglang": "the JSON lines of sglang.bench_serving --output-file",
    "guidellm": "the JSON report of guidellm",
    "aiperf": "profile_export_aiperf.json and .csv",
    "genai-perf": "profile_export_genai_perf.json and .csv",
    "inference-perf": "stage_N_lifecycle_metrics.json",
    "llm-d": "benchmark reports, YAML or JSON",
    "benchmark-runner": "its <name>.json reports",
}
# One writes what another writes: neither is a mistake for the other.
_SAME_LAYOUT: Final = (frozenset(("guidellm", "benchmark-runner")),)
_SAME_TABLE: Final = frozenset(("aiperf", "genai-perf"))

_STATISTICS: Final = ("time_to_first_token", "ttft", "request_latency")
# How many records of a long list are looked at; one file holds one kind.
_RECORDS_SEEN: Final = 20
# `name: value` at the outermost level of block YAML.
_TOP_LEVEL: Final = re.compile(rb"^([A-Za-z][\w.-]{0,63})[ \t]{0,8}:(?=\s|\Z)([^\r\n]{0,256})", re.MULTILINE)
_CATALOG_KEY: Final = re.compile(
    rb"^[ \t]+[\"']?" + re.escape(CONFIG_MAP_KEY.encode()) + rb"[\"']?[ \t]*:", re.MULTILINE
)
_KIND: Final = re.compile(r"[A-Za-z]{1,63}")
# Fewer may be a sentence.
_COLUMNS: Final = 3


def recognise(documents: Iterable[Any], data: bytes) -> Recognised | None:
    """What a file is, by the JSON values that were read out of it (none where it is no JSON), else by its text."""
    values = [value for value in documents if isinstance(value, dict | list)]
    if values:
        return next(filter(None, map(_record, islice(_records(values), _RECORDS_SEEN))), None)
    return _text(data.removeprefix(b"\xef\xbb\xbf"))


def fits(found: Recognised, format_name: str) -> bool:
    """Whether `--from format_name` was right for it."""
    if found.kind is not FileKind.RESULT:
        return False
    pair = {found.name, format_name}
    same = len(pair) == 1 or any(pair <= layout for layout in _SAME_LAYOUT)
    if found.layout is Layout.YAML:
        return same and found.name == "llm-d"
    return same or (found.layout is Layout.CSV and pair <= _SAME_TABLE)


def import_advice(found: Recognised) -> str:
    """For a file that was given to the wrong import: what it is and what to do with it."""
    match found.kind:
        case FileKind.RESULT if found.layout is Layout.YAML and found.name != "llm-d":
            return f"this is a result of {TOOL_NAMES[found.name]} as YAML: import its JSON with --from {found.name}"
        case FileKind.RESULT:
            return f"this is a result of {TOOL_NAMES[found.name]}: use --from {found.name}"
        case FileKind.REQUESTS:
            files = RESULT_FILES[found.name]
            return f"these are single requests of {TOOL_NAMES[found.name]}: --from {found.name} reads {files}"
        case FileKind.CATALOG:
            return "this is a catalog already: put it together with others by mdscaler priors merge"
        case FileKind.CONFIG_MAP:
            return "this is a ConfigMap with a catalog: put it together with others by mdscaler priors merge"
        case FileKind.OBJECT:
            return f"this is a Kubernetes object ({found.name}) and no result of a benchmark"
        case _:
            return f"this is {found.layout.value}"


def _records(values: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """The objects of a file: one, those of a list, those in the lists that an API's reply holds under names."""
    for value in values:
        if isinstance(value, dict):
            yield value
            yield from (
                row for rows in value.values() if isinstance(rows, list) for row in rows[:1] if isinstance(row, dict)
            )
        else:
            yield from (row for row in value if isinstance(row, dict))


def _record(record: Mapping[str, Any]) -> Recognised | None:
    kind = record.get("kind")
    if isinstance(kind, str) and "apiVersion" in record:
        items = record.get("items")
        objects = [record, *(items if isinstance(items, list) else ())]
        return _object(kind, any(_holds_catalog(each) for each in objects), Layout.JSON)
    tool = _tool(record)
    if tool is not None:
        return Recognised(FileKind.RESULT, tool)
    metadata = record.get("metadata")
    if isinstance(metadata, dict) and "x_request_id" in metadata:
        return Recognised(FileKind.REQUESTS, "aiperf")
    return None


def _tool(record: Mapping[str, Any]) -> str | None:
    metrics, benchmarks = record.get("metrics"), record.get("benchmarks")
    if isinstance(benchmarks, list) and any(isinstance(each, dict) and "metrics" in each for each in benchmarks):
        return "guidellm"
    if "load_summary" in record and "successes" in record:
        return "inference-perf"
    if "scenario" in record and ("metrics" in record or "results" in record):
        return "llm-d"
    if "tput_per_gpu" in record or "infmax_model_prefix" in record:
        return "inferencex"
    if isinstance(metrics, dict) and "tput_per_gpu" in metrics:
        return "inferencex"
    records = record.get("records")
    for holder in (record, records if isinstance(records, dict) else {}):
        if any(isinstance(holder.get(name), dict) and "avg" in holder[name] for name in _STATISTICS):
            return "genai-perf" if holder is record and is_genai_perf(record) else "aiperf"
    if any(isinstance(record.get(sign), int | float) for sign in ("output_throughput", "total_token_throughput")):
        later = ("server_info", "mean_e2e_latency_ms", "median_e2e_latency_ms", "total_throughput")
        return "sglang" if any(sign in record for sign in later) else "vllm"
    return None


def is_genai_perf(document: Mapping[str, Any]) -> bool:
    """Whether an export with AIPerf's names is its predecessor's: its configuration drives Perf Analyzer."""
    config = document.get("input_config")
    return "aiperf_version" not in document and isinstance(config, dict) and "perf_analyzer" in config


def _holds_catalog(value: Any) -> bool:
    data = value.get("data") if isinstance(value, dict) else None
    return isinstance(data, dict) and CONFIG_MAP_KEY in data


def _object(kind: str, holds_catalog: bool, layout: Layout) -> Recognised | None:
    if kind == KIND:
        return Recognised(FileKind.CATALOG, layout=layout)
    if holds_catalog:
        return Recognised(FileKind.CONFIG_MAP, "ConfigMap", layout)
    return Recognised(FileKind.OBJECT, kind, layout) if _KIND.fullmatch(kind) else None


def _text(data: bytes) -> Recognised | None:
    top: dict[str, str] = {}
    for match in _TOP_LEVEL.finditer(data):
        value = match.group(2).split(b" #")[0].strip().strip(b"\"'")
        top.setdefault(match.group(1).decode(), value.decode("utf-8", "replace"))
    if "kind" in top and "apiVersion" in top:
        holds_catalog = top["kind"] in ("ConfigMap", "List") and _CATALOG_KEY.search(data) is not None
        return _object(top["kind"], holds_catalog, Layout.YAML)
    if "scenario" in top and ("metrics" in top or "results" in top):
        return Recognised(FileKind.RESULT, "llm-d", Layout.YAML)
    if "benchmarks" in top and ("metadata" in top or "args" in top or "config" in top):
        return Recognised(FileKind.RESULT, "guidellm", Layout.YAML)
    head = data.lstrip()[:4096].lower()
    if head.startswith(b"metric,"):
        # GenAI-Perf writes the highest quantile first.
        columns = head.splitlines()[0].split(b",")
        quantiles = [float(c[1:]) for c in columns if c[:1] == b"p" and c[1:].replace(b".", b"", 1).isdigit()]
        falls = len(quantiles) > 1 and quantiles[0] > quantiles[-1]
        return Recognised(FileKind.RESULT, "genai-perf" if falls else "aiperf", Layout.CSV)
    if head.startswith((b"<!doctype html", b"<html")):
        return Recognised(FileKind.OTHER_TEXT, layout=Layout.HTML)
    commas = [line.count(b",") for line in head.splitlines()[:2]]
    if head.startswith((b"{", b"[")):
        return None
    if len(commas) > 1 and commas[0] == commas[1] >= _COLUMNS - 1:
        return Recognised(FileKind.OTHER_TEXT, layout=Layout.CSV)
    return Recognised(FileKind.OTHER_TEXT, layout=Layout.YAML) if len(top) > 1 else None
