"""What the planner's stages pass on: for every role a desired count between a floor and a ceiling.

A stage is a function from plans to plans. It may only narrow floor and ceiling, and it keeps `desired` between them.
Where narrowing makes them cross, the stronger wins: a person's bounds, then no-shrink floors, then ceilings. The one
stage that may lower a floor is `settling`, when it rolls replicas back.
"""

from __future__ import annotations

import msgspec

from controller.scaling.counts import LARGEST_COUNT, clamp
from controller.scaling.recommendation import Recommended
from controller.scaling.state import RoleState
from controller.scaling.types import DecisionSpec, MetricsStatus, Pool, RoleObservation, RoleSpec, Stage, StageRecord


class RolePlan(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """One role on its way through the stages."""

    name: str
    current: int
    desired: int
    floor: int = 0
    ceiling: int = LARGEST_COUNT
    # A person's bounds; they hold from the stage `bounds` on.
    minimum: int = 0
    maximum: int = LARGEST_COUNT
    records: tuple[StageRecord, ...] = ()
    next_change_time: float | None = None

    def narrowed(
        self,
        stage: Stage,
        *,
        desired: int | None = None,
        floor: int | None = None,
        ceiling: int | None = None,
        reason: str = "",
        until: float | None = None,
    ) -> RolePlan:
        """The plan after a stage, with its record. `until` is when what bound here could end."""
        low = self.floor if floor is None else max(self.floor, floor)
        high = self.ceiling if ceiling is None else min(self.ceiling, ceiling)
        low = clamp(low, self.minimum, self.maximum)
        # A floor is there because shrinking is not justified; a ceiling below it must wait.
        high = max(low, clamp(high, self.minimum, self.maximum))
        after = clamp(self.desired if desired is None else desired, low, high)
        record = StageRecord(
            stage=stage,
            before=self.desired,
            after=after,
            floor=low or None,
            ceiling=high if high < LARGEST_COUNT else None,
            reason=reason if after != self.desired or desired is not None else "",
        )
        return msgspec.structs.replace(
            self,
            desired=after,
            floor=low,
            ceiling=high,
            records=(*self.records, record),
            next_change_time=until if after != self.desired else self.next_change_time,
        )

    @property
    def limited_by(self) -> Stage | None:
        """The last stage that changed the count."""
        return next((record.stage for record in reversed(self.records) if record.after != record.before), None)


Plans = dict[str, RolePlan]


class RoleContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the stages may look at for one role."""

    role: RoleSpec
    observation: RoleObservation
    state: RoleState
    recommended: Recommended
    status: MetricsStatus
    stable_seconds: float  # how long sampling has to last before anything shrinks


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the stages may look at."""

    spec: DecisionSpec
    roles: dict[str, RoleContext]
    pools: tuple[Pool, ...]
    now: float
