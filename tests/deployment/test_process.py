"""The door to this room: `--deployments`, as the process of the controller takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from controller.api import (
    MANAGED_BY_LABEL,
    PODS,
    SERVICES,
    model_deployment_crd,
    scaler_crd,
)
from controller.embedded.apiserver import ApiServer
from controller.embedded.apiserver.errors import ApiError
from controller.embedded.apiserver.faults import Delay, failure
from controller.foundation import OperationFailed, WallClock
from controller.foundation.settings import ControllerSettings, DeploymentsMode, LeaderElectionSettings
from controller.kube import LeaseTimes, load_connection
from controller.testing import run_virtual
from controller.wiring import Controller, following
from tests.deployment.builders import deployment_body
from tests.deployment.patience import PATIENCE_SECONDS

# A leader that a busy machine keeps from renewing in time would end the process of these tests.
LEASE = LeaderElectionSettings("scaler", "team", 2 * PATIENCE_SECONDS, PATIENCE_SECONDS, 0.2)
WORK = ("pods", "services", "endpointslices", "modeldeployments")  # what standalone mode reads and writes
AUTO, MANAGED, EXTERNAL = DeploymentsMode.AUTO, DeploymentsMode.MANAGED, DeploymentsMode.EXTERNAL


class Cluster:
    """An API server with both definitions and one ModelDeployment of two replicas; controllers as they are started."""

    def __init__(self, directory: Path) -> None:
        self.server = ApiServer(clock=WallClock(), create_namespaces=True)
        self._directory = directory
        self._running: dict[str, tuple[Controller, asyncio.Task[int]]] = {}

    async def start(self, labels: dict[str, str] | None) -> None:
        await self.server.start()
        self.server.write_kubeconfig(self._directory / "kubeconfig")
        self.server.install_crd(scaler_crd())
        targets = model_deployment_crd()
        if labels is not None:
            targets["metadata"]["labels"] = labels
        self.server.install_crd(targets)
        self.server.put(deployment_body([{"name": "server", "replicas": 2}]), manager="kubectl")

    async def stop(self) -> None:
        for name in list(self._running):
            await self.stop_controller(name)
        await self.server.stop()

    async def controller(self, mode: DeploymentsMode, name: str = "one", *, election: bool = False) -> Controller:
        settings = ControllerSettings(
            identity=name,
            kubeconfig=str(self._directory / "kubeconfig"),
            namespaces=("team",),
            leader_election=LEASE if election else None,
            metrics_address=None,
            health_address=None,
            deployments=mode,
            grace_seconds=PATIENCE_SECONDS,
        )
        times = LeaseTimes(LEASE.lease_duration_seconds, LEASE.renew_deadline_seconds, LEASE.retry_period_seconds)
        # The version stands in the user agent.
        made = Controller(
            settings, await load_connection(settings.kubeconfig), times if election else None, version=name
        )
        self._running[name] = (made, asyncio.create_task(made.run(handle_signals=False)))
        return made

    async def stop_controller(self, name: str) -> int:
        controller, task = self._running.pop(name)
        controller.request_stop()
        return await task

    async def ended(self, name: str) -> int:
        """Wait for a controller to end by itself; raises what it raises."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._running.pop(name)[1]

    def pods(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.server.list(PODS, "team"))

    def asked(self, *plurals: str, by: str = "") -> list[tuple[str, str]]:
        """(verb, resource) of the requests about these resources."""
        return [
            (record.info.verb, record.info.resource)
            for record in self.server.requests
            if record.info.resource in plurals and f"/{by}" in record.info.user_agent
        ]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                for _, task in self._running.values():
                    assert not task.done(), f"a controller ended: {task}"
                await asyncio.sleep(0.02)
        assert condition(), what


@asynccontextmanager
async def cluster(directory: Path, labels: dict[str, str] | None = None) -> AsyncIterator[Cluster]:
    made = Cluster(directory)
    await made.start(labels)
    try:
        yield made
    finally:
        await made.stop()


def _text(controller: Controller) -> str:
    return generate_latest(controller._endpoints._registry).decode()


MODES: list[tuple[str, DeploymentsMode, dict[str, str] | None, bool]] = [
    ("auto, with our definition of ModelDeployment", AUTO, None, True),
    ("auto, with another operator's definition", AUTO, {MANAGED_BY_LABEL: "gpustack"}, False),
    ("auto, with a definition that nobody signed", AUTO, {}, False),
    ("managed, whoever the definition is of", MANAGED, {}, True),
    ("external, though the definition is ours", EXTERNAL, None, False),
]


@pytest.mark.parametrize(("mode", "labels", "ours"), [row[1:] for row in MODES], ids=[row[0] for row in MODES])
async def test_who_runs_the_replicas(tmp_path: Path, mode: DeploymentsMode, labels: dict[str, str] | None, ours: bool):
    async with cluster(tmp_path, labels) as made:
        controller = await made.controller(mode)
        await made.until(lambda: controller._following.check_synced() is None, "started")
        if ours:
            await made.until(lambda: made.pods() == ["chat-server-0", "chat-server-1"], "the Pods are made")
            await made.until(lambda: len(made.server.list(SERVICES, "team")) == 2, "and the Services")
            watched = {("watch", "pods"), ("watch", "modeldeployments")}
            await made.until(lambda: watched <= set(made.asked("pods", "modeldeployments")), "both kinds are watched")
            assert 'workqueue_adds_total{name="modeldeployment"}' in _text(controller)
            assert made.asked("pods").count(("watch", "pods")) == 1, "one watch serves both loops"
            assert made.asked("modeldeployments").count(("watch", "modeldeployments")) == 1
            return
        await asyncio.sleep(0.3)
        assert made.pods() == []
        assert made.asked("services", "endpointslices") == []
        assert {verb for verb, _ in made.asked("pods", "modeldeployments")} <= {"list", "watch"}
        assert 'name="modeldeployment"' not in _text(controller)


async def test_only_the_leader_works_and_hands_over_in_order(tmp_path: Path):
    async with cluster(tmp_path) as made:
        await made.controller(AUTO, "first", election=True)
        await made.until(lambda: len(made.pods()) == 2, "the first one leads and works")
        second = await made.controller(AUTO, "second", election=True)
        await made.until(lambda: second._following.check_synced() is None, "the second one waits")
        made.server.put(deployment_body([{"name": "server", "replicas": 3}]), manager="kubectl")
        await made.until(lambda: len(made.pods()) == 3, "grown")
        writes = [verb for verb, _ in made.asked("pods", "services", "modeldeployments", by="second")]
        assert set(writes) <= {"list", "watch"}
        assert await made.stop_controller("first") == 0
        made.server.put(deployment_body([{"name": "server", "replicas": 4}]), manager="kubectl")
        await made.until(lambda: len(made.pods()) == 4, "the second one goes on")


def test_a_service_cache_that_never_fills_is_named_at_the_start(tmp_path: Path):
    """T6. On virtual time: the others are not late, however slow the machine is."""
    run_virtual(_services_that_never_come(tmp_path))


async def _services_that_never_come(directory: Path) -> None:
    async with cluster(directory) as made:
        for verb in ("list", "watch"):
            made.server.faults.add(
                failure(ApiError(403, "Forbidden", "no")), verb=verb, resource="services", times=None
            )
        await made.controller(AUTO)
        with pytest.raises(OperationFailed, match="could not read services within"):
            await made.ended("one")


async def test_a_silent_watch_of_services_makes_the_process_unwell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with cluster(tmp_path) as made:
        controller = await made.controller(AUTO)
        await made.until(lambda: controller._following.check_synced() is None, "started")
        assert controller._following.check_signs_of_life() is None
        monkeypatch.setattr(following, "SILENCE_SECONDS", -1.0)
        assert "services" in str(controller._following.check_signs_of_life())


async def test_an_orderly_stop_ends_what_is_under_way_and_begins_nothing(tmp_path: Path):
    async with cluster(tmp_path) as made:
        slow = made.server.faults.add(Delay(0.3), verb="create", resource="pods", times=None)
        await made.controller(AUTO)
        await made.until(lambda: slow.fired, "a Pod is being created")
        assert await made.stop_controller("one") == 0
        assert made.pods() == ["chat-server-0", "chat-server-1"], "the pass came to its end"
        made.server.put(deployment_body([{"name": "server", "replicas": 3}]), manager="kubectl")
        asked = made.asked(*WORK)  # not of Events: the server may still be at the last, whose sender has gone
        await asyncio.sleep(0.2)
        assert made.asked(*WORK) == asked
