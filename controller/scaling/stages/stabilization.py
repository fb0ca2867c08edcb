"""`stabilization`: a count rises only as far as every recommendation of the up window agrees, and falls only as far as
every one of the down window does. A down window that reaches further back than the memory is unknown: no shrink."""

from __future__ import annotations

import msgspec

from controller.scaling.counts import LARGEST_COUNT
from controller.scaling.history import History, complete, highest, lowest
from controller.scaling.stages.plan import Context, Plans, RolePlan
from controller.scaling.types import Behavior, Stage


class Stabilized(msgspec.Struct, frozen=True):
    """The bounds that two windows of recommendations put on a move from `current`."""

    floor: int
    ceiling: int
    floor_until: float | None = None
    ceiling_until: float | None = None
    unknown: bool = False


def window_bounds(
    history: History, current: int, desired: int, *, up_window: float, down_window: float, now: float
) -> Stabilized:
    """The lowest and highest count that the windows allow; `desired` itself is the newest recommendation."""
    up, down = lowest(history, now, up_window), highest(history, now, down_window)
    most = desired if up is None else min(desired, up.replicas)
    least = desired if down is None else max(desired, down.replicas)
    ceiling_until = up.time + up_window if up is not None and most < desired else None
    floor_until = down.time + down_window if down is not None and least > desired else None
    # Without an up window nothing speaks against a raise, also one that a band asks for later.
    ceiling = LARGEST_COUNT if up is None else max(current, most)
    if not complete(history, now, down_window):
        known_until = None if history.known_since is None else history.known_since + down_window
        return Stabilized(current, ceiling, known_until, ceiling_until, unknown=True)
    return Stabilized(min(current, least), ceiling, floor_until, ceiling_until)


def stabilization(plans: Plans, context: Context) -> Plans:
    """Apply the two windows of each role's history."""
    return {
        name: _stabilized(plan, context.roles[name].state.history, context.spec.behavior, context.now)
        for name, plan in plans.items()
    }


def _stabilized(plan: RolePlan, history: History, behavior: Behavior, now: float) -> RolePlan:
    up_window = behavior.scale_up.stabilization_window_seconds
    down_window = behavior.scale_down.stabilization_window_seconds
    limits = window_bounds(history, plan.current, plan.desired, up_window=up_window, down_window=down_window, now=now)
    if plan.desired < limits.floor:
        if limits.unknown:
            reason = f"past recommendations are not known for the whole {down_window:.0f} s of the scale-down window"
        else:
            reason = f"{limits.floor} was recommended within the last {down_window:.0f} s"
        until = limits.floor_until
    else:
        reason = f"{limits.ceiling} was recommended within the last {up_window:.0f} s"
        until = limits.ceiling_until
    return plan.narrowed(Stage.STABILIZATION, floor=limits.floor, ceiling=limits.ceiling, reason=reason, until=until)
