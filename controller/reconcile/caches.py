"""The caches a controller reads, and which change wakes which scaler.

Our own status events wake nobody: a scaler is woken by a new generation, a deletion, a finalizer or an annotation;
by any change of its target except of its managed fields; by a Pod whose readiness, place or eligibility changed; and by
what its priors are resolved from (`prior_caches`).
Everything else waits for the interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from controller.api import (
    MODEL_DEPLOYMENT_APP,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    NAME_LABEL,
    POD_ANNOTATION_PREFIXES,
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
    lean,
)
from controller.planning import PriorSources
from controller.reconcile.prior_caches import PriorCaches

_BY_TARGET = "target"
_BY_ASKING = "target of a scaler that asks for a prior"
_BY_CATALOG = "catalog"
_BY_HOLDER = "holder"
_BY_ARTIFACT = "artifact"
_BY_POOL = "pool"
_BY_DEPLOYMENT = "deployment"


class _Reference(msgspec.Struct):
    name: str = ""


class _Prior(msgspec.Struct, rename="camel"):
    catalog_ref: _Reference | None = None


class _Algorithm(msgspec.Struct, rename="camel"):
    capacity_prior: _Prior | None = None


class _Target(msgspec.Struct, rename="camel"):
    target_ref: _Reference | None = None


class _References(_Target, rename="camel"):
    """What a scaler's spec refers to, read from a spec that nobody has checked yet."""

    algorithm: _Algorithm | None = None


_references_decoder = msgspec.json.Decoder(_References)
_target_decoder = msgspec.json.Decoder(_Target)  # for a spec whose algorithm is damaged


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
            indexers={_BY_TARGET: _target_key_of, _BY_CATALOG: _catalog_key_of, _BY_ASKING: _target_key_of_asking},
            observer=observer,
        )
        self.targets = Informer(
            client,
            MODEL_DEPLOYMENTS,
            ModelDeployment,
            namespace=where,
            indexers={_BY_HOLDER: _holder_of, _BY_ARTIFACT: _artifact_key_of, _BY_POOL: _pools_of},
            observer=observer,
        )
        self.pods = Informer(
            client,
            PODS,
            Pod,
            namespace=where,
            label_selector=f"{NAME_LABEL}={MODEL_DEPLOYMENT_APP}",
            transform=lean(annotations=POD_ANNOTATION_PREFIXES),
            indexers={_BY_DEPLOYMENT: _deployment_key_of},
            observer=observer,
        )
        self.priors = PriorCaches(
            client,
            where,
            observer,
            catalog_changed=lambda key: self._wake_scalers(self.scalers.store.by_index(_BY_CATALOG, key)),
            artifact_changed=lambda key: self._wake_asking(self.targets.store.by_index(_BY_ARTIFACT, key)),
            pool_changed=lambda name: self._wake_asking(self.targets.store.by_index(_BY_POOL, name)),
            nodes_changed=queue.add,
        )
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
        """Those that only priors need, and that are followed from the start."""
        return self.priors.followed

    @property
    def pools(self) -> Informer[InstanceType]:
        """The pools that roles take their Pods from."""
        return self.priors.pools

    def prior_inputs(self, spec: ScalerSpec, target: ModelDeployment) -> tuple[object, ...]:
        """What `prior_sources` would rest on now, to be compared with what it was."""
        return self.priors.inputs(spec, target, self._pods_for_priors(spec, target))

    def prior_sources(self, key: str, spec: ScalerSpec, target: ModelDeployment) -> PriorSources:
        """What a resolution for the scaler `key` reads."""
        return self.priors.sources(key, spec, target, self._pods_for_priors(spec, target))

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

    def _pods_for_priors(self, spec: ScalerSpec, target: ModelDeployment) -> list[Pod]:
        return [] if spec.algorithm.capacity_prior is None else self.pods_of(target)

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
        self.priors.forget(tombstone.key)
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
        self._wake_scalers(self.scalers.store.by_index(_BY_TARGET, target_key))

    def _wake_asking(self, targets: Iterable[ModelDeployment]) -> None:
        for target in targets:
            self._wake_scalers(self.scalers.store.by_index(_BY_ASKING, target.metadata.key))

    def _wake_scalers(self, scalers: Iterable[MdsView]) -> None:
        for scaler in scalers:
            self._queue.add(scaler.metadata.key)


def _target_key_of(scaler: MdsView) -> Iterator[str]:
    reference = _references_of(scaler).target_ref
    if reference is not None and reference.name:
        yield f"{scaler.metadata.namespace}/{reference.name}"


def _target_key_of_asking(scaler: MdsView) -> Iterator[str]:
    """The target of a scaler that asks for a prior."""
    algorithm = _references_of(scaler).algorithm
    if algorithm is not None and algorithm.capacity_prior is not None:
        yield from _target_key_of(scaler)


def _catalog_key_of(scaler: MdsView) -> Iterator[str]:
    algorithm = _references_of(scaler).algorithm
    prior = None if algorithm is None else algorithm.capacity_prior
    if prior is not None and prior.catalog_ref is not None and prior.catalog_ref.name:
        yield f"{scaler.metadata.namespace}/{prior.catalog_ref.name}"


def _references_of(scaler: MdsView) -> _References:
    try:
        return _references_decoder.decode(scaler.spec)
    except msgspec.DecodeError:
        pass
    try:
        return _References(target_ref=_target_decoder.decode(scaler.spec).target_ref)
    except msgspec.DecodeError:
        return _References()  # an invalid spec refers to nothing; the scaler itself is still reconciled


def _holder_of(target: ModelDeployment) -> Iterator[str]:
    bound = read_bound_by(target.metadata)
    if isinstance(bound, BoundBy):
        yield bound.uid


def _artifact_key_of(target: ModelDeployment) -> Iterator[str]:
    reference = target.spec.model.artifact_ref
    if reference is not None and reference.name:
        yield f"{target.metadata.namespace}/{reference.name}"


def _pools_of(target: ModelDeployment) -> Iterator[str]:
    yield from {role.pool for role in target.roles if role.pool}


def _deployment_key_of(pod: Pod) -> Iterator[str]:
    if pod.deployment:
        yield f"{pod.metadata.namespace}/{pod.deployment}"


def _matters(pod: Pod) -> tuple[object, ...]:
    return (pod.ready, pod.eligible, pod.scheduled, pod.deleting, pod.status.pod_ip, pod.incarnation)
