"""Retiring a replica, step by step, without any server."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.embedded.retirement import (
    Retirement,
    RetirementAction,
    RetirementState,
    RetirementView,
    step_retirement,
)

START = 1000.0
BUSY = RetirementView(
    wanted=False, was_eligible=True, labelled=False, routed=False, answering=0, in_flight=3, pod_exists=True
)
IDLE = replace(BUSY, in_flight=0)


def at(state: RetirementState, **changes: object) -> Retirement:
    fields: dict[str, object] = {
        "role": "server",
        "ordinal": 2,
        "pod_uid": "u",
        "observed_generation": 1,
        "started_seconds": START,
        "phase_started_seconds": START,
        "state": state,
    }
    return Retirement(**(fields | changes))  # type: ignore[arg-type]


S, A = RetirementState, RetirementAction


@pytest.mark.parametrize(
    ("before", "view", "after_seconds", "after", "action"),
    [
        pytest.param(
            at(S.ADMITTED), replace(BUSY, labelled=True), 1, S.ADMITTED, A.WITHDRAW, id="the label goes first"
        ),
        pytest.param(at(S.ADMITTED), BUSY, 1, S.DISQUALIFIED, A.NONE, id="without its label it is disqualified"),
        pytest.param(at(S.DISQUALIFIED), replace(BUSY, routed=True), 1, S.DISQUALIFIED, A.NONE, id="the router lags"),
        pytest.param(at(S.DISQUALIFIED), BUSY, 1, S.WITHDRAWING, A.NONE, id="the router has dropped it"),
        pytest.param(at(S.WITHDRAWING), BUSY, 1, S.DRAINING, A.NONE, id="then it drains"),
        pytest.param(at(S.DRAINING), BUSY, 1, S.DRAINING, A.NONE, id="requests are in flight"),
        pytest.param(at(S.DRAINING), IDLE, 1, S.DRAINING, A.NONE, id="one idle read is not enough"),
        pytest.param(at(S.DRAINING, idle_reads=1), IDLE, 1, S.DELETING, A.DELETE, id="two idle reads are"),
        pytest.param(
            at(S.DRAINING, idle_reads=1), replace(IDLE, answering=1), 1, S.DRAINING, A.NONE, id="an answer is under way"
        ),
        pytest.param(
            at(S.DRAINING, idle_reads=1),
            replace(IDLE, in_flight=None),
            1,
            S.DRAINING,
            A.NONE,
            id="not read is not idle",
        ),
        pytest.param(at(S.DELETING), IDLE, 1, S.DELETING, A.DELETE, id="a delete is repeated until the pod is gone"),
        pytest.param(
            at(S.DELETING), replace(IDLE, pod_exists=False), 1, S.SETTLING, A.STOP, id="then the engine stops"
        ),
        pytest.param(at(S.SETTLING), replace(IDLE, pod_exists=False), 1, S.COMPLETED, A.NONE, id="and it is over"),
        pytest.param(
            at(S.ADMITTED), replace(BUSY, was_eligible=False), 1, S.DELETING, A.DELETE, id="what never served just goes"
        ),
        pytest.param(
            at(S.ADMITTED), replace(BUSY, labelled=True), 30, S.ABORTED, A.NONE, id="withdrawal takes too long"
        ),
        pytest.param(
            at(S.DISQUALIFIED), replace(BUSY, routed=True), 30, S.ABORTED, A.NONE, id="both share the withdrawal budget"
        ),
        pytest.param(at(S.DRAINING), BUSY, 240, S.ABORTED, A.NONE, id="draining takes too long"),
        pytest.param(
            at(S.DRAINING, phase_started_seconds=START + 100),
            BUSY,
            300,
            S.ABORTED,
            A.NONE,
            id="all of it takes too long",
        ),
        pytest.param(
            at(S.DRAINING, idle_reads=1), IDLE, 240, S.DELETING, A.DELETE, id="idle at the last moment counts"
        ),
        pytest.param(at(S.DELETING), IDLE, 900, S.DELETING, A.DELETE, id="a deletion never aborts"),
        pytest.param(at(S.ABORTED), BUSY, 29, S.ABORTED, A.NONE, id="aborted, it stays"),
        pytest.param(at(S.ABORTED), BUSY, 30, S.ADMITTED, A.WITHDRAW, id="and is tried again"),
        pytest.param(at(S.DRAINING), replace(BUSY, pod_exists=False), 1, S.SETTLING, A.STOP, id="it died by itself"),
    ],
)
def test_steps(
    before: Retirement, view: RetirementView, after_seconds: float, after: RetirementState, action: RetirementAction
) -> None:
    stepped, todo = step_retirement(before, view, START + after_seconds)
    assert (stepped.state, todo) == (after, action)


@pytest.mark.parametrize("state", [S.ADMITTED, S.DISQUALIFIED, S.WITHDRAWING, S.DRAINING, S.ABORTED])
def test_a_raised_count_adopts_the_replica_back_in_every_state_before_its_deletion(state: RetirementState) -> None:
    _, action = step_retirement(at(state), replace(IDLE, wanted=True), START + 5)
    assert action is A.REINSTATE


def test_a_retried_operation_has_fresh_budgets() -> None:
    retried, _ = step_retirement(at(S.ABORTED), BUSY, START + 400)
    assert retried.started_seconds == retried.phase_started_seconds == START + 400
    assert retried.deadline_seconds == START + 700


VIEWS = st.builds(
    RetirementView,
    wanted=st.just(False),
    was_eligible=st.just(True),
    labelled=st.booleans(),
    routed=st.booleans(),
    answering=st.integers(0, 2),
    in_flight=st.none() | st.integers(0, 2),
    pod_exists=st.just(True),
)


@given(views=st.lists(st.tuples(VIEWS, st.floats(0, 60)), max_size=60))
def test_a_replica_that_served_is_deleted_only_after_two_idle_looks_in_a_row_out_of_routing(
    views: list[tuple[RetirementView, float]],
) -> None:
    operation, now = at(S.ADMITTED), START
    seen: list[RetirementView] = []
    for view, pause in views:
        now += pause
        seen.append(view)
        operation, action = step_retirement(operation, view, now)
        if action is A.DELETE:
            assert all(one.in_flight == 0 and one.answering == 0 for one in seen[-2:])
            assert any(not one.labelled for one in seen)
            assert any(not one.routed for one in seen)
            return
        assert action is not A.STOP
