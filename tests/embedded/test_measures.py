"""Distributions are exact to 1 % in bounded memory; intervals have no gaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.embedded.measures import Distribution, IntervalSeries


@given(values=st.lists(st.floats(0.001, 5000), min_size=1, max_size=200), share=st.floats(0.01, 1))
def test_a_quantile_is_within_one_percent_of_the_value_of_that_rank(values: list[float], share: float) -> None:
    subject = Distribution()
    for value in values:
        subject.add(value)
    ranked = sorted(values)
    rank = next(i for i in range(len(ranked)) if i + 1 >= share * len(ranked))
    assert subject.quantile(share) == pytest.approx(ranked[rank], rel=0.0101)
    assert subject.mean == pytest.approx(sum(values) / len(values))


def test_memory_does_not_grow_with_the_number_or_the_range_of_values() -> None:
    subject = Distribution()
    for exponent in range(-300, 300):
        subject.add(10.0**exponent * 1.7, times=1000)
    subject.add(0.0)
    assert len(subject._counts) <= 1100
    assert subject.count == 600_001


def test_without_values_there_is_no_quantile_and_no_mean() -> None:
    assert Distribution().quantile(0.5) is None
    assert Distribution().mean is None


def test_merged_distributions_hold_the_values_of_all() -> None:
    one, two = Distribution(), Distribution()
    one.add(1.0, 3)
    two.add(100.0)
    merged = one.merge([two])
    assert (merged.count, merged.total) == (4, 103.0)
    assert merged.quantile(0.75) == pytest.approx(1.0, rel=0.01)
    assert merged.quantile(1.0) == pytest.approx(100.0, rel=0.01)
    assert one.count == 3


def test_a_series_has_an_interval_for_every_moment() -> None:
    series = IntervalSeries(100.0, 10.0)
    series.at(135.0).requests += 1
    series.at(99.0).requests += 2
    series.at(109.9).requests += 4
    assert [interval.requests for interval in series.intervals] == [6, 0, 0, 1]
