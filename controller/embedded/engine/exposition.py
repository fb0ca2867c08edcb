"""The text of an engine's `/metrics` page, made from a recorded one.

`Template` reads the recorded page once: every line that is not a value is fixed bytes, every series is a slot. A `Page`
holds the values of one engine process and renders by joining lines, of which only those that changed since the last
time are formatted anew: a scrape of an idle engine costs one join.

What is taken over from the recording: names, help texts, types, labels, bucket bounds, order of lines. What is changed
is told by a `Recording` (the model's name, the lines of data-parallel ranks, sizes) and, per line: values of counters
and histograms start at 0, those of gauges too unless the recording calls them constant. What is left out: families of
the process and of the HTTP server, which describe a process that does not exist here.

A labelled series of a Python engine is not printed before its first value. Where a recording says so (`hidden`), its
series come into sight when they are first set, their header with the first of them.
"""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_DATA = Path(__file__).parent / "data"
_SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')

# Selections kept per page; scrapers use one or two. More would be somebody walking through names.
_MOST_SELECTIONS = 16

Labels = tuple[tuple[str, str], ...]
# Rank; sample name; values of the labels that tell series apart, in the order of the page, but a bucket's bound last.
SlotKey = tuple[int, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded series: name, labels in their order, value."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Recording:
    """How a recorded page becomes the page of an engine.

    `common`: labels with one value on the whole page, or one per rank; a slot is found without them. `keeps`: whether
    a family stays, by the name of its first sample. `relabel`: the labels of a series on a rank, None where the series
    is not printed for it. `constant`: gauges whose recorded value stays. `hidden`: whether a family is unborn before
    its first value. `resize`: the series of a family, changed to the sizes of this engine.
    """

    file: str
    common: frozenset[str]
    keeps: Callable[[str], bool]
    relabel: Callable[[Recorded, int], Labels | None]
    constant: frozenset[str]
    hidden: Callable[[list[Recorded]], bool]
    resize: Callable[[list[Recorded]], list[Recorded]]


@dataclass(slots=True)
class _Family:
    header: list[str] = field(default_factory=list)
    series: list[Recorded] = field(default_factory=list)

    @property
    def is_gauge(self) -> bool:
        return any(line.startswith("# TYPE") and line.endswith(" gauge") for line in self.header)


@dataclass(frozen=True, slots=True)
class Template:
    """The fixed part of a page: `lines[i]` is a whole comment line or a series up to its value."""

    lines: tuple[bytes, ...]
    names: tuple[str, ...]  # sample name of every line; of a comment, the first of the family it heads
    is_series: tuple[bool, ...]
    initial: Mapping[int, float]  # line -> value of an idle engine
    hidden: frozenset[int]  # lines out of sight before their first value, headers included
    header_of: Mapping[int, tuple[int, ...]]  # hidden series -> lines of its header
    slots: Mapping[SlotKey, int]  # key -> line

    def bounds(self, histogram: str, *labels: str, rank: int = 0) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Upper bounds of a histogram's buckets, ascending, +Inf last, and their lines. Raises KeyError."""
        before, name = len(labels), f"{histogram}_bucket"
        found = [
            (float(key[2][-1]), line)
            for key, line in self.slots.items()
            if key[:2] == (rank, name) and key[2][:before] == labels and len(key[2]) == before + 1
        ]
        if not found:
            raise KeyError(histogram)
        return tuple(bound for bound, _ in found), tuple(line for _, line in found)


def make_template(recording: Recording, ranks: int) -> Template:
    """The page of an engine with `ranks` data-parallel ranks."""
    lines: list[bytes] = []
    names: list[str] = []
    is_series: list[bool] = []
    initial: dict[int, float] = {}
    slots: dict[SlotKey, int] = {}
    hidden: set[int] = set()
    header_of: dict[int, tuple[int, ...]] = {}

    def add(text: str, name: str, series: bool) -> int:
        lines.append(text.encode())
        names.append(name)
        is_series.append(series)
        return len(lines) - 1

    for family in _families((_DATA / recording.file), recording):
        unborn = recording.hidden(family.series)
        header = tuple(add(f"{line}\n", family.series[0].name, False) for line in family.header)
        for rank in range(ranks):
            for series in family.series:
                labels = recording.relabel(series, rank)
                if labels is None:
                    continue
                line = add(_prefix(series.name, labels), series.name, True)
                slots[rank, series.name, _apart(labels, recording.common)] = line
                keeps_value = family.is_gauge and series.name in recording.constant
                initial[line] = series.value if keeps_value else 0.0
                if unborn:
                    hidden.add(line)
                    header_of[line] = header
        if unborn:
            hidden.update(header)
    return Template(tuple(lines), tuple(names), tuple(is_series), initial, frozenset(hidden), header_of, slots)


class Page:
    """The values of one engine process. Counters count from 0 and `_created` is `started_seconds`."""

    def __init__(self, template: Template, started_seconds: float) -> None:
        self._template = template
        self._lines = list(template.lines)
        self._values: dict[int, float] = {}
        self._selections: dict[frozenset[str], list[int]] = {}
        for line in template.hidden:
            self._lines[line] = b""
        for line, value in template.initial.items():
            if line not in template.hidden:
                self.set(line, started_seconds if _is_birth(template.names[line]) else value)

    def slot(self, name: str, *labels: str, rank: int = 0) -> int:
        """The line of a series. Raises KeyError for one that the recorded page does not have."""
        return self._template.slots[rank, name, labels]

    def set(self, line: int, value: float) -> None:
        """Give a series its value."""
        if self._values.get(line) != value:
            if line not in self._values:
                for header in self._template.header_of.get(line, ()):
                    self._lines[header] = self._template.lines[header]
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


def format_value(value: float) -> str:
    """A float as the Python client writes it: `8.0`, and from ten million on `1.795957966309613e+09`."""
    if math.isnan(value):
        return "NaN"
    text = repr(float(value))
    point = text.find(".")
    if value > 0 and point > 6:
        digits = (text[1:point] + text[point + 1 :]).rstrip("0")
        return f"{text[0]}{'.' if digits else ''}{digits}e+{point - 1:02d}"
    return text


def replaced(labels: Labels, changes: Mapping[str, object]) -> Labels:
    """The labels with new values for those that are there."""
    return tuple((name, str(changes.get(name, value))) for name, value in labels)


def _apart(labels: Labels, common: frozenset[str]) -> tuple[str, ...]:
    bound = tuple(value for name, value in labels if name == "le")
    return tuple(value for name, value in labels if name not in common and name != "le") + bound


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


def _is_birth(name: str) -> bool:
    return name.endswith("_created") or name == "process_start_time_seconds"


def _families(path: Path, recording: Recording) -> Iterator[_Family]:
    with gzip.open(path, "rt", encoding="utf-8") as recorded:
        lines = recorded.read().splitlines()
    for family in _grouped(lines):
        if recording.keeps(family.series[0].name):
            family.series = recording.resize(family.series)
            yield family


def _grouped(lines: Iterable[str]) -> Iterator[_Family]:
    family = _Family()
    for line in filter(None, lines):
        if line.startswith("#"):
            if family.series:
                yield family
                family = _Family()
            elif line.startswith("# HELP"):
                family = _Family()  # a family without series so far: its header is dropped
            family.header.append(line)
            continue
        match = _SAMPLE.match(line)
        if match is None:
            raise ValueError(f"the recorded page holds a line that is no sample: {line[:80]!r}")
        family.series.append(Recorded(match[1], tuple(_LABEL.findall(match[2] or "")), float(match[3])))
    if family.series:
        yield family


def _prefix(name: str, labels: Labels) -> str:
    if not labels:
        return name
    pairs = ",".join([f'{label}="{value}"' for label, value in labels])
    return f"{name}{{{pairs}}}"
