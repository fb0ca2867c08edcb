"""The caches a controller reads, and which change wakes which scaler.

Our own status events wake nobody: a scaler is woken by a new generation, a deletion, a finalizer or an annotation;
by any change of its target except of its managed fields; and by a Pod whose readiness, place or eligibility changed.
Everything else waits for the interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from catalog import CONFIG_MAP_KEY, CatalogCache, CatalogResult, load_embedded
from controller.api import (
    CONFIG_MAPS,
    INSTANCE_TYPES,
    MODEL_ARTIFACTS,
    MODEL_DEPLOYMENT_APP,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    NAME_LABEL,
    PODS,
    BoundBy,
    ConfigMap,
    InstanceType,
    MdsView,
    ModelArtifact,
    ModelDeployment,
    Pod,
    ScalerSpec,
    read_bound_by,
)
from controller.kube import (
    ConsistencyStore,
    HandlerFunctions,
    Informer,
    KubeClient,
    Priority,
    ReflectorObserver,
    Registration,
    Tombstone,
    WorkQueue,
)
from controller.planning import PriorSources

_BY_TARGET = "target"
_BY_HOLDER = "holder"
_BY_DEPLOYMENT = "deployment"


def _catalog_only(config_map: ConfigMap) -> ConfigMap:
    """Of a ConfigMap only the catalog is kept: the cache must not hold what everybody else stores in theirs."""
    kept = {key: value for key, value in (config_map.data or {}).items() if key == CONFIG_MAP_KEY}
    return msgspec.structs.replace(config_map, data=kept)


class _TargetName(msgspec.Struct):
    name: str = ""


class _TargetOnly(msgspec.Struct):
    target_ref: _TargetName | None = msgspec.field(default=None, name="targetRef")


_target_decoder = msgspec.json.Decoder(_TargetOnly)


class ControllerCaches:
    """Informers of scalers, their targets and the targets' Pods, feeding one work queue."""

    def __init__(
        self, client: KubeClient, namespaces: Sequence[str], queue: WorkQueue, observer: ReflectorObserver
    ) -> None:
        where = list(namespaces) or None
        self._queue = queue
        self.scalers = Informer(
            client,
            MODEL_DEPLOYMENT_SCALERS,
            MdsView,
            namespace=where,
            indexers={_BY_TARGET: _target_key_of},
            observer=observer,
        )
        self.targets = Informer(
            client,
            MODEL_DEPLOYMENTS,
            ModelDeployment,
            namespace=where,
            indexers={_BY_HOLDER: _holder_of},
            observer=observer,
        )
        self.pods = Informer(
            client,
            PODS,
            Pod,
            namespace=where,
            label_selector=f"{NAME_LABEL}={MODEL_DEPLOYMENT_APP}",
            indexers={_BY_DEPLOYMENT: _deployment_key_of},
            observer=observer,
        )
        # Read, never waited for: where a kind is not installed, a prior that needs it is unresolved and says so.
        self.config_maps = Informer(
            client, CONFIG_MAPS, ConfigMap, namespace=where, transform=_catalog_only, observer=observer
        )
        self.artifacts = Informer(client, MODEL_ARTIFACTS, ModelArtifact, namespace=where, observer=observer)
        self.pools = Informer(client, INSTANCE_TYPES, InstanceType, observer=observer)
        self._catalogs = CatalogCache()
        self.registrations: tuple[Registration[MdsView] | Registration[ModelDeployment] | Registration[Pod], ...] = (
            self.scalers.add_handler(HandlerFunctions(self._scaler_added, self._scaler_updated, self._scaler_deleted)),
            self.targets.add_handler(HandlerFunctions(self._target_added, self._target_updated, self._target_deleted)),
            self.pods.add_handler(HandlerFunctions(self._pod_added, self._pod_updated, self._pod_deleted)),
        )

    @property
    def informers(self) -> tuple[Informer[MdsView] | Informer[ModelDeployment] | Informer[Pod], ...]:
        """All of them, in the order in which they are started."""
        return (self.scalers, self.targets, self.pods)

    @property
    def prior_informers(self) -> tuple[Informer[ConfigMap] | Informer[ModelArtifact] | Informer[InstanceType], ...]:
        """Those that only priors need."""
        return (self.config_maps, self.artifacts, self.pools)

    def prior_sources(self, spec: ScalerSpec, target: ModelDeployment) -> PriorSources:
        """What a resolution for this scaler reads. Cheap where no prior is asked for."""
        prior = spec.algorithm.capacity_prior
        namespace = target.metadata.namespace
        if prior is None or prior.catalog_ref is None:
            catalog: CatalogResult = load_embedded()
        else:
            key = f"{namespace}/{prior.catalog_ref.name}"
            found = self.config_maps.store.get(key)
            catalog = self._catalogs.config_map(key, None if found is None else found.data or {})
        reference = target.spec.model.artifact_ref
        pools = {role.pool: self.pools.store.get(role.pool) for role in target.roles}
        return PriorSources(
            catalog=catalog,
            artifact=None if reference is None else self.artifacts.store.get(f"{namespace}/{reference.name}"),
            pools={name: pool for name, pool in pools.items() if pool is not None},
        )

    def register_with(self, consistency: ConsistencyStore) -> None:
        """Let our own writes be waited for."""
        consistency.register(MODEL_DEPLOYMENT_SCALERS, self.scalers.resource_version)
        consistency.register(MODEL_DEPLOYMENTS, self.targets.resource_version)

    def pods_of(self, target: ModelDeployment) -> list[Pod]:
        """Pods whose labels name the target; whether they are its own is for the caller to check."""
        return self.pods.store.by_index(_BY_DEPLOYMENT, target.metadata.key)

    def held_by(self, scaler_uid: str) -> list[ModelDeployment]:
        """The targets that are bound to this scaler, whatever its spec says now."""
        return self.targets.store.by_index(_BY_HOLDER, scaler_uid)

    # ---- wake-ups ----------------------------------------------------------------------------------------------------

    def _scaler_added(self, scaler: MdsView, initial: bool) -> None:
        self._queue.add(scaler.metadata.key, Priority.LOW if initial else Priority.NORMAL)

    def _scaler_updated(self, old: MdsView, new: MdsView) -> None:
        before, after = old.metadata, new.metadata
        if (
            before.generation != after.generation
            or before.deletion_timestamp != after.deletion_timestamp
            or before.annotations != after.annotations
            or before.finalizers != after.finalizers
        ):
            self._queue.add(after.key)

    def _scaler_deleted(self, tombstone: Tombstone[MdsView]) -> None:
        self._queue.add(tombstone.key)
        # The one that waited for this target may take it over now.
        for target in _target_key_of(tombstone.last_known):
            self._wake(target)

    def _target_added(self, target: ModelDeployment, _: bool) -> None:
        self._wake(target.metadata.key)

    def _target_updated(self, old: ModelDeployment, new: ModelDeployment) -> None:
        if (old.spec, old.status, old.metadata.annotations, old.deleting) != (
            new.spec,
            new.status,
            new.metadata.annotations,
            new.deleting,
        ):
            self._wake(new.metadata.key)

    def _target_deleted(self, tombstone: Tombstone[ModelDeployment]) -> None:
        self._wake(tombstone.key)

    def _pod_added(self, pod: Pod, _: bool) -> None:
        self._wake_for(pod)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if _matters(old) != _matters(new):
            self._wake_for(new)

    def _pod_deleted(self, tombstone: Tombstone[Pod]) -> None:
        self._wake_for(tombstone.last_known)

    def _wake_for(self, pod: Pod) -> None:
        for key in _deployment_key_of(pod):
            self._wake(key)

    def _wake(self, target_key: str) -> None:
        for scaler in self.scalers.store.by_index(_BY_TARGET, target_key):
            self._queue.add(scaler.metadata.key)


def _target_key_of(scaler: MdsView) -> Iterator[str]:
    try:
        reference = _target_decoder.decode(scaler.spec).target_ref
    except msgspec.DecodeError:
        return  # an invalid spec has no target; the scaler itself is still reconciled
    if reference is not None and reference.name:
        yield f"{scaler.metadata.namespace}/{reference.name}"


def _holder_of(target: ModelDeployment) -> Iterator[str]:
    bound = read_bound_by(target.metadata)
    if isinstance(bound, BoundBy):
        yield bound.uid


def _deployment_key_of(pod: Pod) -> Iterator[str]:
    if pod.deployment:
        yield f"{pod.metadata.namespace}/{pod.deployment}"


def _matters(pod: Pod) -> tuple[object, ...]:
    return (pod.ready, pod.eligible, pod.scheduled, pod.deleting, pod.status.pod_ip, pod.incarnation)
