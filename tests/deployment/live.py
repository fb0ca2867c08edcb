"""A whole world over real sockets: the embedded API server and router, engines that a kubelet starts for the Pods it
finds, streaming clients, and the controller of standalone mode against all of them.

To be run by `controller.testing.run_virtual`: time passes while everybody waits, and at no other moment, so that none of
the budgets that are kept here (30 s for a withdrawal, 2 s for a router's answer) is a matter of how fast the machine is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from controller.api import EVENTS, FIELD_MANAGER, MODEL_DEPLOYMENTS, PODS, model_deployment_crd
from controller.deployment import DeploymentController
from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.containers import EngineRuntime
from controller.embedded.engine import EngineConfig, EngineKind
from controller.embedded.kubelet import Kubelet
from controller.embedded.membership import Membership
from controller.embedded.router import Router
from controller.engines import Scraper
from controller.kube import EventRecorder, KubeClient, load_connection, run_workers
from controller.plant import ServiceTime
from tests.deployment.builders import deployment_body

EPOCH_SECONDS = 1_800_000_000.0
TIMEOUT_SECONDS = 600.0  # of virtual time: twice what a whole retirement may take
SERVICE = ServiceTime(20_000.0, (1, 8), (0.020, 0.024))
ENGINE = EngineConfig("Qwen/Qwen3-8B", SERVICE, startup_seconds=5.0, frame_tokens=32)


class LoopClock:
    """Model time is the time of the loop."""

    def now(self) -> float:
        return EPOCH_SECONDS + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def wall_seconds(self, model_seconds: float) -> float:
        return model_seconds


class Live:
    """The world."""

    def __init__(self, directory: Path) -> None:
        self.clock = LoopClock()
        self.server = ApiServer(clock=self.clock, create_namespaces=True)
        self.router = Router(self.clock)
        self._directory = directory
        self._tasks: list[asyncio.Task[Any]] = []
        self._closing: list[Callable[[], Any]] = []
        self._controller: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        await self.server.start()
        self.server.install_crd(model_deployment_crd())
        self.server.write_kubeconfig(self._directory / "kubeconfig")
        await self.router.start()
        api = ApiClient(self.server.url)
        self._tasks.append(asyncio.create_task(Membership(api, "team", self.router).run()))
        runtime = EngineRuntime(self.clock, {EngineKind.SERVER: ENGINE})
        self.kubelet = Kubelet(api, self.clock, runtime, namespace="team")
        await self.kubelet.start()
        self._closing += [self.kubelet.stop, api.close]

    async def stop(self) -> None:
        await self.kill_controller()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for close in self._closing:
            await close()
        await self.router.stop()
        await self.server.stop()

    async def controller(self) -> None:
        """Start a controller process."""
        connection = await load_connection(str(self._directory / "kubeconfig"))
        client = KubeClient(connection, user_agent="test", field_manager=FIELD_MANAGER)
        recorder = EventRecorder(client, controller=FIELD_MANAGER, instance="one")
        scraper = Scraper(clock=self.clock, timeout_seconds=2.0)
        made = DeploymentController(
            client,
            clock=self.clock,
            scraper=scraper,
            recorder=recorder,
            namespaces=("team",),
            routers=lambda _: [self.router.url],
        )
        self._controller = [asyncio.create_task(informer.run()) for informer in made.informers]
        self._controller.append(asyncio.create_task(recorder.run()))
        for registration in made.registrations:
            await registration.wait_synced()
        self._controller.append(asyncio.create_task(run_workers(made.queue, made.reconcile, 2)))
        for close in (made.close, scraper.close, client.close):
            self._closing.append(close)

    async def kill_controller(self) -> None:
        """End the process at once, wherever it is."""
        for task in self._controller:
            task.cancel()
        await asyncio.gather(*self._controller, return_exceptions=True)
        self._controller = []

    def declare(self, replicas: int) -> None:
        self.server.put(deployment_body([{"name": "server", "replicas": replicas}]), manager="kubectl")

    def scale(self, replicas: int) -> None:
        body = self.server.get(MODEL_DEPLOYMENTS, "chat", "team")
        assert body is not None
        body["spec"]["roles"][0]["replicas"] = replicas
        self.server.put(body, manager="kubectl")

    @property
    def serving(self) -> int:
        """Members that the router would choose."""
        return sum(member.eligible for member in self.router.members)

    @property
    def status(self) -> dict[str, Any]:
        body = self.server.get(MODEL_DEPLOYMENTS, "chat", "team")
        found: dict[str, Any] = (body or {}).get("status") or {}
        return found

    def settled(self, replicas: int) -> bool:
        """So many replicas are there and serve, and nothing is under way."""
        return (
            len(self.server.list(PODS, "team")) == replicas
            and self.serving == replicas
            and not self.status.get("retirement")
        )

    def reasons(self) -> set[str]:
        return {event["reason"] for event in self.server.list(EVENTS, "team")}

    async def until(self, condition: Callable[[], object], what: str) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not condition():
                try:
                    await self.clock.sleep(0.5)
                except asyncio.CancelledError:
                    raise AssertionError(f"never came true: {what}; {self.status}") from None


@asynccontextmanager
async def live(directory: Path) -> AsyncIterator[Live]:
    """A world that is taken down afterwards."""
    made = Live(directory)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
