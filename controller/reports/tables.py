"""Tables for terminals, logs and pages, from columns and rows of raw values.

A column says how its values are written (`Style`, digits, unit); a cell is text, a number, a yes or no, or None for
unknown. Numbers line up at their decimal point. Text cannot break out of its cell: line breaks and control characters,
among them the escape sequences of terminals, are shown and not sent.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from controller.reports.formatting import UNKNOWN, Style, format_as
from controller.reports.markup import EMPTY, Markup, element

Cell = str | float | bool | None

_GAP = "  "
# Narrower text says nothing.
_NARROWEST_COLUMN = 8
# Longer tables scroll on a page, so that what follows them is found.
_ROWS_WITHOUT_SCROLLING = 24


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, how its values are written, and their unit where the style does not write one."""

    title: str
    style: Style = Style.TEXT
    unit: str = ""
    digits: int = 3

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def text(self, cell: Cell) -> str:
        """A cell as it is written."""
        return format_as(self.style, cell, self.digits)


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table.

    Raises ValueError, naming table and row, when a row has not one cell a column.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError(f"table {self.title!r} needs at least one column")
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {number} of table {self.title!r} has {len(row)} cells for {len(self.columns)} columns"
                )


def render_text(table: Table, width: int | None = None) -> str:
    """The table as plain text without trailing blanks, ending with a line break.

    With `width`, the widest columns of text are shortened until a line fits; numbers never are, so very many columns
    may still be wider.
    """
    columns = [_text_column(table, index) for index in range(len(table.columns))]
    if width is not None:
        _shorten(table, columns, width)
    widths = [max(map(display_width, column)) for column in columns]
    lines = [printable(table.title)] if table.title else []
    for number in range(len(table.rows) + 1):
        cells = [
            _pad(column[number], column_width, right=spec.style is not Style.TEXT)
            for spec, column, column_width in zip(table.columns, columns, widths, strict=True)
        ]
        lines.append(_GAP.join(cells))
        if number == 0:
            lines.append(_GAP.join("─" * column_width for column_width in widths))
    if table.note:
        lines.append(printable(table.note))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def render_table(table: Table) -> Markup:
    """The table as HTML, numbers to the right; long ones scroll inside a frame on screen and are whole on paper."""
    kinds = [None if column.style is Style.TEXT else "number" for column in table.columns]
    head = [element("th", c.heading, scope="col", class_=kind) for c, kind in zip(table.columns, kinds, strict=True)]
    body = [
        element("tr", *(_html_cell(c, cell, k) for c, cell, k in zip(table.columns, row, kinds, strict=True)))
        for row in table.rows
    ]
    if not body:
        body = [element("tr", element("td", "none", colspan=len(table.columns), class_="unknown"))]
    framed = element(
        "div",
        element(
            "table",
            element("caption", table.title) if table.title else EMPTY,
            element("thead", element("tr", *head)),
            element("tbody", *body),
        ),
        class_="frame long" if len(body) > _ROWS_WITHOUT_SCROLLING else "frame",
        tabindex="0",
        role="region",
        aria_label=table.title or "table",
    )
    return element("section", framed, element("p", table.note, class_="note") if table.note else EMPTY)


def printable(text: str) -> str:
    """`text` in one line, characters that would move a cursor or hide others replaced by their escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else _escaped(c) for c in text)


def display_width(text: str) -> int:
    """How many cells of a terminal a text takes: two for wide East Asian characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def _html_cell(column: Column, cell: Cell, kind: str | None) -> Markup:
    text = column.text(cell)
    return element("td", text, class_="number unknown" if kind and text == UNKNOWN else kind)


def _text_column(table: Table, index: int) -> list[str]:
    """Heading and cells of one column, numbers aligned at the point."""
    column = table.columns[index]
    cells = [printable(column.text(row[index])) for row in table.rows]
    if column.style in (Style.NUMBER, Style.PERCENT):
        tails = [len(cell) - _point(cell) for cell in cells]
        longest = max(tails, default=0)
        cells = [cell + " " * (longest - tail) for cell, tail in zip(cells, tails, strict=True)]
    return [printable(column.heading), *cells]


def _point(cell: str) -> int:
    """Where the digits before the decimal point end; the whole length of what is no number."""
    end = 0
    while end < len(cell) and (cell[end].isdigit() or cell[end] in ",-"):
        end += 1
    return end or len(cell)


def _shorten(table: Table, columns: list[list[str]], width: int) -> None:
    texts = [index for index, column in enumerate(table.columns) if column.style is Style.TEXT]
    while texts:
        widths = [max(map(display_width, column)) for column in columns]
        excess = sum(widths) + len(_GAP) * (len(columns) - 1) - width
        index = max(texts, key=lambda candidate: widths[candidate])
        if excess <= 0 or widths[index] <= _NARROWEST_COLUMN:
            return
        others = sorted((widths[other] for other in texts if other != index), reverse=True)
        # Down to the next widest column first, so that two long columns share the loss.
        goal = max(widths[index] - excess, min(others[0] if others else 0, widths[index] - 1), _NARROWEST_COLUMN)
        columns[index] = [_cut(cell, goal) for cell in columns[index]]


def _cut(text: str, width: int) -> str:
    if display_width(text) <= width:
        return text
    while display_width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _pad(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - display_width(text))
    return blanks + text if right else text + blanks


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
