"""`ratio`: two roles keep their proportion.

A hard band (`min`…`max`) is met by raising the role that is too small, and only where that cannot be done by lowering
the other, never below its floor. A preference (`target`) sets a role that has no signal of its own, rounded up; it
never adds a replica to a role that has one.
"""

from __future__ import annotations

from math import ceil, floor

from controller.scaling.stages.plan import Context, Plans
from controller.scaling.types import RatioSpec, Stage

# Raising one role can break the band of the next; a chain of declared bands settles within one pass a band, and a cycle
# that does not is left to the joint projection.
_ROUNDING = 1e-9


def ratio(plans: Plans, context: Context) -> Plans:
    """Set roles without a signal from their preference, then meet the hard bands."""
    wanted = {name: plan.desired for name, plan in plans.items()}
    reasons: dict[str, str] = {}
    ratios = [item for item in context.spec.ratios if item.numerator_role in plans and item.denominator_role in plans]
    for item in ratios:
        _follow(item, wanted, context, reasons)
    for _ in ratios:
        for item in ratios:
            _band(item, wanted, plans, context, reasons)
    return {
        name: plan.narrowed(Stage.RATIO, desired=wanted[name], reason=reasons.get(name, ""))
        for name, plan in plans.items()
    }


def follows_ratio(name: str, context: Context) -> bool:
    """Whether the role has no signal of its own and a preferred ratio that sets it."""
    return context.roles[name].recommended.follows_ratio


def within(item: RatioSpec, numerator: int, denominator: int) -> bool:
    """Whether two counts keep the hard band of a ratio."""
    if item.min is not None and numerator < item.min * denominator * (1 - _ROUNDING):
        return False
    return item.max is None or numerator <= item.max * denominator * (1 + _ROUNDING)


def _follow(item: RatioSpec, wanted: dict[str, int], context: Context, reasons: dict[str, str]) -> None:
    if item.target is None or not item.target > 0.0:
        return
    above, below = item.numerator_role, item.denominator_role
    if follows_ratio(above, context):
        wanted[above] = ceil(item.target * wanted[below] * (1 - _ROUNDING))
        reasons[above] = f"{item.target:g} per {below}, of which {wanted[below]} are wanted"
    elif follows_ratio(below, context):
        wanted[below] = ceil(wanted[above] / item.target * (1 - _ROUNDING))
        reasons[below] = f"{1 / item.target:g} per {above}, of which {wanted[above]} are wanted"


def _band(item: RatioSpec, wanted: dict[str, int], plans: Plans, context: Context, reasons: dict[str, str]) -> None:
    above, below = item.numerator_role, item.denominator_role
    most = {name: min(plans[name].ceiling, context.roles[name].role.max_replicas) for name in (above, below)}
    least = {name: max(plans[name].floor, context.roles[name].role.min_replicas) for name in (above, below)}
    if item.min is not None and wanted[above] < item.min * wanted[below] * (1 - _ROUNDING):
        needed = ceil(item.min * wanted[below] * (1 - _ROUNDING))
        raised = min(needed, most[above])
        if raised > wanted[above]:
            wanted[above] = raised
            reasons[above] = f"at least {item.min:g} per {below}, of which {wanted[below]} are wanted"
        if raised < needed and item.min > 0.0:
            lowered = max(least[below], floor(wanted[above] / item.min * (1 + _ROUNDING)))
            if lowered < wanted[below]:
                wanted[below] = lowered
                reasons[below] = f"{above} cannot exceed {raised}, and needs at least {item.min:g} per {below}"
    if item.max is not None and wanted[above] > item.max * wanted[below] * (1 + _ROUNDING):
        needed = ceil(wanted[above] / item.max * (1 - _ROUNDING)) if item.max > 0.0 else wanted[below]
        raised = min(needed, most[below])
        if raised > wanted[below]:
            wanted[below] = raised
            reasons[below] = f"at most {item.max:g} {above} per replica, of which {wanted[above]} are wanted"
        if raised < needed:
            lowered = max(least[above], floor(item.max * wanted[below] * (1 + _ROUNDING)))
            if lowered < wanted[above]:
                wanted[above] = lowered
                reasons[above] = f"{below} cannot exceed {raised}, and takes at most {item.max:g} of this role each"
