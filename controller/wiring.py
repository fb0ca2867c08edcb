"""Builds a running controller from its settings: who is made of what, and in which order it starts and stops.

Start: endpoints → connection → caches → events → election, whose winner works. Stop is the reverse: the workers end,
the lease is released, then everything they needed goes. A process that loses its lease ends at once.

Two loops work: on scalers, and in standalone mode on the ModelDeployments themselves. What standalone mode needs
is made when the API server has told that it is meant; beside an operator nothing of it is made, run or asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from controller.api import (
    CUSTOM_RESOURCE_DEFINITIONS,
    FIELD_MANAGER,
    GROUP,
    LEASES,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    VERSION,
)
from controller.deployment import DeploymentController, Ownership, resolve_mode
from controller.engines import Scraper
from controller.foundation import Clock, OperationFailed, ScaledClock, WallClock
from controller.foundation.settings import ClockSettings, ControllerSettings
from controller.kube import (
    ApiError,
    Connection,
    ConsistencyStore,
    Elector,
    EventRecorder,
    EventType,
    Forbidden,
    Informer,
    KubeClient,
    LeadershipLost,
    LeaseLock,
    LeaseTimes,
    Loop,
    NotFound,
    ObjectRef,
    WorkQueue,
    load_connection,
    run_loops,
    settle,
)
from controller.operations import (
    Component,
    Health,
    KubeMetrics,
    Lifecycle,
    LoopLag,
    ModelDeploymentMetrics,
    OperationsServer,
    Probe,
    ScalerMetrics,
    WorkMetrics,
    get_logger,
    register_build_info,
)
from controller.reconcile import (
    Binder,
    Caches,
    Committer,
    ControllerCaches,
    NoRecords,
    Reconciler,
    RecordDirectory,
    RecordSink,
    Reporter,
    Sampler,
    StatusWriter,
)

# controller-runtime's CacheSyncTimeout: a controller that cannot read its objects for so long says so and is restarted.
CACHE_SYNC_SECONDS = 120.0
# A server that cannot be reached at the start is tried for this long; then a restart with back-off is the better retry.
REACH_SECONDS = 10.0
# No watch, not even a bookmark (one a minute), for so long: the process is blind.
SILENCE_SECONDS = 600.0
# What priors are resolved from is waited for this long, so that none is unresolved only because nothing was read yet. A
# kind that may not be read never comes, and the scalers without priors shall not wait for it.
PRIOR_SYNC_SECONDS = 10.0
# Of the orderly stop, the share that reconciles under way may use.
_WORK_SHARE = 0.6

_SCALER_CRD = "modeldeploymentscalers.worker.gpustack.ai"
_TARGET_CRD = "modeldeployments.worker.gpustack.ai"
# What to do where one of them is missing.
_INSTALL = {
    _SCALER_CRD: "mdscaler crd | kubectl apply --server-side -f -",
    _TARGET_CRD: (
        "an operator of ModelDeployments brings it. Without one this controller runs the replicas itself, with the "
        "definitions of `mdscaler crd --kind all | kubectl apply --server-side -f -`, or `kubectl apply --server-side "
        "-k manifests/crds`"
    ),
}

# What queues and reconciles are called in metrics.
_SCALER_LOOP = "modeldeploymentscaler"
_DEPLOYMENT_LOOP = "modeldeployment"


async def run_controller(settings: ControllerSettings, version: str) -> int:
    """Run until a signal or a failure; returns the exit status. Raises MdscalerError when it cannot start."""
    connection = await load_connection(settings.kubeconfig, settings.context)
    times = None
    if settings.leader_election is not None:
        election = settings.leader_election
        times = LeaseTimes(
            election.lease_duration_seconds, election.renew_deadline_seconds, election.retry_period_seconds
        )
    return await Controller(settings, connection, times, version).run()


class Controller:
    """One process' worth of objects. Runs once."""

    def __init__(
        self, settings: ControllerSettings, connection: Connection, times: LeaseTimes | None, version: str
    ) -> None:
        self._settings = settings
        self._log = get_logger("controller")
        self._life = Lifecycle(grace_seconds=settings.grace_seconds)
        registry = CollectorRegistry()
        register_build_info(registry, version)
        self._kube_metrics = kube_metrics = KubeMetrics(registry)
        self._work_metrics = WorkMetrics(registry)
        self._deployment_metrics = ModelDeploymentMetrics(registry)
        self._health = Health()
        self._lag = LoopLag(registry)
        self._endpoints = OperationsServer(registry, self._health, settings.metrics_address, settings.health_address)
        self._client = KubeClient(
            connection,
            user_agent=f"{FIELD_MANAGER}/{version} (python)",
            field_manager=FIELD_MANAGER,
            observer=kube_metrics,
        )
        self._queue = WorkQueue(observer=self._work_metrics.queue(_SCALER_LOOP))
        self._caches = ControllerCaches(self._client, settings.namespaces, self._queue, kube_metrics)
        self._consistency = ConsistencyStore()
        self._caches.register_with(self._consistency)
        self._events = EventRecorder(
            self._client, controller=FIELD_MANAGER, instance=settings.identity, observer=kube_metrics
        )
        self._clock = clock = make_clock(settings.clock)
        self._scraper = Scraper(
            clock=clock, timeout_seconds=settings.scrape_timeout_seconds, concurrency=settings.scrape_concurrency
        )
        records: RecordSink = NoRecords()
        if settings.record_directory is not None:
            records = RecordDirectory(settings.record_directory)
        metrics = ScalerMetrics(registry)
        self._reconciler = Reconciler(
            caches=Caches(
                self._caches.scalers.store.get,
                self._caches.targets.store.get,
                self._caches.prior_sources,
                self._caches.prior_inputs,
                self._caches.held_by,
            ),
            sampler=Sampler(self._scraper, self._caches.pods_of, self._caches.pools.store.get, metrics, clock),
            binder=Binder(self._client, self._consistency, clock),
            committer=Committer(self._client, self._consistency),
            reporter=Reporter(StatusWriter(self._client, self._consistency), self._events, metrics, clock),
            metrics=metrics,
            records=records,
            consistency=self._consistency,
            clock=clock,
            process=settings.identity,
        )
        scalers = self._work_metrics.reconciles(_SCALER_LOOP, settings.workers)
        self._loops = [Loop(self._queue, self._reconciler.reconcile, settings.workers, scalers)]
        self._deployments: DeploymentController | None = None  # in standalone mode
        self._readers: list[ControllerCaches | DeploymentController] = [self._caches]
        self._elector: Elector | None = None
        if settings.leader_election is not None:
            self._elector = Elector(
                LeaseLock(self._client, settings.leader_election.namespace, settings.leader_election.name),
                identity=settings.identity,
                times=times,
                observer=kube_metrics,
                on_new_leader=self._announce_leader,
            )
            self._client.gate = self._elector.check_write
        self._election: asyncio.Task[None] | None = None
        # They end before the connection does, or their last requests would look like failures.
        self._informers: list[asyncio.Task[None]] = []
        self._recorder: list[asyncio.Task[None]] = []
        self._synced = False

    def request_stop(self) -> None:
        """Begin an orderly stop, as SIGTERM does."""
        self._life.request_stop()

    async def run(self, *, handle_signals: bool = True) -> int:
        """Start, wait, stop; the exit status."""
        self._register_checks()
        return await self._life.run(
            [
                Component("endpoints", self._endpoints.start, self._endpoints.stop),
                Component("connection", self._reach_server, self._client.close),
                Component("scraper", stop=self._scraper.close),
                Component("standalone mode", stop=self._close_deployments),
                Component("event loop probe", self._start_probe),
                Component("caches", self._start_caches, lambda: self._end(self._informers)),
                Component("events", self._start_events, lambda: self._end(self._recorder)),
                Component("election", self._start_election, self._stop_election),
            ],
            handle_signals=handle_signals,
        )

    # ---- start, in this order ----------------------------------------------------------------------------------------

    async def _reach_server(self) -> None:
        try:
            async with asyncio.timeout(REACH_SECONDS):
                answer = orjson.loads(await self._client.request_raw("GET", "/version"))
        except (ApiError, TimeoutError, orjson.JSONDecodeError) as failure:
            what = str(failure) or f"no answer within {REACH_SECONDS:g} s"
            raise OperationFailed(
                f"cannot reach the Kubernetes API at {self._client.connection.server}: {what}"
            ) from None
        version = answer.get("gitVersion") if isinstance(answer, dict) else None
        self._log.info("connected", server=self._client.connection.server, kubernetes=version)
        await self._check_crds()

    async def _check_crds(self) -> None:
        """Both kinds must be served; a scaler CRD that is not ours belongs to another controller of the same
        objects, and a target CRD that is not ours to another operator."""
        for name in (_SCALER_CRD, _TARGET_CRD):
            try:
                crd = await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
            except NotFound:
                raise OperationFailed(
                    f"the CustomResourceDefinition {name} is not installed: {_INSTALL[name]}"
                ) from None
            except Forbidden:
                crd = None
            except ApiError as failure:
                raise OperationFailed(f"cannot read the CustomResourceDefinition {name}: {failure}") from None
            labels = None if crd is None else (crd.get("metadata") or {}).get("labels") or {}
            if name == _TARGET_CRD:
                self._decide_mode(resolve_mode(self._settings.deployments, labels))
            elif (labels or {}).get(MANAGED_BY_LABEL) != MANAGED_BY:
                self._reconciler.stay_in_shadow(
                    f"the CustomResourceDefinition {name} does not carry {MANAGED_BY_LABEL}={MANAGED_BY}: another "
                    "controller may act on these scalers, so nothing is written"
                )
                self._log.warning("staying in Shadow", crd=name, reason="it is not ours, or cannot be read")

    def _decide_mode(self, ownership: Ownership) -> None:
        """Standalone mode is made here, before the caches start: two of them are shared with the scalers' loop."""
        who = "this controller" if ownership.ours else "another operator"
        self._log.info(f"ModelDeployments are turned into Pods by {who}", because=ownership.reason)
        if not ownership.ours:
            return
        workers = self._settings.workers
        self._deployments = deployments = DeploymentController(
            self._client,
            clock=self._clock,
            scraper=self._scraper,
            recorder=self._events,
            namespaces=self._settings.namespaces,
            deployments=self._caches.targets,
            pods=self._caches.pods,
            metrics=self._deployment_metrics,
            queue_observer=self._work_metrics.queue(_DEPLOYMENT_LOOP),
            reflector_observer=self._kube_metrics,
        )
        metrics = self._work_metrics.reconciles(_DEPLOYMENT_LOOP, workers)
        self._readers.append(deployments)
        self._loops.append(Loop(deployments.queue, deployments.reconcile, workers, metrics))

    @property
    def _informers_of_work(self) -> list[Informer[Any]]:
        """Those without which nothing can be decided: waited for at the start, and watched for silence."""
        return [informer for part in self._readers for informer in part.informers]

    async def _start_probe(self) -> None:
        self._life.spawn("event loop probe", self._lag.run())

    async def _start_caches(self) -> None:
        for informer in self._informers_of_work:
            self._informers.append(self._life.spawn(f"informer {informer.resource.plural}", informer.run()))
        try:
            async with asyncio.timeout(CACHE_SYNC_SECONDS):
                for part in self._readers:
                    for registration in part.registrations:
                        await registration.wait_synced()
        except TimeoutError:
            late = [each.resource.plural for each in self._informers_of_work if not each.has_synced]
            raise OperationFailed(
                f"could not read {', '.join(late) or 'all objects'} within {CACHE_SYNC_SECONDS:g} s; the log says why"
            ) from None
        await self._start_prior_caches()
        settle()
        self._synced = True
        self._log.info("caches are synced", scalers=len(self._caches.scalers.store), pods=len(self._caches.pods.store))

    async def _start_prior_caches(self) -> None:
        """Follow what priors are resolved from, as far as this server has it."""
        try:
            answer = orjson.loads(await self._client.request_raw("GET", f"/apis/{GROUP}/{VERSION}"))
        except ApiError as failure:
            raise OperationFailed(f"cannot read the resources of {GROUP}/{VERSION}: {failure}") from None
        served = {resource.get("name") for resource in answer.get("resources") or ()}
        followed = []
        for informer in self._caches.prior_informers:
            resource = informer.resource
            if resource.group == GROUP and resource.plural not in served:
                self._log.info("not installed, so no prior can be inferred from it", kind=resource.kind)
                continue
            self._informers.append(self._life.spawn(f"informer {resource.plural}", informer.run()))
            followed.append(informer)
        self._informers.append(self._life.spawn("informer nodes", self._follow_nodes()))
        try:
            async with asyncio.timeout(PRIOR_SYNC_SECONDS):
                for informer in followed:
                    await informer.wait_synced()
        except TimeoutError:
            late = [informer.resource.plural for informer in followed if not informer.has_synced]
            self._log.warning("not read yet; priors that need it are unresolved until it is", kinds=late)

    async def _follow_nodes(self) -> None:
        """Only once a prior needs the labels of Nodes: most never do, and a large cluster has thousands of them."""
        await self._caches.priors.nodes_wanted.wait()
        self._log.info("following Nodes, because an InstanceType does not say what accelerators it has")
        await self._caches.priors.nodes.run()

    async def _start_events(self) -> None:
        self._recorder.append(self._life.spawn("events", self._events.run()))

    async def _start_election(self) -> None:
        self._election = self._life.spawn("election", self._elect())

    async def _elect(self) -> None:
        if self._elector is None:
            await self._work()
            return
        try:
            await self._elector.run(self._work)
        except LeadershipLost as loss:
            # Whoever leads next may begin any moment: no orderly stop, no last write.
            self._log.error("leadership lost, ending the process at once", reason=str(loss))
            os._exit(1)

    async def _work(self) -> None:
        """Reconcile until the queues are shut down; a cancellation lets the reconciles under way come to their end."""
        self._log.info("working", workers=self._settings.workers, loops=len(self._loops))
        await run_loops(self._loops, _WORK_SHARE * self._settings.grace_seconds)

    async def _close_deployments(self) -> None:
        if self._deployments is not None:
            await self._deployments.close()

    def _announce_leader(self, leader: str) -> None:
        """An event on the Lease, as client-go writes it: `kubectl describe lease` then tells who led since when."""
        election = self._settings.leader_election
        if election is not None and leader == self._settings.identity:
            lease = ObjectRef(LEASES.api_version, LEASES.kind, election.name, election.namespace)
            self._events.event(lease, EventType.NORMAL, "LeaderElection", "Elect", f"{leader} became leader")

    async def _stop_election(self) -> None:
        if self._election is not None:
            self._election.cancel()
            await asyncio.wait({self._election})

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ---- health ------------------------------------------------------------------------------------------------------

    def _register_checks(self) -> None:
        self._health.add(Probe.LIVE, "event-loop", self._lag.check)
        self._health.add(Probe.LIVE, "lease", self._check_lease)
        self._health.add(Probe.LIVE, "informers", self._check_informers)
        self._health.add(Probe.READY, "caches", lambda: None if self._synced else "the caches are not synced yet")

    def _check_lease(self) -> str | None:
        try:
            if self._elector is not None:
                self._elector.check_health()
        except LeadershipLost as loss:
            return str(loss)
        return None

    def _check_informers(self) -> str | None:
        if not self._synced:
            return None  # the start has its own deadline
        silent = {each.resource.plural: each.silent_seconds() for each in self._informers_of_work}
        late = [f"{name} for {seconds:.0f} s" for name, seconds in silent.items() if seconds > SILENCE_SECONDS]
        return f"no sign of life from the watch of {', '.join(late)}" if late else None


def make_clock(settings: ClockSettings) -> Clock:
    """The clock that decisions are made by."""
    return WallClock() if settings.factor == 1.0 else ScaledClock(settings.epoch_seconds, settings.factor)
