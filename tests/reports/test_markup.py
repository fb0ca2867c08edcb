"""Markup is safe by construction: text can only ever become text."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.reports.markup import coordinate, element, escape_text, join, trusted


@given(st.text(), st.text())
def test_text_in_content_and_attributes_reads_back_as_itself(content: str, attribute: str) -> None:
    html = element("td", content, title=attribute).text
    root = ET.fromstring(html)
    allowed = {c for c in content + attribute if c.isprintable()}
    assert (root.tag, len(root), list(root.attrib)) == ("td", 0, ["title"])
    assert {c for c in (root.text or "") + root.attrib["title"] if c.isprintable()} - {"\ufffd", " "} == allowed - {
        "\ufffd",
        " ",
    }
    html.encode("utf-8")


def test_characters_that_no_document_may_hold_are_replaced() -> None:
    assert escape_text("a\x00b\x1bc\ud800d\uffffe\tf") == "a\ufffdb\ufffdc\ufffdd\ufffde\tf"


def test_quotes_cannot_close_an_attribute() -> None:
    assert element("p", title="\"'><script>").text == '<p title="&quot;&#x27;&gt;&lt;script&gt;"></p>'


@pytest.mark.parametrize("tag", ["script", "iframe", "object", "embed", "link", "img", "a", "form", "base"])
def test_elements_that_run_or_fetch_something_are_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="no place in a report"):
        element(tag)


def test_names_numbers_and_absent_attributes() -> None:
    made = element("rect", x=1.0, y=0.123, width=-0.001, class_="a", aria_label="b", title=None)
    assert made.text == '<rect x="1" y="0.12" width="0" class="a" aria-label="b"/>'
    assert join([trusted("<b/>"), "<b/>"], ", ").text == "<b/>, &lt;b/&gt;"
    assert [coordinate(n) for n in (1.0, 1.26, -0.01, 100.04)] == ["1", "1.3", "0", "100"]
