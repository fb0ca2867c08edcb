"""A changed spec, carried out one replica at a time."""

from __future__ import annotations

from controller.api import SERVICES
from tests.deployment.world import TWO, World

NEW = [{"name": "server", "replicas": 2, "extraArgs": ["--max-num-seqs", "8"]}]


async def test_a_changed_spec_replaces_one_replica_after_the_other_and_drains_each(chat: World):
    uids = [chat.uid("chat-server-0"), chat.uid("chat-server-1")]
    chat.engines.holds[uids[1]] = 1
    chat.declare(NEW)
    await chat.run(30)
    assert [chat.uid("chat-server-0"), chat.uid("chat-server-1")] == uids
    assert chat.eligible() == ["chat-server-0"]
    condition = chat.deployment.condition("ReplicasUpToDate")
    assert condition is not None
    assert condition.reason == "RolloutInProgress"
    chat.engines.holds.clear()
    await chat.run(30)
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]
    assert not {chat.uid("chat-server-0"), chat.uid("chat-server-1")}.intersection(uids)
    assert chat.state == ""
    assert "RetirementAdmitted" not in chat.reasons()


async def test_a_spec_that_does_not_start_stops_after_the_first_replica(chat: World):
    chat.declare(NEW)
    chat.slow = {"chat-server-1"}
    await chat.run(600)
    assert chat.eligible() == ["chat-server-0"]
    condition = chat.deployment.condition("ReplicasUpToDate")
    assert condition is not None
    assert "not Ready" in condition.message


async def test_a_mistake_that_is_taken_back_gives_the_replica_back(chat: World):
    uid = chat.uid("chat-server-1")
    chat.engines.holds[uid] = 1
    chat.declare(NEW)
    await chat.run(10)
    assert chat.eligible() == ["chat-server-0"]
    chat.declare(TWO)
    await chat.rest()
    assert chat.uid("chat-server-1") == uid
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]


async def test_a_replacement_waits_for_its_requests_no_longer_than_a_drain_lasts(chat: World):
    uid = chat.uid("chat-server-1")
    chat.engines.holds[uid] = 1
    chat.declare(NEW)
    await chat.run(230)
    assert chat.uid("chat-server-1") == uid
    await chat.run(30)
    assert chat.uid("chat-server-1") != uid


async def test_a_retirement_goes_before_a_rollout(chat: World):
    stays = chat.uid("chat-server-0")
    chat.engines.holds[chat.uid("chat-server-1")] = 1
    chat.declare([{**NEW[0], "replicas": 1}])
    await chat.run(60)
    assert chat.state == "Draining"
    assert chat.eligible() == ["chat-server-0"]
    assert chat.uid("chat-server-0") == stays, "one replica out of service at a time"
    chat.engines.holds.clear()
    await chat.run(60)
    assert chat.names() == ["chat-server-0"]
    assert chat.deployment.condition("ReplicasUpToDate").status == "True"  # type: ignore[union-attr]


async def test_a_retirement_that_comes_up_gives_the_replica_of_a_rollout_back(chat: World):
    other = {"name": "other", "replicas": 2}
    chat.declare([*TWO, other])
    await chat.rest()
    chat.engines.holds |= {chat.uid("chat-server-1"): 1, chat.uid("chat-other-1"): 1}
    chat.declare([*NEW, other])
    await chat.run(10)
    assert chat.eligible() == ["chat-other-0", "chat-other-1", "chat-server-0"]
    chat.declare([*NEW, {**other, "replicas": 1}])
    await chat.run(10)
    assert chat.state == "Draining"
    assert chat.eligible() == ["chat-other-0", "chat-server-0", "chat-server-1"]


async def test_a_replica_grows_from_one_pod_to_two(chat: World):
    chat.declare([{"name": "server", "replicas": 1, "size": 2}])
    await chat.run(120)
    assert chat.eligible() == ["chat-server-0-m0", "chat-server-0-m1"]
    assert chat.server.get(SERVICES, "chat-server-r0", "team") is not None
