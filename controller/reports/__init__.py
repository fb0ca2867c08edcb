"""Tables, charts and self-contained HTML pages for the demo, the simulator, replay and the benches.

    panel = Panel("Replicas", "replicas", [needed, ready], bands=gap_bands(needed, ready))
    html = render_html(Report("Demo", tiles=[Tile("Lost requests", "0")], panels=[panel], tables=[table]))
    print(render_text(table))

Rendering is pure: the same input gives the same bytes. Nothing is fetched. Nothing needs matplotlib (the extra
`report`) but `write_figure`, which writes PNG, PDF or SVG files for documents.
"""

from controller.reports.decisions import DecisionEntry, decision_log
from controller.reports.figures import write_figure
from controller.reports.formatting import (
    UNKNOWN,
    Style,
    format_count,
    format_duration,
    format_elapsed,
    format_number,
    format_percent,
)
from controller.reports.page import Fact, Note, Report, Tile, render_html
from controller.reports.series import Band, Mark, Panel, Series, SeriesKind, TargetLine, Tone, gap_bands
from controller.reports.tables import Column, Table, render_text

__all__ = [
    "UNKNOWN",
    "Band",
    "Column",
    "DecisionEntry",
    "Fact",
    "Mark",
    "Note",
    "Panel",
    "Report",
    "Series",
    "SeriesKind",
    "Style",
    "Table",
    "TargetLine",
    "Tile",
    "Tone",
    "decision_log",
    "format_count",
    "format_duration",
    "format_elapsed",
    "format_number",
    "format_percent",
    "gap_bands",
    "render_html",
    "render_text",
    "write_figure",
]
