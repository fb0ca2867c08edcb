"""Cutting bytes into lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube.errors import TooLarge
from controller.kube.lines import LineSplitter


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs", "Zs", "Cc"]), min_size=1)),
    cuts=st.lists(st.integers(min_value=1, max_value=7)),
)
def test_lines_come_out_whole_wherever_the_chunks_are_cut(lines: list[str], cuts: list[int]) -> None:
    """X2: also in the middle of a UTF-8 character."""
    data = "".join(f"{line}\n" for line in lines).encode()
    splitter = LineSplitter()
    found: list[bytes] = []
    position = 0
    for cut in [*cuts, len(data) + 1]:
        found += splitter.feed(data[position : position + cut])
        position += cut
    assert [line.removesuffix(b"\n").decode() for line in found] == lines
    assert splitter.unfinished_bytes == 0


def test_a_partial_line_at_the_end_is_no_line() -> None:
    """X9: the server died while writing it."""
    splitter = LineSplitter()
    assert splitter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert splitter.unfinished_bytes == 4


def test_a_chunk_that_is_one_line_is_handed_out_without_a_copy() -> None:
    """An API server flushes each event: nearly every chunk is a line. JSON does not mind its newline."""
    splitter = LineSplitter()
    chunk = b'{"a":1}\n'
    assert splitter.feed(chunk)[0] is chunk
    assert splitter.feed(b'{"b"') == []
    assert splitter.feed(b":2}\n") == [b'{"b":2}'], "the end of a line that began before is not a line"


def test_blank_lines_are_keep_alives_not_events() -> None:
    assert LineSplitter().feed(b"\n\r\n  \n{}\n") == [b"{}"]
    assert LineSplitter().feed(b" \r\n") == []


@pytest.mark.parametrize(
    "chunks",
    [[b"x" * 11], [b"x" * 6, b"x" * 6], [b"x" * 6, b"x" * 6 + b"\n"]],
    ids=["in one chunk", "in two chunks", "in two chunks, complete"],
)
def test_a_line_beyond_the_limit_is_refused(chunks: list[bytes]) -> None:
    """X1."""
    splitter = LineSplitter(max_line_bytes=10)
    for chunk in chunks[:-1]:
        assert splitter.feed(chunk) == []
    with pytest.raises(TooLarge, match="10 bytes"):
        splitter.feed(chunks[-1])


def test_a_line_of_exactly_the_limit_passes() -> None:
    assert LineSplitter(max_line_bytes=10).feed(b"x" * 10 + b"\n") == [b"x" * 10]
