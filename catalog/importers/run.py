"""Importing files: every format behind one call, with progress, a summary by rule and nothing half imported.

A file that trips an importer in a way nobody foresaw is refused whole (its rows are collected before any is used),
and the import goes on with the next file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.merge import merge_profiles
from catalog.schema import Catalog, Profile, Tombstone
from controller.foundation import redact

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
    """What became of every row: `read` = `imported` + the number of refusals. Imported rows of which a newer run serves
    are counted in `superseded` (profiles, not rows)."""

    read: int
    imported: int
    catalog: Catalog
    refusals: tuple[Refusal, ...]
    superseded: int

    @property
    def refused(self) -> dict[str, int]:
        """Refusals by rule, most first."""
        counts = Counter(refusal.rule.value for refusal in self.refusals)
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
    reader = FORMATS[format_name]
    files = list(paths)
    measurements: list[LabelledMeasurement] = []
    refusals: list[Refusal] = []
    for index, path in enumerate(files, 1):
        known = len(measurements) + len(refusals)

        def read_on(rows: int, done: int = index - 1, before: int = known) -> None:
            if progress is not None:
                progress(done, len(files), before + rows)

        for entry in read_file(SourceFile(path), reader, options, read_on):
            if isinstance(entry, Refusal):
                refusals.append(entry)
            else:
                measurements.append(entry)
        if progress is not None:
            progress(index, len(files), len(measurements) + len(refusals))
    read = len(measurements) + len(refusals)
    assembly = assemble(measurements)
    refusals += assembly.refusals
    imported = read - len(refusals)
    merged = merge_profiles(assembly.profiles, tombstones, name)
    imported -= sum(len(profile.points) for profile in merged.retired)
    refusals += [refusal for profile in merged.retired for refusal in _retirements(profile)]
    return ImportReport(read, imported, merged.catalog, tuple(refusals), merged.superseded)


def read_file(
    file: SourceFile, reader: Reader, options: ImportOptions, read_on: Callable[[int], None] | None = None
) -> list[LabelledMeasurement | Refusal]:
    """Every row of one file, or the one refusal of the whole file. No refusal repeats a secret of the file. `read_on`
    hears now and then how many rows were read."""
    rows = _read(file, reader, options, read_on)
    secrets = file.secrets if any(isinstance(row, Refusal) for row in rows) else None
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
        return [Refusal(file.label, "", refused.rule, refused.detail)]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        detail = f"has a shape that this importer does not know ({type(error).__name__})"
        return [Refusal(file.label, "", Rule.MALFORMED, detail)]
    if not rows:
        return [Refusal(file.label, "", Rule.EMPTY, "the file holds no row")]
    return rows


def _retirements(profile: Profile) -> list[Refusal]:
    where = f"run {profile.source.run}" if profile.source.run else "imported files"
    what = f"{profile.identity} {profile.workload.label}"
    return [
        Refusal(where, f"concurrency {point.concurrency}", Rule.RETIRED, f"{what} is retired by a tombstone")
        for point in profile.points
    ]
