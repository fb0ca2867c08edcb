"""Declared replicas come, serve, are made again; what is another operator's is left alone. Pass by pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.api import MODEL_DEPLOYMENTS, PODS, render_crds
from controller.kube import Forbidden, ServerFailed
from tests.deployment.direct import Moment
from tests.deployment.world import TWO, World

# --- growing and serving ---


async def test_replicas_become_eligible_when_they_are_ready():
    world = World()
    world.slow = {"chat-server-1"}
    world.declare(TWO)
    await world.rest()
    assert world.names() == ["chat-server-0", "chat-server-1"]
    assert world.eligible() == ["chat-server-0"]
    assert world.deployment.status.phase == "Degraded"
    world.slow = set()
    await world.rest()
    assert world.eligible() == ["chat-server-0", "chat-server-1"]
    assert world.deployment.status.phase == "Ready"


async def test_a_deployment_at_rest_costs_no_writes(chat: World):
    version = chat.server.store.resource_version
    chat.start()
    await chat.run(600)
    assert chat.server.store.resource_version == version


async def test_a_replica_that_is_not_ready_any_more_is_out_at_once_and_back_when_it_is(chat: World):
    chat.slow = {"chat-server-1"}
    await chat.rest()
    assert chat.eligible() == ["chat-server-0"]
    chat.slow = set()
    await chat.rest()
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]


async def test_a_replica_of_two_is_eligible_as_a_whole():
    world = World()
    world.slow = {"chat-server-0-m1"}
    world.declare([{"name": "server", "size": 2}])
    await world.rest()
    assert world.eligible() == []
    world.slow = set()
    await world.rest()
    assert world.eligible() == ["chat-server-0-m0", "chat-server-0-m1"]


async def test_a_pod_that_was_deleted_or_evicted_is_made_again(chat: World):
    before = {pod.metadata.uid for pod in chat.pods()}
    chat.server.delete(PODS, "chat-server-0", "team")

    def evict(body: dict[str, Any]) -> None:
        body["status"]["phase"] = "Failed"

    chat.edit(PODS, "chat-server-1", evict, manager="kubelet")
    await chat.rest()
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]
    assert before.isdisjoint(pod.metadata.uid for pod in chat.pods())
    assert "ReplicaEvicted" in chat.reasons()


async def test_a_lost_member_takes_its_group_with_it():
    world = World()
    world.declare([{"name": "server", "size": 2}])
    await world.rest()
    survivor = world.uid("chat-server-0-m1")
    world.server.delete(PODS, "chat-server-0-m0", "team")
    await world.rest()
    assert world.eligible() == ["chat-server-0-m0", "chat-server-0-m1"]
    assert world.uid("chat-server-0-m1") != survivor
    assert "ReplicaRestarted" in world.reasons()


async def test_somebody_elses_pod_of_the_name_is_left_alone_and_named():
    world = World()
    world.server.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "chat-server-0", "namespace": "team"},
            "spec": {"containers": [{"name": "x", "image": "y"}]},
        }
    )
    world.declare(TWO)
    uid = world.uid("chat-server-0")
    await world.rest()
    assert world.uid("chat-server-0") == uid
    assert world.eligible() == ["chat-server-1"]
    assert "chat-server-0 belongs to somebody else" in world.deployment.status.phase_message


async def test_a_quota_that_refuses_pods_is_said_and_the_rest_goes_on():
    world = World()
    world.declare([{"name": "server", "env": [{"name": "HF_TOKEN", "value": "hf_secret"}]}, {"name": "other"}])

    def refuse(moment: Moment, verb: str, plural: str, name: str) -> None:
        if (moment, verb, plural) == (Moment.BEFORE, "create", "pods") and "-server-" in name:
            raise Forbidden("exceeded quota: team-quota, env hf_secret", status=403)

    world.start(refuse)
    await world.rest()
    assert world.eligible() == ["chat-other-0"]
    assert world.deployment.status.phase == "Degraded"
    assert "exceeded quota" in world.deployment.status.phase_message
    assert "hf_secret" not in str([world.events, world.deployment.status])
    world.start()
    await world.rest()
    assert world.deployment.status.phase == "Ready"


async def test_a_server_that_fails_and_repeats_what_it_was_sent_tells_nobody_the_secret():
    world = World()
    world.declare([{"name": "server", "env": [{"name": "HF_TOKEN", "value": "hf_secret"}]}])

    def fail(moment: Moment, verb: str, plural: str, name: str) -> None:
        if (moment, verb, plural) == (Moment.BEFORE, "create", "pods"):
            raise ServerFailed("panic while admitting env hf_secret", status=500)

    world.start(fail)
    with capture_logs() as lines:
        await world.run(60)
    assert "panic while admitting env" in str([world.events, world.deployment.status])
    assert "hf_secret" not in str([lines, world.events, world.deployment.status])


async def test_a_hundred_replicas_are_created_in_several_passes():
    world = World()
    world.declare([{"name": "server", "replicas": 100}])
    await world.turn()
    assert len(world.names()) == 64
    await world.rest()
    assert len(world.eligible()) == 100
    notes = [note for _, reason, note in world.events if reason == "ReplicaCreated"]
    assert [note.split()[-2] for note in notes] == ["56", "28"], "one event for each pass, whose list has an end"
    assert notes[0].startswith("created chat-server-0, chat-server-1, ")


async def test_a_replica_that_is_added_is_told_once_with_all_its_members():
    world = World()
    world.declare([{"name": "server", "replicas": 1, "size": 2}])
    await world.rest()
    world.declare([{"name": "server", "replicas": 2, "size": 2}])
    await world.rest()
    notes = [note for _, reason, note in world.events if reason == "ReplicaCreated"]
    assert notes == ["created chat-server-0 (2 Pods)", "created chat-server-1 (2 Pods)"]


async def test_pods_ask_for_what_their_pool_has():
    world = World()
    world.server.install_crd(render_crds(["InstanceType"])[0])
    world.server.put(
        {
            "apiVersion": "worker.gpustack.ai/v1alpha1",
            "kind": "InstanceType",
            "metadata": {"name": "h200"},
            "spec": {"acceleratorGroup": "nvidia-h200", "acceleratable": True},
        }
    )
    world.declare()
    await world.rest()
    body = world.server.get(PODS, "chat-server-0", "team")
    assert body is not None
    assert body["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "InstanceTypeNotFound" not in world.reasons()


async def test_without_weights_nothing_is_created_and_a_retirement_goes_on(chat: World):
    chat.declare(TWO, model={"name": "m", "artifactRef": {"name": "missing"}})
    chat.scale(1)
    chat.server.delete(PODS, "chat-server-0", "team")
    await chat.run(60)
    assert chat.names() == []
    condition = chat.deployment.condition("WeightsReady")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "ArtifactNotFound")


# --- whose it is ---


async def test_a_deployment_of_another_operator_is_not_touched():
    world = World()
    world.declare(TWO)
    fields = {
        "manager": "gpustack-operator",
        "operation": "Update",
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:phase": {}}},
        "subresource": "status",
        "time": "2026-01-01T00:00:00Z",
    }
    body = world.server.get(MODEL_DEPLOYMENTS, "chat", "team")
    assert body is not None
    stored = world.server.store.collection(("worker.gpustack.ai", "modeldeployments"))
    body["metadata"]["managedFields"] = [fields]
    stored.commit(body)
    await world.rest()
    assert world.client.writes == []
    assert world.reasons() == ["OwnedByAnotherOperator"]


async def test_pods_of_another_program_are_not_doubled(chat: World):
    def disown(body: dict[str, Any]) -> None:
        del body["metadata"]["labels"]["app.kubernetes.io/managed-by"]

    chat.edit(PODS, "chat-server-0", disown)
    chat.scale(5)
    await chat.rest()
    assert len(chat.names()) == 2
    assert "OwnedByAnotherOperator" in chat.reasons()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda roles: roles[0].update(replicas="many"), id="a count that is no number"),
        pytest.param(lambda roles: roles[0].update(replicas=-1), id="a count that cannot be"),
        pytest.param(lambda roles: roles[0].update(size=0), id="replicas of no Pods"),
        pytest.param(lambda roles: roles.append({**roles[0], "replicas": 1}), id="a role that is declared twice"),
    ],
)
async def test_an_object_that_makes_no_sense_is_left_as_it_is(chat: World, damage: Callable[[list[Any]], None]):
    body = chat.server.get(MODEL_DEPLOYMENTS, "chat", "team")
    assert body is not None
    damage(body["spec"]["roles"])
    chat.server.store.collection(("worker.gpustack.ai", "modeldeployments")).commit(body)
    chat.client.writes.clear()
    await chat.rest()
    assert chat.client.writes == []
    assert "Unreadable" in chat.reasons()


async def test_a_deployment_that_is_gone_leaves_nothing_behind(chat: World):
    chat.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await chat.rest()
    assert (chat.pods(), chat._services("team/chat")) == ([], [])


async def test_a_successor_of_the_same_name_gets_pods_of_its_own(chat: World):
    before = {pod.metadata.uid for pod in chat.pods()}
    chat.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    chat.declare(TWO)
    await chat.rest()
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]
    assert before.isdisjoint(pod.metadata.uid for pod in chat.pods())


async def test_a_deployment_on_its_way_out_gives_its_pods_back(chat: World):
    chat.edit(MODEL_DEPLOYMENTS, "chat", lambda body: body["metadata"].update(finalizers=["example.com/hold"]))
    chat.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await chat.rest()
    assert chat.pods() == []
    assert chat.deployment.status.phase == "Deleting"


# --- roles that are not carried out ---


async def test_a_refused_role_leaves_the_others_alone_and_says_the_way_out():
    world = World()
    world.declare([{"name": "server"}, {"name": "elastic", "elasticEp": {"width": 4}}])
    await world.rest()
    assert world.eligible() == ["chat-server-0"]
    assert world.deployment.status.phase == "Degraded"
    assert "elasticEp" in world.deployment.status.phase_message
    assert "RenderFailed" in world.reasons()
