"""`consolidation`: a shrink must leave survivors that can carry what the others carried, with a margin.

Without this, a role at the edge shrinks, overloads the rest, and grows again (dynamo PR #9294: 2↔1 at constant load).
"""

from __future__ import annotations

from controller.scaling.counts import replicas_for
from controller.scaling.stages.plan import Context, Plans, RolePlan
from controller.scaling.types import Stage

# Survivors may reach nine tenths of the target: the HPA's tolerance of a tenth, on the other side.
LARGEST_SHARE = 0.9


def consolidation(plans: Plans, context: Context) -> Plans:
    """Raise the floor of a shrinking role to the smallest count that keeps its survivors below target."""
    return {name: _consolidated(plan, context.roles[name].recommended.load) for name, plan in plans.items()}


def survivors_needed(load: float) -> int:
    """The smallest count whose replicas stay within the margin at `load` replicas' worth of work."""
    return replicas_for(load / LARGEST_SHARE)


def _consolidated(plan: RolePlan, load: float | None) -> RolePlan:
    if load is None or plan.desired >= plan.current:
        return plan.narrowed(Stage.CONSOLIDATION)
    least = min(plan.current, survivors_needed(load))
    share = load / plan.desired if plan.desired else load
    return plan.narrowed(
        Stage.CONSOLIDATION,
        floor=least,
        reason=f"{plan.desired} survivors would carry {share:.0%} of their target, at most {LARGEST_SHARE:.0%} is safe",
    )
