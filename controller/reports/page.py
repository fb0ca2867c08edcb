"""A report as one HTML document that needs nothing else: no script, no font, no image, no network.

The same report gives the same bytes. Every text is escaped where it becomes markup (`controller.reports.markup`), and
the page forbids scripts and requests by its own content security policy, should a reader open it from a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.reports.charts import render_panel, shared_time_axis
from controller.reports.markup import EMPTY, Markup, element, join, trusted
from controller.reports.series import Panel
from controller.reports.stylesheet import stylesheet
from controller.reports.tables import Table, render_table

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure: what it is, its value as it is to be read, and a few words on it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One entry of the header: started, seed, version, trace …"""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Note:
    """An explanation: what the run scales and why, what a number does not say. Blank lines part paragraphs."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on a page, in the order in which it is shown; an empty part is left out.

    `clock_origin_seconds` is the Unix time at which the run's clock stood at zero; with it the charts show times of
    day, without it the time since the start.
    """

    title: str
    subtitle: str = ""
    tiles: Sequence[Tile] = ()
    panels: Sequence[Panel] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[Note] = ()
    facts: Sequence[Fact] = ()
    clock_origin_seconds: float | None = None


def render_html(report: Report) -> str:
    """The document. Encode it as UTF-8."""
    axis = shared_time_axis(report.panels, report.clock_origin_seconds)
    body = element(
        "main",
        _header(report),
        element("ul", *map(_tile, report.tiles), class_="tiles", aria_label="Key figures") if report.tiles else EMPTY,
        _section("Over time", [render_panel(panel, axis) for panel in report.panels], axis.caption),
        _section("Tables", [render_table(table) for table in report.tables]),
        _section("Notes", [element("dl", *map(_note, report.notes), class_="notes")] if report.notes else []),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content="model-deployment-scaler"),
        element("title", report.title),
        element("style", trusted(stylesheet())),
    )
    document = element("html", head, element("body", _patterns(), body), lang="en")
    return f"<!DOCTYPE html>\n{document.text}\n"


def _header(report: Report) -> Markup:
    facts = [element("div", element("dt", fact.label), element("dd", fact.value)) for fact in report.facts]
    return element(
        "header",
        element("h1", report.title),
        element("p", report.subtitle, class_="subtitle") if report.subtitle else EMPTY,
        element("dl", *facts, class_="facts") if facts else EMPTY,
    )


def _tile(tile: Tile) -> Markup:
    return element(
        "li",
        element("div", tile.label, class_="label"),
        element("div", tile.value, class_="value"),
        element("div", tile.note, class_="note") if tile.note else EMPTY,
    )


def _note(note: Note) -> Markup:
    paragraphs = [part.strip() for part in note.text.split("\n\n")]
    return join([element("dt", note.title), element("dd", *(element("p", part) for part in paragraphs if part))])


def _section(title: str, parts: Sequence[Markup], remark: str = "") -> Markup:
    if not parts:
        return EMPTY
    heading = element("h2", title, " ", element("span", remark, class_="unit")) if remark else element("h2", title)
    return element("section", heading, *parts)


def _patterns() -> Markup:
    """The hatch of shortage bands; a pattern inside an SVG that is not displayed would not be painted."""
    hatch = element(
        "pattern",
        element("rect", width=7, height=7),
        element("line", x1=0, y1=0, x2=0, y2=7),
        id="hatch",
        width="7",
        height="7",
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    return element("svg", element("defs", hatch), class_="defs", aria_hidden="true", focusable="false")
