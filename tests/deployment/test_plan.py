"""Which Pods are created, thrown away, made again; which replica goes next."""

from __future__ import annotations

from typing import Any

import pytest

from controller.deployment.eligibility import Leg, failed_leg, label_changes
from controller.deployment.fingerprint import fingerprint
from controller.deployment.plan import plan_replicas, plan_rollout, surplus
from controller.deployment.provenance import Provenance
from controller.deployment.replicas import Replica, group_replicas
from tests.deployment.builders import deployment, group, pod, single

SERVER = {"name": "server", "replicas": 3}


def _new(role: dict[str, Any] | None = None) -> str:
    made = deployment([role or SERVER])
    return fingerprint(made, made.roles[0])


def _planned(replicas: list[Replica], role: dict[str, Any] | None = None, held: Any = ()) -> list[tuple[int, int]]:
    made = deployment([role or SERVER])
    plan = plan_replicas(made, made.roles, replicas, set(held), Provenance())
    return [(seat.ordinal, seat.member) for _, seat in plan.create]


def _discarded(*replicas: Replica) -> list[str]:
    made = deployment([SERVER])
    plan = plan_replicas(made, made.roles, replicas, set(), Provenance())
    return [discard.pod.metadata.name for discard in plan.discard]


def test_missing_ordinals_are_created_from_the_lowest():
    assert _planned([single(1, made_from=_new())]) == [(0, 0), (2, 0)]


def test_a_place_that_an_operation_is_about_is_left_alone():
    assert _planned([], held={("server", 1)}) == [(0, 0), (2, 0)]


def test_a_pod_on_its_way_out_holds_its_place():
    assert _planned([single(0, deleting=True, made_from=_new())]) == [(1, 0), (2, 0)]


TWO = {"name": "server", "replicas": 1, "size": 2}


def test_a_replica_of_two_that_was_half_created_is_completed():
    half = group(0, {}, ready=False, eligible=False, made_from=_new(TWO))
    assert _planned([half], TWO) == [(0, 1)]


def test_a_replica_of_two_that_served_and_lost_one_is_made_again_as_a_whole():
    half = group(0, {}, made_from=_new(TWO))
    assert _planned([half], TWO) == []
    assert _discarded(half) == ["chat-server-0-m0"]


def test_a_lost_member_that_answers_for_itself_is_made_again_alone():
    external = {**TWO, "extraArgs": ["--data-parallel-external-lb"]}
    both = group(0, {}, {"scraped": True}, made_from=_new(external))
    left = Replica("chat", "server", 0, both.members[1:])
    assert _planned([left], external) == [(0, 0)]
    assert _discarded(left) == []


def test_a_replica_from_an_older_spec_is_not_completed_from_the_present_one():
    assert _planned([group(0, {}, ready=False, eligible=False)], TWO) == []


def test_pods_that_have_ended_are_removed():
    assert _discarded(single(0, phase="Failed"), single(1), single(2, phase="Succeeded", deleting=True)) == [
        "chat-server-0"
    ]


# --- which replica goes next ---

PAIR = [{"name": "prefill", "kind": "Prefill", "replicas": 1}, {"name": "decode", "kind": "Decode", "replicas": 1}]


@pytest.mark.parametrize(
    ("replicas", "victim"),
    [
        pytest.param([single(0, role="prefill"), single(0, role="decode")], None, id="nothing is beyond the count"),
        pytest.param([single(1, role="prefill"), single(2, role="prefill")], "chat-prefill-2", id="the highest ordinal goes first"),
        pytest.param([single(5, role="decode"), single(1, role="prefill")], "chat-prefill-1", id="the first role goes first"),
        pytest.param([single(0, role="old"), single(1, role="decode")], "chat-decode-1", id="a role that was dropped goes last"),
        pytest.param([single(0, role="old")], "chat-old-0", id="but goes"),
        pytest.param([single(1, role="decode", deleting=True)], None, id="what is being deleted needs no retirement"),
        pytest.param([single(1, role="decode", phase="Failed")], None, id="what has ended needs none either"),
    ],
)  # fmt: skip
def test_the_next_replica_to_retire(replicas: list[Replica], victim: str | None):
    found = surplus(deployment(PAIR), replicas)
    assert (None if found is None else found.name) == victim


# --- rollouts ---


def _rollout(*replicas: Replica, held: Any = ()) -> tuple[int, str | None, str]:
    made = deployment([SERVER])
    rollout = plan_rollout(made, made.roles, replicas, set(held), Provenance())
    victim = None if rollout.victim is None else rollout.victim.name
    return rollout.outdated.get("server", 0), victim, rollout.waits_for


def test_a_changed_spec_is_carried_out_from_the_highest_ordinal():
    assert _rollout(single(0), single(1), single(2)) == (3, "chat-server-2", "")


def test_the_next_one_waits_until_all_are_ready_again():
    new = _new()
    outdated, victim, waits_for = _rollout(single(0), single(1), single(2, made_from=new, ready=False, eligible=False))
    assert (outdated, victim) == (2, None)
    assert "not Ready" in waits_for


def test_a_replica_that_is_not_ready_goes_first_and_waits_for_nobody():
    assert _rollout(single(0), single(1, ready=False), single(2))[1] == "chat-server-1"


def test_a_replacement_that_an_earlier_process_began_goes_on():
    assert _rollout(single(0), single(1, eligible=False, offered=True), single(2))[1] == "chat-server-1"


def test_replicas_beyond_the_count_are_not_made_again():
    new = _new()
    assert _rollout(single(0, made_from=new), single(1, made_from=new), single(2, made_from=new), single(3))[0] == 0


# --- eligibility ---


@pytest.mark.parametrize(
    ("replica", "leg"),
    [
        pytest.param(single(0), None, id="complete, Ready and wanted it is eligible"),
        pytest.param(single(0, ready=False), Leg.MEMBERS_READY, id="a member that is not Ready"),
        pytest.param(group(0, {}), Leg.MEMBER_SET_COMPLETE, id="a member that is missing"),
        pytest.param(group(0, {}, {"deleting": True}), Leg.MEMBER_SET_COMPLETE, id="a member that is leaving"),
        pytest.param(group(0, {}, {"ready": False}), Leg.MEMBERS_READY, id="one member of two that is not Ready"),
        pytest.param(single(0, uid="retiring"), Leg.NO_PLANNED_RETIREMENT, id="one that is being retired"),
        pytest.param(single(0, uid="replacing"), Leg.NO_PENDING_REPLACEMENT, id="one that is being made again"),
    ],
)
def test_the_legs_of_eligibility(replica: Replica, leg: Leg | None):
    assert failed_leg(replica, retiring=["retiring"], replacing=["replacing"]) is leg


def test_labels_are_taken_before_they_are_given_and_pods_on_their_way_out_are_left_alone():
    replicas = [
        single(0, eligible=False),
        single(1, ready=False),
        single(2, ready=False, deleting=True),
        group(3, {}, {"ready": False}),
    ]
    changes = [
        (change.pod.metadata.name, change.eligible) for change in label_changes(replicas, retiring=(), replacing=())
    ]
    assert changes == [
        ("chat-server-1", False),
        ("chat-server-3-m0", False),
        ("chat-server-3-m1", False),
        ("chat-server-0", True),
    ]


# --- replicas ---


def test_pods_are_grouped_by_role_and_ordinal_and_ordered_by_seat():
    pods = [
        pod("b", ordinal=1, member=1, size=2),
        pod("a", ordinal=1, member=0, size=2),
        pod("c", role="other"),
        pod("stray", ordinal="x"),
        pod("router", router="vllm-router"),
    ]
    assert [(each.role, each.ordinal, [each_pod.metadata.name for each_pod in each.members]) for each in group_replicas("chat", pods)] == [
        ("other", 0, ["c"]),
        ("server", 1, ["a", "b"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("replica", "served"),
    [
        pytest.param(single(0), True, id="one that is eligible"),
        pytest.param(single(0, eligible=False, offered=True, ready=False), True, id="one that was, and is down"),
        pytest.param(single(0, eligible=False, ready=True), True, id="one that is Ready and may be reached somehow"),
        pytest.param(single(0, eligible=False, ready=False), False, id="one that has never started"),
        pytest.param(group(0, {"ready": False}, {"ready": True}, eligible=False), False, id="one whose follower runs, but whose leader has never answered"),
    ],
)  # fmt: skip
def test_whether_a_request_may_have_reached_a_replica(replica: Replica, served: bool):
    assert replica.served is served


@pytest.mark.parametrize(
    ("kind", "hands_over"),
    [
        pytest.param("prefill", True, id="blocks for the decode side"),
        pytest.param("decode", True, id="blocks from the prefill side"),
        pytest.param("encode", True, id="embeddings for the prefill side"),
        pytest.param("server", False, id="one that does everything itself"),
    ],
)
def test_who_holds_something_for_another_after_a_request_has_left_its_queues(kind: str, hands_over: bool):
    assert single(0, kind=kind).hands_over is hands_over
