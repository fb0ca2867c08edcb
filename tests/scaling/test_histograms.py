"""Quantiles from bucket increases: interpolated as Prometheus does, with the interval they lie in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.scaling import Histogram
from controller.scaling.histograms import (
    Buckets,
    add,
    increase,
    quantile,
    share_surely_above,
    total_increase,
    well_formed,
)

BOUNDS = (0.1, 0.5, 1.0)

QUANTILES = [
    pytest.param((0.0, 10.0, 20.0, 20.0), 0.5, (0.1, 0.5, 0.5), id="the median at the end of a bucket"),
    pytest.param((0.0, 10.0, 20.0, 20.0), 0.25, (0.1, 0.5, 0.3), id="halfway through a bucket, linear"),
    pytest.param((10.0, 10.0, 10.0, 10.0), 0.5, (0.0, 0.1, 0.05), id="the first bucket begins at zero"),
    pytest.param((0.0, 0.0, 0.0, 10.0), 0.95, (1.0, None, None), id="above the last bound there is no value"),
    pytest.param((0.0, 0.0, 19.0, 20.0), 0.95, (0.5, 1.0, 1.0), id="exactly at the last finite bound"),
    pytest.param((0.0, 0.0, 18.0, 20.0), 0.95, (1.0, None, None), id="one observation further is above it"),
    pytest.param(
        (4.0, 3.0, 20.0, 20.0),
        0.5,
        (0.5, 1.0, 0.5 + 0.5 * 6 / 16),
        id="a bucket below its neighbour counts as equal to it",
    ),
]


@pytest.mark.parametrize(("cumulative", "q", "where"), QUANTILES)
def test_quantile(cumulative: tuple[float, ...], q: float, where: tuple[float, float | None, float | None]) -> None:
    found = quantile(Buckets(BOUNDS, cumulative), q)
    assert found is not None
    lower, upper, value = where
    assert (found.lower, found.upper) == (lower, upper)
    assert found.value == (None if value is None else pytest.approx(value))


def test_too_few_observations_have_no_quantile() -> None:
    buckets = Buckets(BOUNDS, (0.0, 0.0, 19.0, 19.0))
    assert quantile(buckets, 0.95, minimum_count=20.0) is None
    assert quantile(Buckets(BOUNDS, (0.0,) * 4), 0.95) is None
    assert quantile(Buckets((), (5.0,)), 0.95) is None
    assert quantile(None, 0.95) is None


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any), st.floats(0.01, 0.99))
def test_the_value_lies_in_its_interval(counts: list[int], q: float) -> None:
    cumulative = tuple(float(sum(counts[: index + 1])) for index in range(4))
    found = quantile(Buckets(BOUNDS, cumulative), q)
    assert found is not None
    if found.value is not None and found.upper is not None:
        assert found.lower <= found.value <= found.upper
    else:
        assert (found.lower, found.value, found.upper) == (1.0, None, None)


TARGETS = [
    pytest.param(0.5, True, id="a target at the bucket's lower end is surely exceeded"),
    pytest.param(0.4, True, id="a target below the bucket is surely exceeded"),
    pytest.param(0.7, False, id="a target inside the bucket is neither met nor missed"),
    pytest.param(1.0, False, id="a target at the upper end is not exceeded"),
]


@pytest.mark.parametrize(("target", "exceeded"), TARGETS)
def test_a_target_is_compared_with_the_interval(target: float, exceeded: bool) -> None:
    found = quantile(Buckets(BOUNDS, (0.0, 0.0, 20.0, 20.0)), 0.95)
    assert found is not None
    assert found.surely_above(target) is exceeded


LATE = [
    pytest.param(0.5, 6.0, id="a target that is a bound separates exactly"),
    pytest.param(0.3, 6.0, id="of a bucket around the target nobody is late"),
    pytest.param(2.0, 0.0, id="above all bounds nothing is known to be late"),
]


@pytest.mark.parametrize(("target", "late"), LATE)
def test_only_buckets_wholly_above_the_target_are_late(target: float, late: float) -> None:
    assert share_surely_above(Buckets(BOUNDS, (1.0, 4.0, 8.0, 10.0)), target) == late


def test_members_with_equal_bounds_are_added_bucket_by_bucket() -> None:
    total = add([Buckets(BOUNDS, (1.0, 2.0, 3.0, 4.0)), Buckets(BOUNDS, (0.0, 1.0, 1.0, 5.0))])
    assert total == Buckets(BOUNDS, (1.0, 3.0, 4.0, 9.0))
    assert add([]) is None


def test_members_with_other_bounds_are_added_on_the_common_ones() -> None:
    total = add([Buckets(BOUNDS, (1.0, 2.0, 3.0, 4.0)), Buckets((0.5, 2.0), (1.0, 2.0, 3.0))])
    assert total == Buckets((0.5,), (3.0, 7.0))


def test_without_a_common_bound_only_the_count_is_left() -> None:
    total = add([Buckets((0.1,), (1.0, 2.0)), Buckets((0.2,), (1.0, 3.0))])
    assert total == Buckets((), (5.0,))
    assert quantile(total, 0.95) is None


MALFORMED = [
    pytest.param((0.5, 0.1), (1.0, 2.0, 3.0), id="falling bounds"),
    pytest.param((0.1, 0.1), (1.0, 2.0, 3.0), id="equal bounds"),
    pytest.param((0.1, float("inf")), (1.0, 2.0, 3.0), id="an infinite bound beside the implied one"),
    pytest.param((float("nan"),), (1.0, 2.0), id="a bound that is no number"),
    pytest.param((0.1,), (3.0, 2.0), id="falling counts"),
    pytest.param((0.1,), (-1.0, 2.0), id="a negative count"),
    pytest.param((0.1,), (1.0, float("inf")), id="an infinite count"),
    pytest.param((0.1,), (1.0, 2.0, 3.0), id="a count too many"),
]


@pytest.mark.parametrize(("bounds", "cumulative"), MALFORMED)
def test_what_is_no_histogram(bounds: tuple[float, ...], cumulative: tuple[float, ...]) -> None:
    assert not well_formed(Histogram(bounds, cumulative))
    assert well_formed(Histogram((0.1, 0.5), (1.0, 2.0, 2.0)))


def test_other_bounds_than_before_cannot_be_subtracted() -> None:
    assert increase(Histogram((0.1,), (2.0, 3.0)), Histogram((0.2,), (1.0, 1.0))) is None


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 9), min_size=4, max_size=4), st.lists(st.integers(0, 9), min_size=4, max_size=4)
        ),
        min_size=1,
        max_size=5,
    )
)
def test_the_increase_of_many_is_the_sum_of_each(members: list[tuple[list[int], list[int]]]) -> None:
    readings = []
    for start, growth in members:
        before = tuple(float(sum(start[: index + 1])) for index in range(4))
        now = tuple(count + float(sum(growth[: index + 1])) for index, count in enumerate(before))
        readings.append((Histogram(BOUNDS, now), Histogram(BOUNDS, before)))
    assert total_increase(readings) == add([increase(now, before) for now, before in readings])


def test_a_member_whose_buckets_cannot_be_compared_is_left_out() -> None:
    good = (Histogram(BOUNDS, (1.0, 2.0, 3.0, 4.0)), Histogram(BOUNDS, (0.0, 0.0, 0.0, 0.0)))
    fallen = (Histogram(BOUNDS, (0.0, 2.0, 3.0, 4.0)), Histogram(BOUNDS, (9.0, 9.0, 9.0, 9.0)))
    other = (Histogram((0.5,), (1.0, 2.0)), Histogram((0.5,), (0.0, 0.0)))
    assert total_increase([good, fallen]) == Buckets(BOUNDS, (1.0, 2.0, 3.0, 4.0))
    assert total_increase([good, other]) == Buckets((0.5,), (3.0, 6.0))
    assert total_increase([fallen]) is None
    assert total_increase([]) is None
