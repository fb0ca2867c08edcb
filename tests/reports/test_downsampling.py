"""Downsampling keeps what one would see: extremes, ends, steps and gaps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.reports.downsampling import downsample

_VALUES = st.lists(st.none() | st.integers(-100, 100).map(float), max_size=300)
_BUCKETS = st.integers(1, 20)


@given(_VALUES, _BUCKETS, st.integers(1, 5))
def test_the_laws_of_downsampling(values: list[float | None], buckets: int, every: int) -> None:
    times = [float(index // every) for index in range(len(values))]
    points = downsample(times, values, buckets)

    original = list(zip(times, values, strict=True))
    remaining = iter(original)
    assert all(point in remaining for point in points), "every point is one of the input's, in order"

    known = [value for value in values if value is not None]
    kept = [value for _, value in points if value is not None]
    assert len(kept) <= max(len(known) if len(values) <= 4 * buckets else 0, 4 * buckets)
    assert len(points) <= 9 * buckets or len(values) <= 4 * buckets
    if known:
        assert (kept[0], min(kept), max(kept), kept[-1]) == (known[0], min(known), max(known), known[-1])


def test_a_gap_between_kept_points_stays_a_gap() -> None:
    values = [None if 400 <= second < 410 or second == 700 else math.sin(second / 50) for second in range(1000)]
    points = downsample([float(second) for second in range(1000)], values, 50)
    assert [time for time, value in points if value is None] == [400.0, 700.0]


@given(st.lists(st.integers(0, 5).map(float), min_size=161, max_size=161))
def test_a_step_holds_its_true_level_at_the_end_of_every_bucket(values: list[float]) -> None:
    # Ten buckets of sixteen seconds, the last second belongs to the last bucket.
    points = downsample([float(second) for second in range(161)], values, 10)
    for edge in range(16, 160, 16):
        assert [value for time, value in points if time < edge][-1] == values[edge - 1]


def test_a_short_series_is_left_as_it_is() -> None:
    assert downsample([0.0, 1.0, 2.0], [1.0, None, None], 5) == ((0.0, 1.0), (1.0, None), (2.0, None))
    assert downsample([], [], 5) == ()


def test_a_series_at_one_moment_does_not_divide_by_its_length() -> None:
    assert len(downsample([7.0] * 100, [float(n) for n in range(100)], 5)) == 2


def test_no_buckets_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one bucket"):
        downsample([], [], 0)
