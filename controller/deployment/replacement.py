"""Making one replica again from a changed spec, with the steps of a retirement. Pure.

The contract lets a rollout delete a replica at once and leaves the rest to the end of its Pods. Here it is withdrawn
and drained first, as in a retirement, but it is not one: nothing is written to `status.retirement`, and budgets do not
abort it. When the withdrawal's is spent the drain begins all the same, and when the drain's is spent the Pods are
deleted, with the hook at the end of their life for what they still hold.
"""

from __future__ import annotations

from dataclasses import replace

from controller.api import RetirementState
from controller.deployment.retirement import Action, Evidence, Operation, Outcome, Presence, Step, step


def step_replacement(operation: Operation, evidence: Evidence, now: float) -> Step:
    """One step; `evidence.declared` means here: made from the present spec (again), or not declared any more."""
    taken = step(operation, evidence, now)
    if taken.outcome is not Outcome.ABORTED:
        return taken
    if evidence.presence is not Presence.THERE:
        return Step(None, Outcome.RELEASED, taken.reason)
    onward = RetirementState.DELETING if operation.state is RetirementState.DRAINING else RetirementState.DRAINING
    moved = replace(operation, state=onward, reason=taken.reason, phase_started_at=now, idle_reads=0, incarnation="")
    actions = (Action.DELETE,) if onward is RetirementState.DELETING else ()
    return Step(moved, Outcome.MOVED, taken.reason, actions)
