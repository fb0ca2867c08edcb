"""A page is one well-formed document that fetches nothing and that no text can break out of."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.reports import (
    Column,
    DecisionEntry,
    Fact,
    Mark,
    Note,
    Panel,
    Report,
    Series,
    SeriesKind,
    Style,
    Table,
    TargetLine,
    Tile,
    Tone,
    decision_log,
    gap_bands,
    render_html,
)


def _report(text: Callable[[str], str] = lambda plain: plain) -> Report:
    """A report with every part that a page can have; each text goes through `text`."""
    times = [float(second) for second in range(0, 600, 5)]
    needed = Series(text("needed"), "", times, [1 + t // 200 for t in times], SeriesKind.STEP)
    ready = Series(text("ready"), "", times, [1 + (t - 60) // 200 for t in times], SeriesKind.STEP)
    load = Series(text("load"), "", times, [None if t == 300 else t for t in times], SeriesKind.AREA)
    entry = DecisionEntry(60, text("role"), 1, 2, text("limit"), text("reason"))
    return Report(
        title=text("title"),
        subtitle=text("subtitle"),
        tiles=[Tile(text("tile"), text("value"), text("tile note"))],
        panels=[
            Panel(
                text("panel"),
                text("replicas"),
                [needed, ready],
                [Mark(30, text("mark"), tone=Tone.ALERT), Mark(200, text("span"), 300)],
                [TargetLine(2, text("target"))],
                gap_bands(needed, ready),
                text("panel note"),
            ),
            Panel(text("second"), "", [load]),
        ],
        tables=[
            Table(
                text("table"), (Column(text("column")), Column("n", Style.NUMBER, text("unit"))), [(text("cell"), 1)]
            ),
            decision_log([entry], text("log"), text("log note")),
        ],
        notes=[Note(text("note"), text("first") + "\n\n" + text("second"))],
        facts=[Fact(text("fact"), text("fact value"))],
    )


class _Skeleton(HTMLParser):
    """Elements and attribute names in order, as a browser would see them, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, ...]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))
        self.text += [value or "" for _, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


_PLAIN = _Skeleton(render_html(_report()))

_PAYLOADS = st.one_of(
    st.text(min_size=1, max_size=30),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</style><script>alert(1)</script>",
            "</title><img src=x onerror=alert(1)>",
            '" onmouseover="alert(1)',
            "' onload='alert(1)",
            "]]><svg onload=alert(1)>",
            "<!--",
            "--><b>",
            "&lt;b&gt;&#60;script&#62;",
            "url(https://example.com/x)",
            "\x00<\x00script>",
            "\ud800<b>",
        ]
    ),
    st.text("<>&\"'/= ScriptONload-!", min_size=1, max_size=30),
)


@settings(max_examples=60)  # a page a time
@given(_PAYLOADS, st.integers(0, 40))
def test_hostile_text_never_changes_the_structure_of_the_page(payload: str, position: int) -> None:
    count = iter(range(1000))
    # One text of the report is hostile alone, or all of them are.
    report = _report(lambda plain: payload if next(count) == position or position > 30 else plain)
    html = render_html(report)
    hostile = _Skeleton(html)
    assert _names(hostile) == _names(_PLAIN)
    assert not any(name.startswith("on") for _, *names in hostile.elements for name in names)
    ET.fromstring(html)
    html.encode("utf-8")


def _names(skeleton: _Skeleton) -> list[tuple[str, ...]]:
    # How much of a text fits, and so whether a label is drawn, depends on its length: text elements may come and go.
    return [element for element in skeleton.elements if element[0] not in ("text", "/text", "p", "/p")]


def test_every_text_of_the_report_is_on_the_page() -> None:
    texts: list[str] = []

    def collect(plain: str) -> str:
        texts.append(f"«{plain}»")
        return texts[-1]

    page = "\n".join(_Skeleton(render_html(_report(collect))).text)
    assert [text for text in texts if text not in page] == []


def test_the_page_is_self_contained() -> None:
    html = render_html(_report())
    assert re.findall(r"(?:src|href|action|data|poster|srcset)=", html) == []
    assert set(re.findall(r"url\(([^)]*)\)", html)) == {"#hatch"}
    assert re.findall(r"https?:|//[a-z]|@import|@font-face|<script|javascript:", html) == []
    assert "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;" in html


def test_the_page_says_its_language_title_and_encoding() -> None:
    root = ET.fromstring(render_html(_report()))
    assert root.get("lang") == "en"
    assert root.findtext("head/title") == root.findtext(".//h1") == "title"
    assert next(root.iter("meta")).get("charset") == "utf-8"
    charts = [svg for figure in root.iter("figure") for svg in figure.findall("div/svg")]
    assert [svg.get("aria-label", "").split(",")[0] for svg in charts] == ["Chart of panel", "Chart of second"]


def test_heading_levels_are_not_skipped() -> None:
    root = ET.fromstring(render_html(_report()))
    assert [e.tag for e in root.iter() if re.fullmatch("h[1-6]", e.tag)] == ["h1", "h2", "h3", "h3", "h2", "h2"]


def test_light_dark_and_paper_are_served() -> None:
    html = render_html(_report())
    assert "@media screen and (prefers-color-scheme:dark)" in html
    assert "@media print" in html
    assert "color-scheme:light dark" in html


def test_the_same_report_gives_the_same_bytes() -> None:
    assert render_html(_report()) == render_html(_report())


def test_parts_that_are_empty_are_left_out() -> None:
    root = ET.fromstring(render_html(Report("Only a title")))
    assert [e.tag for e in root.find("body/main") or []] == ["header"]
    assert [e.tag for e in root.find("body/main/header") or []] == ["h1"]


def test_paragraphs_of_a_note_are_parted_by_blank_lines() -> None:
    root = ET.fromstring(render_html(Report("t", notes=[Note("why", "one\nline\n\n\n\ntwo ")])))
    assert [p.text for p in root.findall(".//dd/p")] == ["one\nline", "two"]
