"""Builds a running controller from its settings: who is made of what, and in which order it starts and stops.

Start: endpoints → connection → caches → events → election, whose winner works. Stop is the reverse: the workers end,
the lease is released, then everything they needed goes. A process that loses its lease ends at once.

Two loops work: on scalers, and in standalone mode on the ModelDeployments themselves. What standalone mode needs
is made when the API server has told that it is meant; beside an operator nothing of it is made, run or asked.
"""

from __future__ import annotations

import asyncio
import os

from prometheus_client import CollectorRegistry

from controller.api import (
    FIELD_MANAGER,
    LEASES,
)
from controller.deployment import DeploymentController, Ownership, resolve_mode
from controller.engines import Scraper
from controller.foundation import Clock, ScaledClock, WallClock
from controller.foundation.settings import ClockSettings, ControllerSettings
from controller.kube import (
    Connection,
    ConsistencyStore,
    Elector,
    EventRecorder,
    EventType,
    KubeClient,
    LeadershipLost,
    LeaseLock,
    LeaseTimes,
    Loop,
    ObjectRef,
    WorkQueue,
    load_connection,
    run_loops,
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
from controller.wiring.following import Following, end_all
from controller.wiring.installed import look_at_server

# Of the orderly stop, the share that reconciles under way may use.
_WORK_SHARE = 0.6

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
    """One process' worth of objects. Runs once. `clock`: what decisions are made by instead of the settings' clock."""

    def __init__(
        self,
        settings: ControllerSettings,
        connection: Connection,
        times: LeaseTimes | None,
        version: str,
        clock: Clock | None = None,
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
        self._clock = clock = clock or make_clock(settings.clock)
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
        self._following = Following(self._client, self._life, self._caches)
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
        # It ends before the connection does, or its last requests would look like failures.
        self._recorder: list[asyncio.Task[None]] = []

    def request_stop(self) -> None:
        """Begin an orderly stop, as SIGTERM does."""
        self._life.request_stop()

    async def run(self, *, handle_signals: bool = True) -> int:
        """Start, wait, stop; the exit status."""
        self._register_checks()
        return await self._life.run(
            [
                Component("endpoints", self._endpoints.start, self._endpoints.stop),
                Component("connection", self._look_at_server, self._client.close),
                Component("scraper", stop=self._scraper.close),
                Component("standalone mode", stop=self._close_deployments),
                Component("event loop probe", self._start_probe),
                Component("caches", self._following.start, self._following.stop),
                Component("events", self._start_events, lambda: end_all(self._recorder)),
                Component("election", self._start_election, self._stop_election),
            ],
            handle_signals=handle_signals,
        )

    # ---- start, in this order ----------------------------------------------------------------------------------------

    async def _look_at_server(self) -> None:
        installed = await look_at_server(self._client)
        if installed.foreign_scalers:
            self._reconciler.stay_in_shadow(installed.foreign_scalers)
        self._decide_mode(resolve_mode(self._settings.deployments, installed.target_labels))

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
        self._following.add(deployments)
        self._loops.append(Loop(deployments.queue, deployments.reconcile, workers, metrics))

    async def _start_probe(self) -> None:
        self._life.spawn("event loop probe", self._lag.run())

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

    # ---- health ------------------------------------------------------------------------------------------------------

    def _register_checks(self) -> None:
        self._health.add(Probe.LIVE, "event-loop", self._lag.check)
        self._health.add(Probe.LIVE, "lease", self._check_lease)
        self._health.add(Probe.LIVE, "informers", self._following.check_signs_of_life)
        self._health.add(Probe.READY, "caches", self._following.check_synced)

    def _check_lease(self) -> str | None:
        try:
            if self._elector is not None:
                self._elector.check_health()
        except LeadershipLost as loss:
            return str(loss)
        return None


def make_clock(settings: ClockSettings) -> Clock:
    """The clock that decisions are made by."""
    return WallClock() if settings.factor == 1.0 else ScaledClock(settings.epoch_seconds, settings.factor)
