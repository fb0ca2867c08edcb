"""Timestamps are written as Kubernetes writes them, and only RFC 3339 is read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.foundation import format_micro_time, format_time, parse_time

# Up to the year 2200, where a float still resolves a microsecond.
_MOMENTS = st.floats(min_value=-2_208_988_800, max_value=7_258_118_400, allow_nan=False)

_WRITTEN = [
    ("a Time has whole seconds", format_time, 1_795_967_355.0, "2026-11-29T15:49:15Z"),
    ("a Time is rounded down", format_time, 1_795_967_355.999, "2026-11-29T15:49:15Z"),
    ("a Time before the epoch is rounded down too", format_time, -0.5, "1969-12-31T23:59:59Z"),
    ("the zero time of Go keeps its four digits", format_time, -62_135_596_800.0, "0001-01-01T00:00:00Z"),
    ("a MicroTime has six digits", format_micro_time, 1_795_967_355.25, "2026-11-29T15:49:15.250000Z"),
    ("a zero fraction is written out", format_micro_time, 1_795_967_355.0, "2026-11-29T15:49:15.000000Z"),
    ("a MicroTime of the zero time", format_micro_time, -62_135_596_800.0, "0001-01-01T00:00:00.000000Z"),
]


@pytest.mark.parametrize(("write", "seconds", "text"), [r[1:] for r in _WRITTEN], ids=[r[0] for r in _WRITTEN])
def test_times_are_written_as_kubernetes_writes_them(write: object, seconds: float, text: str) -> None:
    assert callable(write)
    assert write(seconds) == text


_READ = [
    ("a Time", "2026-11-29T15:49:15Z", 1_795_967_355.0),
    ("a MicroTime", "2026-11-29T15:49:15.250000Z", 1_795_967_355.25),
    ("an offset east of Greenwich", "2026-11-29T17:49:15+02:00", 1_795_967_355.0),
    ("an offset west of Greenwich", "2026-11-29T10:19:15-05:30", 1_795_967_355.0),
    ("small letters, which RFC 3339 allows", "2026-11-29t15:49:15z", 1_795_967_355.0),
    ("nine digits, as Go writes them", "2026-11-29T15:49:15.250000999Z", 1_795_967_355.25),
    ("one digit", "2026-11-29T15:49:15.5Z", 1_795_967_355.5),
    ("the zero time of Go", "0001-01-01T00:00:00Z", -62_135_596_800.0),
    ("a leap day", "2028-02-29T00:00:00Z", 1_835_395_200.0),
]


@pytest.mark.parametrize(("text", "seconds"), [row[1:] for row in _READ], ids=[row[0] for row in _READ])
def test_rfc_3339_is_read(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


_REFUSED = [
    ("nothing", ""),
    ("a time without an offset", "2026-11-29T15:49:15"),
    ("a date alone", "2026-11-29"),
    ("the basic form of ISO 8601", "20261129T154915Z"),
    ("a week date", "2026-W48-7T15:49:15Z"),
    ("a blank for the T", "2026-11-29 15:49:15Z"),
    ("a comma for the point", "2026-11-29T15:49:15,25Z"),
    ("a time without seconds", "2026-11-29T15:49Z"),
    ("an offset with seconds", "2026-11-29T15:49:15+05:30:10"),
    ("an offset of a day", "2026-11-29T15:49:15+24:00"),
    ("hour 24", "2026-11-29T24:00:00Z"),
    ("a leap second", "2026-12-31T23:59:60Z"),
    ("a day that does not exist", "2026-02-29T00:00:00Z"),
    ("month zero", "2026-00-10T00:00:00Z"),
    ("year zero", "0000-01-01T00:00:00Z"),
    ("a line break at the end", "2026-11-29T15:49:15Z\n"),
    ("digits of another script", "２026-11-29T15:49:15Z"),
    ("a lone surrogate", "2026-11-29T15:49:15\ud800Z"),
    ("a megabyte of garbage", "2026-11-29T15:49:15." + "x" * 1_000_000),
]


@pytest.mark.parametrize("text", [row[1] for row in _REFUSED], ids=[row[0] for row in _REFUSED])
def test_anything_else_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a") as refused:
        parse_time(text)
    message = str(refused.value)
    assert repr(text)[:30] in message
    assert len(message) < 200


@given(_MOMENTS)
def test_a_micro_time_reads_back_to_the_microsecond(seconds: float) -> None:
    written = format_micro_time(seconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", written)
    assert parse_time(written) == pytest.approx(seconds, abs=1.1e-6, rel=0)
    assert format_micro_time(parse_time(written)) == written


@given(_MOMENTS)
def test_a_time_reads_back_to_the_second_below(seconds: float) -> None:
    below = parse_time(format_time(seconds))
    assert below <= seconds <= below + 1


@given(st.text(max_size=40))
def test_no_text_raises_anything_but_value_error(text: str) -> None:
    try:
        assert isinstance(parse_time(text), float)
    except ValueError as refused:
        assert "not a" in str(refused)  # noqa: PT017 - both outcomes are right, a third is not
