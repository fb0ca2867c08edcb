"""The caches a controller reads, and which change wakes which scaler.

Our own status events wake nobody: a scaler is woken by a new generation, a deletion, a finalizer or an annotation;
by any change of its target except of its managed fields; and by a Pod whose readiness, place or eligibility changed.
Everything else waits for the interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from controller.api import (
    MODEL_DEPLOYMENT_APP,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    NAME_LABEL,
    PODS,
    BoundBy,
    MdsView,
    ModelDeployment,
    Pod,
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
from controller.reconcile.targets import TargetView

_BY_TARGET = "target"
_BY_HOLDER = "holder"
_BY_DEPLOYMENT = "deployment"


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
            TargetView,
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
        self.registrations: tuple[Registration[MdsView] | Registration[TargetView] | Registration[Pod], ...] = (
            self.scalers.add_handler(HandlerFunctions(self._scaler_added, self._scaler_updated, self._scaler_deleted)),
            self.targets.add_handler(HandlerFunctions(self._target_added, self._target_updated, self._target_deleted)),
            self.pods.add_handler(HandlerFunctions(self._pod_added, self._pod_updated, self._pod_deleted)),
        )

    @property
    def informers(self) -> tuple[Informer[MdsView] | Informer[TargetView] | Informer[Pod], ...]:
        """All of them, in the order in which they are started."""
        return (self.scalers, self.targets, self.pods)

    def register_with(self, consistency: ConsistencyStore) -> None:
        """Let our own writes be waited for."""
        consistency.register(MODEL_DEPLOYMENT_SCALERS, self.scalers.resource_version)
        consistency.register(MODEL_DEPLOYMENTS, self.targets.resource_version)

    def pods_of(self, target: ModelDeployment) -> list[Pod]:
        """Pods whose labels name the target; whether they are its own is for the caller to check."""
        return self.pods.store.by_index(_BY_DEPLOYMENT, target.metadata.key)

    def held_by(self, scaler_uid: str) -> list[ModelDeployment]:
        """The targets that are bound to this scaler, whatever its spec says now."""
        return [view.target for view in self.targets.store.by_index(_BY_HOLDER, scaler_uid)]

    def target(self, key: str) -> ModelDeployment | None:
        """A target in the cache, None where there is none."""
        view = self.targets.store.get(key)
        return None if view is None else view.target

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

    def _target_added(self, target: TargetView, _: bool) -> None:
        self._wake(target.metadata.key)

    def _target_updated(self, old: TargetView, new: TargetView) -> None:
        if _of_interest(old.target) != _of_interest(new.target):
            self._wake(new.metadata.key)

    def _target_deleted(self, tombstone: Tombstone[TargetView]) -> None:
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


def _holder_of(view: TargetView) -> Iterator[str]:
    bound = read_bound_by(view.metadata)
    if isinstance(bound, BoundBy):
        yield bound.uid


def _deployment_key_of(pod: Pod) -> Iterator[str]:
    if pod.deployment:
        yield f"{pod.metadata.namespace}/{pod.deployment}"


def _of_interest(target: ModelDeployment) -> tuple[object, ...]:
    return (target.spec, target.status, target.malformed, target.metadata.annotations, target.deleting)


def _matters(pod: Pod) -> tuple[object, ...]:
    return (pod.ready, pod.eligible, pod.scheduled, pod.deleting, pod.status.pod_ip, pod.incarnation)
