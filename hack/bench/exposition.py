"""How fast the scanner is, against prometheus_client's parser, on the same bodies in the same run.

    python -m hack.bench.exposition FILES... [--rounds N] [--output text|json]

FILES are expositions (.txt) or recorded series of them (.jsonl, .jsonl.gz: one object a line, the body in "text").

What is compared. The library's `text_string_to_metric_families` reads a body to its end; our scanner reads the same
body, as bytes, for the full series set of all engine profiles at once (all families, old and new names, all spellings),
with labels decoded and values converted. Both have then processed the samples of that body, so samples/s ÷ samples/s =
library seconds ÷ our seconds. The scanner returns only the wanted samples: that is its point, and
`returnedSamplesRatio` gives the other reading, wanted samples per second against all samples per second.

Every wanted sample is compared with the library's in the same run: name, labels and value, as multisets. One difference
anywhere and the exit status is 1.

Two figures. `ratioCold`: a new scanner for every body, so that no label block was seen before. `ratioWarm`: a scanner
that has read the body's endpoint before, which is what a scraper of the same endpoints does all day (values are always
read anew; a recorded series is replayed in its order). `ratio` is the smaller of the two.

Times are medians over rounds; in each round library, cold and warm take turns on each body, so that a noisy machine
disturbs all alike. Bodies that one of the two refuses take no part in the ratio and are listed with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import math
import statistics
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from controller.engines import PROFILES, BodyReader, BodyRefused, Scan, Scanner

# A scan takes a hundredth of the library's time; several in a row make it measurable.
_SCANS_PER_TIMING = 5

Row = tuple[str, tuple[tuple[str, str], ...], float | str]


@dataclass
class Body:
    """One body and its measurements, in seconds."""

    text: str
    data: bytes
    samples: int = 0
    wanted: int = 0
    library: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)


@dataclass
class Measured:
    """One file."""

    path: str
    bodies: list[Body] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    mismatches: int = 0
    first_mismatch: str | None = None

    def seconds(self, what: str) -> float:
        """Sum over bodies of the median."""
        return sum(statistics.median(getattr(body, what)) for body in self.bodies)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 on any difference, 2 on wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.exposition", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    missing = [str(path) for path in options.files if not path.is_file()]
    if missing:
        parser.error(f"no such file: {', '.join(missing)}")
    measured = [compare(path) for path in options.files]
    for _ in range(options.rounds):
        for file in measured:
            _time(file.bodies)
    report = _report(measured)
    print(json.dumps(report, indent=2) if options.output == "json" else _table(report))
    return 1 if report["mismatches"] else 0


def compare(path: Path) -> Measured:
    """Read every body of a file with both; keep those that both accept."""
    file = Measured(str(path))
    reader, scanner = BodyReader(), new_scanner()
    for data in bodies(path):
        ours: Scan | None = None
        try:
            ours = scanner.scan(data)
            said = "read" if reader.read(data) else ""
        except BodyRefused as refused:
            said = f"refused: {refused.reason}: {refused.message}"
        try:
            text = data.decode()
            theirs = [sample for metric in text_string_to_metric_families(text) for sample in metric.samples]
        except Exception as error:  # noqa: BLE001 - whatever it raises is its refusal
            file.skipped.append(f"refused by the library ({type(error).__name__}); ours: {said}")
            continue
        if ours is None:
            file.skipped.append(f"read by the library; ours: {said}")
            continue
        expected = Counter(_row(s.name, s.labels.items(), float(s.value)) for s in theirs if _is_wanted(s.name))
        found = Counter(_row(s.series.name, s.series.labels, s.value) for s in ours.samples)
        if expected != found:
            difference = (expected - found) + (found - expected)
            file.mismatches += difference.total()
            file.first_mismatch = file.first_mismatch or repr(next(iter(difference)))
        file.bodies.append(Body(text, data, samples=len(theirs), wanted=len(ours.samples)))
    return file


def bodies(path: Path) -> Iterator[bytes]:
    """The bodies in a file; of a recorded series, those of successful scrapes."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        with contextlib.suppress(OSError, EOFError, zlib.error):  # not gzip: let the readers say what it is
            raw = gzip.decompress(raw)
    if ".jsonl" not in path.name:
        yield raw
        return
    for line in raw.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            yield line
            continue
        if isinstance(record, dict) and isinstance(record.get("text"), str):
            yield record["text"].encode()


def new_scanner() -> Scanner:
    """A scanner for everything that any profile wants, with empty memory."""
    return Scanner({name.printed: name for profile in PROFILES for name in profile.printed_names()}.values())


def _time(measured: Iterable[Body]) -> None:
    warm = new_scanner()
    scanners = [new_scanner() for _ in range(_SCANS_PER_TIMING)]
    for body in measured:
        started = time.perf_counter()
        for metric in text_string_to_metric_families(body.text):
            len(metric.samples)
        body.library.append(time.perf_counter() - started)

        for scanner in scanners:
            scanner.forget()
        started = time.perf_counter()
        for scanner in scanners:
            scanner.scan(body.data)
        body.cold.append((time.perf_counter() - started) / _SCANS_PER_TIMING)

        warm.scan(body.data)
        started = time.perf_counter()
        for _ in range(_SCANS_PER_TIMING):
            warm.scan(body.data)
        body.warm.append((time.perf_counter() - started) / _SCANS_PER_TIMING)


_WANTED = frozenset(name.printed.removesuffix("_total") for profile in PROFILES for name in profile.printed_names())


def _is_wanted(name: str) -> bool:
    return name.removesuffix("_total") in _WANTED


def _row(name: str, labels: Iterable[tuple[str, str]], value: float) -> Row:
    # The library adds `_total` to counters printed without it; NaN equals nothing, not even itself.
    return name.removesuffix("_total"), tuple(sorted(labels)), "NaN" if math.isnan(value) else value


def _report(measured: list[Measured]) -> dict[str, Any]:
    files = []
    for file in measured:
        entry: dict[str, Any] = {"file": file.path, "bodies": len(file.bodies), "mismatches": file.mismatches}
        if file.bodies:
            entry |= _figures([file])
        if file.first_mismatch:
            entry["firstMismatch"] = file.first_mismatch
        if file.skipped:
            entry["skipped"] = sorted(set(file.skipped))
        files.append(entry)
    compared = [file for file in measured if file.bodies]
    figures = _figures(compared) if compared else {"ratio": None}
    return figures | {"mismatches": sum(file.mismatches for file in measured), "files": files}


def _figures(measured: list[Measured]) -> dict[str, Any]:
    library, cold, warm = (sum(file.seconds(what) for file in measured) for what in ("library", "cold", "warm"))
    samples = sum(body.samples for file in measured for body in file.bodies)
    wanted = sum(body.wanted for file in measured for body in file.bodies)
    return {
        "ratio": round(min(library / cold, library / warm), 1),
        "ratioCold": round(library / cold, 1),
        "ratioWarm": round(library / warm, 1),
        "returnedSamplesRatio": round(library / warm * wanted / samples, 1) if samples else None,
        "samples": samples,
        "wantedSamples": wanted,
        "librarySamplesPerSecond": round(samples / library),
        "scannerSamplesPerSecond": round(samples / warm),
        "libraryMicroseconds": round(library * 1e6),
        "coldMicroseconds": round(cold * 1e6),
        "warmMicroseconds": round(warm * 1e6),
    }


def _table(report: dict[str, Any]) -> str:
    lines = [f"{'cold':>7} {'warm':>7} {'samples':>8} {'wanted':>7}  file"]
    for entry in report["files"]:
        if "ratio" in entry:
            figures = f"{entry['ratioCold']:7} {entry['ratioWarm']:7} {entry['samples']:8} {entry['wantedSamples']:7}"
        else:
            figures = f"{'-':>7} {'-':>7} {'-':>8} {'-':>7}"
        lines.append(f"{figures}  {Path(entry['file']).name}")
        lines += [f"{'':34}{text}" for text in entry.get("skipped", ())]
        if entry["mismatches"]:
            lines.append(f"{'':34}{entry['mismatches']} differences, first: {entry['firstMismatch']}")
    lines.append(f"ratio {report['ratio']} (cold {report.get('ratioCold')}, warm {report.get('ratioWarm')})")
    lines.append(f"mismatches {report['mismatches']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
