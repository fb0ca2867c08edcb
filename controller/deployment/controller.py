"""Standalone mode put together: ModelDeployments become Pods and Services, and replicas go without losing a request.

    deployments = DeploymentController(client, clock=clock, scraper=scraper, recorder=events, …)
    spawn each of deployments.informers' run(); await each of deployments.registrations' wait_synced()
    await run_workers(deployments.queue, deployments.reconcile, count)      # while this process leads
    deployments.queue.shut_down(); await deployments.close()

Only the leader may run its workers: nothing here asks for a lease, the client's write gate does. Whether standalone
mode is on at all is decided before (`resolve_mode`); single deployments of another operator are then left alone by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.api import FIELD_MANAGER, ModelDeployment, Pod
from controller.deployment.burial import Burial
from controller.deployment.caches import AnyInformer, AnyRegistration, DeploymentCaches
from controller.deployment.creating import Creating
from controller.deployment.drain import DrainReader, GaugeSource, HttpGauges
from controller.deployment.evidence import EvidenceCollector
from controller.deployment.exec_gauges import ExecGauges, WithFallback
from controller.deployment.lookups import Lookups
from controller.deployment.observers import DeploymentMetrics, NoMetrics, Recorder
from controller.deployment.reconciler import Caches, DeploymentReconciler
from controller.deployment.reporter import Reporter
from controller.deployment.retiring import Retiring
from controller.deployment.withdrawal import AllOf, EndpointSlices, RouterViews, router_urls
from controller.deployment.writes import Writes
from controller.engines import Scraper
from controller.foundation import Clock
from controller.kube import (
    SILENT,
    ConsistencyStore,
    Informer,
    KubeClient,
    PodExec,
    QueueObserver,
    ReconcileOutcome,
    ReflectorObserver,
    WorkQueue,
)


class DeploymentController:
    """One process' worth of standalone mode.

    namespaces: empty for all. deployments, pods: informers of somebody else to listen to (the selector of `pods` must
    not be narrower than `app.kubernetes.io/name=model-deployment`). routers: where the routers of a deployment are
    asked what they hold; by default those among its Pods. gauges: how engines are read while they drain; by default
    over HTTP with `scraper`, and inside the container where that does not lead there.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock,
        scraper: Scraper,
        recorder: Recorder,
        namespaces: Sequence[str] = (),
        deployments: Informer[ModelDeployment] | None = None,
        pods: Informer[Pod] | None = None,
        metrics: DeploymentMetrics | None = None,
        routers: Callable[[ModelDeployment], Sequence[str]] | None = None,
        gauges: GaugeSource | None = None,
        queue_observer: QueueObserver = SILENT,
        reflector_observer: ReflectorObserver = SILENT,
    ) -> None:
        observed = metrics if metrics is not None else NoMetrics()
        self.queue = WorkQueue(observer=queue_observer)
        # Not shared with other loops: an owner is known by its key, and a scaler often has its target's name.
        consistency = ConsistencyStore()
        self._caches = DeploymentCaches(
            client, namespaces, self.queue, deployments=deployments, pods=pods, observer=reflector_observer
        )
        self._caches.register_with(consistency)
        self._routers = RouterViews(routers or self._router_urls)
        withdrawal = AllOf((EndpointSlices(client), self._routers))
        self._exec = PodExec(client.connection, user_agent=FIELD_MANAGER)
        drain = DrainReader(client, gauges or WithFallback(HttpGauges(scraper), ExecGauges(self._exec)))
        reporter = Reporter(recorder, observed)
        writes = Writes(client, consistency, clock)
        lookups = Lookups(client)
        self._reconciler = DeploymentReconciler(
            caches=Caches(
                self._caches.deployment, self._caches.pods_of, self._caches.services_of, self._caches.slices_of
            ),
            routers=self._routers,
            lookups=lookups,
            retiring=Retiring(EvidenceCollector(client, withdrawal, drain, observed, clock), writes, reporter, clock),
            creating=Creating(lookups, writes, reporter),
            burial=Burial(client, writes),
            writes=writes,
            reporter=reporter,
            consistency=consistency,
            clock=clock,
        )

    @property
    def informers(self) -> tuple[AnyInformer, ...]:
        """Those to be run; shared ones are run by their owner."""
        return self._caches.informers

    @property
    def registrations(self) -> tuple[AnyRegistration, ...]:
        """To be waited for before the workers start."""
        return self._caches.registrations

    async def reconcile(self, key: str) -> ReconcileOutcome:
        """Bring one deployment (`namespace/name`) one step further. Raises ApiError for the queue to back off."""
        return await self._reconciler.reconcile(key)

    async def close(self) -> None:
        """Close the connections of its own. The client and the scraper are their owners'."""
        await self._routers.close()
        await self._exec.close()

    def _router_urls(self, deployment: ModelDeployment) -> list[str]:
        return router_urls(self._caches.pods_of(deployment.metadata.key))
