"""Reading traffic traces.

Two kinds of CSV file are read, plain or gzip-compressed (recognised by content, not by name), told apart by their
header:

* raw: `t_s,prompt_tokens,output_tokens`, a row per request;
* binned: `t_s,requests,prompt_tokens,output_tokens`, a row per bin, `t_s` being its start.

Columns are found by name, in any order and any case; further columns are ignored. A byte order mark, CRLF, spaces
around values and empty lines are fine. Times are seconds from any origin; the trace starts at its first row.

The file is streamed: memory is three numbers a row. Whatever cannot be read raises `TraceError`, which names file, line
and column and says what is expected. Raw rows may be out of order (logs are often written at completion); they are
sorted. Bins must ascend; a gap between bins is a gap in the source and becomes time without requests.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from controller.foundation import UsageError, describe

_RAW_COLUMNS = ("t_s", "prompt_tokens", "output_tokens")
_BINNED_COLUMNS = ("t_s", "requests", "prompt_tokens", "output_tokens")
_GZIP_MAGIC = b"\x1f\x8b"
# A row may carry the block hashes of a million-token prompt; the csv module's own limit is 131,072 characters.
_LARGEST_FIELD = 1 << 22
_LARGEST_TOKENS = 1 << 31  # of one request; more is a broken file, and would overflow the arrays


class TraceError(UsageError):
    """A trace file that cannot be used. The message names the file and, where known, line and column."""

    def __init__(self, path: Path, message: str, *, line: int | None = None, column: str | None = None) -> None:
        place = f", line {line}" if line is not None else ""
        place += f", column {column}" if column is not None else ""
        super().__init__(f"trace {path}{place}: {message}")
        self.path = path
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests in order of arrival, times counted from the start of the trace. Arrays have equal length."""

    t_seconds: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    duration_seconds: float

    def __len__(self) -> int:
        return len(self.t_seconds)

    @property
    def total_tokens(self) -> int:
        """Prompt and output tokens of all requests."""
        return int(self.prompt_tokens.sum() + self.output_tokens.sum())


@dataclass(frozen=True, slots=True)
class BinnedTrace:
    """Counts per bin of equal width, times counted from the start of the trace. Counts need not be whole: some sources
    publish expected values."""

    t_seconds: NDArray[np.float64]
    requests: NDArray[np.float64]
    prompt_tokens: NDArray[np.float64]
    output_tokens: NDArray[np.float64]
    bin_seconds: float

    def __len__(self) -> int:
        return len(self.t_seconds)

    @property
    def duration_seconds(self) -> float:
        """From the start of the first bin to the end of the last."""
        return float(self.t_seconds[-1]) + self.bin_seconds


def read_trace(path: Path) -> RequestTrace | BinnedTrace:
    """Read a trace file. Raises TraceError; see the module for the formats."""
    with _text(path) as text:
        rows = _rows(path, text)
        try:
            line, header = next(rows)
        except StopIteration:
            raise TraceError(path, f"is empty; expected a header such as {','.join(_RAW_COLUMNS)}") from None
        names = [name.strip().lower() for name in header]
        binned = "requests" in names
        columns = _locate(path, line, names, _BINNED_COLUMNS if binned else _RAW_COLUMNS)
        return _read_binned(path, rows, columns) if binned else _read_raw(path, rows, columns)


def _read_raw(path: Path, rows: Iterator[tuple[int, list[str]]], columns: dict[str, int]) -> RequestTrace:
    times, prompts, outputs = array("d"), array("q"), array("q")
    for line, row in rows:
        times.append(_number(path, line, row, columns, "t_s"))
        prompts.append(_tokens(path, line, row, columns, "prompt_tokens"))
        outputs.append(_tokens(path, line, row, columns, "output_tokens"))
    if not times:
        raise TraceError(path, "has a header but no requests")
    t = np.frombuffer(times, dtype=np.float64)
    order = np.argsort(t, kind="stable")
    t = t[order] - t[order[0]]
    return RequestTrace(
        t_seconds=t,
        prompt_tokens=np.frombuffer(prompts, dtype=np.int64)[order],
        output_tokens=np.frombuffer(outputs, dtype=np.int64)[order],
        duration_seconds=float(t[-1]),
    )


def _read_binned(path: Path, rows: Iterator[tuple[int, list[str]]], columns: dict[str, int]) -> BinnedTrace:
    series: dict[str, array[float]] = {name: array("d") for name in _BINNED_COLUMNS}
    for line, row in rows:
        start = _number(path, line, row, columns, "t_s")
        if series["t_s"] and start <= series["t_s"][-1]:
            raise TraceError(
                path, f"bins must ascend, found {start:g} after {series['t_s'][-1]:g}", line=line, column="t_s"
            )
        series["t_s"].append(start)
        for name in _BINNED_COLUMNS[1:]:
            value = _number(path, line, row, columns, name)
            if value < 0:
                raise TraceError(path, f"must not be negative, found {value:g}", line=line, column=name)
            series[name].append(value)
    if len(series["t_s"]) < 2:
        raise TraceError(path, "a binned trace needs at least two bins, or their width is unknown")
    t = np.frombuffer(series["t_s"], dtype=np.float64)
    if not any(series["requests"]):
        raise TraceError(path, "holds no requests: every bin is 0", column="requests")
    return BinnedTrace(
        t_seconds=t - t[0],
        requests=np.frombuffer(series["requests"], dtype=np.float64),
        prompt_tokens=np.frombuffer(series["prompt_tokens"], dtype=np.float64),
        output_tokens=np.frombuffer(series["output_tokens"], dtype=np.float64),
        bin_seconds=float(np.diff(t).min()),
    )


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    try:
        with path.open("rb") as file:
            compressed = file.peek(2)[:2] == _GZIP_MAGIC
            binary: IO[bytes] = gzip.GzipFile(fileobj=file) if compressed else file  # type: ignore[assignment]
            yield io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise TraceError(path, f"is a damaged gzip file: {error}") from None
    except UnicodeDecodeError:
        raise TraceError(path, "is not UTF-8 text; expected a CSV file, plain or gzip-compressed") from None


def _rows(path: Path, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every row that is not empty."""
    before = csv.field_size_limit(_LARGEST_FIELD)
    try:
        reader = csv.reader(text, strict=True)
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise TraceError(path, f"is not CSV: {error}", line=reader.line_num) from None
            if any(field.strip() for field in row):
                yield reader.line_num, row
    finally:
        csv.field_size_limit(before)


def _locate(path: Path, line: int, names: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    missing = [name for name in wanted if name not in names]
    if missing:
        found = ", ".join(describe(name) for name in names[:12])
        raise TraceError(
            path,
            f"the header lacks {', '.join(missing)}; a raw trace has {','.join(_RAW_COLUMNS)}, a binned one "
            f"{','.join(_BINNED_COLUMNS)}; found {found}",
            line=line,
        )
    twice = [name for name in wanted if names.count(name) > 1]
    if twice:
        raise TraceError(path, f"the header names {', '.join(twice)} more than once", line=line)
    return {name: names.index(name) for name in wanted}


def _number(path: Path, line: int, row: list[str], columns: dict[str, int], name: str) -> float:
    index = columns[name]
    if index >= len(row):
        raise TraceError(
            path, f"the row has {len(row)} fields, this column is number {index + 1}", line=line, column=name
        )
    text = row[index].strip()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TraceError(path, f"must be a number, found {describe(text)}", line=line, column=name)
    return value


def _tokens(path: Path, line: int, row: list[str], columns: dict[str, int], name: str) -> int:
    value = _number(path, line, row, columns, name)
    if value < 0 or value >= _LARGEST_TOKENS or value != int(value):
        raise TraceError(path, f"must be a whole number of tokens, found {value:g}", line=line, column=name)
    return int(value)
