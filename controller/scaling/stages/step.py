"""`step`: how far one decision may move: `maxStepReplicas`, and policies over their periods as the HPA has them.

A policy is counted from the count at the start of its period: current − added + removed within it. Percent up rounds
up, percent down truncates. Of several policies `selectPolicy` takes the largest or the smallest change. No limit ever
moves a count against its direction.
"""

from __future__ import annotations

from math import ceil

from controller.scaling.counts import LARGEST_COUNT, clamp
from controller.scaling.stages.plan import Context, Plans, RolePlan
from controller.scaling.state import ScaleEvent
from controller.scaling.types import DirectionBehavior, PolicyType, ScalingPolicy, SelectPolicy, Stage

_ROUNDING = 1e-9


def up_limit(current: int, behavior: DirectionBehavior, events: tuple[ScaleEvent, ...], now: float) -> int:
    """The largest count that `scaleUp` allows now; never below `current`."""
    limit = LARGEST_COUNT
    if behavior.select_policy is SelectPolicy.DISABLED:
        return current
    if behavior.policies:
        allowed = [_raised(policy, current, events, now) for policy in behavior.policies]
        limit = max(allowed) if behavior.select_policy is SelectPolicy.MAX else min(allowed)
    if behavior.max_step_replicas is not None:
        limit = min(limit, current + behavior.max_step_replicas)
    return max(current, limit)


def down_limit(current: int, behavior: DirectionBehavior, events: tuple[ScaleEvent, ...], now: float) -> int:
    """The smallest count that `scaleDown` allows now; never above `current`."""
    limit = 0
    if behavior.select_policy is SelectPolicy.DISABLED:
        return current
    if behavior.policies:
        allowed = [_lowered(policy, current, events, now) for policy in behavior.policies]
        limit = min(allowed) if behavior.select_policy is SelectPolicy.MAX else max(allowed)
    if behavior.max_step_replicas is not None:
        limit = max(limit, current - behavior.max_step_replicas)
    return clamp(limit, 0, current)


def step(plans: Plans, context: Context) -> Plans:
    """Limit every role's move to what its behavior allows at once."""
    return {name: _stepped(plan, context, context.roles[name].state.events) for name, plan in plans.items()}


def _stepped(plan: RolePlan, context: Context, events: tuple[ScaleEvent, ...]) -> RolePlan:
    behavior = context.spec.behavior
    least = down_limit(plan.current, behavior.scale_down, events, context.now)
    most = up_limit(plan.current, behavior.scale_up, events, context.now)
    direction, limit = (behavior.scale_down, least) if plan.desired < least else (behavior.scale_up, most)
    name = "scaleDown" if plan.desired < least else "scaleUp"
    if direction.select_policy is SelectPolicy.DISABLED:
        reason = f"{name} is disabled"
    else:
        reason = f"{name} allows {limit} for now"
    periods = [policy.period_seconds for policy in direction.policies]
    until = min(
        (event.time + period for event in events for period in periods if event.time + period > context.now),
        default=None,
    )
    return plan.narrowed(Stage.STEP, floor=least, ceiling=most, reason=reason, until=until)


def _base(policy: ScalingPolicy, current: int, events: tuple[ScaleEvent, ...], now: float) -> int:
    return current - sum(event.delta for event in events if now - event.time < policy.period_seconds)


def _raised(policy: ScalingPolicy, current: int, events: tuple[ScaleEvent, ...], now: float) -> int:
    base = _base(policy, current, events, now)
    if policy.type is PolicyType.REPLICAS:
        return base + policy.value
    return ceil(base * (1.0 + policy.value / 100.0) - _ROUNDING)


def _lowered(policy: ScalingPolicy, current: int, events: tuple[ScaleEvent, ...], now: float) -> int:
    base = _base(policy, current, events, now)
    if policy.type is PolicyType.REPLICAS:
        return base - policy.value
    return int(base * (1.0 - policy.value / 100.0) + _ROUNDING)
