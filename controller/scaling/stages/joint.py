"""`joint`: the last word, over all roles at once: bounds, floors, ceilings and hard bands hold together, or nothing
moves.

Roles that a band ties together are written in one patch, so they move together or not at all. Where no counts satisfy
all constraints, they keep the ones they have, and the record says what clashes.
"""

from __future__ import annotations

import msgspec

from controller.scaling.counts import clamp
from controller.scaling.stages.plan import Context, Plans, RolePlan
from controller.scaling.stages.projection import AtLeast, broken, connected, project, rules_of
from controller.scaling.types import Stage, StageRecord


def joint(plans: Plans, context: Context) -> Plans:
    """Project the desired counts onto everything that was narrowed on the way."""
    rules = rules_of(context.spec.ratios, plans)
    final: Plans = {}
    for name in plans:
        if name in final:
            continue
        tied = connected(name, rules)
        group = {other: plan for other, plan in plans.items() if other in tied}
        own = tuple(rule for rule in rules if rule.role in tied)
        final |= _projected(group, own)
    return {name: final[name] for name in plans}


def _projected(group: Plans, rules: tuple[AtLeast, ...]) -> Plans:
    wanted = {name: plan.desired for name, plan in group.items()}
    floors = {name: plan.floor for name, plan in group.items()}
    ceilings = {name: plan.ceiling for name, plan in group.items()}
    if not broken(wanted, rules):
        return {name: plan.narrowed(Stage.JOINT) for name, plan in group.items()}
    met = project(wanted, floors, ceilings, rules)
    if met is None:
        clash = _clash(group, rules)
        return {name: _kept(plan, f"nothing moves: {clash}") for name, plan in group.items()}
    reason = " and ".join(f"{rule.role} ≥ {rule.factor:g} × {rule.other}" for rule in broken(wanted, rules))
    return {
        name: plan.narrowed(Stage.JOINT, desired=met[name], reason=f"to keep {reason}") for name, plan in group.items()
    }


def _kept(plan: RolePlan, reason: str) -> RolePlan:
    """The present count, or the nearest that a person's bounds and a roll-back leave."""
    after = clamp(plan.current, plan.floor, plan.ceiling)
    record = StageRecord(
        stage=Stage.JOINT,
        before=plan.desired,
        after=after,
        floor=plan.floor or None,
        ceiling=plan.ceiling,
        reason=reason,
    )
    return msgspec.structs.replace(plan, desired=after, records=(*plan.records, record))


def _clash(group: Plans, rules: tuple[AtLeast, ...]) -> str:
    wishes = ", ".join(f"{name} must be {plan.floor}…{plan.ceiling}" for name, plan in sorted(group.items()))
    bands = ", ".join(f"{rule.role} ≥ {rule.factor:g} × {rule.other}" for rule in rules)
    return f"{wishes}, and {bands}"
