"""The text of a vLLM `/metrics` page, made from a captured one.

`Template` reads the captured page once: every line that is not a value is fixed bytes, every series is a slot. A `Page`
holds the values of one engine process and renders by joining lines, of which only those that changed since the last
time are formatted anew: a scrape of an idle engine costs one join.

What is taken over from the capture: names, help texts, types, labels, bucket bounds, order of lines, the `_created`
gauges of a single process. What is changed: the model name; the bounds of token counts, which vLLM cuts at the model's
maximum length (the 1-2-5 series goes on to there); the cache size in `cache_config_info`. What is left out: `python_*`,
most of `process_*` and `http_*`, which describe a process that does not exist here.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

_CAPTURE = Path(__file__).parent / "data" / "vllm-v0.32-idle.txt.gz"
_CAPTURED_MODEL = "tiny-llama"
_SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_KEPT = ("vllm:", "process_start_time_seconds")
_BLOCK_TOKENS = 16  # vLLM's block size on CUDA; the capture is from a CPU build

# Selections kept per page; scrapers use one or two. More would be somebody walking through names.
_MOST_SELECTIONS = 16

SlotKey = tuple[str, tuple[str, ...]]  # sample name; values of the labels other than engine and model_name, in order


@dataclass(slots=True)
class _Family:
    header: list[bytes] = field(default_factory=list)
    series: list[tuple[str, bytes, SlotKey, float]] = field(
        default_factory=list
    )  # name, line up to the value, key, value


@dataclass(frozen=True, slots=True)
class Template:
    """The fixed part of a page: `lines[i]` is a whole comment line or a series up to its value."""

    lines: tuple[bytes, ...]
    names: tuple[str, ...]  # sample name of every line; of a comment, the family it heads
    is_series: tuple[bool, ...]
    initial: Mapping[int, float]  # line -> captured value of an idle engine
    slots: Mapping[SlotKey, int]  # key -> line

    def bounds(self, histogram: str) -> tuple[float, ...]:
        """Upper bounds of a histogram's buckets, ascending, +Inf last. Raises KeyError for an unknown one."""
        found = [float(key[1][-1]) for key in self.slots if key[0] == f"{histogram}_bucket"]
        if not found:
            raise KeyError(histogram)
        return tuple(found)


@lru_cache(maxsize=8)
def template(model_name: str, max_model_len: int, kv_cache_tokens: int) -> Template:
    """The page of an engine that serves `model_name`. Cached: all replicas of a deployment share one."""
    lines: list[bytes] = []
    names: list[str] = []
    is_series: list[bool] = []
    initial: dict[int, float] = {}
    slots: dict[SlotKey, int] = {}
    with gzip.open(_CAPTURE, "rt", encoding="utf-8") as capture:
        text = capture.read()
    text = text.replace(f'"{_CAPTURED_MODEL}"', f'"{_escaped(model_name)}"')
    for family in _families(text, max_model_len, kv_cache_tokens):
        for header in family.header:
            lines.append(header)
            names.append(family.series[0][0])
            is_series.append(False)
        for name, prefix, key, value in family.series:
            slots[key] = len(lines)
            initial[len(lines)] = value
            lines.append(prefix)
            names.append(name)
            is_series.append(True)
    return Template(tuple(lines), tuple(names), tuple(is_series), initial, slots)


class Page:
    """The values of one engine process. Counters count from 0 and `_created` is `started_seconds`."""

    def __init__(self, template: Template, started_seconds: float) -> None:
        self._template = template
        self._lines = list(template.lines)
        self._values: dict[int, float] = {}
        self._selections: dict[frozenset[str], list[int]] = {}
        for line, value in template.initial.items():
            created = template.names[line].endswith("_created") or template.names[line] == "process_start_time_seconds"
            self.set(line, started_seconds if created else value)

    def slot(self, name: str, *labels: str) -> int:
        """The line of a series. Raises KeyError for one that the captured page does not have."""
        return self._template.slots[name, labels]

    def set(self, line: int, value: float) -> None:
        """Give a series its value."""
        if self._values.get(line) != value:
            self._values[line] = value
            self._lines[line] = b"%s %s\n" % (self._template.lines[line], format_value(value).encode())

    def render(self, names: frozenset[str] | None = None) -> bytes:
        """The page, or only the series of these sample names with their headers, as `?name[]=` asks for."""
        if not names:
            return b"".join(self._lines)
        chosen = self._selections.get(names)
        if chosen is None:
            if len(self._selections) >= _MOST_SELECTIONS:
                self._selections.clear()
            chosen = self._selections[names] = _select(self._template, names)
        return b"".join([self._lines[line] for line in chosen])


def _select(template: Template, names: frozenset[str]) -> list[int]:
    chosen: list[int] = []
    headers: list[int] = []
    for line, series in enumerate(template.is_series):
        if not series:
            if line and template.is_series[line - 1]:
                headers = []
            headers.append(line)
        elif template.names[line] in names:
            chosen += headers
            headers = []
            chosen.append(line)
    return chosen


def format_value(value: float) -> str:
    """A float as the Python client writes it: `8.0`, and from ten million on `1.795957966309613e+09`."""
    text = repr(float(value))
    point = text.find(".")
    if value > 0 and point > 6:
        digits = (text[1:point] + text[point + 1 :]).rstrip("0")
        return f"{text[0]}{'.' if digits else ''}{digits}e+{point - 1:02d}"
    return text


def _families(text: str, max_model_len: int, kv_cache_tokens: int) -> Iterable[_Family]:
    family = _Family()
    for line in text.splitlines():
        if line.startswith("#"):
            if family.series:
                yield from _kept(family, max_model_len, kv_cache_tokens)
                family = _Family()
            elif line.startswith("# HELP"):
                family = _Family()  # a family without series so far: its header is dropped
            family.header.append(f"{line}\n".encode())
            continue
        match = _SAMPLE.match(line)
        if match is None:
            raise ValueError(f"the captured page holds a line that is no sample: {line[:80]!r}")
        name, labels, value = match[1], match[2] or "", float(match[3])
        family.series.append((name, line.rpartition(" ")[0].encode(), (name, _key_labels(labels)), value))
    if family.series:
        yield from _kept(family, max_model_len, kv_cache_tokens)


def _kept(family: _Family, max_model_len: int, kv_cache_tokens: int) -> Iterable[_Family]:
    name = family.series[0][0]
    if not name.startswith(_KEPT):
        return
    if name == "vllm:cache_config_info":
        family.series = [_resized(*series, max_model_len, kv_cache_tokens) for series in family.series]
    if name.endswith("_bucket"):
        family.series = _extended(family.series, max_model_len)
    yield family


def _key_labels(labels: str) -> tuple[str, ...]:
    return tuple(value for name, value in _LABEL.findall(labels) if name not in ("engine", "model_name"))


def _extended(
    series: list[tuple[str, bytes, SlotKey, float]], max_model_len: int
) -> list[tuple[str, bytes, SlotKey, float]]:
    """The series of a histogram whose bounds are the 1-2-5 series cut at the captured model's 2,048 tokens: cut at
    `max_model_len` instead. Others as they are."""
    buckets = [entry for entry in series if entry[0].endswith("_bucket")]
    captured = [entry[2][1][-1] for entry in buckets]
    if captured[:-1] != [f"{bound}.0" for bound in _one_two_five(2048)]:
        return series
    name, prefix, _, _ = buckets[0]
    wanted = [f"{bound}.0" for bound in _one_two_five(max_model_len)] + ["+Inf"]
    first = prefix.decode()
    made = [(name, first.replace('le="1.0"', f'le="{le}"').encode(), (name, (le,)), 0.0) for le in wanted]
    return made + [entry for entry in series if not entry[0].endswith("_bucket")]


def _one_two_five(most: int) -> list[int]:
    bounds = (mantissa * 10**exponent for exponent in range(len(str(most))) for mantissa in (1, 2, 5))
    return [bound for bound in bounds if bound <= most]


def _resized(
    name: str, prefix: bytes, key: SlotKey, value: float, max_model_len: int, kv_cache_tokens: int
) -> tuple[str, bytes, SlotKey, float]:
    text = prefix.decode()
    for label, size in {
        "block_size": _BLOCK_TOKENS,
        "effective_attention_block_size": _BLOCK_TOKENS,
        "kv_cache_size_tokens": kv_cache_tokens,
        "num_gpu_blocks": kv_cache_tokens // _BLOCK_TOKENS,
        "kv_cache_max_concurrency": kv_cache_tokens / max_model_len,
        "kv_cache_memory_bytes": None,
    }.items():
        text = re.sub(rf'([{{,]{label})="[^"]*"', rf'\1="{size}"', text)
    return name, text.encode(), key, value


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
