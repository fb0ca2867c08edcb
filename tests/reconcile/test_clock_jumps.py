"""The wall clock of a machine is set back or forward: scaling goes on, and nothing shrinks on it."""

from __future__ import annotations

import pytest

from tests.reconcile.harness import FACTOR, LoopClock, World

HOUR = 3600.0


class JumpingClock(LoopClock):
    """The clock of the world, set back or forward by a test."""

    offset = 0.0

    def now(self) -> float:
        return super().now() + self.offset


@pytest.fixture
def clock(team: World) -> JumpingClock:
    """The clock of the controller's machine."""
    return JumpingClock(team.epoch, FACTOR)


@pytest.mark.parametrize("jump", [-7.0, -HOUR, -300 * HOUR, HOUR], ids=["a little back", "back", "far back", "forward"])
async def test_a_load_that_rises_after_the_jump_is_followed(team: World, clock: JumpingClock, jump: float):
    engine = await team.loaded()
    await team.controller(clock=clock)
    await team.until(lambda: team.count() == 3, "grown")
    clock.offset = jump
    engine.load(36_000, 12_000)
    await team.until(lambda: team.count() == 5, "grown again")


@pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["back", "forward"])
async def test_nothing_shrinks_before_a_window_has_been_sampled_after_the_jump(
    team: World, clock: JumpingClock, jump: float
):
    engine = await team.loaded()
    await team.controller(clock=clock)
    await team.until(lambda: team.count() == 3, "grown")
    engine.load(0, 0)
    clock.offset = jump
    jumped = team.clock.now()
    await team.until(lambda: team.count() == 1, "shrunk in the end")
    # One stable window of 20 s, of which at least the ticks of three intervals lie after the jump.
    assert team.clock.now() - jumped >= 15


async def test_figures_are_reported_again_after_the_clock_was_set_back(team: World, clock: JumpingClock):
    engine = await team.loaded()
    await team.controller(clock=clock)
    await team.until(lambda: team.count() == 3, "grown")
    clock.offset = -HOUR
    await team.until(
        lambda: (team.status().last_decision_time or 0) < clock.now() + 60, "the status is dated by the new clock"
    )
    engine.load(1500, 500)
    await team.until(lambda: _demand(team) < 2100, "the lower demand is shown")


def _demand(team: World) -> float:
    observed = team.status().roles[0].observed
    return float(observed.tokens_per_second or 9999) if observed else 9999.0
