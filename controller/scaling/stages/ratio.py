"""`ratio`: roles keep their proportion.

A hard band (`min`…`max`) is met by raising the role that is too small, and where its ceiling forbids that, by
lowering the other, never below its floor. A preference (`target`) sets a role that has no signal of its own, rounded
up; it never adds a replica to a role that has one.
"""

from __future__ import annotations

from math import ceil

from controller.scaling.stages.plan import Context, Plans
from controller.scaling.stages.projection import AtLeast, Counts, broken, project, rules_of
from controller.scaling.types import RatioSpec, Stage

_ROUNDING = 1e-9


def ratio(plans: Plans, context: Context) -> Plans:
    """Set roles without a signal from their preference, then meet the hard bands."""
    wanted = {name: plan.desired for name, plan in plans.items()}
    reasons: dict[str, str] = {}
    ratios = [item for item in context.spec.ratios if item.numerator_role in plans and item.denominator_role in plans]
    _follow(ratios, wanted, context, reasons)
    rules = rules_of(ratios, plans)
    unmet = broken(wanted, rules)
    if unmet:
        floors = {name: max(plan.floor, context.roles[name].role.min_replicas) for name, plan in plans.items()}
        ceilings = {
            name: max(floors[name], min(plan.ceiling, context.roles[name].role.max_replicas))
            for name, plan in plans.items()
        }
        met = project(wanted, floors, ceilings, rules)
        # Without a solution the last word is with the joint stage, which sees every constraint.
        if met is not None:
            _explain(wanted, met, rules, reasons)
            wanted = met
            followed = dict(wanted)
            _follow(ratios, followed, context, reasons)
            # What a band gave a role is more than a preference, but a follower still follows where no band objects.
            wanted = wanted if broken(followed, rules) else followed
    return {
        name: plan.narrowed(Stage.RATIO, desired=wanted[name], reason=reasons.get(name, ""))
        for name, plan in plans.items()
    }


def _follow(ratios: list[RatioSpec], wanted: Counts, context: Context, reasons: dict[str, str]) -> None:
    """Set the roles that have no signal of their own from the ones they are preferred beside."""
    for item in ratios:
        if item.target is None or not item.target > 0.0:
            continue
        above, below = item.numerator_role, item.denominator_role
        if context.roles[above].recommended.follows_ratio:
            wanted[above] = ceil(item.target * wanted[below] * (1.0 - _ROUNDING))
            reasons[above] = f"{item.target:g} for each of the {wanted[below]} {below}"
        elif context.roles[below].recommended.follows_ratio:
            wanted[below] = ceil(wanted[above] / item.target * (1.0 - _ROUNDING))
            reasons[below] = f"{1.0 / item.target:g} for each of the {wanted[above]} {above}"


def _explain(before: Counts, after: Counts, rules: tuple[AtLeast, ...], reasons: dict[str, str]) -> None:
    for rule in rules:
        if after[rule.role] > before[rule.role]:
            reasons[rule.role] = f"at least {rule.factor:g} for each of the {after[rule.other]} {rule.other}"
        if after[rule.other] < before[rule.other]:
            reasons[rule.other] = f"{after[rule.role]} {rule.role} are possible, at least {rule.factor:g} for each"
