"""Whoever strips or changes what Pods say about their origin never has replicas made again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.api import MODEL_DEPLOYMENTS, PODS
from controller.deployment.fingerprint import fingerprint
from controller.deployment.plan import plan_replicas, plan_rollout
from controller.deployment.provenance import Origin, Provenance, origin_of
from controller.deployment.replicas import Replica
from controller.foundation import Resource
from tests.deployment.builders import deployment, group, single
from tests.deployment.direct import DirectClient, Fail
from tests.deployment.world import TWO, World

HASH = "modeldeployment.gpustack.ai/pod-spec-hash"
DAY = 86_400.0
ROLE = {"name": "server", "replicas": 2}
OTHERS = "f" * 16  # looks like one of ours

Annotations = dict[str, str]
Meddler = Callable[[Annotations], None]


def _spec(number: int) -> list[dict[str, Any]]:
    return [{"name": "server", "replicas": 2, "extraArgs": ["--max-num-seqs", str(number)]}]


def _strip(annotations: Annotations) -> None:
    annotations.pop(HASH, None)


def _strip_all(annotations: Annotations) -> None:
    annotations.clear()


def _set(value: str) -> Meddler:
    return lambda annotations: annotations.update({HASH: value})


class _Client(DirectClient):
    """Somebody changes Pods at their admission; deletions are counted."""

    def __init__(self, world: Meddled, fail: Fail | None) -> None:
        super().__init__(world.server, fail)
        self._world = world

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> Any:
        if resource.plural == "pods" and self._world.webhook is not None:
            self._world.webhook(body["metadata"]["annotations"])
        return await super().create(resource, body, namespace)

    async def delete(self, resource: Resource, name: str, namespace: str | None = None, *, uid: str) -> Any:
        if resource.plural == "pods":
            self._world.deletions.add((name, uid))
            assert len(self._world.deletions) < 20, "replicas are made again for ever"
        return await super().delete(resource, name, namespace, uid=uid)


class Meddled(World):
    """A world in which somebody else writes annotations of Pods: a webhook at their admission, a controller later."""

    def __init__(self) -> None:
        self.webhook: Meddler | None = None
        self.controller: Meddler | None = None
        self.deletions: set[tuple[str, str]] = set()
        super().__init__()

    def connect(self, fail: Fail | None) -> DirectClient:
        return _Client(self, fail)

    async def turn(self, key: str = "team/chat") -> float | None:
        again = await super().turn(key)
        if self.controller is not None:
            for body in self.server.list(PODS, "team"):
                before = dict(body["metadata"]["annotations"])
                self.controller(body["metadata"]["annotations"])
                if body["metadata"]["annotations"] != before:
                    self.server.put(body, manager="policy")
        return again

    @property
    def made_again(self) -> list[int]:
        """How often each place was made again."""
        return sorted(Counter(name for name, _ in self.deletions).values())

    def reason(self) -> tuple[str, str, str]:
        condition = self.deployment.condition("ReplicasUpToDate")
        assert condition is not None
        return condition.status, condition.reason, condition.message


@pytest.fixture
async def meddled() -> Meddled:
    """Two Ready, eligible replicas that nobody has meddled with yet."""
    world = Meddled()
    world.declare(TWO)
    await world.rest()
    return world


UNREADABLE = ("Unknown", "PodSpecHashUnreadable")
STOPPED = ("False", "RolloutStopped")
KINDS = [
    pytest.param("webhook", _strip, [1, 1], UNREADABLE, id="a webhook strips it: each replica is made again once, then nobody knows"),
    pytest.param("webhook", _strip_all, [1, 1], UNREADABLE, id="a webhook strips every annotation"),
    pytest.param("webhook", _set(""), [1, 1], UNREADABLE, id="a webhook empties it"),
    pytest.param("webhook", _set("v1.2.3"), [1, 1], UNREADABLE, id="a webhook puts something else there"),
    pytest.param("webhook", _set(OTHERS), [1], STOPPED, id="a webhook puts there what could be ours: the first one that comes up stops it"),
    pytest.param("controller", _strip, [], UNREADABLE, id="a controller strips it from living Pods, which are not made again any more"),
    pytest.param("controller", _set("rewritten"), [], UNREADABLE, id="a controller puts something else there"),
    pytest.param("controller", _set(OTHERS), [1], STOPPED, id="a controller puts there what could be ours"),
]  # fmt: skip


@pytest.mark.parametrize(("who", "meddler", "made_again", "condition"), KINDS)
async def test_a_changed_spec_makes_each_replica_again_once_at_most(
    meddled: Meddled, who: str, meddler: Meddler, made_again: list[int], condition: tuple[str, str]
):
    setattr(meddled, who, meddler)
    await meddled.rest()
    meddled.declare(_spec(8))
    await meddled.run(DAY)
    assert meddled.made_again == made_again
    assert len(meddled.eligible()) == 2
    for _ in range(3):
        meddled.start()  # another process, which remembers nothing
        await meddled.run(3600)
    assert meddled.made_again == made_again
    status, reason, message = meddled.reason()
    assert (status, reason) == condition
    assert HASH in message
    assert "chat-server-1" in message
    assert message in meddled.deployment.status.phase_message
    warnings = [note for type_, why, note in meddled.events if (type_, why) == ("Warning", reason)]
    assert message in warnings
    assert len(warnings) <= 2 + 3, "once for each set of Pods, and once by each process"


@pytest.mark.parametrize(("who", "meddler", "made_again", "condition"), KINDS)
async def test_without_a_changed_spec_nothing_is_made_again(
    meddled: Meddled, who: str, meddler: Meddler, made_again: list[int], condition: tuple[str, str]
):
    del made_again
    setattr(meddled, who, meddler)
    if who == "webhook":  # it sees Pods that are made, so let two be
        for name in ("chat-server-0", "chat-server-1"):
            meddled.server.delete(PODS, name, "team", grace_seconds=0)
    await meddled.run(3600)
    meddled.start()
    await meddled.run(3600)
    assert meddled.made_again == []
    assert meddled.reason()[:2] == condition


async def test_it_is_told_by_a_process_that_finds_it_after_a_restart(meddled: Meddled):
    """Nobody was there when it was done: the stored condition says what the replicas were made from."""
    for name in ("chat-server-0", "chat-server-1"):
        meddled.edit(PODS, name, lambda body: body["metadata"]["annotations"].update({HASH: OTHERS}), manager="policy")
    meddled.start()
    await meddled.run(DAY)
    assert meddled.made_again == []
    assert meddled.reason()[:2] == STOPPED


async def test_a_count_that_changed_while_nobody_led_costs_each_replica_once_at_most(meddled: Meddled):
    """The stored condition is about another generation then, and what Pods say is believed once."""
    meddled.controller = _set(OTHERS)
    meddled.scale(3)
    meddled.start()
    await meddled.run(DAY)
    assert max(meddled.made_again, default=0) <= 1
    assert meddled.reason()[:2] == STOPPED


async def test_what_a_person_does_about_it_helps(meddled: Meddled):
    meddled.webhook = _set(OTHERS)
    meddled.declare(_spec(8))
    await meddled.run(600)
    assert meddled.reason()[1] == "RolloutStopped"
    meddled.webhook = None
    meddled.server.delete(PODS, "chat-server-1", "team", grace_seconds=0)
    await meddled.run(600)
    assert meddled.reason()[:2] == ("True", "UpToDate"), "the other one is then made again by the rollout"
    assert HASH not in meddled.deployment.status.phase_message


async def test_pods_that_say_nothing_are_made_again_by_hand(meddled: Meddled):
    meddled.edit(PODS, "chat-server-0", lambda body: body["metadata"]["annotations"].pop(HASH), manager="policy")
    meddled.declare(_spec(8))
    await meddled.run(600)
    assert meddled.reason()[1] == "PodSpecHashUnreadable"
    assert [name for name, _ in meddled.deletions] == ["chat-server-1"]
    meddled.server.delete(PODS, "chat-server-0", "team", grace_seconds=0)
    await meddled.run(600)
    assert meddled.reason()[:2] == ("True", "UpToDate")


async def test_another_spec_begins_anew(meddled: Meddled):
    meddled.webhook = _set(OTHERS)
    for number in (8, 16, 32):
        meddled.declare(_spec(number))
        await meddled.run(DAY)
    assert len(meddled.deletions) == 3, "one attempt for each"
    meddled.webhook = None
    meddled.declare(_spec(64))
    await meddled.run(600)
    assert meddled.reason()[:2] == ("True", "UpToDate")


async def test_a_replica_whose_hash_is_lost_while_it_is_drained_is_given_back(meddled: Meddled):
    uid = meddled.uid("chat-server-1")
    meddled.engines.holds[uid] = 1
    meddled.declare(_spec(8))
    await meddled.run(20)
    assert meddled.eligible() == ["chat-server-0"]
    for name in ("chat-server-0", "chat-server-1"):
        meddled.edit(PODS, name, lambda body: body["metadata"]["annotations"].pop(HASH), manager="policy")
    await meddled.run(600)
    assert meddled.uid("chat-server-1") == uid
    assert meddled.eligible() == ["chat-server-0", "chat-server-1"]


async def test_two_versions_that_reckon_differently_do_not_take_turns_for_ever(
    meddled: Meddled, monkeypatch: pytest.MonkeyPatch
):
    """A new release that changed how it reckons must not restart every engine of a cluster either."""
    monkeypatch.setattr("controller.deployment.plan.fingerprint", lambda *_: "1" * 16)
    monkeypatch.setattr("controller.deployment.provenance.fingerprint", lambda *_: "1" * 16)
    monkeypatch.setattr("controller.deployment.retiring.fingerprint", lambda *_: "1" * 16)
    meddled.start()
    await meddled.run(DAY)
    assert meddled.deletions == set()
    assert meddled.reason()[:2] == STOPPED


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["chat-server-0", "chat-server-1"]),
            st.sampled_from([None, "", "theirs", OTHERS, "1" * 16, "own"]),
        ),
        max_size=12,
    ),
    changes_spec=st.booleans(),
)
async def test_whatever_is_written_there_a_spec_makes_a_place_again_once_at_most(
    steps: list[tuple[str, str | None]], changes_spec: bool
):
    world = Meddled()
    world.declare(TWO)
    await world.rest()
    if changes_spec:
        world.declare(_spec(8))
    made = world.deployment
    own = fingerprint(made, made.roles[0])
    for name, value in steps:

        def write(body: dict[str, Any], value: str | None = value) -> None:
            body["metadata"]["annotations"].pop(HASH, None)
            if value is not None:
                body["metadata"]["annotations"][HASH] = own if value == "own" else value

        if world.server.get(PODS, name, "team") is not None:
            world.edit(PODS, name, write, manager="policy")
        await world.run(120)
    assert max(world.made_again, default=0) <= (1 if changes_spec else 0)


# --- the parts ---


def _own() -> str:
    made = deployment([ROLE])
    return fingerprint(made, made.roles[0])


@pytest.mark.parametrize(
    ("replica", "origin"),
    [
        pytest.param(single(0, made_from=_own()), Origin.PRESENT, id="ours, of the present spec"),
        pytest.param(single(0, made_from="0" * 16), Origin.OLDER, id="ours, of another spec"),
        pytest.param(single(0, made_from=None), Origin.UNKNOWN, id="missing"),
        pytest.param(single(0, made_from=""), Origin.UNKNOWN, id="empty"),
        pytest.param(single(0, made_from="0" * 15), Origin.UNKNOWN, id="too short"),
        pytest.param(single(0, made_from="0" * 64), Origin.UNKNOWN, id="somebody else's, a longer one"),
        pytest.param(single(0, made_from="F" * 16), Origin.UNKNOWN, id="somebody else's, in capitals"),
        pytest.param(single(0, made_from=f"{'f' * 16}\n"), Origin.UNKNOWN, id="with a line end"),
        pytest.param(group(0, {"made_from": _own()}, {"made_from": None}), Origin.UNKNOWN, id="one member of two does not say"),
        pytest.param(group(0, {"made_from": "0" * 16}, {"made_from": None}), Origin.OLDER, id="one does not say, the other says another spec"),
        pytest.param(group(0, {"made_from": _own()}, {"made_from": "0" * 16}), Origin.OLDER, id="one was made from another spec"),
    ],
)  # fmt: skip
def test_what_a_replica_says_it_was_made_from(replica: Replica, origin: Origin):
    assert origin_of(replica, _own()) is origin


def _condition(reason: str, generation: int) -> dict[str, Any]:
    return {"type": "ReplicasUpToDate", "status": "True", "reason": reason, "observedGeneration": generation}


@pytest.mark.parametrize(
    ("conditions", "known"),
    [
        pytest.param([], False, id="nothing is stored"),
        pytest.param([_condition("UpToDate", 3)], True, id="they were made from this very spec"),
        pytest.param([_condition("RolloutStopped", 3)], True, id="their rollout was stopped"),
        pytest.param([_condition("UpToDate", 2)], False, id="they were made from a spec before this one"),
        pytest.param([_condition("RolloutInProgress", 3)], False, id="a rollout was under way"),
        pytest.param([_condition("PodSpecHashUnreadable", 3)], False, id="nobody knew"),
    ],
)
def test_what_a_new_process_takes_from_the_stored_condition(conditions: list[dict[str, Any]], known: bool):
    provenance = Provenance()
    provenance.look(deployment([ROLE], status={"conditions": conditions}), [])
    assert [provenance.knows("server", ordinal) for ordinal in (0, 1, 2)] == [known, known, False]
    provenance.look(deployment([ROLE], status={"conditions": [_condition("UpToDate", 3)]}), [])
    assert provenance.knows("server", 0) is known, "only the first look asks"


def test_what_is_known_of_a_place_ends_with_the_spec_and_with_the_role():
    provenance = Provenance()
    provenance.look(deployment([ROLE]), [single(0, made_from=_own())])
    provenance.made("server", 1)
    provenance.made("other", 0)
    assert [provenance.knows("server", ordinal) for ordinal in (0, 1)] == [True, True]
    assert not provenance.knows("other", 0)
    provenance.look(deployment([{**ROLE, "replicas": 5}]), [])
    assert provenance.knows("server", 0), "a count is no part of what Pods are made from"
    provenance.look(deployment([{**ROLE, "extraArgs": ["-x"]}]), [])
    assert not provenance.knows("server", 0)
    provenance.look(deployment([{"name": "other"}]), [])
    provenance.look(deployment([ROLE]), [])
    assert not provenance.knows("server", 0)


def _knowing(*ordinals: int) -> Provenance:
    provenance = Provenance()
    provenance.look(deployment([ROLE]), [])
    for ordinal in ordinals:
        provenance.made("server", ordinal)
    return provenance


@pytest.mark.parametrize(
    ("replicas", "known", "victim", "outdated", "silent", "stopped"),
    [
        pytest.param([single(0), single(1)], (), "chat-server-1", 2, (), (), id="an older spec is made again"),
        pytest.param([single(0, made_from=None), single(1)], (), "chat-server-1", 1, ("chat-server-0",), (), id="one that does not say is left out, the other goes on"),
        pytest.param([single(0), single(1)], (1,), None, 1, (), ("chat-server-1",), id="one that denies the present spec stops its role"),
        pytest.param([single(0), single(1, deleting=True)], (1,), "chat-server-0", 2, (), (), id="one on its way out denies nothing"),
    ],
)  # fmt: skip
def test_the_next_one_to_make_again(
    replicas: list[Replica],
    known: tuple[int, ...],
    victim: str | None,
    outdated: int,
    silent: tuple[str, ...],
    stopped: tuple[str, ...],
):
    made = deployment([ROLE])
    if any(replica.leaving for replica in replicas):
        replicas = [single(0, ready=False), *replicas[1:]]  # or it would wait for the other one
    found = plan_rollout(made, made.roles, replicas, set(), _knowing(*known))
    assert (None if found.victim is None else found.victim.name) == victim
    assert (found.outdated.get("server", 0), found.silent, found.stopped) == (outdated, silent, stopped)


@pytest.mark.parametrize(
    ("made_from", "known", "created"),
    [
        pytest.param(None, (), [1], id="nobody knows what the other member was made from"),
        pytest.param("0" * 16, (0,), [1], id="the other member only says that it was made from another spec"),
        pytest.param("0" * 16, (), [], id="the other member was made from another spec: the whole is made again first"),
    ],
)
def test_a_half_made_replica_is_completed_unless_it_is_outdated(
    made_from: str | None, known: tuple[int, ...], created: list[int]
):
    made = deployment([{"name": "server", "replicas": 1, "size": 2}])
    provenance = Provenance()
    provenance.look(made, [])
    for ordinal in known:
        provenance.made("server", ordinal)
    half = group(0, {"made_from": made_from, "ready": False}, eligible=False)
    plan = plan_replicas(made, made.roles, [half], set(), provenance)
    assert [seat.member for _, seat in plan.create] == created


@pytest.mark.parametrize("stripped", [False, True])
async def test_a_pod_that_lost_its_annotations_may_have_served_and_is_drained(meddled: Meddled, stripped: bool):
    meddled.slow = {"chat-server-1"}
    meddled.server.delete(PODS, "chat-server-1", "team", grace_seconds=0)
    await meddled.run(10)
    if stripped:
        meddled.edit(PODS, "chat-server-1", lambda body: body["metadata"]["annotations"].clear(), manager="policy")
    meddled.scale(1)
    await meddled.run(300)
    assert ("Draining" in meddled.states()) is stripped
    assert meddled.names() == (["chat-server-0", "chat-server-1"] if stripped else ["chat-server-0"])


async def test_a_deployment_that_comes_back_under_its_name_is_another_one(meddled: Meddled):
    meddled.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await meddled.rest()
    meddled.declare(_spec(8))
    await meddled.run(120)
    assert meddled.reason()[:2] == ("True", "UpToDate")
