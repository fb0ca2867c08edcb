"""Numbers are written for people: enough digits, never a lost integer digit, never zero for unknown."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.reports import (
    UNKNOWN,
    Style,
    format_count,
    format_duration,
    format_elapsed,
    format_number,
    format_percent,
)
from controller.reports.formatting import format_as, format_short

_NUMBERS = [
    ("zero", 0.0, "0"),
    ("three significant digits", 1.23456, "1.23"),
    ("zeros after the point do not count", 0.00123456, "0.00123"),
    ("integer digits are never rounded away", 12851.37, "12,851"),
    ("thousands are separated", 1234567.0, "1,234,567"),
    ("a whole float keeps its digits", 2.0, "2.00"),
    ("an integer is written whole", 2, "2"),
    ("a numpy integer is an integer", np.int64(1200), "1,200"),
    ("a numpy float is a float", np.float64(1.5), "1.50"),
    ("rounding up to the next power of ten keeps three digits", 9.996, "10.0"),
    ("negative", -1.5, "-1.50"),
    ("too small for plain notation", 1.23e-8, "1.23e-8"),
    ("too large for plain notation", 4.5e18, "4.50e18"),
    ("a huge integer too", 10**30, "1.00e30"),
]


@pytest.mark.parametrize(("value", "text"), [row[1:] for row in _NUMBERS], ids=[row[0] for row in _NUMBERS])
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert format_number(value) == text


_DURATIONS = [
    ("nothing", 0, "0 s"),
    ("below a second in milliseconds", 0.85, "850 ms"),
    ("microseconds are small milliseconds", 0.0000142, "0.0142 ms"),
    ("almost a second is a second", 0.99996, "1.00 s"),
    ("seconds", 12.345, "12.3 s"),
    ("almost a minute is a minute", 59.97, "1 min 00 s"),
    ("minutes", 245, "4 min 05 s"),
    ("almost an hour is an hour", 3599.6, "1 h 00 min"),
    ("hours", 3720, "1 h 02 min"),
    ("up to two days in hours", 36.5 * 3600, "36 h 30 min"),
    ("days", 76 * 3600, "3 d 04 h"),
    ("negative", -12.345, "-12.3 s"),
]


@pytest.mark.parametrize(("seconds", "text"), [row[1:] for row in _DURATIONS], ids=[row[0] for row in _DURATIONS])
def test_durations_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


_ELAPSED = [
    ("the start", 0, "00:00"),
    ("minutes and seconds", 750, "12:30"),
    ("an hour is sixty minutes", 3600, "60:00"),
    ("beyond an hour and a half, hours", 6000, "1:40:00"),
    ("before the start", -5, "-00:05"),
]


@pytest.mark.parametrize(("seconds", "text"), [row[1:] for row in _ELAPSED], ids=[row[0] for row in _ELAPSED])
def test_a_clock_that_began_at_zero(seconds: float, text: str) -> None:
    assert format_elapsed(seconds) == text


_SHORT = [
    ("ticks of half a thousand", 1500.0, 500.0, "1.5k"),
    ("ticks of a thousand", 2000.0, 1000.0, "2k"),
    ("small ticks of a large value keep their digits", 1000.5, 0.5, "1.0005k"),
    ("fractions", 0.25, 0.25, "0.25"),
    ("zero has no digits", 0.0, 0.25, "0"),
    ("no minus before zero", -0.0, 1.0, "0"),
    ("three digits without ticks", 5094.0, None, "5.09k"),
    ("no trailing zeros without ticks", 5800.0, None, "5.8k"),
    ("carried into the next prefix", 999.7, None, "1k"),
    ("millions", 2_500_000.0, None, "2.5M"),
    ("a small integer", 4, None, "4"),
    ("negative thousands", -1500.0, 500.0, "-1.5k"),
    ("beyond all prefixes", 1e20, None, "1.00e20"),
]


@pytest.mark.parametrize(("value", "step", "text"), [row[1:] for row in _SHORT], ids=[row[0] for row in _SHORT])
def test_axes_and_labels_are_short(value: float, step: float | None, text: str) -> None:
    assert format_short(value, step) == text


_PERCENT = [
    ("three digits", 0.9514, "95.1 %"),
    ("all", 1.0, "100 %"),
    ("none", 0.0, "0 %"),
    ("almost all is not all", 0.99962, "99.96 %"),
    ("one in a million is not all", 0.999999, "99.9999 %"),
    ("a little more than all is not all", 1.00004, "100.004 %"),
    ("rounded as far as it stays below all", 0.9994, "99.9 %"),
    ("more than all", 1.25, "125 %"),
    ("very little", 0.00012, "0.0120 %"),
]


@pytest.mark.parametrize(("ratio", "text"), [row[1:] for row in _PERCENT], ids=[row[0] for row in _PERCENT])
def test_ratios_are_percentages(ratio: float, text: str) -> None:
    assert format_percent(ratio) == text


_NUMERIC = [style for style in Style if style is not Style.TEXT]


@pytest.mark.parametrize("style", list(Style))
def test_unknown_is_never_zero(style: Style) -> None:
    assert format_as(style, None) == format_as(style, math.nan) == UNKNOWN


@pytest.mark.parametrize("style", list(Style))
def test_text_yes_and_no_are_left_as_they_are_in_every_style(style: Style) -> None:
    assert format_as(style, "above 10 s") == "above 10 s"
    assert (format_as(style, True), format_as(style, False)) == ("yes", "no")


@given(st.sampled_from(_NUMERIC), st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**40), 10**40))
def test_every_number_can_be_written(style: Style, value: float) -> None:
    text = format_as(style, value)
    assert text
    assert text.isprintable()
    if value == 0:
        assert not text.startswith("-")


@given(st.floats(min_value=-1e20, max_value=1e20, allow_subnormal=False), st.integers(1, 6))
@example(9.995, 3)
@example(999_999.5, 3)
def test_what_is_written_is_as_near_as_its_digits_allow(value: float, digits: int) -> None:
    written = Decimal(format_number(value, digits).replace(",", ""))
    assert abs(written - Decimal(value)) <= abs(Decimal(value)) * Decimal(10) ** (1 - digits) / 2 * Decimal("1.001")


@given(st.integers(-(10**14), 10**14))
def test_a_count_keeps_every_digit(value: int) -> None:
    assert int(format_count(value).replace(",", "")) == value == int(format_number(value).replace(",", ""))
