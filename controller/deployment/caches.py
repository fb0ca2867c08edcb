"""The caches this room reads, and which change wakes which deployment.

Informers of ModelDeployments and of their Pods may be shared with the scaler's loop; handlers are told of every change
all the same. A deployment is woken by any change of itself but its managed fields (our own status writes among them:
the pass that follows finds nothing to do), and by its Pods, Services and their EndpointSlices. Whether somebody still
lists a replica that leaves is asked live all the same; so are routers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.api import (
    ENDPOINT_SLICES,
    INSTANCE_LABEL,
    MODEL_DEPLOYMENT_APP,
    MODEL_DEPLOYMENTS,
    NAME_LABEL,
    POD_ANNOTATION_PREFIXES,
    PODS,
    SERVICES,
    ModelDeployment,
    Pod,
)
from controller.deployment.kinds import EndpointSlice, Service
from controller.kube import (
    SILENT,
    ConsistencyStore,
    HandlerFunctions,
    Informer,
    KubeClient,
    Priority,
    ReflectorObserver,
    Registration,
    Tombstone,
    WorkQueue,
    lean,
)

# A name of its own: the Pod informer may be another room's, with indices of its own.
_BY_DEPLOYMENT = "managed-deployment"
_APP_SELECTOR = f"{NAME_LABEL}={MODEL_DEPLOYMENT_APP}"

AnyInformer = Informer[ModelDeployment] | Informer[Pod] | Informer[Service] | Informer[EndpointSlice]
AnyRegistration = (
    Registration[ModelDeployment] | Registration[Pod] | Registration[Service] | Registration[EndpointSlice]
)
_Dependent = Pod | Service | EndpointSlice


class DeploymentCaches:
    """Informers that feed one work queue. `deployments` and `pods`: those of somebody else, who runs them; without
    them this room has its own. `informers` are the ones that are to be run."""

    def __init__(
        self,
        client: KubeClient,
        namespaces: Sequence[str],
        queue: WorkQueue,
        *,
        deployments: Informer[ModelDeployment] | None = None,
        pods: Informer[Pod] | None = None,
        observer: ReflectorObserver = SILENT,
    ) -> None:
        where = list(namespaces) or None
        self._queue = queue
        own: list[AnyInformer] = []
        if deployments is None:
            deployments = Informer(client, MODEL_DEPLOYMENTS, ModelDeployment, namespace=where, observer=observer)
            own.append(deployments)
        if pods is None:
            pods = Informer(
                client,
                PODS,
                Pod,
                namespace=where,
                label_selector=_APP_SELECTOR,
                transform=lean(annotations=POD_ANNOTATION_PREFIXES),
                observer=observer,
            )
            own.append(pods)
        services = Informer(client, SERVICES, Service, namespace=where, label_selector=_APP_SELECTOR, observer=observer)
        # A slice has the labels of its Service.
        slices = Informer(
            client, ENDPOINT_SLICES, EndpointSlice, namespace=where, label_selector=_APP_SELECTOR, observer=observer
        )
        own += (services, slices)
        pods.store.add_index(_BY_DEPLOYMENT, _deployment_key_of)
        services.store.add_index(_BY_DEPLOYMENT, _deployment_key_of)
        slices.store.add_index(_BY_DEPLOYMENT, _deployment_key_of)
        self.deployments, self.pods, self.services, self.slices = deployments, pods, services, slices
        self.informers: tuple[AnyInformer, ...] = tuple(own)
        self.registrations: tuple[AnyRegistration, ...] = (
            deployments.add_handler(
                HandlerFunctions(self._deployment_added, self._deployment_updated, self._deployment_deleted)
            ),
            pods.add_handler(HandlerFunctions(self._added, self._pod_updated, self._deleted)),
            services.add_handler(HandlerFunctions(self._added, self._service_updated, self._deleted)),
            slices.add_handler(HandlerFunctions(self._added, self._slice_updated, self._deleted)),
        )

    def register_with(self, consistency: ConsistencyStore) -> None:
        """Let our own writes be waited for."""
        consistency.register(MODEL_DEPLOYMENTS, self.deployments.resource_version)
        consistency.register(PODS, self.pods.resource_version)
        consistency.register(SERVICES, self.services.resource_version)

    def deployment(self, key: str) -> ModelDeployment | None:
        """The deployment, as the cache has it."""
        return self.deployments.store.get(key)

    def pods_of(self, key: str) -> Sequence[Pod]:
        """Pods whose labels name the deployment; whether they are its own is for the caller to check."""
        return self.pods.store.by_index(_BY_DEPLOYMENT, key)

    def services_of(self, key: str) -> Sequence[Service]:
        """Services whose labels name the deployment, likewise."""
        return self.services.store.by_index(_BY_DEPLOYMENT, key)

    def slices_of(self, key: str) -> Sequence[EndpointSlice]:
        """EndpointSlices of those Services."""
        return self.slices.store.by_index(_BY_DEPLOYMENT, key)

    # ---- wake-ups ----------------------------------------------------------------------------------------------------

    def _deployment_added(self, deployment: ModelDeployment, initial: bool) -> None:
        self._queue.add(deployment.metadata.key, Priority.LOW if initial else Priority.NORMAL)

    def _deployment_updated(self, old: ModelDeployment, new: ModelDeployment) -> None:
        if _matters(old) != _matters(new):
            self._queue.add(new.metadata.key)

    def _deployment_deleted(self, tombstone: Tombstone[ModelDeployment]) -> None:
        self._queue.add(tombstone.key)

    def _added(self, obj: _Dependent, initial: bool) -> None:
        self._wake(obj, Priority.LOW if initial else Priority.NORMAL)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if _pod_matters(old) != _pod_matters(new):
            self._wake(new)

    def _service_updated(self, old: Service, new: Service) -> None:
        if old.spec != new.spec or old.metadata.owner_references != new.metadata.owner_references:
            self._wake(new)

    def _slice_updated(self, old: EndpointSlice, new: EndpointSlice) -> None:
        if old.endpoints != new.endpoints:
            self._wake(new)

    def _deleted(self, tombstone: Tombstone[Pod] | Tombstone[Service] | Tombstone[EndpointSlice]) -> None:
        self._wake(tombstone.last_known)

    def _wake(self, obj: _Dependent, priority: Priority = Priority.NORMAL) -> None:
        for key in _deployment_key_of(obj):
            self._queue.add(key, priority)


def _deployment_key_of(obj: _Dependent) -> Iterator[str]:
    name = obj.metadata.label(INSTANCE_LABEL)
    if name:
        yield f"{obj.metadata.namespace}/{name}"


def _matters(deployment: ModelDeployment) -> tuple[object, ...]:
    meta = deployment.metadata
    return (
        deployment.spec,
        deployment.status,
        deployment.malformed,
        deployment.deleting,
        meta.annotations,
        meta.finalizers,
        deployment.status_writers(),
    )


def _pod_matters(pod: Pod) -> tuple[object, ...]:
    meta = pod.metadata
    return (
        pod.ready,
        pod.finished,
        pod.deleting,
        pod.incarnation,
        pod.status.pod_ip,
        pod.malformed,
        meta.labels,
        meta.annotations,
        meta.owner_references,
    )
