"""The status that tells what one tick came to. Pure."""

from __future__ import annotations

import msgspec

from controller.api import (
    Binding,
    ConditionType,
    ForeignReversal,
    MdsView,
    RetirementReason,
    ScalerStatus,
    drop_condition,
)
from controller.reconcile.baseline import Baseline
from controller.reconcile.binder import BoundState
from controller.reconcile.conditions import (
    active_condition,
    condition,
    limited_condition,
    metrics_condition,
    priors_condition,
)
from controller.reconcile.decided import Tick
from controller.reconcile.guards import Guard
from controller.reconcile.memory import ScalerMemory
from controller.reconcile.report import role_statuses, summary_of, with_conditions
from controller.reconcile.writing import Writing


def tick_status(
    scaler: MdsView,
    old: ScalerStatus,
    tick: Tick,
    memory: ScalerMemory,
    bound: BoundState | None,
    guard: Guard | None,
    baseline: Baseline,
    writing: Writing,
    now: float,
) -> ScalerStatus:
    """The whole status after a tick. `bound` None: nothing is known of the binding, and its condition stays."""
    generation = scaler.metadata.generation
    decision = tick.decision
    blocked, note = writing.retirement, writing.note
    roles = role_statuses(tick.sampled.views, decision, tick.capacity, tick.priors, tick.state, writing.lowering)
    active = (
        active_condition(decision, tick.spec, tick.capacity, tick.priors, generation)
        if guard is None
        else condition(ConditionType.SCALING_ACTIVE, False, guard.reason, guard.message, generation)
    )
    status = ScalerStatus(
        observed_generation=generation,
        conditions=old.conditions,
        summary=summary_of(roles),
        binding=_binding(old, memory),
        last_sample_time=max((role.last_sample_time for role in decision.roles if role.last_sample_time), default=None),
        last_decision_time=decision.now,
        roles=roles,
        foreign_reversals=tuple(ForeignReversal(time=each.time) for each in baseline.reversals),
        resumed=baseline.resumed,
    )
    new = [
        metrics_condition(decision, generation),
        active,
        limited_condition(decision, generation),
        condition(
            ConditionType.RETIREMENT_BLOCKED,
            blocked is RetirementReason.RETIREMENT_ABORTED,
            blocked,
            note,
            generation,
        ),
        condition(ConditionType.REPLICAS_CONFLICT, baseline.conflict, baseline.reason, baseline.message, generation),
    ]
    if bound is None:
        # What was said of another mode or another target would be read as of now.
        status = msgspec.structs.replace(status, conditions=drop_condition(status.conditions, ConditionType.BOUND))
    else:
        held = bound.holding is not None
        new.insert(0, condition(ConditionType.BOUND, held, bound.reason, bound.message, generation))
    if tick.priors is None:
        dropped = drop_condition(status.conditions, ConditionType.CAPACITY_PRIOR_RESOLVED)
        status = msgspec.structs.replace(status, conditions=dropped)
    else:
        new.append(priors_condition(tick.priors, tick.drift_notes.values(), generation))
    return with_conditions(status, new, now)


def _binding(old: ScalerStatus, memory: ScalerMemory) -> Binding | None:
    if memory.own_term is None:
        # The term outlives the binding: the next one must be higher.
        return None if old.binding is None else msgspec.structs.replace(old.binding, acquired_time=None)
    return Binding(target_uid=memory.target_uid, term=memory.own_term, acquired_time=memory.acquired_time)
