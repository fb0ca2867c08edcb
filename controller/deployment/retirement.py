"""Removing one replica without losing a request, as a step function. Pure: no I/O, no clock.

    Admitted ─► Disqualified ─► Withdrawing ─► Draining ─► Deleting ─► Settling ─► (cleared)
        └────────────┴───────────────┴────────────┴──► Aborted ─► (cleared), or Admitted again

`step(operation, evidence, now)` looks at one observation and moves at most one state. Whoever calls it writes the
operation down first and carries the actions out afterwards: what is done follows from what is written, so a crash
between the two repeats an action and never invents one.

What is promised
* Nothing is deleted before Deleting is reached, and that is reached in two ways only: two idle reads in a row of every
  answering member, of the same containers, with nobody listing the replica as an endpoint; or a replica that was never
  offered a request.
* A replica that the declared count includes again before Deleting is adopted back, whatever the state.
* A budget that is spent ends in Aborted: the replica and its capacity stay, out of service. Where the way onward is
  open at that moment it is taken: a process that was stopped for a while aborts nothing by that.
* Time without a leader is not charged: an operation that another process left is taken up (`take_up`) with its phase
  and its deadline afresh, and both idle reads are collected again. Nor is time in which the leader did not look, or by
  which its clock was set (`delayed`): the budgets move by it.

Times are model time in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from controller.api import RetirementRetry, RetirementState
from controller.deployment.replicas import Replica

# Budgets of the contract. Admitted and Disqualified share the first.
WITHDRAWAL_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 240.0
SETTLE_SECONDS: Final = 30.0
OVERALL_SECONDS: Final = 300.0
# A prefill replica holds blocks until the decode side has fetched them, an encoder embeddings until the prefill side
# has, and the gauges do not show it.
HANDOFF_SECONDS: Final = 60.0
IDLE_READS: Final = 2
# Longer than any usual grace: a Pod that is still there has a node that does not answer, and a person has to know.
_SLOW_DELETION_SECONDS: Final = 120.0

_BUDGETS: Final = {
    RetirementState.ADMITTED: WITHDRAWAL_SECONDS,
    RetirementState.DISQUALIFIED: WITHDRAWAL_SECONDS,
    RetirementState.WITHDRAWING: WITHDRAWAL_SECONDS,
    RetirementState.DRAINING: DRAIN_SECONDS,
}


class Presence(StrEnum):
    """What has become of the Pods that the operation is about."""

    THERE = "There"
    LOST = "Lost"  # all gone or ended on their own, or a group of which a member is gone
    GONE = "Gone"  # the API server has none of the UIDs any more


class Listing(StrEnum):
    """Whether somebody would still send a request to the replica."""

    LISTED = "Listed"
    GONE = "Gone"
    UNKNOWN = "Unknown"


class Load(StrEnum):
    """What one look at the answering members showed."""

    IDLE = "Idle"
    BUSY = "Busy"
    UNKNOWN = "Unknown"  # not answered, a gauge missing, a container restarted: not idle
    UNSUPPORTED = "Unsupported"  # nobody can say: no metrics to read


@dataclass(frozen=True, slots=True)
class Look:
    """One read of every answering member. `incarnation` changes when one of their containers does; `note` says for
    people what was found, `detail` the same with numbers that change from read to read."""

    load: Load
    incarnation: str
    note: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was observed for one step. `look` None: no member was read this time."""

    presence: Presence
    declared: bool  # the replica is one of the declared ones (again)
    labelled: bool
    served: bool  # a request may have reached it
    listing: Listing = Listing.GONE
    listing_note: str = ""
    look: Look | None = None
    retry: RetirementRetry | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One removal. All but the last three members are stored; those are this process' own."""

    role: str
    ordinal: int
    member_uids: tuple[str, ...]
    observed_generation: int
    state: RetirementState
    reason: str
    started_at: float
    deadline: float
    phase_started_at: float
    last_retry_token: str = ""
    hands_over: bool = False  # a prefill, decode or encode replica
    idle_reads: int = 0
    incarnation: str = ""

    @property
    def running(self) -> bool:
        """It is under way."""
        return self.state is not RetirementState.ABORTED

    @property
    def deletes(self) -> bool:
        """It is past the point of no return."""
        return self.state in (RetirementState.DELETING, RetirementState.SETTLING)

    @property
    def phase_ends_at(self) -> float:
        """When the budget of its phase is spent; infinite where there is none."""
        budget = _BUDGETS.get(self.state)
        return float("inf") if budget is None else min(self.deadline, self.phase_started_at + budget)

    @property
    def reads_count_from(self) -> float:
        """From when on idle reads count."""
        return self.phase_started_at + (HANDOFF_SECONDS if self.hands_over else 0.0)


class Outcome(StrEnum):
    """What a step came to; each but STAYED and REASON is an event."""

    STAYED = "Stayed"
    REASON = "Reason"  # only what it waits for has changed
    MOVED = "Moved"
    RETRIED = "Retried"
    ABORTED = "Aborted"
    ADOPTED = "Adopted"  # cleared: the replica is declared again
    RELEASED = "Released"  # cleared: the Pods died on their own
    COMPLETED = "Completed"  # cleared: the Pods are deleted


class Action(StrEnum):
    """What to do once the operation is written down."""

    DELETE = "Delete"  # every Pod of the operation, by UID
    CONSUME_RETRY = "ConsumeRetry"  # take the retry annotation away


@dataclass(frozen=True, slots=True)
class Step:
    """The operation afterwards (None: cleared), what it came to, and what to do."""

    operation: Operation | None
    outcome: Outcome
    reason: str
    actions: tuple[Action, ...] = ()


def admit(replica: Replica, generation: int, now: float, reason: str) -> Operation:
    """A new operation on a replica; nothing happens to it before this is written down."""
    return Operation(
        role=replica.role,
        ordinal=replica.ordinal,
        member_uids=replica.uids,
        observed_generation=generation,
        state=RetirementState.ADMITTED,
        reason=reason,
        started_at=now,
        deadline=now + OVERALL_SECONDS,
        phase_started_at=now,
        hands_over=replica.hands_over,
    )


def take_up(operation: Operation, now: float) -> Operation:
    """The operation as a new leader goes on with it."""
    if not operation.running:
        return operation
    return replace(operation, phase_started_at=now, deadline=now + OVERALL_SECONDS, idle_reads=0, incarnation="")


def delayed(operation: Operation, seconds: float) -> Operation:
    """The operation with its budgets moved by so much."""
    return replace(
        operation,
        started_at=operation.started_at + seconds,
        deadline=operation.deadline + seconds,
        phase_started_at=operation.phase_started_at + seconds,
    )


def step(operation: Operation, evidence: Evidence, now: float) -> Step:
    """One step of the operation."""
    moved = _step(operation, evidence, now)
    retry = evidence.retry
    consumed = (
        moved.operation is not None
        and retry is not None
        and (retry.role, retry.ordinal, retry.token)
        == (operation.role, operation.ordinal, moved.operation.last_retry_token)
    )
    return replace(moved, actions=(*moved.actions, Action.CONSUME_RETRY)) if consumed else moved


def _step(operation: Operation, evidence: Evidence, now: float) -> Step:
    state = operation.state
    if state is RetirementState.DELETING:
        if evidence.presence is Presence.GONE:
            return _enter(operation, RetirementState.SETTLING, "the Pods are gone", now)
        slow = now >= operation.phase_started_at + _SLOW_DELETION_SECONDS
        waits = "the Pods were deleted and are still there: look at their nodes" if slow else operation.reason
        return replace(_wait(operation, waits), actions=(Action.DELETE,))
    if state is RetirementState.SETTLING:
        if evidence.presence is Presence.GONE:
            return Step(None, Outcome.COMPLETED, "the Pods are gone, what they held is free")
        slow = now >= operation.phase_started_at + SETTLE_SECONDS
        return _wait(operation, f"a Pod is still there{f', for {SETTLE_SECONDS:.0f} s and more' if slow else ''}")
    if evidence.presence is not Presence.THERE:
        if state is RetirementState.ABORTED or evidence.declared:
            return Step(None, Outcome.RELEASED, "the replica ended on its own")
        return _abort(operation, "the replica ended on its own: released", now)
    if evidence.declared:
        return Step(None, Outcome.ADOPTED, "the replica is declared again")
    if state is RetirementState.ABORTED:
        return _retry(operation, evidence, now)
    advanced = _advance(operation, evidence, now)
    if advanced.outcome in (Outcome.STAYED, Outcome.REASON) and now >= operation.phase_ends_at:
        return _abort(operation, _spent(operation, evidence, advanced.reason, now), now)
    return advanced


def _retry(operation: Operation, evidence: Evidence, now: float) -> Step:
    retry = evidence.retry
    if (
        retry is None
        or (retry.role, retry.ordinal) != (operation.role, operation.ordinal)
        or retry.token == operation.last_retry_token
    ):
        return Step(operation, Outcome.STAYED, operation.reason)
    again = replace(
        operation,
        state=RetirementState.ADMITTED,
        reason="retried on a person's order",
        started_at=now,
        deadline=now + OVERALL_SECONDS,
        phase_started_at=now,
        last_retry_token=retry.token,
        idle_reads=0,
        incarnation="",
    )
    return Step(again, Outcome.RETRIED, again.reason)


def _advance(operation: Operation, evidence: Evidence, now: float) -> Step:
    match operation.state:
        case RetirementState.ADMITTED:
            if evidence.labelled:
                return _wait(operation, "a member still carries the eligibility label")
            # The budget goes on: withdrawal is one thing to wait for, in two states.
            left = replace(operation, state=RetirementState.DISQUALIFIED, reason="out of endpoint selection")
            return Step(left, Outcome.MOVED, left.reason)
        case RetirementState.DISQUALIFIED:
            if evidence.labelled or evidence.listing is not Listing.GONE:
                return _wait(operation, evidence.listing_note or "it is still offered requests")
            return _enter(operation, RetirementState.WITHDRAWING, "nobody lists it any more", now)
        case RetirementState.WITHDRAWING:
            if not evidence.served:
                return _delete(operation, "it was never offered a request", now)
            waits = f", after {HANDOFF_SECONDS:.0f} s for hand-overs" if operation.hands_over else ""
            return _enter(operation, RetirementState.DRAINING, f"reading what it has in flight{waits}", now)
        case _:
            return _drain(operation, evidence, now)


def _drain(operation: Operation, evidence: Evidence, now: float) -> Step:
    if evidence.labelled or evidence.listing is not Listing.GONE:
        return _not_idle(operation, evidence.listing_note or "it is offered requests again")
    look = evidence.look
    if look is None or now < operation.reads_count_from:
        return Step(operation, Outcome.STAYED, operation.reason)
    if look.load is not Load.IDLE:
        return _not_idle(operation, look.note)
    again = look.incarnation == operation.incarnation
    reads = operation.idle_reads + 1 if again else 1
    if reads < IDLE_READS:
        once = replace(operation, idle_reads=reads, incarnation=look.incarnation)
        return Step(once, Outcome.STAYED, operation.reason)
    return _delete(operation, "nothing in flight, twice in a row", now)


def _not_idle(operation: Operation, reason: str) -> Step:
    return _wait(replace(operation, idle_reads=0, incarnation=""), reason)


def _delete(operation: Operation, reason: str, now: float) -> Step:
    entered = _enter(operation, RetirementState.DELETING, reason, now)
    return replace(entered, actions=(Action.DELETE,))


def _wait(operation: Operation, reason: str) -> Step:
    if reason == operation.reason:
        return Step(operation, Outcome.STAYED, reason)
    return Step(replace(operation, reason=reason), Outcome.REASON, reason)


def _enter(operation: Operation, state: RetirementState, reason: str, now: float) -> Step:
    entered = replace(operation, state=state, reason=reason, phase_started_at=now, idle_reads=0, incarnation="")
    return Step(entered, Outcome.MOVED, reason)


def _abort(operation: Operation, reason: str, now: float) -> Step:
    aborted = _enter(operation, RetirementState.ABORTED, reason, now)
    return replace(aborted, outcome=Outcome.ABORTED)


def _spent(operation: Operation, evidence: Evidence, waited_for: str, now: float) -> str:
    look = evidence.look
    found = look.detail if look is not None and look.detail else waited_for
    seconds = now - operation.phase_started_at
    return f"{operation.state} for {seconds:.0f} s without end: {found}; the replica and its capacity are retained"
