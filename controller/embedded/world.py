"""The embedded world: everything around the controller, in one process and on loopback.

An API server with the kinds of this project and a ModelDeployment `chat`, an operator that runs engine servers for it,
a router in front of them, and open-loop clients that replay a trace through the router. The controller is not part of
it: it is started by the caller, as a process of its own, with the kubeconfig that `write_kubeconfig` writes and a clock
of the same (epoch, factor).

    world = World(config, clock)
    await world.start()          # API server, first replicas; returns when they are Ready
    world.write_kubeconfig(path)
    results = await world.run()  # the traffic, to its last answer
    await world.stop()

`snapshot` may be called at any time after `start`. `run` raises what made a part of the world fail; cancelling it
abandons the requests in flight. `stop` is always safe. Every time is model time of the injected clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from controller.embedded.actuator import Actuator, ReplicaCounts
from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.clients import OpenLoopClients
from controller.embedded.engine import DEFAULT_MAX_MODEL_LEN, DEFAULT_PORT, DEFAULT_STARTUP_SECONDS, EngineConfig
from controller.embedded.httpserver import AddressInUse, HttpServer
from controller.embedded.loopback import LoopbackAddresses
from controller.embedded.manifests import model_deployment_manifest, namespace_manifest
from controller.embedded.measures import Distribution, Interval
from controller.embedded.membership import Membership
from controller.embedded.results import Quantiles, WorldResults, WorldSeries, WorldSnapshot
from controller.embedded.router import Router
from controller.foundation import Clock, OperationFailed
from controller.plant import RequestTrace, ServiceTime, arrivals

# Beyond the start-up of the first replicas; what is not Ready then never will be.
_PATIENCE_SECONDS = 120.0
_PORTS_TRIED = 16
_SNAPSHOT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WorldConfig:
    """What a world is made of. `trace` and `service` fit each other already (`plant.dimension`)."""

    trace: RequestTrace
    service: ServiceTime
    crds: Sequence[Mapping[str, Any]]
    objects: Sequence[Mapping[str, Any]] = ()  # applied last, in order: the scaler, catalogs, instance types
    namespace: str = "demo"
    deployment: str = "chat"
    role: str = "server"
    model_name: str = "Qwen/Qwen3-8B"
    engine_version: str = "0.32.0"
    instance_type: str = "gpustack--nvidia-h200-linux-amd64"
    initial_replicas: int = 1
    max_num_seqs: int = 32
    startup_seconds: float = DEFAULT_STARTUP_SECONDS
    frame_tokens: int = 32
    quota: int | None = None
    interval_seconds: float = 10.0
    api_host: str = "127.0.0.1"
    api_port: int = 0
    engine_port: int = DEFAULT_PORT


@dataclass(slots=True)
class _Course:
    """What the sampler saw at the end of every interval."""

    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    desired: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)


class World:
    """One world; use it once."""

    def __init__(self, config: WorldConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._addresses = LoopbackAddresses()
        self.api = ApiServer(clock=clock)
        self.serving = asyncio.Event()  # the API server answers and has every object; replicas may still be starting
        self.router = Router(clock)
        self._client: ApiClient | None = None
        self._actuator: Actuator | None = None
        self._clients: OpenLoopClients | None = None
        self._membership: asyncio.Task[None] | None = None
        self._course = _Course()
        self._began: float | None = None
        self._ended: float | None = None

    @property
    def actuator(self) -> Actuator:
        """The operator; only after `start`."""
        if self._actuator is None:
            raise OperationFailed("the embedded world has not been started")
        return self._actuator

    async def start(self) -> None:
        """Build everything and wait until the first replicas are Ready. Raises OperationFailed; then call `stop`."""
        config = self._config
        await self.api.start(config.api_host, config.api_port)
        for crd in config.crds:
            self.api.install_crd(dict(crd))
        await self.router.start()
        port = await self._engine_port()
        self.api.put(namespace_manifest(config.namespace))
        self.api.put(self._deployment(port))
        for obj in config.objects:
            metadata = {"namespace": config.namespace, **obj.get("metadata", {})}
            self.api.put({**obj, "metadata": metadata})
        self.serving.set()
        self._client = ApiClient(self.api.url)
        engine = EngineConfig(
            model_name=config.model_name,
            service=config.service,
            max_num_seqs=config.max_num_seqs,
            max_model_len=max(DEFAULT_MAX_MODEL_LEN, self._longest_request()),
            startup_seconds=config.startup_seconds,
            frame_tokens=config.frame_tokens,
        )
        self._actuator = Actuator(
            self._client,
            self._clock,
            self.router,
            namespace=config.namespace,
            engine=engine,
            addresses=self._addresses,
            quota=config.quota,
        )
        membership = Membership(self._client, config.namespace, self.router)
        self._membership = asyncio.create_task(membership.run(), name="router membership")
        await self._actuator.start()
        await self._first_replicas()

    def write_kubeconfig(self, path: str | os.PathLike[str]) -> Path:
        """Write the kubeconfig by which a controller or kubectl reaches the API server."""
        return self.api.write_kubeconfig(path, namespace=self._config.namespace)

    async def run(self) -> WorldResults:
        """Replay the trace and return what came of it."""
        clients = OpenLoopClients(
            self._clock, self.router.url, self._config.model_name, interval_seconds=self._config.interval_seconds
        )
        self._clients = clients
        self._began = self._clock.now()
        sampler = asyncio.create_task(self._sample(self._began), name="sample the world")
        traffic = asyncio.create_task(clients.run(arrivals(self._config.trace)), name="traffic")
        try:
            await asyncio.wait({traffic, self.actuator.failure}, return_when=asyncio.FIRST_COMPLETED)
            if not traffic.done():
                self.actuator.failure.result()  # raises what the operator failed of
            await traffic
        finally:
            self._ended = self._clock.now()
            for task in (traffic, sampler):
                task.cancel()
            await asyncio.gather(traffic, sampler, return_exceptions=True)
        return self.results()

    async def stop(self) -> None:
        """Stop every part. Idempotent."""
        if self._membership is not None:
            self._membership.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._membership
            self._membership = None
        if self._actuator is not None:
            await self._actuator.stop()
        await self.router.stop()
        if self._client is not None:
            await self._client.close()
        await self.api.stop()

    def snapshot(self) -> WorldSnapshot:
        """The world now."""
        now, counts = self._clock.now(), self.actuator.counts
        loads = [engine.load() for engine in self.actuator.engines]
        clients = self._clients
        totals = clients.totals if clients is not None else None
        recent, seconds = self._recent(now)
        ttft = Distribution().merge(interval.ttft for interval in recent)
        return WorldSnapshot(
            t_seconds=now - self._began if self._began is not None else -1.0,
            duration_seconds=self._config.trace.duration_seconds,
            demand_tokens_per_second=sum(interval.arrived_tokens for interval in recent) / seconds,
            served_tokens_per_second=sum(interval.served_tokens for interval in recent) / seconds,
            ttft_p50_seconds=ttft.quantile(0.50),
            ttft_p95_seconds=ttft.quantile(0.95),
            desired_replicas=counts.desired,
            ready_replicas=counts.ready,
            running_requests=sum(load.running for load in loads),
            waiting_requests=sum(load.waiting for load in loads),
            held_requests=self.router.held,
            requests=totals.requests if totals else 0,
            completed=totals.completed if totals else 0,
            lost=totals.lost if totals else 0,
        )

    def results(self) -> WorldResults:
        """What the run showed so far, or in all. Raises OperationFailed before the traffic has begun."""
        clients, began = self._clients, self._began
        if clients is None or began is None:
            raise OperationFailed("the embedded world has not run yet")
        ended = self._ended if self._ended is not None else self._clock.now()
        steps = _steps(self.actuator.timeline, began, ended)
        totals = clients.totals
        return WorldResults(
            duration_seconds=ended - began,
            requests=totals.requests,
            completed=totals.completed,
            lost=totals.lost,
            rejected=totals.rejected,
            abandoned=totals.abandoned,
            tokens=totals.tokens,
            output_tokens=totals.output_tokens,
            ready_replica_seconds=sum(seconds * counts.ready for counts, seconds in steps),
            desired_replica_seconds=sum(seconds * counts.desired for counts, seconds in steps),
            max_ready_replicas=max((counts.ready for counts, _ in steps), default=0),
            max_desired_replicas=max((counts.desired for counts, _ in steps), default=0),
            replica_changes=sum(a.desired != b.desired for (a, _), (b, _) in pairwise(steps)),
            ttft_milliseconds=_quantiles(clients.ttft),
            itl_milliseconds=_quantiles(clients.itl),
            latest_send_seconds=clients.latest_seconds,
            loss_reasons=tuple(clients.losses),
            series=self._series(clients),
        )

    def _series(self, clients: OpenLoopClients) -> WorldSeries:
        width = self._config.interval_seconds
        course = self._course
        # The run may end within an interval that has no sample yet.
        size = min(len(clients.series.intervals), len(course.ready))
        intervals = clients.series.intervals[:size]
        return WorldSeries(
            interval_seconds=width,
            t_seconds=[index * width for index in range(size)],
            demand_tokens_per_second=[interval.arrived_tokens / width for interval in intervals],
            served_tokens_per_second=[interval.served_tokens / width for interval in intervals],
            requests=[interval.requests for interval in intervals],
            lost=[interval.lost for interval in intervals],
            ttft_p50_seconds=[interval.ttft.quantile(0.50) for interval in intervals],
            ttft_p95_seconds=[interval.ttft.quantile(0.95) for interval in intervals],
            itl_p50_seconds=[interval.itl.quantile(0.50) for interval in intervals],
            desired_replicas=course.desired[:size],
            ready_replicas=course.ready[:size],
            running_requests=course.running[:size],
            waiting_requests=course.waiting[:size],
        )

    async def _sample(self, began: float) -> None:
        """Append to the course at the end of every interval, catching up where the machine was slow."""
        width = self._config.interval_seconds
        while True:
            await self._clock.sleep(began + (len(self._course.ready) + 1) * width - self._clock.now())
            loads = [engine.load() for engine in self.actuator.engines]
            counts = self.actuator.counts
            self._course.running.append(sum(load.running for load in loads))
            self._course.waiting.append(sum(load.waiting for load in loads))
            self._course.desired.append(counts.desired)
            self._course.ready.append(counts.ready)

    def _recent(self, now: float) -> tuple[list[Interval], float]:
        """The intervals of about the last minute, the current one included, and how long they have lasted."""
        if self._clients is None or self._began is None:
            return [], 1.0
        width = self._config.interval_seconds
        last = int((now - self._began) / width)
        first = max(0, last - max(1, round(_SNAPSHOT_SECONDS / width)))
        return self._clients.series.intervals[first : last + 1], max(1.0, now - self._began - first * width)

    def _deployment(self, port: int) -> dict[str, Any]:
        config = self._config
        return model_deployment_manifest(
            name=config.deployment,
            namespace=config.namespace,
            role=config.role,
            replicas=config.initial_replicas,
            model_name=config.model_name,
            engine_version=config.engine_version,
            max_num_seqs=config.max_num_seqs,
            port=port,
            instance_type=config.instance_type,
        )

    def _longest_request(self) -> int:
        trace = self._config.trace
        return int((trace.prompt_tokens + trace.output_tokens).max()) if len(trace) else 0

    async def _engine_port(self) -> int:
        """The contract's port, or one of the next where something listens on that port on every address."""
        first = self._config.engine_port
        for port in range(first, first + _PORTS_TRIED):
            probe = HttpServer(_unused)
            try:
                await self._addresses.listen(probe, port)
            except AddressInUse:
                continue
            await probe.stop()
            return port
        raise OperationFailed(
            f"ports {first} to {first + _PORTS_TRIED - 1} are all taken on every loopback address; free one of them"
        )

    async def _first_replicas(self) -> None:
        wanted = self._config.initial_replicas
        deadline = self._clock.now() + self._config.startup_seconds + _PATIENCE_SECONDS
        while min(self.actuator.counts.ready, sum(member.eligible for member in self.router.members)) < wanted:
            if self.actuator.failure.done():
                self.actuator.failure.result()
            if self._clock.now() > deadline:
                raise OperationFailed(f"{wanted} first replicas were not ready in time; the log says why")
            await self._clock.sleep(1.0)


async def _unused(_: object) -> Any:
    raise AssertionError("a probe of a port answers nobody")


def _steps(timeline: Sequence[ReplicaCounts], began: float, ended: float) -> list[tuple[ReplicaCounts, float]]:
    """(counts, how long they held) between two moments."""
    steps = []
    for index, counts in enumerate(timeline):
        start = max(began, counts.t_seconds)
        end = min(ended, timeline[index + 1].t_seconds if index + 1 < len(timeline) else ended)
        if end > start:
            steps.append((counts, end - start))
    return steps


def _quantiles(distribution: Distribution) -> Quantiles:
    def milliseconds(share: float) -> float | None:
        value = distribution.quantile(share)
        return None if value is None else value * 1000

    return Quantiles(milliseconds(0.50), milliseconds(0.95), milliseconds(0.99))
