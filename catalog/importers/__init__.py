"""Importers: results of nine benchmark tools → profiles or typed refusals."""

from catalog.importers.options import ColdTail, ImportOptions
from catalog.importers.rules import MEANING, Refusal, Rule
from catalog.importers.run import FORMATS, ImportReport, import_files

__all__ = ["FORMATS", "MEANING", "ColdTail", "ImportOptions", "ImportReport", "Refusal", "Rule", "import_files"]
