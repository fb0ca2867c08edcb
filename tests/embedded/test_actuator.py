"""The embedded operator against the embedded API server, with engines, router and clients over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from controller.api import model_deployment_crd
from controller.embedded.actuator import Actuator
from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.clients import OpenLoopClients
from controller.embedded.contract import ENDPOINT_ELIGIBLE, MODEL_DEPLOYMENTS, PODS
from controller.embedded.engine import EngineConfig, EngineState
from controller.embedded.manifests import model_deployment_manifest, namespace_manifest
from controller.embedded.membership import Membership
from controller.embedded.router import Router
from controller.foundation import OperationFailed, ScaledClock
from controller.plant import Arrival
from tests.embedded.conftest import SERVICE

NAMESPACE = "demo"


@dataclass
class Bench:
    """An API server, an operator, a router; and what tests ask of them."""

    clock: ScaledClock
    api: ApiServer
    client: ApiClient
    router: Router
    actuator: Actuator

    async def scale(self, replicas: int) -> None:
        patch = {"spec": {"roles": [self.deployment()["spec"]["roles"][0] | {"replicas": replicas}]}}
        await self.client.merge_patch(MODEL_DEPLOYMENTS, NAMESPACE, "chat", patch)

    def deployment(self) -> dict[str, Any]:
        found = self.api.get(MODEL_DEPLOYMENTS, "chat", NAMESPACE)
        assert found is not None
        return found

    def status(self) -> dict[str, Any]:
        return self.deployment().get("status") or {}

    def pods(self) -> dict[str, dict[str, Any]]:
        return {pod["metadata"]["name"]: pod for pod in self.api.list(PODS, NAMESPACE)}

    def role(self) -> dict[str, Any]:
        roles = self.status().get("roles") or [{}]
        return dict(roles[0])

    def routed(self) -> set[str]:
        return {view.member.name for view in self.router.members if view.eligible}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(8):
            while not condition():
                await self.clock.sleep(0.3)

    async def settled(self, replicas: int) -> None:
        """Exactly so many replicas are Ready, routed and reported."""
        names = {f"chat-server-{ordinal}" for ordinal in range(replicas)}
        await self.until(lambda: self.routed() == names == set(self.pods()) and self.role().get("ready") == replicas)
        await self.until(lambda: "retirement" not in self.status())


@pytest.fixture
async def bench(clock: ScaledClock) -> AsyncIterator[Bench]:
    api = ApiServer(clock=clock)
    await api.start("127.0.0.1", 0)
    api.install_crd(model_deployment_crd())
    api.put(namespace_manifest(NAMESPACE))
    api.put(
        model_deployment_manifest(
            name="chat",
            namespace=NAMESPACE,
            role="server",
            replicas=1,
            model_name="m",
            engine_version="0.32.0",
            max_num_seqs=4,
            port=18002,
            instance_type="pool",
        )
    )
    client = ApiClient(api.url)
    router = Router(clock)
    await router.start()
    engine = EngineConfig("m", SERVICE, startup_seconds=5.0, frame_tokens=8)
    actuator = Actuator(client, clock, router, namespace=NAMESPACE, engine=engine)
    membership = asyncio.create_task(Membership(client, NAMESPACE, router).run())
    await actuator.start()
    yield Bench(clock, api, client, router, actuator)
    membership.cancel()
    await asyncio.gather(membership, return_exceptions=True)
    await actuator.stop()
    await router.stop()
    await client.close()
    await api.stop()


async def test_a_replica_becomes_a_pod_an_engine_and_a_member_of_the_router(bench: Bench) -> None:
    await bench.settled(1)
    (pod,) = bench.pods().values()
    conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
    assert conditions["PodScheduled"] == conditions["Ready"] == "True"
    assert pod["metadata"]["labels"][ENDPOINT_ELIGIBLE] == "true"
    (engine,) = bench.actuator.engines
    assert pod["status"]["podIP"] == engine.host
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(engine.port) == "18002"
    assert engine.config.max_num_seqs == 4  # from extraArgs
    status = bench.status()
    assert status["phase"] == "Ready"
    assert status["roleSummary"] == "1S"
    assert status["endpoint"] == bench.router.url
    assert status["roles"][0] == {
        "name": "server",
        "kind": "Server",
        "desired": 1,
        "ready": 1,
        "quotaReserved": 1,
        "unmanaged": False,
        "endpoints": {"eligible": 1, "serving": {"state": "NotConfigured"}},
    }


async def test_replicas_come_and_go_under_load_and_no_request_is_lost(bench: Bench) -> None:
    """The count goes 1 → 3 → 1 while clients stream; every answer is complete."""
    await bench.settled(1)
    clients = OpenLoopClients(bench.clock, bench.router.url, "m")
    traffic = asyncio.create_task(clients.run([Arrival(0.3 * n, 200, 60) for n in range(400)]))
    await bench.scale(3)
    await bench.settled(3)
    await bench.until(lambda: all(engine.load().running for engine in bench.actuator.engines))
    await bench.scale(1)
    await bench.settled(1)
    await traffic
    totals = clients.totals
    assert (totals.requests, totals.completed, totals.lost) == (400, 400, 0)
    assert totals.output_tokens == 400 * 60
    assert max(counts.ready for counts in bench.actuator.timeline) == 3
    assert [counts.desired for counts in bench.actuator.timeline if counts.ready][-1] == 1


async def test_the_highest_ordinals_leave_one_at_a_time_and_their_state_is_shown(bench: Bench) -> None:
    await bench.scale(3)
    await bench.settled(3)
    await bench.scale(1)
    await bench.settled(1)
    shown = []
    for version in bench.api.history(MODEL_DEPLOYMENTS, "chat", NAMESPACE):
        retirement = (version.object.get("status") or {}).get("retirement")
        step = retirement and (retirement["replicaOrdinal"], retirement["state"])
        if step and step not in shown[-1:]:
            shown.append(step)
    states = ["Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling"]
    assert [step for step in shown if step[1] != "Aborted"] == [
        (ordinal, state) for ordinal in (2, 1) for state in states
    ]


async def test_a_replica_with_a_long_answer_drains_before_it_goes(bench: Bench) -> None:
    await bench.scale(2)
    await bench.settled(2)
    clients = OpenLoopClients(bench.clock, bench.router.url, "m")
    traffic = asyncio.create_task(clients.run([Arrival(0.0, 10, 4000)] * 2))  # eighty seconds, one on each
    await bench.until(lambda: [engine.load().running for engine in bench.actuator.engines] == [1, 1])
    await bench.scale(1)
    await bench.until(lambda: bench.routed() == {"chat-server-0"})
    assert "chat-server-1" in bench.pods()
    assert bench.role()["ready"] == 2  # it still serves
    await traffic
    assert clients.totals.completed == 2
    await bench.settled(1)


async def test_a_count_that_rises_again_adopts_the_draining_replica_back(bench: Bench) -> None:
    await bench.scale(2)
    await bench.settled(2)
    before = bench.pods()["chat-server-1"]["metadata"]["uid"]
    clients = OpenLoopClients(bench.clock, bench.router.url, "m")
    traffic = asyncio.create_task(clients.run([Arrival(0.0, 10, 10_000)] * 2))
    await bench.until(lambda: [engine.load().running for engine in bench.actuator.engines] == [1, 1])
    await bench.scale(1)
    await bench.until(lambda: bench.routed() == {"chat-server-0"})
    await bench.scale(2)
    await bench.settled(2)
    assert bench.pods()["chat-server-1"]["metadata"]["uid"] == before
    traffic.cancel()
    await asyncio.gather(traffic, return_exceptions=True)


async def test_a_replica_that_was_never_ready_goes_at_once(bench: Bench) -> None:
    await bench.settled(1)
    bench.actuator._engine = replace(bench.actuator._engine, startup_seconds=1e6)
    await bench.scale(3)
    await bench.until(lambda: len(bench.pods()) == 3)
    await bench.scale(1)
    await bench.settled(1)
    assert max(counts.ready for counts in bench.actuator.timeline) == 1


async def test_a_crashed_engine_leaves_the_router_and_comes_back_as_the_same_pod(bench: Bench) -> None:
    await bench.settled(1)
    uid = bench.pods()["chat-server-0"]["metadata"]["uid"]
    (engine,) = bench.actuator.engines
    await engine.crash(down_seconds=5.0)
    await bench.until(lambda: engine.restart_count == 1)
    await bench.settled(1)
    shown: list[tuple[str, int, bool, str]] = []
    for version in bench.api.history(PODS, "chat-server-0", NAMESPACE):
        for container in (version.object.get("status") or {}).get("containerStatuses") or []:
            state = (container["containerID"], container["restartCount"], container["ready"], *container["state"])
            if state not in shown[-1:]:
                shown.append(state)
    first, second = f"embedded://{uid}-0", f"embedded://{uid}-1"
    assert shown[-4:] == [
        (first, 0, True, "running"),
        (first, 0, False, "waiting"),
        (second, 1, False, "running"),
        (second, 1, True, "running"),
    ]


async def test_a_hung_engine_becomes_unready_after_three_probes(bench: Bench) -> None:
    await bench.settled(1)
    (engine,) = bench.actuator.engines
    began = bench.clock.now()
    engine.hang()
    await bench.until(lambda: bench.routed() == set())
    assert bench.clock.now() - began >= 30
    engine.resume()
    await bench.settled(1)


async def test_a_pod_that_somebody_deletes_is_replaced(bench: Bench) -> None:
    await bench.settled(1)
    uid = bench.pods()["chat-server-0"]["metadata"]["uid"]
    (old,) = bench.actuator.engines
    bench.api.delete(PODS, "chat-server-0", NAMESPACE)
    await bench.until(lambda: bench.pods().get("chat-server-0", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
    await bench.settled(1)
    assert old.state is EngineState.STOPPED


async def test_beyond_its_quota_a_replica_gets_no_pod_and_the_status_says_so(bench: Bench) -> None:
    bench.actuator.quota = 2
    await bench.scale(4)
    await bench.until(lambda: bench.role().get("ready") == 2)
    assert len(bench.pods()) == 2
    conditions = {condition["type"]: condition for condition in bench.status()["conditions"]}
    assert (bench.role()["desired"], bench.role()["quotaReserved"]) == (4, 2)
    assert conditions["QuotaReserved"]["reason"] == "Pending"
    await bench.scale(1)
    await bench.settled(1)


async def test_a_deleted_deployment_takes_its_replicas_with_it(bench: Bench) -> None:
    await bench.settled(1)
    bench.api.delete(MODEL_DEPLOYMENTS, "chat", NAMESPACE)
    await bench.until(lambda: not bench.pods() and not bench.actuator.engines and not bench.routed())


async def test_an_operator_that_finds_no_address_fails_with_the_reason(clock: ScaledClock, bench: Bench) -> None:
    await bench.settled(1)
    roles = bench.deployment()["spec"]["roles"]
    bench.actuator._addresses = _Exhausted()  # type: ignore[assignment]
    await bench.client.merge_patch(
        MODEL_DEPLOYMENTS, NAMESPACE, "chat", {"spec": {"roles": [roles[0] | {"replicas": 2}]}}
    )
    async with asyncio.timeout(5):
        with pytest.raises(OperationFailed, match="no address"):
            await asyncio.shield(bench.actuator.failure)


class _Exhausted:
    async def listen(self, *_: object) -> None:
        raise OperationFailed("no address")
