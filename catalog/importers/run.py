"""Importing files: every format behind one call, with progress, a summary by rule and nothing half imported.

A file that trips an importer in a way nobody foresaw is refused whole (its rows are collected before any is used),
and the import goes on with the next file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from catalog.importers import (
    aiperf,
    benchmark_runner,
    genai_perf,
    guidellm,
    inference_perf,
    inferencex,
    llm_d,
    sglang,
    vllm,
)
from catalog.importers.assemble import LabelledMeasurement, assemble
from catalog.importers.candidate import Measurement
from catalog.importers.files import SourceFile
from catalog.importers.options import ImportOptions
from catalog.importers.recognition import RESULT_FILES, FileKind, Layout, fits, import_advice
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.merge import merge_profiles
from catalog.schema import Catalog, Profile, Tombstone
from controller.foundation import printable, redact

Reader = Callable[[SourceFile, ImportOptions], Iterator[Measurement | Refusal]]
# Called after each file, and within a long one, with files done, files in all, rows read so far.
Progress = Callable[[int, int, int], None]
_ROWS_BETWEEN_PROGRESS: Final = 2000

FORMATS: Final[dict[str, Reader]] = {
    "inferencex": inferencex.read,
    "vllm": vllm.read,
    "sglang": sglang.read,
    "guidellm": guidellm.read,
    "aiperf": aiperf.read,
    "genai-perf": genai_perf.read,
    "inference-perf": inference_perf.read,
    "llm-d": llm_d.read,
    "benchmark-runner": benchmark_runner.read,
}


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of every row: `read` = `imported` + `refused_rows`. A file that was refused whole gave no row; it is
    among the refusals and counted in `refused_files`. Imported rows of which a newer run serves are counted in
    `superseded` (profiles, not rows)."""

    read: int
    imported: int
    catalog: Catalog
    refusals: tuple[Refusal, ...]
    superseded: int

    @property
    def refused(self) -> dict[str, int]:
        """Refusals by rule, of rows and of whole files, most first."""
        return _by_rule(self.refusals)

    @property
    def refused_rows(self) -> dict[str, int]:
        """Refused rows by rule: `read` is `imported` and all of them."""
        return _by_rule(refusal for refusal in self.refusals if not refusal.whole_file)

    @property
    def refused_files(self) -> dict[str, int]:
        """Files by the rule that refused them whole."""
        return _by_rule(refusal for refusal in self.refusals if refusal.whole_file)


def _by_rule(refusals: Iterable[Refusal]) -> dict[str, int]:
    counts = Counter(refusal.rule.value for refusal in refusals)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def import_files(
    paths: Iterable[Path],
    format_name: str,
    options: ImportOptions,
    *,
    name: str = "imported",
    tombstones: Iterable[Tombstone] = (),
    progress: Progress | None = None,
) -> ImportReport:
    """Import files of one format into one catalog. Never raises for the content of a file; KeyError for a format that
    is not in FORMATS."""
    if format_name not in FORMATS:
        raise KeyError(format_name)
    files = list(paths)
    measurements: list[LabelledMeasurement] = []
    refusals: list[Refusal] = []
    whole = 0
    for index, path in enumerate(files, 1):
        known = len(measurements) + len(refusals) - whole

        def read_on(rows: int, done: int = index - 1, before: int = known) -> None:
            if progress is not None:
                progress(done, len(files), before + rows)

        for entry in read_file(SourceFile(path), format_name, options, read_on):
            if isinstance(entry, Refusal):
                refusals.append(entry)
                whole += entry.whole_file
            else:
                measurements.append(entry)
        if progress is not None:
            progress(index, len(files), len(measurements) + len(refusals) - whole)
    read = len(measurements) + len(refusals) - whole
    assembly = assemble(measurements)
    merged = merge_profiles(assembly.profiles, tombstones, name)
    retired = [each for profile in merged.retired for each in _retirements(profile, assembly.origins[id(profile)])]
    imported = len(measurements) - len(assembly.refusals) - len(retired)
    return ImportReport(read, imported, merged.catalog, (*refusals, *assembly.refusals, *retired), merged.superseded)


def read_file(
    file: SourceFile, format_name: str, options: ImportOptions, read_on: Callable[[int], None] | None = None
) -> list[LabelledMeasurement | Refusal]:
    """Every row of one file, or the one refusal of the whole file, which says what the file is where that is another
    format's. No refusal repeats a secret of the file. `read_on` hears now and then how many rows were read."""
    rows = _read(file, FORMATS[format_name], options, read_on)
    refusals = [row for row in rows if isinstance(row, Refusal)]
    if refusals and len(refusals) == len(rows):
        rows = _explained(file, format_name, refusals)
    secrets = file.secrets if refusals else None
    if not secrets:
        return rows
    return [
        msgspec.structs.replace(row, row=redact(row.row, secrets), detail=redact(row.detail, secrets))
        if isinstance(row, Refusal)
        else row
        for row in rows
    ]


def _read(
    file: SourceFile, reader: Reader, options: ImportOptions, read_on: Callable[[int], None] | None
) -> list[LabelledMeasurement | Refusal]:
    rows: list[LabelledMeasurement | Refusal] = []
    try:
        for number, entry in enumerate(reader(file, options)):
            rows.append(
                entry if isinstance(entry, Refusal) else LabelledMeasurement(file.label, f"row {number}", entry)
            )
            if read_on is not None and number % _ROWS_BETWEEN_PROGRESS == _ROWS_BETWEEN_PROGRESS - 1:
                read_on(number + 1)
    except Refused as refused:
        return [_whole(file, refused.rule, refused.detail)]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        return [_whole(file, Rule.MALFORMED, f"has a shape that this importer does not know ({type(error).__name__})")]
    return rows or [_whole(file, Rule.EMPTY, "the file holds no row")]


def _whole(file: SourceFile, rule: Rule, detail: str) -> Refusal:
    return Refusal(file.label, "", rule, printable(detail), whole_file=True)


def _explained(file: SourceFile, format_name: str, refusals: list[Refusal]) -> list[LabelledMeasurement | Refusal]:
    """The refusals of a file that gave no measurement: one that names the way out, where the file is not what the
    importer was told."""
    first = refusals[0]
    foreign = all(refusal.rule is Rule.NOT_THIS_FORMAT for refusal in refusals)
    unread = first.whole_file and first.rule is Rule.UNREADABLE
    found = file.recognised()
    if found is not None and not fits(found, format_name) and found.kind is not FileKind.OTHER_TEXT:
        return [_whole(file, Rule.NOT_THIS_FORMAT, import_advice(found))]
    if file.holds_nothing:
        return [_whole(file, Rule.EMPTY, "the file holds no measurement")]
    if not (foreign or unread) or not file.has_content:
        return list(refusals)
    what = "" if found is None or found.kind is not FileKind.OTHER_TEXT else f"; {import_advice(found)}"
    beside = file.sibling()
    if beside is not None and format_name != "llm-d":
        way_out = f"import {printable(beside.name)} beside it"
    elif found is not None and found.layout is Layout.CSV and fits(found, format_name):
        way_out = "a table is told by its name: let it end in .csv"
    else:
        way_out = f"--from {format_name} reads {RESULT_FILES[format_name]}"
    return [_whole(file, first.rule, f"{first.detail}{what}; {way_out}")]


def _retirements(profile: Profile, origins: Mapping[int, LabelledMeasurement]) -> list[Refusal]:
    what = f"{profile.identity} {profile.workload.label}"
    refusals = []
    for point in profile.points:
        origin = origins[point.concurrency]
        detail = f"{what} at concurrency {point.concurrency} is retired by a tombstone"
        refusals.append(Refusal(origin.file, origin.row, Rule.RETIRED, detail))
    return refusals
