"""Standalone mode on both servers: what must hold wherever replicas come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.api import MODEL_DEPLOYMENTS, SERVICES
from controller.embedded.clients import OpenLoopClients
from hack.generate_manifests import NAME
from tests.cluster.api import Api
from tests.cluster.managed import PROCESS_FACTOR, SECONDS, Standalone, standalone
from tests.cluster.objects import LEASES, PODS, pod

WHOLE = ["Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling", "-"]


@pytest.fixture
async def team(request: pytest.FixtureRequest, api: Api, tmp_path: Path) -> AsyncIterator[Standalone]:
    async with standalone(api, tmp_path, process_factor=getattr(request, "param", None)) as made:
        yield made


async def test_a_declared_count_becomes_pods_services_and_a_status(team: Standalone):
    made = await team.declare(2)
    await team.controller()
    await team.until(lambda: team.serves(2), "two replicas serve")
    assert sorted(team.pods()) == ["chat-server-0", "chat-server-1"]
    for each in (*team.pods().values(), *team.objects(SERVICES).values()):
        (owner,) = each["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    assert sorted(team.objects(SERVICES)) == ["chat", "chat-server"]
    selector = team.objects(SERVICES)["chat"]["spec"]["selector"]
    assert selector["modeldeployment.gpustack.ai/endpoint-eligible"] == "true"
    status = team.md_status()
    assert status["phase"] == "Ready"
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "ReplicasUpToDate": "True",
        "RoleKindsReady": "True",
        "RouterReady": "True",
        "WeightsReady": "True",
    }
    await _stands_still(team)
    versions = len(team.targets())
    await team.clock.sleep(40.0)
    assert len(team.targets()) == versions, "a deployment that stands still is not written"


async def _stands_still(team: Standalone) -> None:
    """Twenty model seconds without a write."""
    async with asyncio.timeout(SECONDS):
        while True:
            before = len(team.targets())
            await team.clock.sleep(20.0)
            if len(team.targets()) == before:
                return


async def test_clients_lose_nothing_while_the_count_goes_up_and_down(team: Standalone):
    await team.declare(1)
    await team.controller()
    await team.until(lambda: team.serves(1), "the first replica serves")
    clients = team.clients()
    await team.scale(3)
    await team.until(lambda: team.serves(3), "three replicas serve")
    await team.scale(1)
    await team.until(lambda: team.serves(1), "two are retired")
    assert sorted(team.pods()) == ["chat-server-0"]
    assert team.states() == ["-", *WHOLE, *WHOLE]
    totals = clients.totals
    await team.until(lambda: totals.completed, "answered")
    assert (totals.lost, totals.rejected, team.kubelet.cut) == (0, 0, 0), clients.losses
    told = {f"Retirement{state}" for state in (*WHOLE[:-1], "Completed")}
    await team.until(lambda: told <= team.event_reasons(), "events tell of every step")


async def _both_busy(team: Standalone) -> tuple[OpenLoopClients, asyncio.Task[None]]:
    """A request on each of two replicas, which ends only after `release`."""
    clients, answered = team.ask(count=2)
    await team.until(lambda: team.running() == 2, "both are busy")
    team.engine_time.hold()
    return clients, answered


async def test_a_replica_with_a_stream_under_way_is_drained_and_given_back(team: Standalone):
    await team.declare(2)
    await team.controller()
    await team.until(lambda: team.serves(2), "two replicas serve")
    uid = team.uid("chat-server-1")
    clients, answered = await _both_busy(team)
    await team.scale(1)
    await team.until(lambda: team.state() == "Draining", "it drains")
    assert "modeldeployment.gpustack.ai/endpoint-eligible" not in team.pods()["chat-server-1"]["metadata"]["labels"]
    await team.scale(2)
    await team.until(lambda: team.serves(2), "it is given back")
    assert team.uid("chat-server-1") == uid
    assert "Deleting" not in team.states()
    team.engine_time.release()
    await answered
    assert clients.totals.completed == 2
    await team.until(lambda: "RetirementAdopted" in team.event_reasons(), "an event tells")


@pytest.mark.parametrize("team", [PROCESS_FACTOR], ids=["processes"], indirect=True)
async def test_a_process_that_is_killed_in_a_retirement_is_followed_by_one_that_ends_it(team: Standalone):
    await team.declare(2)
    first = await team.process(tag="first")
    await team.until(lambda: team.serves(2), "two replicas serve")
    kept = team.uid("chat-server-0")
    clients, answered = await _both_busy(team)
    await team.scale(1)
    await team.until(lambda: team.state() == "Draining", "it drains")
    first.kill()
    await first.wait()
    (await team.api.delete(LEASES, NAME)).ok()
    team.engine_time.release()
    await team.process(tag="second")
    await team.until(lambda: team.serves(1), "the second process ends it")
    await answered
    assert team.uid("chat-server-0") == kept
    assert len({each["metadata"]["uid"] for each in team.history(PODS, "chat-server-1")}) == 1, "made once"
    assert (clients.totals.completed, clients.totals.lost, team.kubelet.cut) == (2, 0, 0)
    await team.until(lambda: "RetirementResumed" in team.event_reasons(), "an event tells")
    assert [state for state in team.states() if state != "-"] == WHOLE[:-1]


async def test_a_hash_that_somebody_takes_away_or_changes_has_no_replica_made_again(team: Standalone):
    await team.declare(2)
    await team.controller()
    await team.until(lambda: team.serves(2), "two replicas serve")
    uids = {name: team.uid(name) for name in team.pods()}
    for name, value in (("chat-server-0", None), ("chat-server-1", "f" * 16)):
        annotations = {"modeldeployment.gpustack.ai/pod-spec-hash": value}
        (await team.api.patch(PODS, name, {"metadata": {"annotations": annotations}})).ok()

    def told() -> dict[str, str]:
        found: dict[str, str] = next(c for c in team.md_status()["conditions"] if c["type"] == "ReplicasUpToDate")
        return found

    await team.until(lambda: told()["reason"] == "RolloutStopped", "it is told")
    await team.until(lambda: "chat-server-0" in told()["message"] and "chat-server-1" in told()["message"], "of both")
    await team.until(
        lambda: {"RolloutStopped", "PodSpecHashUnreadable"} <= team.event_reasons(), "events tell of both kinds"
    )
    await team.clock.sleep(40.0)
    assert {name: team.uid(name) for name in team.pods()} == uids
    await team.until(lambda: team.serves(2), "both serve all the same")


async def test_a_pod_of_the_same_name_that_somebody_else_made_is_never_touched(team: Standalone):
    await team.declare(2)
    await team.controller()
    await team.until(lambda: team.serves(2), "two replicas serve")
    await _both_busy(team)
    await team.scale(1)
    await team.until(lambda: team.state() == "Draining", "it drains")
    old = team.objects(PODS)["chat-server-1"]
    (await team.api.delete(PODS, "chat-server-1", {"gracePeriodSeconds": 0})).ok()
    mine = pod("chat-server-1", node="elsewhere", labels=old["metadata"]["labels"])
    new = (await team.api.create(PODS, mine)).ok()
    await team.until(lambda: not team.state(), "the replica has ended on its own, and is released")
    await team.scale(2)
    await team.until(lambda: "FailedCreate" in team.event_reasons(), "its name is taken, and that is said")
    await team.scale(1)
    await team.clock.sleep(20.0)
    found = (await team.api.read(PODS, "chat-server-1")).ok()["metadata"]
    assert (found["uid"], "deletionTimestamp" in found) == (new["metadata"]["uid"], False)


async def test_a_deployment_that_is_deleted_takes_its_pods_and_services_along(team: Standalone):
    await team.declare(2)
    await team.controller()
    await team.until(lambda: team.serves(2), "two replicas serve")
    (await team.api.delete(MODEL_DEPLOYMENTS, "chat")).ok()
    await team.until(lambda: not team.pods() and not team.objects(SERVICES), "everything goes")


async def test_a_scaler_and_the_replicas_are_one_process(team: Standalone):
    await team.declare(1)
    throughput = {"targetTokensPerSecond": "100", "stableWindowSeconds": 20, "panicWindowSeconds": 10}
    await team.scaler(algorithm={"type": "TokenThroughput", "tokenThroughput": throughput})
    await team.controller()
    await team.until(lambda: team.serves(1), "the first replica serves")
    clients = team.clients()  # 300 tokens/s
    await team.until(lambda: team.count() >= 3, "the scaler raises the count")
    await team.until(lambda: len(team.pods()) >= 3, "and the Pods follow")
    assert clients.totals.lost == 0
