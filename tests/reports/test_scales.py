"""Axes enclose their data and carry ticks that people would choose."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.reports.scales import Scale, moment_label, time_axis_caption, time_ticks, value_ticks

_VALUES = st.lists(st.floats(min_value=-1e100, max_value=1e100, allow_subnormal=False), max_size=6)


@given(_VALUES, st.integers(2, 8), st.booleans())
@example([5e-324], 5, False)
@example([-1e-320, 1e-320], 5, False)
@example([0.1, 0.3], 3, False)
@example([1e100, -1e100], 5, True)
def test_ticks_enclose_data_and_zero_evenly_and_are_few(values: list[float], most: int, whole: bool) -> None:
    ticks = value_ticks(values, most, whole)
    assert 2 <= len(ticks) <= most + 1
    low, high = min([0.0, *values]), max([0.0, *values])
    step = ticks[1] - ticks[0]
    assert step > 0
    slack = step * 1e-6
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert all(math.isclose(b - a, step, rel_tol=1e-6) for a, b in pairwise(ticks))
    assert any(abs(tick) < slack for tick in ticks)
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert any(math.isclose(mantissa, nice, rel_tol=1e-6) for nice in (1, 2, 5)), step
    if whole:
        assert step >= 1


_TICKS = [
    ("tokens per second", [2600.0, 8300.0], False, (0, 2000, 4000, 6000, 8000, 10000)),
    ("replicas", [1.0, 5.0], True, (0, 1, 2, 3, 4, 5)),
    ("one replica has no halves", [1.0], True, (0, 1)),
    ("a ratio", [0.97], False, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
    ("below zero", [-3.0, 4.0], False, (-4, -2, 0, 2, 4)),
    ("only zeros", [0.0, 0.0], False, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
    ("nothing known", [], False, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
]


@pytest.mark.parametrize(("values", "whole", "ticks"), [row[1:] for row in _TICKS], ids=[row[0] for row in _TICKS])
def test_value_ticks(values: list[float], whole: bool, ticks: tuple[float, ...]) -> None:
    assert value_ticks(values, whole=whole) == pytest.approx(ticks)


_NOON = 1_795_953_600.0  # 2026-11-29T12:00:00Z

_TIMES = [
    ("twenty seconds", (0, 20), None, ["00:00", "00:05", "00:10", "00:15", "00:20"]),
    ("an hour", (0, 3600), None, ["00:00", "10:00", "20:00", "30:00", "40:00", "50:00", "60:00"]),
    ("ticks are whole although the start is not", (250, 1250), None, ["05:00", "10:00", "15:00", "20:00"]),
    ("four hours in hours and minutes", (0, 14_400), None, ["0:00", "0:30", "1:00", "1:30", "2:00"]),
    ("three days", (0, 259_200), None, ["0d 00:00", "0d 12:00", "1d 00:00", "1d 12:00"]),
    ("three weeks", (0, 1_814_400), None, ["0d", "7d", "14d", "21d"]),
    ("years", (0, 3.2e9), None, ["0d", "5000d", "10000d"]),
    ("before the start", (-60, 60), None, ["-01:00", "-00:45", "-00:30"]),
    ("an hour on the clock", (0, 3600), _NOON, ["12:00", "12:10", "12:20"]),
    ("ticks are aligned to the clock", (0, 3600), _NOON + 130, ["12:10", "12:20"]),
    ("a minute on the clock", (0, 60), _NOON, ["12:00:00", "12:00:10", "12:00:20"]),
    ("midnight is a date", (0, 86_400), _NOON, ["12:00", "15:00", "18:00", "21:00", "30 Nov", "03:00"]),
    ("a clock beyond all calendars", (0, 60), 1e13, ["2777777777:46:40"]),
]


@pytest.mark.parametrize(("span", "origin", "labels"), [row[1:] for row in _TIMES], ids=[row[0] for row in _TIMES])
def test_time_ticks(span: tuple[float, float], origin: float | None, labels: list[str]) -> None:
    assert [tick.label for tick in time_ticks(*span, clock_origin_seconds=origin)][: len(labels)] == labels


@given(
    st.floats(-1e6, 1e6),
    st.floats(1, 1e7),
    st.none() | st.floats(1.5e9, 2e9),
)
def test_time_ticks_lie_on_the_axis_and_are_neither_few_nor_many(
    start: float, span: float, origin: float | None
) -> None:
    ticks = time_ticks(start, start + span, clock_origin_seconds=origin)
    assert len(ticks) <= 9
    assert all(start - 1e-3 <= tick.seconds <= start + span + 1e-3 for tick in ticks)
    assert len(ticks) >= 2 or span < 4
    labels = [tick.label for tick in ticks]
    assert all(before != after for before, after in pairwise(labels))
    if origin is None:
        assert len(set(labels)) == len(labels)


_CAPTIONS = [
    ("an hour", 3600, None, "model time, minutes:seconds"),
    ("a day", 86_400, None, "model time, hours:minutes"),
    ("a week", 604_800, None, "model time, days hours:minutes"),
    ("on the clock", 3600, _NOON, "model time, UTC"),
]


@pytest.mark.parametrize(
    ("end", "origin", "caption"), [row[1:] for row in _CAPTIONS], ids=[row[0] for row in _CAPTIONS]
)
def test_the_axis_says_what_it_counts(end: float, origin: float | None, caption: str) -> None:
    assert time_axis_caption(end, origin) == caption


def test_a_moment_is_told_to_the_second() -> None:
    assert (moment_label(750, None), moment_label(750, _NOON)) == ("12:30", "12:12:30")


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.floats(0, 1))
def test_a_scale_maps_its_ends_onto_the_plot(low: float, span: float, share: float) -> None:
    scale = Scale(low, low + span, 190.0, 20.0)
    assert scale(low) == 190.0
    assert scale(scale.high) == pytest.approx(20.0)
    assert 20.0 - 1e-6 <= scale(low + share * (scale.high - low)) <= 190.0 + 1e-6
