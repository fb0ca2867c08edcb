"""The planner: from each role's raw count through the stages to a desired one.

The stages run in a fixed order, every one of them for all roles at once. What is remembered for the stabilization
windows is the count that enters that stage, computed as if sampling had not just begun: the start-up rule delays a
shrink, it must not be mistaken for a recommendation.
"""

from __future__ import annotations

import msgspec

from controller.scaling.memory import with_recommendation
from controller.scaling.stages import (
    Context,
    Plans,
    RoleContext,
    RolePlan,
    bounds,
    consolidation,
    coverage,
    joint,
    quota,
    ratio,
    settling,
    stabilization,
    step,
)
from controller.scaling.stages.coverage import holds_after_start
from controller.scaling.types import MetricsStatus, Proportional

# Reasons to hold that are recommendations of their own: the role stays as it is because nobody answered.
_HELD = frozenset({MetricsStatus.ALL_SCRAPES_FAILED, MetricsStatus.STALE_SAMPLES})


def plan(context: Context) -> tuple[Plans, Context]:
    """The planned counts, and the context with every role's history extended by this tick."""
    start = {
        name: RolePlan(name=name, current=role.observation.current_replicas, desired=_start(role))
        for name, role in context.roles.items()
    }
    recommended = bounds(ratio(coverage(start, context, trust_new_samples=True), context), context)
    context = _remembering(context, recommended)
    if any(holds_after_start(role, context.now) for role in context.roles.values()):
        plans = bounds(ratio(coverage(start, context), context), context)
    else:
        plans = recommended
    for stage in (stabilization, step, consolidation, quota, settling, joint):
        plans = stage(plans, context)
    return plans, context


def _start(role: RoleContext) -> int:
    raw = role.recommended.raw
    return role.observation.current_replicas if raw is None else raw


def _remembering(context: Context, recommended: Plans) -> Context:
    roles = dict(context.roles)
    for name, role in context.roles.items():
        says = role.recommended
        if says.raw is None and not says.follows_ratio and role.status not in _HELD:
            continue  # nothing was recommended, not even to stay
        history = with_recommendation(
            role.state,
            _remembered(recommended[name].desired, role, context),
            context.spec,
            stable_seconds=role.stable_seconds,
            now=context.now,
        )
        roles[name] = msgspec.structs.replace(role, state=msgspec.structs.replace(role.state, history=history))
    return msgspec.structs.replace(context, roles=roles)


def _remembered(desired: int, role: RoleContext, context: Context) -> int:
    """A window of which a part was nobody's is no reason to have less. Counts of gauges have no window."""
    floor = role.state.unseen_floor
    if floor is None or isinstance(context.spec.algorithm, Proportional) or not holds_after_start(role, context.now):
        return desired
    return max(desired, floor)
