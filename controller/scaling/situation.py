"""What an algorithm may look at: everything known about one role at this tick."""

from __future__ import annotations

import msgspec

from controller.scaling.latency import Latencies
from controller.scaling.state import RoleState
from controller.scaling.ticks import RoleTick
from controller.scaling.types import RoleCapacity, RoleSpec


class Supply(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas by what can be expected of them; those whose start has stalled are in none."""

    ready: int
    starting: int
    unadmitted: int
    serving: int
    stalled: int = 0

    @property
    def coming(self) -> int:
        """Ready, or admitted and starting: those that will serve."""
        return self.ready + self.starting

    @property
    def pending(self) -> int:
        """Asked for and not Ready."""
        return self.starting + self.unadmitted

    @property
    def expected(self) -> int:
        """All of them: what has been asked for and not given up."""
        return self.ready + self.starting + self.unadmitted


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """One role, its memory with this tick in it, and what the tick says."""

    role: RoleSpec
    capacity: RoleCapacity | None
    state: RoleState
    tick: RoleTick
    latencies: Latencies
    supply: Supply
    current: int
    startup_p90_seconds: float | None
    interval_seconds: float
    now: float
