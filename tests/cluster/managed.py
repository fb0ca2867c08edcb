"""Standalone mode in one namespace of a server: Pods that the controller makes, a node that runs engines for them, a
router that is a Pod of the deployment, clients. Everything goes through HTTP, so the same cases run on any server.

Engines listen on loopback. EndpointSlices refuse such addresses, so membership here is the router's.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from controller.api import EVENTS, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, SERVICES
from controller.embedded.apiclient import ApiClient
from controller.embedded.clients import OpenLoopClients
from controller.embedded.containers import EngineRuntime
from controller.embedded.engine import EngineConfig, EngineKind
from controller.embedded.kubelet import Kubelet
from controller.embedded.loopback import LoopbackAddresses
from controller.embedded.membership import Membership
from controller.embedded.pods import router_pod, router_status
from controller.embedded.router import Router
from controller.foundation import format_time, wall_now
from controller.foundation.settings import DeploymentsMode
from controller.plant import Arrival, ServiceTime
from tests.cluster.api import Api, Body
from tests.cluster.objects import NODES, PODS
from tests.cluster.world import ELECTION, FACTOR, SECONDS, World
from tests.steady_clock import SteadyClock

MODEL = "Qwen/Qwen3-8B"
SERVICE = ServiceTime(20_000.0, (1, 8), (0.020, 0.024))
# A request of 400 tokens takes some eight (model) seconds.
REQUEST = (200, 400)
LONG_REQUEST = (200, 4000)
# Of controllers that are processes: a budget of thirty model seconds is fifteen of a busy machine.
PROCESS_FACTOR = 2.0
_ROUTER = "vllm-router"
_ROUTER_NODE = "elsewhere"
# The node lifecycle controller takes a node that is silent for longer for dead, and its Pods for not Ready.
_HEARTBEAT_SECONDS = 10.0


class Standalone(World):
    """A team's namespace without an operator."""

    kinds = (MODEL_DEPLOYMENTS, MODEL_DEPLOYMENT_SCALERS, EVENTS, PODS, SERVICES)
    deployments = DeploymentsMode.AUTO  # the definition carries our label

    def __init__(self, api: Api, directory: Path, *, process_factor: float | None = None) -> None:
        super().__init__(api, directory, process_factor=process_factor)
        self.node = f"node-{api.namespace}"
        # Held, requests stay in flight for as long as a case needs them there.
        self.engine_time = SteadyClock(self.clock.now(), FACTOR)
        self.router = Router(self.clock)
        tls = ssl.create_default_context(cafile=api.server.authority)
        self._client = ApiClient(api.server.url, {"Authorization": f"Bearer {api.server.admin_token}"}, tls=tls)
        engine = EngineConfig(MODEL, SERVICE, startup_seconds=5.0, frame_tokens=8)
        self.kubelet = Kubelet(
            self._client,
            self.clock,
            EngineRuntime(self.engine_time, {EngineKind.SERVER: engine}),
            namespace=api.namespace,
            node=self.node,
        )
        self._traffic: list[asyncio.Task[None]] = []
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> None:
        self.steady.start()
        self.engine_time.start()
        for node in (self.node, _ROUTER_NODE):
            await self._beat(node)
        self._followers = [asyncio.create_task(self._follow(kind)) for kind in self.kinds]
        self._followers.append(asyncio.create_task(self._operate()))
        await LoopbackAddresses().listen(self.router, 8080)
        membership = Membership(self._client, self.api.namespace, self.router)
        self._followers.append(asyncio.create_task(membership.run()))
        await self.kubelet.start()

    async def _take_down(self) -> None:
        for task in self._traffic:
            task.cancel()
        await asyncio.gather(*self._traffic, return_exceptions=True)
        for process in self._processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await super()._take_down()
        await self.kubelet.stop()
        await self.router.stop()
        await self._client.close()
        await self.engine_time.stop()

    async def _operate(self) -> None:
        """Nobody plays the operator; nodes have to be kept alive."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            for node in (self.node, _ROUTER_NODE):
                await self._beat(node)

    async def _beat(self, node: str) -> None:
        now = format_time(wall_now())
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m"}
        condition |= {"lastHeartbeatTime": now, "lastTransitionTime": now}
        status = {"status": {"conditions": [condition]}}
        await self.api("POST", NODES.path(), {"metadata": {"name": node}})
        path = f"{NODES.path()}/{node}/status"
        await self.api("PATCH", path, status, content_type="application/merge-patch+json")

    # ---- what people do ----------------------------------------------------------------------------------------------

    async def declare(self, replicas: int, name: str = "chat", **spec: Any) -> Body:
        """A ModelDeployment with a router in front of it."""
        given = {"model": {"name": MODEL}, "engine": {"name": "vLLM", "version": "0.32.0"}, "router": {"name": _ROUTER}}
        made = await self.target(name, replicas, **{**given, **spec})
        pod = router_pod(self.api.namespace, name, _ROUTER, self.router_port)
        pod["spec"]["nodeName"] = _ROUTER_NODE
        (await self.api.create(PODS, pod)).ok()
        status = {"status": router_status(pod, self.router.host, self.clock.now())}
        (await self.api.patch(PODS, pod["metadata"]["name"], status, subresource="status")).ok()
        return made

    async def scale(self, replicas: int, name: str = "chat") -> None:
        """Set the count of the only role, as a person does."""
        change = [{"op": "replace", "path": "/spec/roles/0/replicas", "value": replicas}]
        kind = "application/json-patch+json"
        (await self.api.patch(MODEL_DEPLOYMENTS, name, change, kind, fieldManager="kubectl")).ok()

    def clients(self, *, every_seconds: float = 2.0, request: tuple[int, int] = REQUEST) -> OpenLoopClients:
        """People who ask through the router from now on, one more each so many (model) seconds."""
        made = OpenLoopClients(self.clock, self.router.url, MODEL)
        arrivals = (Arrival(every_seconds * number, *request) for number in range(1_000_000))
        self._traffic.append(asyncio.create_task(made.run(arrivals)))
        return made

    def ask(
        self, request: tuple[int, int] = LONG_REQUEST, count: int = 1
    ) -> tuple[OpenLoopClients, asyncio.Task[None]]:
        """These requests at once; done when all are answered."""
        made = OpenLoopClients(self.clock, self.router.url, MODEL)
        task = asyncio.create_task(made.run([Arrival(0.0, *request)] * count))
        self._traffic.append(task)
        return made, task

    @property
    def router_port(self) -> int:
        return int(self.router.url.rpartition(":")[2])

    # ---- what there is -----------------------------------------------------------------------------------------------

    def pods(self, name: str = "chat") -> dict[str, Body]:
        """The engine Pods of a deployment, by name."""
        return {key: pod for key, pod in self.objects(PODS).items() if key.startswith(f"{name}-server-")}

    def uid(self, pod: str) -> str:
        return str(self.objects(PODS)[pod]["metadata"]["uid"])

    def described(self) -> object:
        return self.md_status() or super().described()

    def md_status(self, name: str = "chat") -> Body:
        """The status of a ModelDeployment."""
        found: Body = self.objects(MODEL_DEPLOYMENTS).get(name, {}).get("status") or {}
        return found

    def state(self, name: str = "chat") -> str:
        """The state of its retirement, empty without one."""
        return str((self.md_status(name).get("retirement") or {}).get("state", ""))

    def states(self, name: str = "chat") -> list[str]:
        """Every state that its retirement ever had, without repetitions; a cleared one is `-`."""
        seen: list[str] = []
        for target in self.targets(name):
            operation = (target.get("status") or {}).get("retirement")
            state = operation["state"] if operation else "-"
            if not seen or seen[-1] != state:
                seen.append(state)
        return seen

    def serves(self, count: int, name: str = "chat") -> bool:
        """So many replicas are there, the router holds them all, and nothing is under way."""
        roles = self.md_status(name).get("roles") or [{}]
        serving = (roles[0].get("endpoints") or {}).get("serving") or {}
        steady = not self.state(name) and len(self.pods(name)) == count
        return steady and roles[0].get("ready") == count and serving == {"state": "Confirmed", "value": count}

    def running(self) -> int:
        """Requests that the engines hold."""
        return sum(container.load().running for container in self.kubelet.containers.values())

    # ---- processes ---------------------------------------------------------------------------------------------------

    async def process(self, *, tag: str = "process", lease_namespace: str = "") -> asyncio.subprocess.Process:
        """A controller as a process of its own, which can be killed. Its Lease is in this namespace if nothing is said, and
        long, so that no busy machine ends it: delete it for the next one."""
        arguments = [
            *("controller", f"--kubeconfig={self.kubeconfig}", f"--namespace={self.api.namespace}"),
            *(
                f"--lease-namespace={lease_namespace or self.api.namespace}",
                f"--lease-duration={ELECTION.lease_duration_seconds}",
                f"--renew-deadline={ELECTION.renew_deadline_seconds}",
            ),
            *(f"--retry-period={ELECTION.retry_period_seconds}", f"--scrape-timeout={SECONDS}"),
            *("--metrics-bind-address=0", "--health-bind-address=0"),
            *(f"--clock-epoch={self.epoch}", f"--clock-factor={self.factor}"),
        ]
        with (self.directory / f"{tag}.log").open("ab") as log:
            made = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "controller.cli", *arguments, env=os.environ, stdout=log, stderr=log
            )
        self._processes.append(made)
        return made


@asynccontextmanager
async def standalone(api: Api, directory: Path, *, process_factor: float | None = None) -> AsyncIterator[Standalone]:
    """A world that is taken down afterwards."""
    made = Standalone(api, directory, process_factor=process_factor)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


__all__ = ["LONG_REQUEST", "PROCESS_FACTOR", "SECONDS", "Standalone", "standalone"]
