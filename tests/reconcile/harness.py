"""A small world for the whole loop: the embedded API server, scripted engines, and the real controller against them.

On a virtual-time loop, as all tests of this room but those with processes have it, time passes while everybody waits and
at no other moment: a stable window of 20 s holds the same samples on every machine. On an ordinary loop, which is for
tests that start processes, model time runs by the machine's clock. Either way every wait is for a condition that is
looked at whenever an object changes, and model time runs a hundred times as fast as that of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from controller.api import (
    EVENTS,
    LEASES,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    PODS,
    ScalerStatus,
    find_condition,
    model_deployment_crd,
    parse_status,
    scaler_crd,
)
from controller.embedded.apiserver import ApiServer
from controller.embedded.apiserver.faults import FaultPlan
from controller.embedded.apiserver.storage import Change
from controller.embedded.audit import Audit, audit
from controller.foundation import Clock, ScaledClock, format_time, wall_now
from controller.foundation.settings import ClockSettings, ControllerSettings, DeploymentsMode
from controller.kube import load_connection
from controller.testing import VirtualTimeLoop
from controller.wiring import Controller
from tests.reconcile.scripted_engine import ScriptedEngine

FACTOR = 100.0
EPOCH_SECONDS = 1_800_000_000.0  # of virtual time; whole, so that what is dated in seconds falls alike in every run
TIMEOUT_SECONDS = 120.0  # of the loop's time, and three hours of model time: only what hangs takes so long
# Loopback addresses of this process' own: several test runs may share a machine.
_NETWORK = f"127.{64 + os.getpid() % 128}"
_addresses = itertools.count(os.getpid() * 7 % 50_000)


class LoopClock(ScaledClock):
    """Model time is what has passed on the loop."""

    def now(self) -> float:
        return self.epoch_seconds + self.factor * asyncio.get_running_loop().time()


class World:
    """The API server, what lives in it, and controllers."""

    def __init__(self, directory: Path, *, schemas: bool = True) -> None:
        self._schemas = schemas
        virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        self.epoch = EPOCH_SECONDS if virtual else wall_now()
        self.clock = LoopClock(self.epoch, FACTOR) if virtual else ScaledClock(self.epoch, FACTOR)
        self.server = ApiServer(clock=self.clock, create_namespaces=True)
        self.directory = directory
        self.engines: list[ScriptedEngine] = []
        self._controllers: list[tuple[Controller, asyncio.Task[int]]] = []
        self._changed = asyncio.Event()

    async def start(self) -> None:
        await self.server.start()
        for crd in (scaler_crd(), model_deployment_crd()):
            self.server.install_crd(crd if self._schemas else _without_schema(crd))
        self.server.write_kubeconfig(self.directory / "kubeconfig")
        for resource in (MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, PODS, EVENTS):
            self.server.store.collection((resource.group, resource.plural)).listeners[self] = self._on_change

    async def stop(self) -> None:
        for controller, task in self._controllers:
            controller.request_stop()
            await task
        for engine in self.engines:
            await engine.stop()
        await self.server.stop()

    @property
    def faults(self) -> FaultPlan:
        """What goes wrong on the way to the server."""
        return self.server.faults

    def cut_watches(self) -> None:
        """End every watch that is open."""
        self.server.end_watches()

    def tighten(self) -> None:
        """Check what is written from now on, where nothing was checked before."""
        for crd in (scaler_crd(), model_deployment_crd()):
            self.server.install_crd(crd)

    # ---- objects -----------------------------------------------------------------------------------------------------

    def target(self, name: str = "chat", replicas: int = 1, **status: Any) -> dict[str, Any]:
        return self.server.put(
            {
                "apiVersion": "worker.gpustack.ai/v1alpha1",
                "kind": "ModelDeployment",
                "metadata": {"name": name, "namespace": "team"},
                "spec": {
                    "model": {"name": "m"},
                    "engine": {"name": "vLLM"},
                    "roles": [{"name": "server", "kind": "Server", "replicas": replicas, "instanceType": "h200"}],
                },
                **({"status": status} if status else {}),
            }
        )

    def scaler(self, name: str = "chat", *, target: str = "chat", mode: str = "Active", **spec: Any) -> dict[str, Any]:
        """A TokenThroughput scaler of 1 to 5 replicas of 1,000 tokens/s, with short windows."""
        return self.server.put(
            {
                "apiVersion": "worker.gpustack.ai/v1alpha1",
                "kind": "ModelDeploymentScaler",
                "metadata": {"name": name, "namespace": "team"},
                "spec": {
                    "targetRef": {"name": target},
                    "mode": mode,
                    "sampling": {"intervalSeconds": 5, "pendingTimeoutSeconds": 1200},
                    "roles": [{"name": "server", "minReplicas": 1, "maxReplicas": 5}],
                    "algorithm": {
                        "type": "TokenThroughput",
                        "tokenThroughput": {
                            "targetTokensPerSecond": "1000",
                            "stableWindowSeconds": 20,
                            "panicWindowSeconds": 10,
                        },
                    },
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 20}},
                    **spec,
                },
            }
        )

    async def replica(self, ordinal: int, target: str = "chat", *, ready: bool = True) -> ScriptedEngine:
        """A replica with an engine of its own: Ready, or on a node and loading. An existing one is replaced."""
        engine = await self._engine()
        owner = self.server.get(MODEL_DEPLOYMENTS, target, "team")
        assert owner is not None
        now = format_time(self.clock.now())
        self.server.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{target}-server-{ordinal}",
                    "namespace": "team",
                    "labels": {
                        "app.kubernetes.io/name": "model-deployment",
                        "app.kubernetes.io/instance": target,
                        "app.kubernetes.io/component": "server",
                        "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal),
                        "modeldeployment.gpustack.ai/endpoint-eligible": "true",
                    },
                    "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"},
                    "ownerReferences": [
                        {
                            "apiVersion": "worker.gpustack.ai/v1alpha1",
                            "kind": "ModelDeployment",
                            "name": target,
                            "uid": owner["metadata"]["uid"],
                            "controller": True,
                        }
                    ],
                },
                "spec": {
                    "nodeName": "n",
                    "containers": [{"name": "main", "image": "i", "ports": [{"containerPort": 8000}]}],
                },
                "status": {
                    "phase": "Running",
                    "podIP": engine.address,
                    "conditions": [
                        {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now},
                        {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
                    ],
                },
            }
        )
        return engine

    async def _engine(self) -> ScriptedEngine:
        """An engine at an address that nobody has."""
        while True:
            number = next(_addresses)
            engine = ScriptedEngine(self.clock, f"{_NETWORK}.{number // 250 % 250}.{number % 250 + 1}")
            try:
                await engine.start()
            except OSError as taken:
                await engine.stop()
                if taken.errno != errno.EADDRINUSE:
                    raise
            else:
                self.engines.append(engine)
                return engine

    async def loaded(self, name: str = "chat") -> ScriptedEngine:
        """A target of one Ready replica that serves 2,400 tokens/s, and a scaler that will want three."""
        self.target(name)
        engine = await self.replica(0, name)
        engine.load(1800, 600)
        self.scaler(name, target=name)
        return engine

    def edit(
        self, resource: Any, name: str, change: Callable[[dict[str, Any]], None], manager: str = "kubectl"
    ) -> None:
        """Change an object as another client would."""
        obj = self.server.get(resource, name, "team")
        assert obj is not None
        change(obj)
        self.server.put(obj, manager=manager)

    # ---- what there is -----------------------------------------------------------------------------------------------

    def count(self, name: str = "chat") -> int:
        obj = self.server.get(MODEL_DEPLOYMENTS, name, "team")
        assert obj is not None
        replicas: int = obj["spec"]["roles"][0]["replicas"]
        return replicas

    def counts(self, name: str = "chat") -> list[int]:
        """Every count the target ever had, without repetitions."""
        seen = [
            version.object["spec"]["roles"][0]["replicas"]
            for version in self.server.history(MODEL_DEPLOYMENTS, name, "team")
        ]
        return [count for count, _ in itertools.groupby(seen)]

    def states(self, name: str = "chat") -> list[dict[str, Any]]:
        """Every stored state of a target, oldest first, with the last one of a deleted target left out."""
        versions = self.server.history(MODEL_DEPLOYMENTS, name, "team")
        return [version.object for version in versions if version.change is not Change.DELETED]

    def audit(self, name: str = "chat") -> Audit:
        """At most one scaler at a time wrote counts, and only under the fence; no term ever fell."""
        found = audit(self.states(name))
        assert not found.problems
        assert found.effective_writers <= 1
        return found

    def annotations(self, name: str = "chat") -> dict[str, str]:
        obj = self.server.get(MODEL_DEPLOYMENTS, name, "team")
        assert obj is not None
        annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
        return {key.removeprefix("scaling.worker.gpustack.ai/"): value for key, value in annotations.items()}

    def lease_holder(self, name: str = "model-deployment-scaler") -> str:
        lease = self.server.get(LEASES, name, "team")
        return "" if lease is None else str((lease.get("spec") or {}).get("holderIdentity") or "")

    def status(self, name: str = "chat") -> ScalerStatus:
        obj = self.server.get(MODEL_DEPLOYMENT_SCALERS, name, "team")
        return parse_status((obj or {}).get("status"))[0]

    def reason(self, type_: str, name: str = "chat") -> str:
        condition = find_condition(self.status(name).conditions, type_)
        return "" if condition is None else condition.reason

    def event_reasons(self) -> set[str]:
        return {event["reason"] for event in self.server.list(EVENTS, "team")}

    def answers(self, verb: str, resource: str, agent: str = "") -> list[int]:
        """The HTTP status of each such request, in the order of the answers."""
        return [
            record.status
            for record in self.server.requests
            if (record.info.verb, record.info.resource) == (verb, resource) and record.info.user_agent.startswith(agent)
        ]

    # ---- time --------------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until the condition holds; it is looked at whenever an object changes, and now and then."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not condition():
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.05):
                            await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"never came true: {what}; status {self.status()}") from None

    async def quiet(self, seconds: float) -> None:
        """Let this much model time pass, for what must not happen in it."""
        await self.clock.sleep(seconds)

    async def ticks(self, number: int, name: str = "chat") -> None:
        """Wait for this many decisions of a scaler from now on, as its records tell."""
        path = self.directory / "records" / f"team_{name}.jsonl"

        def lines() -> int:
            return path.read_bytes().count(b"\n") if path.exists() else 0

        goal = lines() + number
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while lines() < goal:
                await self.clock.sleep(2.5)

    def _on_change(self, _: object) -> None:
        self._changed.set()

    # ---- controllers -------------------------------------------------------------------------------------------------

    async def controller(
        self,
        identity: str = "first",
        namespaces: tuple[str, ...] = ("team",),
        *,
        scrape_timeout_seconds: float = 0.1,
        health_address: tuple[str, int] | None = None,
        clock: Clock | None = None,
    ) -> Controller:
        """Start a controller of its own, without leader election; it has the clock of the world, or another one."""
        settings = ControllerSettings(
            identity=identity,
            kubeconfig=str(self.directory / "kubeconfig"),
            namespaces=namespaces,
            leader_election=None,
            metrics_address=None,
            health_address=health_address,
            clock=ClockSettings(self.epoch, FACTOR),
            deployments=DeploymentsMode.EXTERNAL,  # the world plays the operator
            record_directory=self.directory / "records",
            scrape_timeout_seconds=scrape_timeout_seconds,
            grace_seconds=5.0,
        )
        # The identity stands in the user agent, so that a fault can be meant for one of several controllers.
        controller = Controller(
            settings, await load_connection(settings.kubeconfig), None, identity, clock or self.clock
        )
        task = asyncio.create_task(controller.run(handle_signals=False))
        self._controllers.append((controller, task))
        return controller

    async def stop_controller(self, controller: Controller) -> int:
        """Stop one in order; its exit status."""
        entry = next(entry for entry in self._controllers if entry[0] is controller)
        self._controllers.remove(entry)
        controller.request_stop()
        return await entry[1]


def _without_schema(crd: dict[str, Any]) -> dict[str, Any]:
    """The CRD with every check switched off: objects are stored as they come."""
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return crd


@asynccontextmanager
async def world(directory: Path, *, schemas: bool = True) -> AsyncIterator[World]:
    """A world that is taken down afterwards; without `schemas` the server takes objects as they come."""
    made = World(directory, schemas=schemas)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
