"""How fast a demo runs on the machine as it is: chosen before it starts, lowered where that was too fast.

A speed that the user asked for is kept; then the only thing to say is which one to try.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.cli.demo import FASTEST
from controller.cli.demo_plan import DemoPlan
from controller.embedded import pace

# Ends within three minutes on two cores, with room for the start and the last answers.
_WALL_SECONDS = 135.0
# The first replica's start and the last request's end, in model time.
_MARGIN_SECONDS = 330.0
_CYCLES_SPEED = 60.0  # about two minutes for twenty cycles of one role
# A speed that failed is at least halved: what was measured before it was too much, too.
_LOWERED = 0.5


class SpeedPlanner:
    """Chooses the speed of a demo. `measure` tells how much of a core there is now."""

    def __init__(self, plan: DemoPlan, *, speed: float | None, measure: Callable[[], float] | None = None) -> None:
        self._plan = plan
        self._measure = measure or pace.measured_cores
        self.may_slow_down = speed is None and plan.cycles is None
        self._wanted = min(FASTEST, self._unhurried()) if speed is None else speed
        self.speed = self._wanted if speed is not None else min(self._wanted, self._bearable())

    @property
    def slowed(self) -> bool:
        """Whether it is slower than on a machine with two idle cores."""
        return self.speed < self._wanted

    @property
    def announcement(self) -> str:
        """What to tell before a slower run."""
        what = f"this machine is busy, so the demo runs at --speed {self.speed:.0f} instead of {self._wanted:.0f}"
        if self._plan.cycles is not None:
            return what
        minutes = self._model_seconds / self.speed / 60.0
        return f"{what} and takes about {minutes:.0f} minutes; --minutes 10 shortens it"

    def slow_down(self) -> None:
        """After a run that fell behind."""
        self.speed = self._lower()

    def advice(self) -> str:
        """What to do about a result that means nothing."""
        if self.speed <= 1.0:
            return "not even real time is slow enough: stop what else runs here, or replay a smaller --trace"
        return f"try --speed {self._lower():.0f}"

    def _lower(self) -> float:
        return max(1.0, min(float(int(self.speed * _LOWERED)), float(int(self._bearable()))))

    @property
    def _model_seconds(self) -> float:
        return self._plan.trace_seconds + _MARGIN_SECONDS

    def _unhurried(self) -> float:
        return max(1.0, self._model_seconds / _WALL_SECONDS) if self._plan.cycles is None else _CYCLES_SPEED

    def _bearable(self) -> float:
        cores = self._measure()
        if self._plan.cycles is not None:  # its load depends on what is there, not on the trace's busiest minute
            return max(1.0, _CYCLES_SPEED * cores)
        return pace.bearable_factor(self._plan.fit.trace, cores, roles=len(self._plan.roles))
