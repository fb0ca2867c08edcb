"""Importers: results of nine benchmark tools → profiles or typed refusals."""

from catalog.importers.files import recognise_content
from catalog.importers.options import ColdTail, ImportOptions
from catalog.importers.recognition import TOOL_NAMES, FileKind, Layout, Recognised
from catalog.importers.rules import MEANING, Refusal, Rule
from catalog.importers.run import FORMATS, ImportReport, import_files

__all__ = [
    "FORMATS",
    "MEANING",
    "TOOL_NAMES",
    "ColdTail",
    "FileKind",
    "ImportOptions",
    "ImportReport",
    "Layout",
    "Recognised",
    "Refusal",
    "Rule",
    "import_files",
    "recognise_content",
]
