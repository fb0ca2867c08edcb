"""The embedded world: everything around the controller, in one process and on loopback.

An API server with the kinds of this project and a ModelDeployment `chat`, a kubelet that runs an engine server for
every Pod, a router in front of them that is a Pod of the deployment itself, and open-loop clients that replay a trace
through the router. The controller is not part of it: the caller starts it, as a process of its own, with the kubeconfig
that `write_kubeconfig` writes and a clock of the same (epoch, factor). It makes the Pods and takes them away.

    world = World(config, clock)
    await world.start()          # everything answers; the ModelDeployment has no Pod yet
    world.write_kubeconfig(path) # … and start a controller
    await world.wait_ready()     # its first replicas serve
    results = await world.run()  # the traffic, to its last answer
    await world.stop()

`snapshot` may be called at any time after `start`. `run` raises what made a part of the world fail; cancelling it
abandons the requests in flight. `stop` is always safe. Every time is model time of the injected clock.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.census import Census, RoleCounts
from controller.embedded.clients import OpenLoopClients
from controller.embedded.containers import EngineRuntime, Runtime
from controller.embedded.contract import MODEL_DEPLOYMENTS, PODS
from controller.embedded.engine import (
    DEFAULT_MAX_MODEL_LEN,
    EngineConfig,
    EngineKind,
)
from controller.embedded.httpserver import AddressInUse, HttpServer
from controller.embedded.kubelet import Kubelet
from controller.embedded.loopback import Listener, LoopbackAddresses
from controller.embedded.manifests import RoleManifest, model_deployment_manifest, namespace_manifest
from controller.embedded.measures import Distribution
from controller.embedded.membership import Membership
from controller.embedded.pace import patience_seconds
from controller.embedded.pods import router_pod, router_status
from controller.embedded.recorder import Recorder
from controller.embedded.results import WorldResults, WorldSnapshot
from controller.embedded.router import Router
from controller.embedded.world_config import WorldConfig
from controller.foundation import Clock, OperationFailed
from controller.plant import Arrival, arrivals

_PORTS_TRIED = 16
# Model time, from the last request to the last answer.
_DRAIN_SECONDS = 600.0
# Versions of each kind that the API server keeps: all of an hour's, so that its history proves what it should.
_HISTORY = 20_000
_ROUTER = "llm-d-router"


class World:
    """One world; use it once."""

    def __init__(
        self,
        config: WorldConfig,
        clock: Clock,
        *,
        runtime: Callable[[Mapping[EngineKind, EngineConfig]], Runtime] | None = None,
    ) -> None:
        """`runtime` makes what runs the Pods, from the engines of the roles; by default engine servers."""
        self._config = config
        self._clock = clock
        self._runtime = runtime
        self._addresses = LoopbackAddresses()
        self.api = ApiServer(clock=clock, history_limit=_HISTORY)
        self.router = Router(
            clock,
            hold_seconds=patience_seconds(clock, config.hold_seconds),
            membership_delay_seconds=config.membership_delay_seconds,
            leave_delay_seconds=config.leave_delay_seconds,
        )
        self._client: ApiClient | None = None
        self._kubelet: Kubelet | None = None
        self._census: Census | None = None
        self._followers: asyncio.Task[None] | None = None
        self._recorder: Recorder | None = None

    @property
    def kubelet(self) -> Kubelet:
        """What runs the Pods; only after `start`."""
        if self._kubelet is None:
            raise OperationFailed("the embedded world has not been started")
        return self._kubelet

    @property
    def census(self) -> Census:
        """What counts the replicas; only after `start`."""
        if self._census is None:
            raise OperationFailed("the embedded world has not been started")
        return self._census

    async def start(self) -> None:
        """Build everything. Raises OperationFailed; then call `stop`."""
        config = self._config
        await self.api.start(config.api_host, config.api_port)
        for crd in config.crds:
            self.api.install_crd(dict(crd))
        engine_port = await self._engine_port()
        self.api.put(namespace_manifest(config.namespace))
        self.api.put(self._deployment(engine_port))
        for obj in config.objects:
            metadata = {"namespace": config.namespace, **obj.get("metadata", {})}
            self.api.put({**obj, "metadata": metadata})
        self._client = client = ApiClient(self.api.url)
        await self._start_router(client)
        engines = {
            role.kind: EngineConfig(
                model_name=config.model_name,
                service=role.service,
                max_num_seqs=role.max_num_seqs,
                max_model_len=max(DEFAULT_MAX_MODEL_LEN, self._longest_request()),
                startup_seconds=config.startup_seconds,
                frame_tokens=config.frame_tokens,
            )
            for role in config.roles
        }
        self._kubelet = Kubelet(
            client,
            self._clock,
            EngineRuntime(self._clock, engines) if self._runtime is None else self._runtime(engines),
            namespace=config.namespace,
            addresses=self._addresses,
            quota=config.quota,
        )
        self._census = Census(client, self._clock, config.namespace, config.deployment)
        membership = Membership(client, config.namespace, self.router, config.deployment)
        self._followers = asyncio.create_task(_together(self._census.run(), membership.run()), name="followers")
        await self._kubelet.start()

    async def wait_ready(self) -> None:
        """Wait until the first replicas serve: a controller has to run. Raises OperationFailed."""
        wanted = {role.name: role.initial_replicas for role in self._config.roles}
        loop = asyncio.get_running_loop()
        startup = self._clock.wall_seconds(self._config.startup_seconds)
        deadline = loop.time() + startup + self._config.patience_wall_seconds
        while True:
            ready = {name: counts.ready for name, counts in self.census.now.roles.items()}
            routed = sum(member.eligible for member in self.router.members)
            if all(ready.get(name, 0) >= count for name, count in wanted.items()) and routed >= sum(wanted.values()):
                return
            if self.kubelet.failure.done():
                self.kubelet.failure.result()
            if loop.time() > deadline:
                raise OperationFailed(
                    f"{sum(wanted.values())} first replicas were not ready in time; the controller's log says why"
                )
            await self._clock.sleep(1.0)

    def write_kubeconfig(self, path: str | os.PathLike[str]) -> Path:
        """Write the kubeconfig by which a controller or kubectl reaches the API server."""
        return self.api.write_kubeconfig(path, namespace=self._config.namespace)

    async def run(self, traffic: Iterable[Arrival] | None = None) -> WorldResults:
        """Replay the trace, or other traffic, and return what came of it."""
        clients = OpenLoopClients(
            self._clock,
            self.router.url,
            self._config.model_name,
            interval_seconds=self._config.interval_seconds,
            media_tokens=self._config.media_tokens,
        )
        self._recorder = recorder = Recorder(self._config, self._clock, self.census, self.kubelet, clients)
        sampler = asyncio.create_task(recorder.sample(), name="sample the world")
        sending = clients.run(
            arrivals(self._config.trace) if traffic is None else traffic,
            drain_seconds=patience_seconds(self._clock, _DRAIN_SECONDS),
        )
        running = asyncio.create_task(sending, name="traffic")
        try:
            await asyncio.wait({running, self.kubelet.failure}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                self.kubelet.failure.result()  # raises what the kubelet failed of
            await running
        finally:
            recorder.end()
            for task in (running, sampler):
                task.cancel()
            await asyncio.gather(running, sampler, return_exceptions=True)
        return self.results()

    async def stop(self) -> None:
        """Stop every part. Idempotent."""
        if self._followers is not None:
            self._followers.cancel()
            await asyncio.gather(self._followers, return_exceptions=True)
            self._followers = None
        if self._kubelet is not None:
            await self._kubelet.stop()
        await self.router.stop()
        if self._client is not None:
            await self._client.close()
        await self.api.stop()

    def snapshot(self) -> WorldSnapshot:
        """The world now."""
        now, counts, recorder = self._clock.now(), self.census.now, self._recorder
        loads = [container.load() for container in self.kubelet.containers.values()]
        clients = recorder.clients if recorder is not None else None
        totals = clients.totals if clients is not None else None
        lag = clients.lag_seconds if clients is not None else 0.0
        sent, sent_seconds = recorder.recent(now - lag) if recorder is not None else ([], 1.0)
        recent, seconds = recorder.recent(now) if recorder is not None else ([], 1.0)
        ttft = Distribution().merge(interval.ttft for interval in recent)
        return WorldSnapshot(
            t_seconds=now - recorder.began_seconds if recorder is not None else -1.0,
            duration_seconds=self._config.trace.duration_seconds,
            demand_tokens_per_second=sum(interval.arrived_tokens for interval in sent) / sent_seconds,
            served_tokens_per_second=sum(interval.served_tokens for interval in recent) / seconds,
            ttft_p50_seconds=ttft.quantile(0.50),
            ttft_p95_seconds=ttft.quantile(0.95),
            replicas={role.name: counts.roles.get(role.name, RoleCounts()) for role in self._config.roles},
            running_requests=sum(load.running for load in loads),
            waiting_requests=sum(load.waiting for load in loads),
            held_requests=self.router.held,
            lag_seconds=lag,
            late_requests=clients.late if clients is not None else 0,
            requests=totals.requests if totals else 0,
            completed=totals.completed if totals else 0,
            lost=totals.lost if totals else 0,
        )

    def results(self) -> WorldResults:
        """What the run showed so far, or in all. Raises OperationFailed before the traffic has begun."""
        if self._recorder is None:
            raise OperationFailed("the embedded world has not run yet")
        return self._recorder.results(self._history())

    def _history(self) -> list[Mapping[str, Any]] | None:
        """Every version of the deployment; None where the API server has dropped the first of them."""
        try:
            versions = self.api.history(MODEL_DEPLOYMENTS, self._config.deployment, self._config.namespace)
        except OperationFailed:
            return None
        return [version.object for version in versions]

    def _deployment(self, port: int) -> dict[str, Any]:
        config = self._config
        return model_deployment_manifest(
            name=config.deployment,
            namespace=config.namespace,
            roles=[
                RoleManifest(
                    name=role.name,
                    replicas=role.initial_replicas,
                    kind=role.kind.value,
                    arguments=_arguments({"max-num-seqs": role.max_num_seqs, **role.flags}),
                    grace_seconds=role.grace_seconds,
                )
                for role in config.roles
            ],
            model_name=config.model_name,
            engine_version=config.engine_version,
            port=port,
        )

    def _longest_request(self) -> int:
        trace = self._config.trace
        return int((trace.prompt_tokens + trace.output_tokens).max()) if len(trace) else 0

    async def _engine_port(self) -> int:
        """The contract's port, or one of the next where something listens on that port on every address."""
        probe = HttpServer(_unused)
        port = await self._listen(probe, self._config.engine_port)
        await probe.stop()
        return port

    async def _start_router(self, client: ApiClient) -> None:
        """Start the router at an address of its own, and show it as a Pod of the deployment."""
        config = self._config
        port = await self._listen(self.router, config.router_port)
        pod = router_pod(config.namespace, config.deployment, _ROUTER, port)
        made = await client.create(PODS, config.namespace, pod)
        status = {"status": router_status(pod, self.router.host, self._clock.now())}
        await client.merge_patch(PODS, config.namespace, made["metadata"]["name"], status, subresource="status")

    async def _listen(self, listener: Listener, first: int) -> int:
        for port in range(first, first + _PORTS_TRIED):
            try:
                await self._addresses.listen(listener, port)
            except AddressInUse:
                continue
            return port
        raise OperationFailed(
            f"ports {first} to {first + _PORTS_TRIED - 1} are all taken on every loopback address; free one of them"
        )


def _arguments(flags: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(word for name, value in flags.items() for word in (f"--{name}", str(value)))


async def _together(*runs: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as group:
        for run in runs:
            group.create_task(run)


async def _unused(_: object) -> Any:
    raise AssertionError("a probe of a port answers nobody")
