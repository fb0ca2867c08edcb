"""Clocks agree with each other, never run backwards, and wake their sleepers."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.foundation import Clock, ManualClock, ScaledClock, WallClock, monotonic, wall_now

PATIENCE_SECONDS = 120.0  # for what happens in the next turn of the loop
_EPOCHS = st.floats(min_value=1_500_000_000, max_value=2_500_000_000)
_FACTORS = st.floats(min_value=0.1, max_value=1000)


def _set_wall_time(patch: pytest.MonkeyPatch, seconds: float) -> None:
    patch.setattr(time, "time", lambda: seconds)


@given(_EPOCHS, _FACTORS, st.floats(min_value=0, max_value=86_400))
def test_model_time_is_the_epoch_plus_the_factor_times_the_wall_time_since(
    epoch: float, factor: float, elapsed: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _set_wall_time(patch, epoch)
        assert ScaledClock(epoch, factor).now() == epoch
        _set_wall_time(patch, epoch + elapsed)
        now = ScaledClock(epoch, factor).now()
    assert now - epoch == pytest.approx(factor * elapsed, abs=1e-3)


@given(_EPOCHS, _FACTORS, st.lists(st.floats(min_value=0, max_value=3600), min_size=1, max_size=5))
def test_a_restarted_process_with_the_same_pair_agrees_and_never_goes_back(
    epoch: float, factor: float, steps: list[float]
) -> None:
    survivor = ScaledClock(epoch, factor)
    wall = before = epoch
    with pytest.MonkeyPatch.context() as patch:
        for step in steps:
            wall += step
            _set_wall_time(patch, wall)
            restarted = ScaledClock(epoch, factor)
            assert restarted.now() == survivor.now()
            assert restarted.now() >= before
            before = restarted.now()


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_factor_that_is_not_a_positive_number_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="clock factor"):
        ScaledClock(0.0, factor)


@pytest.mark.parametrize("epoch", [float("nan"), float("inf"), float("-inf")])
def test_an_epoch_that_is_not_a_time_is_refused(epoch: float) -> None:
    with pytest.raises(ValueError, match="clock epoch"):
        ScaledClock(epoch, 1.0)


class _Sleeps:
    """Records what would have been slept."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


_SLEEPS = [
    ("a wall clock sleeps as long as it is told", WallClock(), 90.0, 90.0),
    ("a clock that runs thirty times as fast sleeps a thirtieth", ScaledClock(0.0, 30.0), 90.0, 3.0),
    ("a slowed clock sleeps longer", ScaledClock(0.0, 0.5), 90.0, 180.0),
    ("a wait that is over takes no time", ScaledClock(0.0, 30.0), -5.0, 0.0),
    ("a wait that is over takes no time on a wall clock", WallClock(), -5.0, 0.0),
]


@pytest.mark.parametrize(("clock", "model", "wall"), [row[1:] for row in _SLEEPS], ids=[row[0] for row in _SLEEPS])
async def test_sleeps_are_measured_in_model_time(
    clock: Clock, model: float, wall: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = _Sleeps()
    monkeypatch.setattr(asyncio, "sleep", sleeps)
    await clock.sleep(model)
    assert sleeps.seconds == [wall]
    if model >= 0:
        assert clock.wall_seconds(model) == wall


def test_a_wall_clock_is_the_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _set_wall_time(monkeypatch, 1_795_967_355.0)
    assert WallClock().now() == wall_now() == 1_795_967_355.0


def test_the_monotonic_clock_does_not_follow_the_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before = monotonic()
    _set_wall_time(monkeypatch, 0.0)
    assert monotonic() >= before


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(100.0)
    sleeper = asyncio.create_task(clock.sleep(10.0))
    await _settle()
    assert clock.now() == 100.0
    assert not sleeper.done()
    clock.advance(9.0)
    await _settle()
    assert not sleeper.done()
    clock.advance(1.0)
    await asyncio.wait_for(sleeper, PATIENCE_SECONDS)
    assert clock.now() == 110.0


async def test_one_step_wakes_each_sleeper_whose_time_has_come() -> None:
    clock = ManualClock()
    sleepers = [asyncio.create_task(clock.sleep(seconds)) for seconds in (1.0, 2.0, 3.0)]
    await _settle()
    clock.advance(2.0)
    await _settle()
    assert [sleeper.done() for sleeper in sleepers] == [True, True, False]
    clock.advance(1.0)
    await asyncio.gather(*sleepers)


async def test_steps_taken_before_the_sleeper_runs_are_not_lost() -> None:
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(2.0))
    await asyncio.sleep(0)
    clock.advance(1.0)
    clock.advance(1.0)
    await asyncio.wait_for(sleeper, PATIENCE_SECONDS)


@pytest.mark.parametrize("steps", [3, 7, 10, 30])
async def test_steps_that_add_up_to_the_sleep_end_it_whatever_they_round_to(steps: int) -> None:
    clock = ManualClock(1_700_000_000.0)
    sleeper = asyncio.create_task(clock.sleep(0.3))
    await _settle()
    for _ in range(steps):
        assert not sleeper.done()
        clock.advance(0.3 / steps)
    await asyncio.wait_for(sleeper, PATIENCE_SECONDS)


async def test_a_sleep_of_nothing_lets_others_run() -> None:
    clock = ManualClock()
    ran: list[str] = []

    async def other() -> None:
        ran.append("other")

    task = asyncio.create_task(other())
    await clock.sleep(0)
    assert ran == ["other"]
    await task


async def test_a_cancelled_sleep_leaves_the_clock_usable() -> None:
    clock = ManualClock()
    cancelled = asyncio.create_task(clock.sleep(1.0))
    other = asyncio.create_task(clock.sleep(1.0))
    await _settle()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    clock.advance(1.0)
    await asyncio.wait_for(other, PATIENCE_SECONDS)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_clock_only_moves_forward(seconds: float) -> None:
    clock = ManualClock(100.0)
    with pytest.raises(ValueError, match="only moves forward"):
        clock.advance(seconds)
    assert clock.now() == 100.0
