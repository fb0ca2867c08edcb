"""Gives bindings and finalizers back when no controller runs that would do it: the work of `mdscaler release`.

A scaler that is deleted keeps its finalizer until a controller has released its target. Without one, this does the same
by the same patches: `bound-by` goes, the term stays (an old count write in flight must never fit again), then the
finalizer goes. Counts are not touched, and neither is anything whose binding names another scaler. Every write carries
the resourceVersion of what it was decided from; where somebody was faster, it is looked at again. Doing it twice does
nothing the second time. Cancelled half-way, the next call does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from controller.api import (
    BINDING_FINALIZER,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    AnnotationProblem,
    BoundBy,
    MdsView,
    ModelDeployment,
    read_bound_by,
)
from controller.kube import Conflict, KubeClient, NotFound, merge_patch
from controller.reconcile.fence import release_patch

# Each one more is a read and a write; who is outrun so often meets somebody who writes without a pause.
_ATTEMPTS = 5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class GivenBack:
    """What was given back for one scaler. `uid` is empty where only its targets remember it."""

    namespace: str
    name: str
    uid: str
    targets: tuple[str, ...]
    finalizer: bool
    gone: bool  # it was being deleted and waited for nothing else

    @property
    def anything(self) -> bool:
        """Something was there to be given back."""
        return bool(self.targets) or self.finalizer


@dataclass(frozen=True, slots=True)
class _Held:
    name: str  # of the holder, as the annotation has it
    targets: list[str]


async def release(client: KubeClient, namespace: str | None, name: str | None) -> list[GivenBack]:
    """Release what a scaler holds, or all of them in a namespace (None: everywhere); also what scalers of that name
    held that are gone. One entry for each, also where there was nothing to do. Raises ApiError."""
    scalers = await _scalers(client, namespace, name)
    targets = (await client.list(MODEL_DEPLOYMENTS, namespace, type_=ModelDeployment)).items
    held: dict[tuple[str, str], _Held] = {}  # by namespace and UID of the holder
    for target in targets:
        bound = read_bound_by(target.metadata)
        if isinstance(bound, BoundBy):
            # By UID alone: a name in an annotation may have been edited.
            entry = held.setdefault((target.metadata.namespace, bound.uid), _Held(bound.name, []))
            entry.targets.append(target.metadata.name)
    given = []
    for scaler in scalers:
        mine = held.pop((scaler.metadata.namespace, scaler.metadata.uid), None)
        given.append(await _give_back(client, scaler, [] if mine is None else mine.targets))
    # What is left belongs to scalers of another name, or to none that there is.
    living = {scaler.metadata.uid for scaler in await _scalers(client, namespace, None)} if held else set()
    for (where, uid), entry in sorted(held.items()):
        if uid not in living and name in (None, entry.name):
            released = [each for each in entry.targets if await _release(client, where, each, uid)]
            given.append(GivenBack(where, entry.name, "", tuple(released), finalizer=False, gone=False))
    return given


async def _scalers(client: KubeClient, namespace: str | None, name: str | None) -> Sequence[MdsView]:
    if name is None:
        return (await client.list(MODEL_DEPLOYMENT_SCALERS, namespace, type_=MdsView)).items
    try:
        return [await client.get(MODEL_DEPLOYMENT_SCALERS, name, namespace, type_=MdsView)]
    except NotFound:
        return []


async def _give_back(client: KubeClient, scaler: MdsView, targets: Sequence[str]) -> GivenBack:
    meta = scaler.metadata
    released = [name for name in targets if await _release(client, meta.namespace, name, meta.uid)]
    finalizer, gone = await _finish(client, scaler)
    return GivenBack(meta.namespace, meta.name, meta.uid, tuple(released), finalizer, gone)


async def _release(client: KubeClient, namespace: str, name: str, holder_uid: str) -> bool:
    """Take `bound-by` away if it still names this holder."""

    async def once() -> bool:
        try:
            target = await client.get(MODEL_DEPLOYMENTS, name, namespace, type_=ModelDeployment)
        except NotFound:
            return False
        bound = read_bound_by(target.metadata)
        if bound is None or isinstance(bound, AnnotationProblem) or bound.uid != holder_uid:
            return False
        patch = merge_patch(release_patch(target.metadata.resource_version))
        await client.patch(MODEL_DEPLOYMENTS, name, patch, namespace)
        return True

    return await _again_when_outrun(once)


async def _finish(client: KubeClient, scaler: MdsView) -> tuple[bool, bool]:
    """Take the finalizer away; whether it was there, and whether the scaler is gone by that."""
    meta = scaler.metadata

    async def once() -> tuple[bool, bool]:
        try:
            live = await client.get(MODEL_DEPLOYMENT_SCALERS, meta.name, meta.namespace, type_=MdsView)
        except NotFound:
            return False, scaler.deleting
        finalizers = live.metadata.finalizers or ()
        if live.metadata.uid != meta.uid or BINDING_FINALIZER not in finalizers:
            return False, False
        remaining = [each for each in finalizers if each != BINDING_FINALIZER]
        patch = merge_patch({"metadata": {"resourceVersion": live.metadata.resource_version, "finalizers": remaining}})
        await client.patch(MODEL_DEPLOYMENT_SCALERS, meta.name, patch, meta.namespace)
        return True, live.deleting and not remaining

    return await _again_when_outrun(once)


async def _again_when_outrun(once: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    for _ in range(_ATTEMPTS - 1):
        try:
            return await once()
        except (Conflict, NotFound):
            continue
    return await once()
