"""Removing one replica without losing a request, as a step function.

The states, their order and their budgets are the contract's. A step looks at one observation and moves at most one
state; the shell carries out the action that it returns. All times are model time.

* Admitted: the eligibility label is taken away; when the API shows it gone → Disqualified.
* Disqualified: the router must have dropped the replica → Withdrawing → Draining.
* Draining: two idle reads in a row, with no answer under way at the router either → Deleting. 240 s at most.
* Deleting: the Pod is deleted by UID until it is gone → Settling: the engine is stopped → done.

A replica that was never eligible holds nothing and goes to Deleting at once. A count that rises again before Deleting
adopts the replica back: `REINSTATE`, whatever the state. A budget that runs out ends in Aborted: the replica stays, out
of service. Unlike the original, which waits for a person there, the embedded operator starts over after `RETRY_SECONDS`
with fresh budgets, as if that person had set the retry annotation: a demonstration must not jam.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

WITHDRAWAL_SECONDS = 30.0
DRAIN_SECONDS = 240.0
SETTLE_SECONDS = 30.0
OVERALL_SECONDS = 300.0
RETRY_SECONDS = 30.0
_IDLE_READS = 2


class RetirementState(Enum):
    """The states of `status.retirement`; a completed one is not shown any more."""

    ADMITTED = "Admitted"
    DISQUALIFIED = "Disqualified"
    WITHDRAWING = "Withdrawing"
    DRAINING = "Draining"
    DELETING = "Deleting"
    SETTLING = "Settling"
    ABORTED = "Aborted"
    COMPLETED = "Completed"


class RetirementAction(Enum):
    """What the shell has to do after a step."""

    NONE = "none"
    WITHDRAW = "withdraw"  # take the eligibility label away
    DELETE = "delete"  # delete the Pod
    STOP = "stop"  # stop the engine
    REINSTATE = "reinstate"  # give the label back and forget the retirement


@dataclass(frozen=True, slots=True)
class Retirement:
    """One operation. There is at most one in a deployment."""

    role: str
    ordinal: int
    pod_uid: str
    observed_generation: int
    started_seconds: float
    phase_started_seconds: float
    state: RetirementState = RetirementState.ADMITTED
    reason: str = "admitted"
    idle_reads: int = 0

    @property
    def deadline_seconds(self) -> float:
        """When the whole operation must have reached Deleting."""
        return self.started_seconds + OVERALL_SECONDS


@dataclass(frozen=True, slots=True)
class RetirementView:
    """What was observed for a step. `in_flight` None: the engine could not be read, which is not idleness."""

    wanted: bool  # the declared count includes the replica again
    was_eligible: bool  # ever
    labelled: bool
    routed: bool  # the router would still choose it
    answering: int  # answers under way at the router
    in_flight: int | None
    pod_exists: bool


def step_retirement(retirement: Retirement, view: RetirementView, now: float) -> tuple[Retirement, RetirementAction]:
    """The operation after one look, and what to do about it."""
    state = retirement.state
    if state is RetirementState.DELETING:
        if view.pod_exists:
            return retirement, RetirementAction.DELETE
        return _enter(retirement, RetirementState.SETTLING, "pod gone, stopping the engine", now), RetirementAction.STOP
    if state is RetirementState.SETTLING:
        return _enter(retirement, RetirementState.COMPLETED, "released", now), RetirementAction.NONE
    if view.wanted:
        return retirement, RetirementAction.REINSTATE
    if not view.pod_exists:
        return _enter(retirement, RetirementState.SETTLING, "terminated outside", now), RetirementAction.STOP
    if state is RetirementState.ABORTED:
        if now < retirement.phase_started_seconds + RETRY_SECONDS:
            return retirement, RetirementAction.NONE
        again = replace(retirement, started_seconds=now, idle_reads=0)
        return _enter(again, RetirementState.ADMITTED, "retried with fresh budgets", now), RetirementAction.WITHDRAW
    if not view.was_eligible:
        return _enter(retirement, RetirementState.DELETING, "never served", now), RetirementAction.DELETE
    advanced, action = _advance(retirement, view, now)
    if advanced.state is state and now >= _budget_end(retirement):
        return _enter(
            retirement, RetirementState.ABORTED, f"budget spent: {advanced.reason}", now
        ), RetirementAction.NONE
    return advanced, action


def _advance(retirement: Retirement, view: RetirementView, now: float) -> tuple[Retirement, RetirementAction]:
    match retirement.state:
        case RetirementState.ADMITTED:
            if view.labelled:
                return replace(retirement, reason="still in endpoint selection"), RetirementAction.WITHDRAW
            # Keeps the phase's start: the withdrawal budget covers Admitted and Disqualified together.
            left = replace(retirement, state=RetirementState.DISQUALIFIED, reason="left endpoint selection")
            return left, RetirementAction.NONE
        case RetirementState.DISQUALIFIED:
            if view.routed:
                return replace(retirement, reason="the router still serves it"), RetirementAction.NONE
            return _enter(retirement, RetirementState.WITHDRAWING, "out of selection", now), RetirementAction.NONE
        case RetirementState.WITHDRAWING:
            return _enter(retirement, RetirementState.DRAINING, "reading its queues", now), RetirementAction.NONE
        case _:
            return _drain(retirement, view, now)


def _drain(retirement: Retirement, view: RetirementView, now: float) -> tuple[Retirement, RetirementAction]:
    if view.in_flight is None:
        return replace(retirement, idle_reads=0, reason="the engine cannot be read"), RetirementAction.NONE
    if view.in_flight or view.answering:
        reason = f"{max(view.in_flight, view.answering)} in flight"
        return replace(retirement, idle_reads=0, reason=reason), RetirementAction.NONE
    reads = retirement.idle_reads + 1
    if reads < _IDLE_READS:
        return replace(retirement, idle_reads=reads, reason="idle once"), RetirementAction.NONE
    return _enter(retirement, RetirementState.DELETING, "queues empty", now), RetirementAction.DELETE


def _budget_end(retirement: Retirement) -> float:
    budget = DRAIN_SECONDS if retirement.state is RetirementState.DRAINING else WITHDRAWAL_SECONDS
    return min(retirement.deadline_seconds, retirement.phase_started_seconds + budget)


def _enter(retirement: Retirement, state: RetirementState, reason: str, now: float) -> Retirement:
    return replace(retirement, state=state, reason=reason, phase_started_seconds=now)
