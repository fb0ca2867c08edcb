"""The scanner: pulls the wanted series out of an exposition without building the others.

Contract
* Input is the whole body as bytes; text 0.0.4, text 1.0.0 or OpenMetrics. HELP and TYPE lines are not needed and not
  believed. Output is one `Sample` per line of a wanted name, in the order of the body, labels decoded.
* A body that is no exposition, or that may be cut, raises `BodyRefused` and nothing else. A body that does not end with
  a newline (or `# EOF`) may be cut: the last number could be 8 of 816, and the ranks after it are missing from every
  sum, so the whole body is refused, as Prometheus does.
* A wanted line that cannot be read yields no sample; its name is in `Scan.damaged`, so that nobody trusts a sum without
  it.
* Cost: one pass in C over the body, then per wanted line a split, a dictionary look-up and `float`. What a line says
  before its value repeats with every scrape and is decoded once (bounded memory; values are always read anew).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from controller.engines.lines import Labels, leading_name, parse_labels, parse_line, parse_plain_labels
from controller.engines.names import PrintedName, line_pattern
from controller.engines.refusal import BodyRefused, Reason

# One engine prints about 70 wanted series and all replicas of a model print the same ones (only Ray workers differ), so
# this holds hundreds of models; at about 0.5 KiB an entry it is 16 MiB at the very most.
DEFAULT_CACHE_ENTRIES = 32_768
# A data-parallel group of 64 prints 4,500. More is an attack or a defect, and would hold the event loop.
DEFAULT_SAMPLE_LIMIT = 20_000
# Real label blocks are below 300 bytes; longer ones are decoded but not kept.
_LONGEST_CACHED_KEY = 1_024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_QUOTED_SERIES = re.compile(rb'\{[ \t]*"(?:[^"\\]++|\\.)*+"[ \t]*[,}]')


class Series(msgspec.Struct, frozen=True, eq=False):
    """What a line says before its value. `name` is as printed, `family` normalised (`:` → `_`) and without suffix.

    Compared by identity: the scanner returns the same object for the same labels, scrape after scrape, so that what
    follows from them can be remembered beside it.
    """

    name: str
    family: str
    suffix: str
    labels: Labels


class Sample(msgspec.Struct, frozen=True):
    """One series and its value, which may be NaN or infinite: judging it is the profile's task."""

    series: Series
    value: float


@dataclass(frozen=True, slots=True)
class Scan:
    """What a body holds of the wanted series. `damaged`: printed name → why a line of that name could not be read."""

    samples: tuple[Sample, ...]
    damaged: Mapping[str, str]


class Scanner:
    """Finds the lines of a fixed set of names. For one thread; scans of different bodies may alternate freely."""

    def __init__(
        self,
        names: Iterable[PrintedName],
        *,
        cache_entries: int = DEFAULT_CACHE_ENTRIES,
        sample_limit: int = DEFAULT_SAMPLE_LIMIT,
    ) -> None:
        self._wanted = {name.printed: name for name in names}
        self._later_lines, self._first_line = line_pattern(self._wanted)
        self._entries = cache_entries
        self._sample_limit = sample_limit
        self._wanted_bytes = {name.printed.encode(): name for name in self._wanted.values()}
        self._series: dict[bytes, Series] = {}  # by what stands before the value
        self._other_series: dict[tuple[str, Labels], Series] = {}
        self._blocks: dict[bytes, Labels] = {}  # label blocks without `le`; many families share one
        # What stands before and after `le="…"` → the name, and the labels there.
        self._around_le: dict[tuple[bytes, bytes], tuple[PrintedName, Labels, Labels]] = {}

    def scan(self, body: bytes, *, openmetrics: bool = False) -> Scan:
        """The wanted samples of a body. `openmetrics`: the server called it so, hence `# EOF` must stand at its end.

        Raises BodyRefused.
        """
        body = body.removeprefix(_BYTE_ORDER_MARK)
        _refuse_other_formats(body)
        _refuse_cut(body, openmetrics=openmetrics)
        lines = self._later_lines.findall(body)
        if first := self._first_line.match(body):
            lines.insert(0, first[1])
        if len(lines) > self._sample_limit:
            raise BodyRefused(
                Reason.TOO_MANY_SERIES, f"{len(lines)} series of the wanted names, more than {self._sample_limit}"
            )
        return self._read(lines)

    def forget(self) -> None:
        """Empty the memory of label blocks."""
        self._other_series.clear()
        self._series.clear()
        self._blocks.clear()
        self._around_le.clear()

    def _read(self, lines: list[bytes]) -> Scan:
        # Everything before the last blank is the key of the cache: a line with a timestamp or an exemplar never finds
        # one, because only complete series are kept, and takes the slow way.
        parts = [line.rpartition(b" ") for line in lines]
        keys = [part[0] for part in parts]
        found = list(map(self._series.get, keys))
        if not all(found):
            # All or nothing: the next scrape of each endpoint fills it up again. One scan may overshoot by its lines.
            if len(self._series) + len(self._other_series) + len(self._blocks) + len(self._around_le) >= self._entries:
                self.forget()
            found = [series or self._decode(key) for series, key in zip(found, keys, strict=True)]
        values = [part[2] for part in parts]
        if all(found) and b"_" not in b"".join(values):
            try:
                return Scan(tuple(map(Sample, found, map(float, values))), {})  # type: ignore[arg-type] # all found
            except ValueError:
                pass  # some value is followed by blanks, or is none
        return self._read_slowly(lines, found, values)

    def _read_slowly(self, lines: list[bytes], found: list[Series | None], values: list[bytes]) -> Scan:
        samples: list[Sample] = []
        damaged: dict[str, str] = {}
        for line, series, value in zip(lines, found, values, strict=True):
            if series is not None and b"_" not in value:
                try:
                    samples.append(Sample(series, float(value)))
                    continue
                except ValueError:
                    pass
            try:
                name, labels, number = parse_line(line)
            except ValueError as error:
                broken = leading_name(line)
                if broken is None:
                    raise BodyRefused(
                        Reason.MALFORMED, f"a line starting with a brace cannot be read: {error}"
                    ) from None
                damaged.setdefault(broken, str(error))
                continue
            if name in self._wanted:
                samples.append(Sample(self._slow_series(name, labels), number))
        return Scan(tuple(samples), damaged)

    def _decode(self, key: bytes) -> Series | None:
        """The series of `name{labels}`, kept for the next scrape; None where the key is anything else."""
        # Buckets of a histogram differ in nothing but `le`, so what stands around it is decoded once.
        before, _, rest = key.partition(b'le="')
        bound, _, after = rest.partition(b'"')
        try:
            template = self._around_le.get((before, after))
            text = bound.decode()
            if template is not None and "\\" not in text:
                wanted, labels_before, labels_after = template
                labels = (*labels_before, ("le", text), *labels_after)
            else:
                printed, brace, block = key.partition(b"{")
                known = self._wanted_bytes.get(printed)
                if known is None:
                    return None
                wanted = known
                labels = self._decode_labels(block) if brace else ()
                self._keep_template(wanted, labels, before, after, block)
        except ValueError:
            return None
        series = Series(wanted.printed, wanted.family, wanted.suffix, labels)
        if len(key) <= _LONGEST_CACHED_KEY:
            self._series[key] = series
        return series

    def _decode_labels(self, block: bytes) -> Labels:
        if (known := self._blocks.get(block)) is not None:
            return known
        labels = parse_plain_labels(block)
        if labels is None:
            name, labels, end = parse_labels(block)
            if name is not None or end != len(block):
                raise ValueError("not only labels")
        if b'le="' not in block and len(block) <= _LONGEST_CACHED_KEY:
            self._blocks[block] = labels
        return labels

    def _keep_template(self, wanted: PrintedName, labels: Labels, before: bytes, after: bytes, block: bytes) -> None:
        # Without escapes every quote opens or closes a value, so an even number of them and a comma or the brace before
        # `le="` prove that it is the label `le` and no part of another name or value.
        labels_before, odd = divmod(before.count(b'"'), 2)
        plain = not odd and before[-1:] in (b"{", b",") and b'le="' in block and b"\\" not in block
        if plain and len(block) <= _LONGEST_CACHED_KEY:
            self._around_le[before, after] = (wanted, labels[:labels_before], labels[labels_before + 1 :])

    def _slow_series(self, name: str, labels: Labels) -> Series:
        """The one object for a series whose lines never find one by what stands before the last blank."""
        series = self._other_series.get((name, labels))
        if series is None:
            wanted = self._wanted[name]
            series = self._other_series[name, labels] = Series(name, wanted.family, wanted.suffix, labels)
        return series


def _refuse_other_formats(body: bytes) -> None:
    head = body[:1_024].lstrip()
    start = head[:1]
    if not start and not body.strip():
        raise BodyRefused(Reason.EMPTY, "the body is empty")
    if start == b"<":
        raise BodyRefused(Reason.NOT_EXPOSITION, "the body is HTML or XML")
    # llama.cpp b7010 to b7100 sent the exposition as one JSON string (#17384); TensorRT-LLM's /metrics is a JSON list.
    if start in (b'"', b"[") or (start == b"{" and not _QUOTED_SERIES.match(head)):
        raise BodyRefused(Reason.NOT_EXPOSITION, "the body is JSON")
    if body.startswith(_GZIP) or b"\x00" in head[:4]:
        raise BodyRefused(Reason.NOT_EXPOSITION, "the body is binary")


def _refuse_cut(body: bytes, *, openmetrics: bool) -> None:
    tail = body[-32:].rstrip()
    ended = tail.endswith(b"\n# EOF") or tail == b"# EOF"
    if not body.endswith(b"\n") and not ended:
        raise BodyRefused(Reason.TRUNCATED, "the body ends in the middle of a line")
    if openmetrics and not ended:
        raise BodyRefused(Reason.TRUNCATED, "an OpenMetrics body without # EOF at its end")
