"""A whole cluster on loopback with nothing simulated where it counts: vLLM processes, `mdscaler controller` as a process
in managed mode, streaming clients. Played are the kubelet, the API server and the router. Time is real.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from controller.api import (
    INSTANCE_LABEL,
    MODEL_ARTIFACTS,
    MODEL_DEPLOYMENT_APP,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    NAME_LABEL,
    PODS,
    ROUTER_LABEL,
    ROUTER_PORT,
    MetricsEndpoint,
    Pod,
    decode_view,
    render_crds,
)
from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.loopback import LoopbackAddresses
from controller.embedded.membership import Membership
from controller.embedded.router import Router
from controller.foundation import WallClock, format_time
from controller.planning import Record, read_records
from hack.engine import Engine, write_model
from tests.engine.kubelet import Kubelet
from tests.engine.processes import ContainerProcess

Object = dict[str, Any]

NAMESPACE: Final = "team"
NAME: Final = "chat"
MODEL: Final = "example/tiny-llama"
CLAIM: Final = "weights"
# What one engine takes at once; the rest waits in its queue.
BATCH: Final = 8
# A tiny model is ready within a minute on a core of its own, and in three while another engine is busy beside it.
PATIENCE_SECONDS: Final = 420.0
# The machine is small and shared: one thread an engine, no compilation, little memory.
_ARGUMENTS: Final = (
    "--load-format=dummy",
    "--enforce-eager",
    "--max-model-len=2048",
    f"--max-num-seqs={BATCH}",
    "--enable-prompt-tokens-details",
)
_ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
_ROOT: Final = Path(__file__).resolve().parents[2]


class World:
    """One ModelDeployment `team/chat` with one Server role."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self.clock = WallClock()
        self.directory = directory
        self.server = ApiServer(
            clock=self.clock, create_namespaces=True, garbage_collection=True, history_limit=100_000
        )
        self.router = Router(self.clock)
        addresses = LoopbackAddresses()
        self.kubelet = Kubelet(
            self.server,
            NAMESPACE,
            programs=engine.programs,
            addresses=addresses,
            volumes={CLAIM: directory / CLAIM},
            folder=directory / "pods",
            clock=self.clock,
        )
        self._addresses = addresses
        self._api: ApiClient | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._controller: ContainerProcess | None = None

    async def start(self) -> None:
        """The cluster, without a replica and without a controller."""
        write_model(self.directory / CLAIM / "tiny")
        await self.server.start()
        for crd in render_crds():
            self.server.install_crd(crd)
        self.server.write_kubeconfig(self.directory / "kubeconfig")
        await self._start_router()
        self._api = ApiClient(self.server.url)
        self._tasks.append(asyncio.create_task(Membership(self._api, NAMESPACE, self.router).run()))
        self._tasks.append(asyncio.create_task(self.kubelet.run()))
        self._declare()
        await self.start_controller()

    async def stop(self) -> None:
        """Take everything down."""
        if self._controller is not None:
            await self._controller.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.kubelet.stop()
        if self._api is not None:
            await self._api.close()
        await self.router.stop()
        await self.server.stop()

    async def start_controller(self) -> None:
        """`mdscaler controller` in managed mode, with decision records beside its log."""
        command = [sys.executable, "-m", "controller.cli", "controller", "--deployments", "managed"]
        command += ["--kubeconfig", str(self.directory / "kubeconfig"), "--namespace", NAMESPACE, "--no-leader-elect"]
        command += ["--metrics-bind-address", "0", "--health-bind-address", "0", "--record", str(self.records)]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        log = self.directory / "controller.log"
        self._controller = await ContainerProcess.start(command, environment, self.directory, log)

    # --- what is there ---

    @property
    def records(self) -> Path:
        return self.directory / "records"

    def decisions(self) -> list[Record]:
        """What the scaler saw and decided, oldest first."""
        path = self.records / f"{NAMESPACE}_{NAME}.jsonl"
        if not path.exists():
            return []
        with path.open("rb") as lines:
            return list(read_records(lines, path.name))

    @property
    def target(self) -> Object:
        body = self.server.get(MODEL_DEPLOYMENTS, NAME, NAMESPACE)
        assert body is not None
        return body

    @property
    def scaler_status(self) -> Object:
        body = self.server.get(MODEL_DEPLOYMENT_SCALERS, NAME, NAMESPACE) or {}
        found: Object = body.get("status") or {}
        return found

    def targets(self) -> list[Object]:
        """Every state of the target, oldest first."""
        return [version.object for version in self.server.history(MODEL_DEPLOYMENTS, NAME, NAMESPACE)]

    @property
    def retirement(self) -> Object:
        found: Object = (self.target.get("status") or {}).get("retirement") or {}
        return found

    def engines(self) -> list[Pod]:
        """The Pods with engines."""
        pods = [decode_view(Pod, orjson.dumps(body)) for body in self.server.list(PODS, NAMESPACE)]
        return sorted((pod for pod in pods if pod.router is None), key=lambda pod: pod.metadata.name)

    def endpoint(self, pod: Pod) -> MetricsEndpoint:
        found = pod.metrics_endpoint()
        assert isinstance(found, MetricsEndpoint), found
        return found

    def settled(self, replicas: int) -> bool:
        """So many replicas are there and get requests, and nothing is under way."""
        eligible = sum(member.eligible for member in self.router.members)
        return len(self.engines()) == replicas == eligible and not self.retirement.get("state")

    async def until(self, condition: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> float:
        """Wait until the condition holds; how long that took."""
        start = self.clock.now()
        while not condition():
            for task in self._tasks:
                if task.done():
                    task.result()
            assert self._controller is not None
            if self._controller.ended.done():
                raise AssertionError(f"the controller ended: {_tail(self.directory / 'controller.log')}")
            if self.clock.now() - start > seconds:
                raise AssertionError(f"not within {seconds:g} s: {what}; {self._sight()}")
            await self.clock.sleep(0.1)
        return self.clock.now() - start

    def _sight(self) -> str:
        pods = {pod.metadata.name: (pod.status.phase, pod.ready, pod.eligible, pod.deleting) for pod in self.engines()}
        logs = [_tail(container.log) for container in self.kubelet.containers.values()]
        return f"Pods {pods}, retirement {self.retirement}, logs in {self.directory}: {logs}"

    # --- what a person does ---

    async def at(self, replicas: int) -> float:
        """Bring the count there and wait until it is settled; how long that took."""
        self.scale(replicas)
        return await self.until(lambda: self.settled(replicas), f"{replicas} replicas serve")

    def scale(self, replicas: int) -> None:
        """`kubectl patch`."""
        body = self.target
        if body["spec"]["roles"][0]["replicas"] != replicas:
            body["spec"]["roles"][0]["replicas"] = replicas
            self.server.put(body, manager="kubectl")

    @asynccontextmanager
    async def scaler(self, tokens_per_second: int) -> AsyncIterator[None]:
        """An Active scaler of one or two replicas, of which each is good for so many tokens/s."""
        throughput = {
            "targetTokensPerSecond": str(tokens_per_second),
            "stableWindowSeconds": 30,
            "panicWindowSeconds": 15,
        }
        body = {
            "apiVersion": MODEL_DEPLOYMENT_SCALERS.api_version,
            "kind": "ModelDeploymentScaler",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "targetRef": {"name": NAME},
                "mode": "Active",
                "sampling": {"intervalSeconds": 5},
                "roles": [{"name": "server", "minReplicas": 1, "maxReplicas": 2}],
                "algorithm": {"type": "TokenThroughput", "tokenThroughput": throughput},
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 20}},
            },
        }
        self.server.put(body, manager="kubectl")
        try:
            yield
        finally:
            self.server.delete(MODEL_DEPLOYMENT_SCALERS, NAME, NAMESPACE)
            await self.until(
                lambda: self.server.get(MODEL_DEPLOYMENT_SCALERS, NAME, NAMESPACE) is None, "the scaler lets go"
            )

    def _declare(self) -> None:
        artifact = {
            "apiVersion": MODEL_ARTIFACTS.api_version,
            "kind": "ModelArtifact",
            "metadata": {"name": "tiny", "namespace": NAMESPACE},
            "spec": {"source": {"persistentVolumeClaim": {"claimName": CLAIM, "path": "tiny"}}},
        }
        deployment = {
            "apiVersion": MODEL_DEPLOYMENTS.api_version,
            "kind": "ModelDeployment",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "model": {"name": MODEL, "artifactRef": {"name": "tiny"}},
                "engine": {"name": "vLLM", "version": "0.32.0"},
                "roles": [
                    {
                        "name": "server",
                        "kind": "Server",
                        "replicas": 1,
                        "instanceType": "cpu",
                        "extraArgs": list(_ARGUMENTS),
                        "env": [{"name": name, "value": value} for name, value in _ENVIRONMENT.items()],
                        "terminationGracePeriodSeconds": 60,
                    }
                ],
            },
        }
        for body in (artifact, deployment):
            self.server.put(body, manager="kubectl")

    async def _start_router(self) -> None:
        """The router, and the Pod of the contract by which it is found."""
        host = next(self._addresses)
        await self.router.start(host, ROUTER_PORT)
        labels = {NAME_LABEL: MODEL_DEPLOYMENT_APP, INSTANCE_LABEL: NAME, ROUTER_LABEL: "router"}
        now = format_time(self.clock.now())
        self.server.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{NAME}-router", "namespace": NAMESPACE, "labels": labels},
                "spec": {"nodeName": "node", "containers": [{"name": "router", "image": "router"}]},
                "status": {
                    "phase": "Running",
                    "podIP": host,
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
                },
            },
            manager="kubelet",
        )


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]) if log.exists() else ""


@asynccontextmanager
async def world(engine: Engine, directory: Path) -> AsyncIterator[World]:
    """A world that is taken down afterwards."""
    made = World(engine, directory)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
