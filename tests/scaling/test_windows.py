"""Windows divide by what they saw, and do not care how time was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.scaling.windows import LARGEST_RING, Flow, coarse, mean, remember


def flows(*rates: float | None, seconds: float = 10.0, high: float = 0.0) -> tuple[Flow, ...]:
    """Ticks from time 0 on; `high` is added for silent members."""
    return tuple(Flow((index + 1) * seconds, seconds, rate, (rate or 0.0) + high) for index, rate in enumerate(rates))


MEANS = [
    pytest.param(flows(1.0, 2.0, 3.0, 4.0), 40.0, 40.0, (2.5, 40.0), id="a full window"),
    pytest.param(flows(1.0, 2.0, 3.0, 4.0), 40.0, 20.0, (3.5, 20.0), id="older ticks are not looked at"),
    pytest.param(
        flows(1.0, 3.0), 20.0, 15.0, ((0.5 * 1.0 + 1.0 * 3.0) / 1.5, 15.0), id="a tick half inside counts half"
    ),
    pytest.param(flows(1.0, 3.0), 20.0, 180.0, (2.0, 20.0), id="a filling window divides by what it covers"),
    pytest.param(
        flows(1.0, None, 3.0), 30.0, 30.0, (2.0, 20.0), id="a hole adds neither to the sum nor to the divisor"
    ),
    pytest.param(flows(5.0, None, None), 30.0, 20.0, (None, 0.0), id="a hole as long as the window leaves nothing"),
    pytest.param(flows(5.0, 6.0), 95.0, 20.0, (None, 0.0), id="time without ticks empties it too"),
    pytest.param(
        flows(1.0, 2.0, 9.0, 9.0), 20.0, 20.0, (1.5, 20.0), id="a window that ended earlier ignores what came later"
    ),
    pytest.param(flows(1.0, 2.0, 9.0), 25.0, 10.0, ((2.0 + 9.0) / 2, 10.0), id="an earlier end may cut a tick"),
    pytest.param(flows(-4.0, 2.0), 20.0, 20.0, (0.0, 20.0), id="a mean of arrivals is never negative"),
    pytest.param((), 10.0, 10.0, (None, 0.0), id="nothing seen"),
]


@pytest.mark.parametrize(("ring", "end", "window", "expected"), MEANS)
def test_mean(ring: tuple[Flow, ...], end: float, window: float, expected: tuple[float | None, float]) -> None:
    found = mean(ring, end, window)
    low, covered = expected
    assert found.low == (None if low is None else pytest.approx(low))
    assert found.covered_seconds == pytest.approx(covered)


def test_the_high_mean_counts_holes_and_the_low_one_does_not() -> None:
    found = mean((Flow(10.0, 10.0, 4.0, 4.0), Flow(20.0, 10.0, None, 9.0)), 20.0, 20.0)
    assert (found.low, found.high) == (4.0, 6.5)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20), st.integers(1, 300))
def test_a_tick_split_in_halves_gives_the_same_mean(rates: list[int], window: int) -> None:
    whole = flows(*map(float, rates), seconds=16.0)
    halves = tuple(
        half
        for flow in whole
        for half in (Flow(flow.end - 8.0, 8.0, flow.low, flow.high), Flow(flow.end, 8.0, flow.low, flow.high))
    )
    end = whole[-1].end
    assert mean(whole, end, float(window)).low == pytest.approx(mean(halves, end, float(window)).low)


def test_ticks_are_forgotten_when_no_window_reaches_them() -> None:
    ring: tuple[Flow, ...] = ()
    for flow in flows(*([1.0] * 30)):
        ring = remember(ring, flow, 100.0)
    assert len(ring) == 10


def test_the_ring_is_bounded_however_long_the_window() -> None:
    ring: tuple[Flow, ...] = ()
    for flow in flows(*(float(index % 7) for index in range(3 * LARGEST_RING)), seconds=5.0):
        ring = remember(ring, flow, 1e9)
        assert len(ring) <= LARGEST_RING
    assert mean(ring, ring[-1].end, 1e9).low == pytest.approx(3.0, abs=0.01)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(1, 24))
def test_coarser_flows_keep_sums_and_time(rates: list[int], largest: int) -> None:
    whole = flows(*map(float, rates))
    short = coarse(whole, largest)
    assert len(short) <= largest
    end = whole[-1].end
    assert mean(short, end, end).low == pytest.approx(mean(whole, end, end).low)
    assert sum(flow.seconds for flow in short) == pytest.approx(sum(flow.seconds for flow in whole))
