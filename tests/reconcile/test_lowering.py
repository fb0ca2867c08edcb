"""After an aborted retirement: taken back, tried again later and later, and in the end left to a person."""

from __future__ import annotations

import pytest

from controller.api import FIELD_MANAGER, RETIREMENT_RETRY_ANNOTATION, LoweringState
from controller.foundation import format_time, parse_time
from controller.reconcile.listing import Sighting
from controller.reconcile.lowering import SHORTEST_PAUSE_SECONDS, assess_lowering
from controller.reconcile.observe import view_role
from controller.reconcile.survivors import survivors_block
from tests.reconcile.objects import pod, role, target

NOW = parse_time("2026-01-01T00:10:00Z")
WINDOW = 300.0


def _target(
    replicas=1,
    *,
    state="Aborted",
    ordinal=1,
    at=NOW - 5,
    writers=(FIELD_MANAGER,),
    retry=None,
    consumed="",
    workload="",
):
    retirement = {
        "roleName": "server",
        "replicaOrdinal": ordinal,
        "state": state,
        "phaseStartedAt": format_time(at),
        "lastConsumedRetryToken": consumed,
        "targetWorkloadUID": workload,
    }
    managed = [{"manager": manager, "subresource": "status"} for manager in writers]
    annotations = {} if retry is None else {RETIREMENT_RETRY_ANNOTATION: retry}
    status = {"retirement": retirement} if state else {}
    return target([role(replicas=replicas)], status=status, managedFields=managed, annotations=annotations)


def _assess(seen, known=None, *, retiring=0, maximum=5, window=WINDOW, now=NOW):
    return assess_lowering(seen, "server", known, retiring=retiring, maximum=maximum, window_seconds=window, now=now)


def test_an_aborted_retirement_is_taken_back_and_tried_again_after_the_down_window():
    first = _assess(_target())
    assert first.raise_to == 2
    assert first.state == LoweringState(aborts=1, aborted_at=NOW - 5, not_before=NOW + WINDOW, raised_to=2)
    back = _target(2, state=None)
    assert _assess(back, first.state, now=NOW + WINDOW - 1).held
    assert not _assess(back, first.state, now=NOW + WINDOW).held


def test_the_same_abort_is_counted_once_however_often_and_by_whomever_it_is_seen():
    first = _assess(_target())
    again = _assess(_target(), first.state, now=NOW + 60)
    assert again == first


def test_each_abort_in_a_row_doubles_the_pause_and_the_third_asks_a_person():
    state = None
    pauses = []
    for attempt in range(3):
        moment = NOW + 1000 * attempt
        found = _assess(_target(at=moment), state, now=moment)
        state = found.state
        pauses.append(None if state.not_before is None else state.not_before - moment)
    assert pauses == [WINDOW, 2 * WINDOW, None]
    assert found.person
    assert found.raise_to is None, "it stays as it is, for the order to retry"
    assert "retirement-retry=server:1:" in found.held
    assert _assess(_target(3, state=None), state, now=NOW + 1e6).held, "also when the load has taken it back since"


THIRD = LoweringState(aborts=3, aborted_at=NOW - 5, raised_to=2, retry_token="old")
ORDERS = [
    ("a new order", {"retry": "server:1:new"}, False),
    ("the order that was there before", {"retry": "server:1:old"}, True),
    ("an order for another role", {"retry": "other:1:new"}, True),
    ("an order that cannot be read", {"retry": "server:one"}, True),
    ("an order that the retirement has taken", {"consumed": "new"}, False),
    ("the one that it took before", {"consumed": "old"}, True),
    ("no order", {}, True),
]


@pytest.mark.parametrize(("given", "held"), [c[1:] for c in ORDERS], ids=[c[0] for c in ORDERS])
@pytest.mark.parametrize("state", ["Aborted", "Admitted"])
def test_after_three_a_person_decides_by(given, held, state):
    found = _assess(_target(state=state, **given), THIRD)
    assert bool(found.held) == held
    assert found.state.aborts == (3 if held else 0)


def test_after_an_order_a_new_row_begins():
    ordered = _assess(_target(state="Admitted", consumed="new"), THIRD).state
    assert _assess(_target(at=NOW + 300, consumed="new"), ordered, now=NOW + 305).state.aborts == 1


ENDS = [
    ("lowered, and the replica is gone: the row is over", 1, 0, None, True),
    ("lowered, and the replica is still there", 1, 1, None, False),
    ("not lowered yet", 2, 0, None, False),
    ("being retired again", 1, 0, "Draining", False),
]


@pytest.mark.parametrize(("replicas", "retiring", "state", "over"), [c[1:] for c in ENDS], ids=[c[0] for c in ENDS])
def test_a_row_ends_with_a_retirement_that_succeeds(replicas, retiring, state, over):
    known = LoweringState(aborts=2, aborted_at=NOW - 900, not_before=NOW - 300, raised_to=2)
    found = _assess(_target(replicas, state=state), known, retiring=retiring)
    assert (found.state is None) == over


NOT_OURS = [
    ("beside another operator", {"writers": ("gpustack-operator",)}),
    ("where two have written the status", {"writers": (FIELD_MANAGER, "gpustack-operator")}),
    ("where no writer is on record and the replica has a Workload", {"writers": (), "workload": "19aa"}),
]


@pytest.mark.parametrize("given", [c[1] for c in NOT_OURS], ids=[c[0] for c in NOT_OURS])
def test_nothing_is_taken_back(given):
    found = _assess(_target(**given))
    assert (found.state, found.raise_to, found.held) == (None, None, "")


def test_after_managed_fields_were_reset_an_abort_is_taken_back_and_the_pause_kept():
    first = _assess(_target(writers=()))
    assert (first.raise_to, first.state.aborts) == (2, 1)
    back = _target(2, state=None, writers=())
    assert _assess(back, first.state, now=NOW + WINDOW - 1).held
    assert _assess(_target(at=NOW + 400, writers=()), first.state, now=NOW + 400).state.aborts == 2


def test_a_clock_that_was_set_back_holds_a_count_for_one_pause_at_most():
    first = _assess(_target(writers=(FIELD_MANAGER,))).state
    back = _target(2, state=None)
    day = 86400.0
    found = _assess(back, first, now=NOW - day)
    assert found.held
    assert found.state.not_before == NOW - day + WINDOW
    assert not _assess(back, found.state, now=NOW - day + WINDOW).held


def test_a_count_beyond_the_maximum_is_not_written():
    assert _assess(_target(), maximum=1).raise_to is None


def test_a_window_of_zero_is_no_reason_to_try_again_at_once():
    assert _assess(_target(), window=0.0).state.not_before == NOW + SHORTEST_PAUSE_SECONDS


# ---- who stays -------------------------------------------------------------------------------------------------------


def _view(pods, replicas=3, status=None):
    seen = {each.metadata.uid: Sighting(NOW - 600, NOW - 500, was_ready=True) for each in pods}
    object_ = target([role(replicas=replicas)], status=status or {})
    return view_role(object_, object_.roles[0], pods, seen, NOW)


LISTED_TWO = {"roles": [{"name": "server", "endpoints": {"serving": {"state": "Confirmed", "value": 2}}}]}
SURVIVORS = [
    ("all serve", _view([pod(0), pod(1), pod(2)]), 2, 2, False),
    ("one that stays is not Ready", _view([pod(0), pod(1, ready=False), pod(2)]), 2, 2, True),
    ("one that stays is not there", _view([pod(0), pod(2)]), 2, 2, True),
    ("one that stays lost its eligibility", _view([pod(0), pod(1, eligible=False), pod(2)]), 2, 2, True),
    ("it is the one that goes which does not serve", _view([pod(0), pod(1), pod(2, ready=False)]), 2, 2, False),
    ("nobody goes who serves", _view([pod(0)]), 1, 1, False),
    ("those that serve below are enough for the load", _view([pod(0), pod(1, ready=False), pod(2)]), 2, 1, False),
    ("nobody below serves, little as the load is", _view([pod(0, ready=False), pod(1)]), 1, 0, True),
    ("what the load needs is not known", _view([pod(0), pod(1, ready=False), pod(2)]), 2, None, True),
    ("nobody serves at all", _view([pod(0, ready=False)]), 1, 1, False),
    ("the router does not list one that stays", _view([pod(0), pod(2), pod(1)], status=LISTED_TWO), 1, 1, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("view", "desired", "needed", "held"), [c[1:] for c in SURVIVORS], ids=[c[0] for c in SURVIVORS]
)
def test_a_count_falls_only_onto_replicas_that_serve(view, desired, needed, held):
    assert bool(survivors_block(view, desired, needed)) == held
