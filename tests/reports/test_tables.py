"""Tables line up in terminals, stay in their cells, and say what is unknown."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.reports import Column, DecisionEntry, Style, Table, decision_log, render_text
from controller.reports.tables import display_width, printable, render_table

_COLUMNS = (
    Column("Algorithm"),
    Column("Attained", Style.PERCENT),
    Column("TTFT p50", Style.NUMBER, "ms"),
    Column("Lost", Style.COUNT),
)


def test_numbers_line_up_at_their_decimal_point() -> None:
    table = Table(
        "Algorithms",
        _COLUMNS,
        [("Adaptive", 0.9981, 212.5, 0), ("HPA", 0.071, 5120, 12_345), ("none yet", None, 1.5, None)],
        "Same trace, same seed.",
    )
    assert render_text(table).splitlines() == [
        "Algorithms",
        "Algorithm  Attained  TTFT p50 (ms)    Lost",
        "─────────  ────────  ─────────────  ──────",
        "Adaptive    99.8 %          212          0",
        "HPA          7.10 %       5,120     12,345",
        "none yet     –                1.50       –",
        "Same trace, same seed.",
    ]


def test_an_empty_table_is_its_heading() -> None:
    assert render_text(Table("", (Column("a"), Column("b")), [])) == "a  b\n─  ─\n"


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    lines = render_text(
        Table("", (Column("name"), Column("x")), [("模型", 1), ("e\u0301e", 2), ("abcd", 3)])
    ).splitlines()
    assert [display_width(line.rpartition(" ")[0]) for line in lines[2:]] == [5, 5, 5]


def test_a_table_has_one_cell_a_column() -> None:
    with pytest.raises(ValueError, match="row 2 of table 'T' has 1 cells for 2 columns"):
        Table("T", (Column("a"), Column("b")), [(1, 2), (1,)])
    with pytest.raises(ValueError, match="table 'T' needs at least one column"):
        Table("T", (), [])


_HOSTILE = [
    ("a line break becomes a blank", "a\nb", "a b"),
    ("a tab becomes a blank", "a\tb", "a b"),
    ("an escape sequence is shown, not sent", "\x1b[2Jx", "\\x1b[2Jx"),
    ("a no-break space becomes a blank", "a\u00a0b", "a b"),
    ("a bell is shown", "\x07", "\\x07"),
    ("a right-to-left override is shown", "a\u202eb", "a\\u202eb"),
    ("a zero-width space is shown", "a\u200bb", "a\\u200bb"),
    ("a lone surrogate is shown", "\ud800", "\\ud800"),
    ("letters of any script stay", "模型 ä é", "模型 ä é"),
]


@pytest.mark.parametrize(("text", "shown"), [row[1:] for row in _HOSTILE], ids=[row[0] for row in _HOSTILE])
def test_text_cannot_leave_its_cell(text: str, shown: str) -> None:
    assert printable(text) == shown


_CELLS = st.one_of(st.text(max_size=30), st.none(), st.booleans(), st.floats(), st.integers())


@given(st.lists(st.tuples(_CELLS, _CELLS, _CELLS), max_size=5), st.sampled_from(list(Style)), st.text(max_size=10))
def test_every_line_is_one_line_and_every_column_begins_in_one_place(
    rows: list[tuple[object, ...]], style: Style, title: str
) -> None:
    table = Table(title, (Column("a", style), Column("b"), Column("end")), [(*row[:2], "|") for row in rows])  # type: ignore[arg-type]
    text = render_text(table)
    lines = text.removesuffix("\n").split("\n")
    assert len(lines) == len(rows) + 2 + bool(title)
    assert all(line.isprintable() for line in lines)
    assert len({display_width(line) for line in lines[2 + bool(title) :]}) <= 1


@given(st.lists(st.tuples(st.text("ab ", max_size=60), st.text("cd", max_size=60)), max_size=4), st.integers(30, 90))
def test_a_table_fits_the_width_it_is_given(rows: list[tuple[str, str]], width: int) -> None:
    table = Table("", (Column("role"), Column("n", Style.COUNT), Column("reason")), [(a, 1234, b) for a, b in rows])
    assert all(display_width(line) <= width for line in render_text(table, width).splitlines())


def test_only_text_is_shortened_and_long_columns_share_the_loss() -> None:
    table = Table("", (Column("a"), Column("n", Style.COUNT), Column("b")), [("x" * 40, 123_456_789, "y" * 40)])
    last = render_text(table, 51).splitlines()[-1]
    assert last == f"{'x' * 17}…  123,456,789  {'y' * 17}…"


def test_the_decision_log_says_what_changed_and_why() -> None:
    log = decision_log(
        [
            DecisionEntry(240, "decode", 2, 3, "WithinLimits", "arrivals above capacity"),
            DecisionEntry(900, "decode", 3, 2, "", "stable window passed"),
            DecisionEntry(960, "decode", None, 2, "coverage", "no sample"),
        ]
    )
    assert render_text(log).splitlines()[3:] == [
        "04:00  decode  2 → 3 ▲   WithinLimits  arrivals above capacity",
        "15:00  decode  3 → 2 ▼   –             stable window passed",
        "16:00  decode  – → 2     coverage      no sample",
    ]


def test_html_tables_have_a_caption_column_scopes_and_numbers_to_the_right() -> None:
    html = render_table(Table("T", _COLUMNS, [("<b>", 0.5, None, 3)], "why")).text
    root = ET.fromstring(html)
    assert root.findtext(".//caption") == "T"
    assert [th.get("scope") for th in root.iter("th")] == ["col"] * 4
    assert [td.text for td in root.iter("td")] == ["<b>", "50 %", "–", "3"]
    assert [td.get("class") for td in root.iter("td")] == [None, "number", "number unknown", "number"]
    assert root.findtext("p") == "why"


def test_an_empty_html_table_says_so() -> None:
    root = ET.fromstring(render_table(Table("T", _COLUMNS, [])).text)
    assert [(td.text, td.get("colspan")) for td in root.iter("td")] == [("none", "4")]


def test_a_long_html_table_scrolls() -> None:
    rows = [(str(n), 1, 1, 1) for n in range(30)]
    assert re.search('class="frame long"', render_table(Table("T", _COLUMNS, rows)).text)
    assert not re.search('class="frame long"', render_table(Table("T", _COLUMNS, rows[:5])).text)
