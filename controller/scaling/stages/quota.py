"""`quota`: a role grows only as far as its pool can admit.

The free accelerators of a pool, less what is already asked for and not admitted, go one replica at a time to the role
that has the smallest part of what it wants; of two roles with a preferred ratio between them, to the one that comes
nearer to it. What a shrinking role gives back is not counted: its cards are free only when the replica is gone. So
the donor goes first, and the other grows when the pool says so.
"""

from __future__ import annotations

from math import floor, isfinite

from controller.scaling.stages.plan import Context, Plans, RolePlan
from controller.scaling.types import Pool, Stage

_ROUNDING = 1e-9


def quota(plans: Plans, context: Context) -> Plans:
    """Limit growth to what the pools have free."""
    limits: dict[str, tuple[int, str]] = {}
    for pool in context.pools:
        growing = {name: plan for name, plan in plans.items() if _grows_from(plan, pool, context)}
        if growing and isfinite(pool.free_accelerators):
            limits |= _shared(pool, growing, plans, context)
    return {name: _limited(plan, limits.get(name)) for name, plan in plans.items()}


def _limited(plan: RolePlan, limit: tuple[int, str] | None) -> RolePlan:
    if limit is None:
        return plan.narrowed(Stage.QUOTA)
    granted, reason = limit
    return plan.narrowed(Stage.QUOTA, ceiling=plan.current + granted, reason=reason)


def _grows_from(plan: RolePlan, pool: Pool, context: Context) -> bool:
    role = context.roles[plan.name].observation
    return plan.desired > plan.current and role.pool == pool.name and role.accelerators_per_replica > 0.0


def _shared(pool: Pool, growing: Plans, plans: Plans, context: Context) -> dict[str, tuple[int, str]]:
    cost = {name: context.roles[name].observation.accelerators_per_replica for name in growing}
    owed = sum(
        role.observation.unadmitted_replicas * role.observation.accelerators_per_replica
        for role in context.roles.values()
        if role.observation.pool == pool.name
    )
    free = max(0.0, pool.free_accelerators - owed)
    wanted = {name: plan.desired - plan.current for name, plan in growing.items()}
    if sum(cost[name] * count for name, count in wanted.items()) <= free * (1.0 + _ROUNDING):
        granted = wanted
    else:
        granted = _granted(free, cost, wanted, plans, context)
    return {
        name: (
            granted[name],
            f"pool {pool.name} has {free:g} free accelerators: {granted[name]} of {wanted[name]} more replicas fit",
        )
        for name in growing
    }


def _granted(
    free: float, cost: dict[str, float], wanted: dict[str, int], plans: Plans, context: Context
) -> dict[str, int]:
    """How the free accelerators are shared out."""
    if len(wanted) == 1:
        return {name: min(count, floor(free / cost[name] * (1.0 + _ROUNDING))) for name, count in wanted.items()}
    granted = dict.fromkeys(wanted, 0)
    while True:
        takers = [
            name for name in sorted(wanted) if granted[name] < wanted[name] and cost[name] <= free * (1.0 + _ROUNDING)
        ]
        if not takers:
            return granted
        counts = {name: plan.current + granted.get(name, 0) for name, plan in plans.items()}
        taker = min(takers, key=lambda name: (*_claim(name, counts, plans, context), name))
        granted[taker] += 1
        free -= cost[taker]


def _claim(name: str, counts: dict[str, int], plans: Plans, context: Context) -> tuple[float, float]:
    """Smaller is sooner: how far one more replica leaves the preferred ratios, and the part of its wish a role has."""
    away = 0.0
    for item in context.spec.ratios:
        above, below = item.numerator_role, item.denominator_role
        if item.target is None or name not in (above, below) or above not in counts or below not in counts:
            continue
        after = counts | {name: counts[name] + 1}
        preferred = item.target * after[below]
        away += abs(after[above] - preferred) / max(1.0, preferred)
    return away, counts[name] / plans[name].desired
