"""The whole loop in one namespace of a server: targets, Pods on a Node, scripted engines, and the real controller.

The world plays the operator and the kubelet: for every declared replica of a target there is soon a Ready Pod with an
engine of its own, and the load is spread over the engines. Everything goes through HTTP, and what the server says is
known from watches alone, so that the same cases run on any server. Model time runs fast: an interval of five seconds
passes in a quarter of a second. It passes only as fast as this process and the server keep up, unless controllers run
in processes of their own: those need a clock that can be shared, and their cases must bear a busy machine by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from controller.api import (
    EVENTS,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    ScalerStatus,
    find_condition,
    parse_status,
)
from controller.foundation import Clock, Resource, ScaledClock, format_time, wall_now
from controller.foundation.settings import ControllerSettings, DeploymentsMode, LeaderElectionSettings
from controller.kube import LeaseTimes, load_connection
from controller.wiring import Controller
from tests.cluster.api import MERGE_PATCH, Api, Body
from tests.cluster.objects import NODES, PODS
from tests.reconcile.scripted_engine import ScriptedEngine
from tests.steady_clock import SteadyClock

FACTOR = 20.0
SECONDS = 180.0  # of wall time, for a loaded machine; a passing case needs a few
NODE = "conformance"
BEAT_SECONDS = 5.0
# A steady clock may fall behind the wall clock; what the server writes with its time must not lie in the future.
_LEAD_SECONDS = 600.0
# So much, and so little, that no error of measurement changes what is wanted: for clocks that run on while a machine is
# busy, where a stall between an engine and who reads it is a wrong rate.
FLOOD = (180_000.0, 60_000.0)
TRICKLE = (3.0, 1.0)
# Nobody takes the Lease away from a leader whose process stands still for a while; one that stops gives it back.
ELECTION = LeaderElectionSettings("scaler", "", 120.0, 100.0, 0.3)
_addresses = itertools.count(1)
_PREFIX = "scaling.worker.gpustack.ai/"


@dataclass
class Mirror:
    """What a watch of one kind has told: the objects as they are, and every state there was."""

    objects: dict[str, Body] = field(default_factory=dict)
    history: list[Body] = field(default_factory=list)

    def apply(self, event: Body) -> None:
        obj = event["object"]
        if event["type"] == "DELETED":
            self.objects.pop(obj["metadata"]["name"], None)
        elif event["type"] in ("ADDED", "MODIFIED"):
            self.objects[obj["metadata"]["name"]] = obj
            self.history.append(obj)


class World:
    """A team's namespace."""

    kinds: tuple[Resource, ...] = (MODEL_DEPLOYMENTS, MODEL_DEPLOYMENT_SCALERS, EVENTS)
    deployments = DeploymentsMode.EXTERNAL  # the world plays the operator
    scrape_timeout_seconds = SECONDS

    def __init__(self, api: Api, directory: Path, *, process_factor: float | None = None) -> None:
        """`process_factor`: controllers are processes, and this is how fast the clock runs that they share."""
        self.api = api
        self.directory = directory
        self.epoch = wall_now()
        self.factor = process_factor or FACTOR
        self.steady = SteadyClock(self.epoch + _LEAD_SECONDS, FACTOR, self._answered)
        self.clock: Clock = ScaledClock(self.epoch, process_factor) if process_factor else self.steady
        self.kubeconfig = api.server.kubeconfig(api.namespace)
        self._mirrors = {kind: Mirror() for kind in self.kinds}
        self._followers: list[asyncio.Task[None]] = []
        self._engines: dict[str, ScriptedEngine] = {}  # Pod name → its engine
        self._load = (0.0, 0.0)
        self._controllers: dict[str, tuple[Controller, asyncio.Task[int]]] = {}
        self._changed = asyncio.Event()

    async def start(self) -> None:
        self.steady.start()
        assert (await self.api("POST", NODES.path(), {"metadata": {"name": NODE}})).status in (201, 409)
        await self._beat()
        self._followers = [asyncio.create_task(self._keep_beating())]
        self._followers += [asyncio.create_task(self._follow(kind)) for kind in self._mirrors]
        self._followers.append(asyncio.create_task(self._operate()))

    async def stop(self) -> None:
        try:
            await self._take_down()
        finally:
            await self.steady.stop()

    async def _take_down(self) -> None:
        for name in list(self._controllers):
            await self.stop_controller(name)
        for follower in self._followers:
            follower.cancel()
        ended = await asyncio.gather(*self._followers, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
        for engine in self._engines.values():
            await engine.stop()

    # ---- objects -----------------------------------------------------------------------------------------------------

    async def target(self, name: str = "chat", replicas: int = 1, **spec: Any) -> Body:
        role = {"name": "server", "kind": "Server", "replicas": replicas, "instanceType": "h200"}
        body = {
            "apiVersion": MODEL_DEPLOYMENTS.api_version,
            "kind": "ModelDeployment",
            "metadata": {"name": name},
            "spec": {"model": {"name": "m"}, "engine": {"name": "vLLM"}, "roles": [role], **spec},
        }
        return (await self.api.create(MODEL_DEPLOYMENTS, body, fieldManager="kubectl")).ok()

    async def scaler(
        self, name: str = "chat", *, target: str = "chat", mode: str = "Active", most: int = 5, **spec: Any
    ) -> Body:
        """A TokenThroughput scaler of 1 to `most` replicas of 1,000 tokens/s, with short windows."""
        throughput = {"targetTokensPerSecond": "1000", "stableWindowSeconds": 20, "panicWindowSeconds": 10}
        body = {
            "apiVersion": MODEL_DEPLOYMENT_SCALERS.api_version,
            "kind": "ModelDeploymentScaler",
            "metadata": {"name": name},
            "spec": {
                "targetRef": {"name": target},
                "mode": mode,
                "sampling": {"intervalSeconds": 5, "pendingTimeoutSeconds": 1200},
                "roles": [{"name": "server", "minReplicas": 1, "maxReplicas": most}],
                "algorithm": {"type": "TokenThroughput", "tokenThroughput": throughput},
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 20}},
                **spec,
            },
        }
        return (await self.api.create(MODEL_DEPLOYMENT_SCALERS, body, fieldManager="kubectl")).ok()

    def load(self, prompt_tokens_per_second: float, generation_tokens_per_second: float) -> None:
        """From now on the engines serve this much together."""
        self._load = (prompt_tokens_per_second, generation_tokens_per_second)
        self._balance()

    async def _answered(self) -> None:
        """Returns once the server has answered something."""
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                await self.api("GET", "/version")
                return
            await asyncio.sleep(0.1)  # it is being restarted

    # ---- the operator and the kubelet --------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """The Node is alive: 40 s without a word, and a controller calls all its Pods not Ready."""
        now = format_time(wall_now())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m", "lastHeartbeatTime": now}
        path = NODES.path(None, NODE, "status")
        await self.api("PATCH", path, {"status": {"conditions": [ready]}}, content_type=MERGE_PATCH)

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            with contextlib.suppress(aiohttp.ClientError):
                await self._beat()

    async def _operate(self) -> None:
        while True:
            # A change may be missed while others look, or a write may fail. Not `wait_for`: before Python 3.12 it loses a
            # cancellation that comes together with the change, and the end of the world would wait for ever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._changed.wait()
            try:
                await self._reconcile_pods()
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)  # the server is being restarted
                continue
            await asyncio.sleep(0.02)

    async def _reconcile_pods(self) -> None:
        wanted = {
            f"{name}-server-{ordinal}": (target, ordinal)
            for name, target in self.objects(MODEL_DEPLOYMENTS).items()
            for ordinal in range(replicas(target))
        }
        for name in sorted(set(wanted) - set(self._engines)):
            await self._start_replica(name, *wanted[name])
        for name in sorted(set(self._engines) - set(wanted)):
            if (await self.api.delete(PODS, name, {"gracePeriodSeconds": 0})).status in (200, 404):
                await self._engines.pop(name).stop()
        self._balance()

    def _balance(self) -> None:
        for engine in self._engines.values():
            engine.load(*(rate / len(self._engines) for rate in self._load))

    async def _start_replica(self, name: str, target: Body, ordinal: int) -> None:
        engine = await self._start_engine()
        reference = {
            "apiVersion": MODEL_DEPLOYMENTS.api_version,
            "kind": "ModelDeployment",
            "name": target["metadata"]["name"],
            "uid": target["metadata"]["uid"],
            "controller": True,
        }
        labels = {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": target["metadata"]["name"],
            "app.kubernetes.io/component": "server",
            "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal),
            "modeldeployment.gpustack.ai/endpoint-eligible": "true",
        }
        annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
        container = {"name": "main", "image": "i", "ports": [{"containerPort": 8000}]}
        body = {
            "metadata": {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": [reference]},
            "spec": {"nodeName": NODE, "containers": [container]},
        }
        now = format_time(wall_now())
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("Ready", "PodScheduled")]
        address = {"podIP": engine.address, "podIPs": [{"ip": engine.address}]}
        status = {"status": {"phase": "Running", "conditions": conditions, **address}}
        made = await self.api.create(PODS, body)
        ready = await self.api.patch(PODS, name, status, subresource="status")
        if made.status in (201, 409) and ready.status == 200:
            self._engines[name] = engine
        else:
            await engine.stop()  # tried again with the next change

    async def _start_engine(self) -> ScriptedEngine:
        while True:
            number = next(_addresses)
            engine = ScriptedEngine(self.clock, f"127.78.{number // 250}.{number % 250 + 1}")
            try:
                await engine.start()
            except OSError:
                continue  # another run of the tests has this address
            return engine

    # ---- what there is -----------------------------------------------------------------------------------------------

    def objects(self, kind: Resource) -> dict[str, Body]:
        """All objects of a kind, by name, as the watch has told."""
        return self._mirrors[kind].objects

    def targets(self, name: str = "chat") -> list[Body]:
        """Every state of a target, oldest first."""
        return self.history(MODEL_DEPLOYMENTS, name)

    def count(self, name: str = "chat") -> int:
        return replicas(self.objects(MODEL_DEPLOYMENTS)[name])

    def annotations(self, name: str = "chat") -> dict[str, str]:
        return annotations(self.objects(MODEL_DEPLOYMENTS).get(name, {}))

    def status(self, name: str = "chat") -> ScalerStatus:
        return parse_status(self.objects(MODEL_DEPLOYMENT_SCALERS).get(name, {}).get("status"))[0]

    def reason(self, type_: str, name: str = "chat") -> str:
        condition = find_condition(self.status(name).conditions, type_)
        return "" if condition is None else condition.reason

    def event_reasons(self) -> set[str]:
        return {event["reason"] for event in self.objects(EVENTS).values()}

    def described(self) -> object:
        """Where things stand, for a person who reads why a case failed."""
        return self.status()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until the condition holds; it is looked at whenever an object changes, and now and then."""
        try:
            async with asyncio.timeout(SECONDS):
                while not condition():
                    for _, task in self._controllers.values():
                        assert not task.done(), f"a controller ended: {task}"
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.1):
                            await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"never came true: {what}; status {self.described()}") from None

    async def ticks(self, number: int, name: str = "chat") -> None:
        """Wait for this many decisions of a scaler from now on, as its records tell."""
        path = self.directory / "records" / f"{self.api.namespace}_{name}.jsonl"

        def lines() -> int:
            return path.read_bytes().count(b"\n") if path.exists() else 0

        goal = lines() + number
        async with asyncio.timeout(SECONDS):
            while lines() < goal:
                await asyncio.sleep(0.05)

    async def _follow(self, kind: Resource) -> None:
        """Mirror a collection; after a broken watch everything is told again, and the mirror does not mind."""
        mirror = self._mirrors[kind]
        while True:
            try:
                watch = await self.api.watch(kind)
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)
                continue
            while watch.status == 200:
                try:
                    event = await watch.next(seconds=None)
                except (AssertionError, aiohttp.ClientError):
                    break
                mirror.apply(event)
                self._changed.set()
            await asyncio.sleep(0.1)

    # ---- controllers -------------------------------------------------------------------------------------------------

    async def controller(self, identity: str = "first", *, election: bool = False) -> Controller:
        """Start a controller; several may run, with or without an election among them."""
        election_settings = times = None
        if election:
            election_settings = LeaderElectionSettings(ELECTION.name, self.api.namespace)
            times = LeaseTimes(
                ELECTION.lease_duration_seconds, ELECTION.renew_deadline_seconds, ELECTION.retry_period_seconds
            )
        settings = ControllerSettings(
            identity=identity,
            kubeconfig=str(self.kubeconfig),
            namespaces=(self.api.namespace,),
            leader_election=election_settings,
            metrics_address=None,
            health_address=None,
            deployments=self.deployments,
            record_directory=self.directory / "records",
            scrape_timeout_seconds=self.scrape_timeout_seconds,
            grace_seconds=SECONDS,
        )
        controller = Controller(settings, await load_connection(settings.kubeconfig), times, "test", self.clock)
        self._controllers[identity] = (controller, asyncio.create_task(controller.run(handle_signals=False)))
        return controller

    def history(self, kind: Resource, name: str) -> list[Body]:
        """Every state of an object, oldest first, as the watch has told."""
        return [obj for obj in self._mirrors[kind].history if obj["metadata"]["name"] == name]

    async def stop_controller(self, identity: str) -> int:
        """Stop one in order; its exit status."""
        controller, task = self._controllers.pop(identity)
        controller.request_stop()
        return await task


def replicas(target: Body) -> int:
    """The count of the only role of a target."""
    count: int = target["spec"]["roles"][0]["replicas"]
    return count


def annotations(target: Body) -> dict[str, str]:
    """Our annotations of a target, without their prefix."""
    found = (target.get("metadata") or {}).get("annotations") or {}
    return {key.removeprefix(_PREFIX): value for key, value in found.items()}


@asynccontextmanager
async def world(api: Api, directory: Path, *, process_factor: float | None = None) -> AsyncIterator[World]:
    """A world that is taken down afterwards."""
    made = World(api, directory, process_factor=process_factor)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
