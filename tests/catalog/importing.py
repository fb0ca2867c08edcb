"""One file, imported."""

from __future__ import annotations

from pathlib import Path

from catalog.identity import parse_identity
from catalog.importers import ImportOptions, ImportReport, Rule, import_files
from tests.catalog.tools import IDENTITY, Run

RUN = Run()
OPTIONS = ImportOptions(identity=parse_identity(IDENTITY), concurrency=RUN.concurrency)


def import_one(path: Path, format_name: str, options: ImportOptions = OPTIONS) -> ImportReport:
    report = import_files([path], format_name, options)
    assert report.read == report.imported + sum(report.refused_rows.values())
    return report


def rule_of(report: ImportReport) -> Rule:
    assert report.imported == 0
    assert len(report.refusals) == 1, [str(refusal) for refusal in report.refusals]
    return report.refusals[0].rule
