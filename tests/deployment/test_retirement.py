"""Every transition of a retirement, one sentence a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from controller.api import RetirementRetry, RetirementState
from controller.deployment.replacement import step_replacement
from controller.deployment.retirement import (
    Action,
    Evidence,
    Listing,
    Load,
    Operation,
    Outcome,
    Presence,
    admit,
    step,
    take_up,
)
from tests.deployment.builders import evidence, look, operation, single

S = RetirementState
BUSY = look(Load.BUSY, note="requests are in flight at chat-server-2", detail="3 in flight at chat-server-2")


@dataclass(frozen=True)
class Row:
    says: str
    state: RetirementState
    seen: Evidence
    becomes: RetirementState | None
    outcome: Outcome
    now: float = 1001.0
    actions: tuple[Action, ...] = ()
    how: dict[str, Any] | None = None
    reason: str = ""


ORDER = RetirementRetry("server", 2, "again")

ROWS = [
    Row("while a member carries the label it stays Admitted", S.ADMITTED, evidence(labelled=True), S.ADMITTED, Outcome.REASON, reason="label"),
    Row("without the label it is Disqualified", S.ADMITTED, evidence(), S.DISQUALIFIED, Outcome.MOVED),
    Row("a label that stays for 30 s aborts", S.ADMITTED, evidence(labelled=True), S.ABORTED, Outcome.ABORTED, now=1030.0, reason="label"),
    Row("a label that is gone when the budget ends is no reason to abort", S.ADMITTED, evidence(), S.DISQUALIFIED, Outcome.MOVED, now=1030.0),
    Row("listed by somebody it stays Disqualified", S.DISQUALIFIED, evidence(listing=Listing.LISTED, listing_note="Service chat lists it"), S.DISQUALIFIED, Outcome.REASON, reason="Service chat lists it"),
    Row("not knowing who lists it is not knowing that nobody does", S.DISQUALIFIED, evidence(listing=Listing.UNKNOWN), S.DISQUALIFIED, Outcome.REASON),
    Row("a label that came back holds it", S.DISQUALIFIED, evidence(labelled=True), S.DISQUALIFIED, Outcome.REASON),
    Row("listed by nobody it is Withdrawing", S.DISQUALIFIED, evidence(), S.WITHDRAWING, Outcome.MOVED),
    Row("one second before the withdrawal ends it waits", S.DISQUALIFIED, evidence(listing=Listing.LISTED), S.DISQUALIFIED, Outcome.REASON, now=1029.0),
    Row("listed for 30 s it aborts", S.DISQUALIFIED, evidence(listing=Listing.LISTED, listing_note="router holds it"), S.ABORTED, Outcome.ABORTED, now=1030.0, reason="router holds it"),
    Row("withdrawn it drains", S.WITHDRAWING, evidence(), S.DRAINING, Outcome.MOVED),
    Row("never offered a request it needs no drain", S.WITHDRAWING, evidence(served=False), S.DELETING, Outcome.MOVED, actions=(Action.DELETE,)),
    Row("without a read nothing happens", S.DRAINING, evidence(), S.DRAINING, Outcome.STAYED),
    Row("one idle read is not enough", S.DRAINING, evidence(look=look()), S.DRAINING, Outcome.STAYED),
    Row("the second idle read in a row deletes", S.DRAINING, evidence(look=look()), S.DELETING, Outcome.MOVED, actions=(Action.DELETE,), how={"idle_reads": 1, "incarnation": "c1"}),
    Row("an idle read of another container counts as the first", S.DRAINING, evidence(look=look(incarnation="c2")), S.DRAINING, Outcome.STAYED, how={"idle_reads": 1, "incarnation": "c1"}),
    Row("requests in flight hold it", S.DRAINING, evidence(look=BUSY), S.DRAINING, Outcome.REASON, how={"idle_reads": 1, "incarnation": "c1"}, reason="in flight"),
    Row("an engine that cannot be read is not idle", S.DRAINING, evidence(look=look(Load.UNKNOWN)), S.DRAINING, Outcome.REASON, how={"idle_reads": 1, "incarnation": "c1"}),
    Row("a command line of the user's own is never idle", S.DRAINING, evidence(look=look(Load.UNSUPPORTED)), S.DRAINING, Outcome.REASON, how={"idle_reads": 1, "incarnation": "c1"}),
    Row("idle but listed again is not idle", S.DRAINING, evidence(look=look(), listing=Listing.LISTED, listing_note="listed"), S.DRAINING, Outcome.REASON, how={"idle_reads": 1, "incarnation": "c1"}),
    Row("idle while somebody does not say whom it lists is not idle", S.DRAINING, evidence(look=look(), listing=Listing.UNKNOWN), S.DRAINING, Outcome.REASON, how={"idle_reads": 1, "incarnation": "c1"}),
    Row("idle but labelled again is not idle", S.DRAINING, evidence(look=look(), labelled=True), S.DRAINING, Outcome.REASON, how={"idle_reads": 1, "incarnation": "c1"}),
    Row("busy to the end of the drain aborts and says with what", S.DRAINING, evidence(look=BUSY), S.ABORTED, Outcome.ABORTED, now=1240.0, reason="3 in flight"),
    Row("the drain ends with the whole operation at the latest", S.DRAINING, evidence(look=BUSY), S.ABORTED, Outcome.ABORTED, now=1200.0, how={"deadline": 1200.0}),
    Row("a hand-over replica read idle within the minute has to wait", S.DRAINING, evidence(look=look()), S.DRAINING, Outcome.STAYED, now=1059.0, how={"hands_over": True, "idle_reads": 1, "incarnation": "c1"}),
    Row("a hand-over replica read idle after the minute goes", S.DRAINING, evidence(look=look()), S.DELETING, Outcome.MOVED, now=1060.0, actions=(Action.DELETE,), how={"hands_over": True, "idle_reads": 1, "incarnation": "c1"}),
    Row("Pods that are still there are deleted again", S.DELETING, evidence(), S.DELETING, Outcome.STAYED, actions=(Action.DELETE,)),
    Row("a deletion is never aborted, however long it takes", S.DELETING, evidence(), S.DELETING, Outcome.REASON, now=9999.0, actions=(Action.DELETE,), reason="look at their nodes"),
    Row("a count that rises too late does not stop a deletion", S.DELETING, evidence(declared=True), S.DELETING, Outcome.STAYED, actions=(Action.DELETE,)),
    Row("without Pods it settles", S.DELETING, evidence(presence=Presence.GONE), S.SETTLING, Outcome.MOVED),
    Row("settled it is cleared", S.SETTLING, evidence(presence=Presence.GONE), None, Outcome.COMPLETED),
    Row("settling never aborts", S.SETTLING, evidence(), S.SETTLING, Outcome.REASON, now=9999.0, reason="30 s and more"),
    *[
        Row(f"declared again while {state} it is adopted", state, evidence(declared=True, labelled=True, listing=Listing.LISTED), None, Outcome.ADOPTED, now=9999.0)
        for state in (S.ADMITTED, S.DISQUALIFIED, S.WITHDRAWING, S.DRAINING, S.ABORTED)
    ],
    *[
        Row(f"a replica that dies while {state} aborts, to be released", state, evidence(presence=Presence.LOST), S.ABORTED, Outcome.ABORTED)
        for state in (S.ADMITTED, S.DISQUALIFIED, S.WITHDRAWING, S.DRAINING)
    ],
    Row("an aborted one whose replica died is released", S.ABORTED, evidence(presence=Presence.LOST), None, Outcome.RELEASED),
    Row("a replica that died and is declared again is released at once", S.DRAINING, evidence(presence=Presence.LOST, declared=True), None, Outcome.RELEASED),
    Row("aborted it stays, for as long as nobody does anything", S.ABORTED, evidence(look=look()), S.ABORTED, Outcome.STAYED, now=99999.0),
    Row("a person's order starts it again", S.ABORTED, evidence(retry=ORDER), S.ADMITTED, Outcome.RETRIED, actions=(Action.CONSUME_RETRY,)),
    Row("the same order twice is no order", S.ABORTED, evidence(retry=ORDER), S.ABORTED, Outcome.STAYED, actions=(Action.CONSUME_RETRY,), how={"last_retry_token": "again"}),
    Row("an order about another replica is none about this one", S.ABORTED, evidence(retry=replace(ORDER, ordinal=1)), S.ABORTED, Outcome.STAYED),
    Row("an order about another role is none about this one", S.ABORTED, evidence(retry=replace(ORDER, role="decode")), S.ABORTED, Outcome.STAYED),
    Row("an order before the abort waits for it", S.DRAINING, evidence(retry=ORDER), S.DRAINING, Outcome.STAYED),
    Row("an order that was taken is cleaned up later too", S.DRAINING, evidence(retry=ORDER), S.DRAINING, Outcome.STAYED, actions=(Action.CONSUME_RETRY,), how={"last_retry_token": "again"}),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.says)
def test_a_step(row: Row):
    before = operation(row.state, **(row.how or {}))
    taken = step(before, row.seen, row.now)
    assert (taken.operation and taken.operation.state, taken.outcome, taken.actions) == (
        row.becomes,
        row.outcome,
        row.actions,
    )
    assert row.reason in taken.reason


def test_the_withdrawal_budget_covers_two_states_and_the_others_have_their_own():
    admitted = admit(single(2), 3, 1000.0, "why")
    disqualified = step(admitted, evidence(), 1010.0).operation
    assert disqualified is not None
    assert disqualified.phase_started_at == 1000.0
    withdrawing = step(disqualified, evidence(), 1020.0).operation
    assert withdrawing is not None
    draining = step(withdrawing, evidence(), 1021.0).operation
    assert draining is not None
    assert (draining.phase_started_at, draining.phase_ends_at, draining.deadline) == (1021.0, 1261.0, 1300.0)


def test_a_busy_read_forgets_the_idle_one_before_it():
    draining = operation(S.DRAINING)
    for seen in (look(), BUSY, look()):
        taken = step(draining, evidence(look=seen), 1001.0)
        assert taken.operation is not None
        draining = taken.operation
    assert (draining.state, draining.idle_reads) == (S.DRAINING, 1)


def test_a_retried_operation_has_fresh_budgets_and_remembers_the_token():
    aborted = operation(S.ABORTED, deadline=1300.0)
    taken = step(aborted, evidence(retry=ORDER), 5000.0)
    assert taken.operation is not None
    again = taken.operation
    assert (again.started_at, again.deadline, again.phase_started_at) == (5000.0, 5300.0, 5000.0)
    assert again.last_retry_token == "again"


@pytest.mark.parametrize("state", [state for state in S if state not in (S.ABORTED, S.COMPLETED)])
def test_time_without_a_leader_is_not_charged(state: RetirementState):
    left = operation(state, idle_reads=1, incarnation="c1")
    taken = take_up(left, 9000.0)
    assert (taken.state, taken.started_at) == (state, 1000.0)
    assert (taken.phase_started_at, taken.deadline) == (9000.0, 9300.0)
    assert taken.idle_reads == 0


def test_an_aborted_operation_is_taken_up_as_it_is():
    aborted = operation(S.ABORTED)
    assert take_up(aborted, 9000.0) == aborted


# --- replacing a replica that is made from an older spec ---


def _replaced(before: Operation, seen: Evidence, now: float) -> tuple[RetirementState | None, tuple[Action, ...]]:
    taken = step_replacement(before, seen, now)
    return (None if taken.operation is None else taken.operation.state), taken.actions


def test_a_replacement_drains_after_the_withdrawal_budget_and_deletes_after_the_drain_budget():
    listed = evidence(listing=Listing.LISTED)
    assert _replaced(operation(S.DISQUALIFIED), listed, 1029.0) == (S.DISQUALIFIED, ())
    assert _replaced(operation(S.DISQUALIFIED), listed, 1030.0) == (S.DRAINING, ())
    assert _replaced(operation(S.DRAINING), evidence(look=BUSY), 1239.0) == (S.DRAINING, ())
    assert _replaced(operation(S.DRAINING), evidence(look=BUSY), 1240.0) == (S.DELETING, (Action.DELETE,))


def test_a_replacement_whose_replica_died_is_over():
    assert _replaced(operation(S.DRAINING), evidence(presence=Presence.LOST), 1001.0) == (None, ())
