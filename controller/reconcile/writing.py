"""Which counts a tick writes, and which it only recommends. Pure.

A decision says what is right; this says what may be written now: nothing without a binding, under a guard or while
another writer has made us stop; nothing lower while a replica retires or after its retirement was aborted (`lowering`),
or while those that stay do not serve yet (`survivors`). One count is written that no decision asked for: the one that
takes a replica back whose retirement was aborted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.api import LoweringState, RetirementReason, ScalerSpec, ScalerStatus
from controller.reconcile.baseline import Baseline
from controller.reconcile.conditions import without_capacity
from controller.reconcile.decided import Tick
from controller.reconcile.fence import Holding
from controller.reconcile.guards import Guard, retirement_block, writable
from controller.reconcile.lowering import Lowering, assess_lowering
from controller.reconcile.survivors import survivors_block


@dataclass(frozen=True, slots=True)
class Writing:
    """`wanted` is what to write; `reasons` say why where the decision does not. The rest is for the status: what blocks
    retirements, in a word and in a sentence, and what is to be remembered of aborted ones."""

    wanted: Mapping[str, int]
    reasons: Mapping[str, str]
    retirement: RetirementReason
    note: str
    lowering: Mapping[str, LoweringState]
    current: Mapping[str, int]
    banded: bool

    def raises_only(self) -> dict[str, int]:
        """What is left when the status could not be stored: a shrink relies on that, a raise relies on nothing, and
        the load does not wait."""
        raises = {name: count for name, count in self.wanted.items() if count > self.current[name]}
        return {} if self.banded and len(raises) < len(self.wanted) else raises


def plan_writing(
    spec: ScalerSpec,
    status: ScalerStatus,
    tick: Tick,
    holding: Holding | None,
    guard: Guard | None,
    baseline: Baseline,
    now: float,
) -> Writing:
    """What this tick may write."""
    decision = tick.decision
    current = {role.name: role.current for role in decision.roles}
    banded = any(ratio.min is not None or ratio.max is not None for ratio in spec.ratios)
    retirement, note = retirement_block(tick.sampled.target)
    lowering = _lowering(spec, status, tick, now)
    held = {role: each.held for role, each in lowering.items() if each.held}
    for role in decision.roles:
        shrinks = role.desired < role.current and role.name not in held
        if shrinks and (why := survivors_block(tick.sampled.views[role.name], role.desired, role.raw)):
            held[role.name] = why
    wanted, waiting = writable(decision.changes, retirement, banded=banded, held=held)
    if without_capacity(tick.spec, tick.capacity):
        wanted = _within_bounds_only(wanted, tick)
    # A count that somebody else lowered is theirs: to raise it would be a fight.
    back = {
        role: each.raise_to
        for role, each in lowering.items()
        if each.raise_to is not None
        and role not in baseline.foreign
        and each.raise_to > wanted.get(role, current[role])
    }
    asks_a_person = [each.held for each in lowering.values() if each.person]
    if retirement is not RetirementReason.NONE:
        note = "; ".join([note, *asks_a_person])
    elif asks_a_person:
        retirement, note = RetirementReason.RETIREMENT_ABORTED, "; ".join(asks_a_person)
    else:
        note = waiting or "; ".join(held.values()) or note
    may_write = holding is not None and guard is None and not baseline.hold
    return Writing(
        wanted={**wanted, **back} if may_write else {},
        reasons=dict.fromkeys(back, "its retirement was aborted, so the replica is taken back"),
        retirement=retirement,
        note=note,
        lowering={role: each.state for role, each in lowering.items() if each.state is not None},
        current=current,
        banded=banded,
    )


def _lowering(spec: ScalerSpec, status: ScalerStatus, tick: Tick, now: float) -> dict[str, Lowering]:
    found = {}
    window = float(spec.behavior.scale_down.stabilization_window_seconds)
    for bounds in spec.roles:
        known = status.role(bounds.name)
        view = tick.sampled.views.get(bounds.name)
        found[bounds.name] = assess_lowering(
            tick.sampled.target,
            bounds.name,
            None if known is None else known.lowering,
            retiring=0 if view is None else view.retiring,
            maximum=bounds.max_replicas,
            window_seconds=window,
            now=now,
        )
    return found


def _within_bounds_only(wanted: Mapping[str, int], tick: Tick) -> dict[str, int]:
    """Without a capacity nothing is planned, but the bounds still hold: only a count outside them moves."""
    bounds = {role.name: (role.min_replicas, role.max_replicas) for role in tick.spec.roles}
    current = {role.name: role.current for role in tick.decision.roles}
    return {name: count for name, count in wanted.items() if not bounds[name][0] <= current[name] <= bounds[name][1]}
