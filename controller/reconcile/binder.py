"""Holds a target for its scaler: acquire, raise, take over, release. The shell around `binding`.

Every write here is a merge patch with the resourceVersion of what the decision was made from; a conflict means that
somebody was faster, and the next reconcile looks again. No count is ever written here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.api import (
    BINDING_FINALIZER,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    TERM_ANNOTATION,
    AnnotationProblem,
    BoundReason,
    MdsView,
    Mode,
    ModelDeployment,
    read_bound_by,
    read_term,
)
from controller.foundation import Clock
from controller.kube import ConsistencyStore, KubeClient, NotFound, merge_patch
from controller.reconcile.baseline import findable_counts, noted_counts
from controller.reconcile.binding import BindingStep, Claim, Claimant, Holder, Step, next_binding_step
from controller.reconcile.fence import Holding, claim_patch, release_patch
from controller.reconcile.memory import ScalerMemory

# RFC 1123 subdomain: no object's name is longer.
MAX_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class BoundState:
    """The outcome: the holding to write under, or the reason why there is none."""

    holding: Holding | None
    reason: BoundReason
    message: str


class Binder:
    """Binding operations of one process."""

    def __init__(self, client: KubeClient, consistency: ConsistencyStore, clock: Clock) -> None:
        self._client = client
        self._consistency = consistency
        self._clock = clock

    async def hold(
        self, key: str, scaler: MdsView, target: ModelDeployment, memory: ScalerMemory, status_term: int
    ) -> BoundState:
        """Make sure that this process holds the target. Raises Conflict when another writer was faster, NotFound when
        the scaler or the target is gone: a claim for a scaler that is gone would have nobody to give it back."""
        me = claimant_of(scaler)
        claim = claim_of(target)
        step = next_binding_step(me, claim, status_term=status_term, own_term=memory.own_term, deposed=memory.deposed)
        if step.step is Step.ASK:
            holder, other = await self._look_up(scaler, claim)
            step = next_binding_step(
                me,
                claim,
                status_term=status_term,
                own_term=memory.own_term,
                deposed=memory.deposed,
                holder=holder,
                holder_claimant=other,
            )
        match step.step:
            case Step.WAIT:
                memory.own_term = None
                return BoundState(None, BoundReason.HELD_BY_ANOTHER_SCALER, step.message)
            case Step.DEPOSED:
                memory.deposed = True
                return BoundState(None, BoundReason.DEPOSED, step.message)
            case Step.CLAIM:
                # Our own counts stay what others' are compared with, across every process that leads.
                keep = claim.holder_uid == me.uid and claim.noted
                found = None if keep else findable_counts(target)
                await self._claim(key, scaler, target, memory, step, found)
        return BoundState(
            Holding(me.name, me.uid, step.term), BoundReason.ACQUIRED, f"bound under term {memory.own_term}"
        )

    async def release(self, key: str, scaler: MdsView, target: ModelDeployment) -> bool:
        """Give the target back if this scaler holds it; True when something was released. Raises Conflict."""
        bound = read_bound_by(target.metadata)
        if bound is None or isinstance(bound, AnnotationProblem) or bound.uid != scaler.metadata.uid:
            return False
        patch = merge_patch(release_patch(target.metadata.resource_version))
        try:
            answer = await self._client.patch(
                MODEL_DEPLOYMENTS, target.metadata.name, patch, target.metadata.namespace, type_=ModelDeployment
            )
        except NotFound:
            return False
        self._note(key, scaler, answer)
        return True

    async def finish(self, key: str, scaler: MdsView, targets: Iterable[str]) -> None:
        """The scaler is being deleted: give back whichever of these targets it holds, then the finalizer. Re-entrant;
        raises Conflict."""
        meta = scaler.metadata
        finalizers = meta.finalizers or ()
        if BINDING_FINALIZER not in finalizers:
            return
        for name in filter(_nameable, targets):
            with contextlib.suppress(NotFound):
                # A live read: whoever deletes a scaler waits for this, and a stale cache could leave the claim behind.
                target = await self._client.get(MODEL_DEPLOYMENTS, name, meta.namespace, type_=ModelDeployment)
                await self.release(key, scaler, target)
        remaining = [name for name in finalizers if name != BINDING_FINALIZER]
        with contextlib.suppress(NotFound):
            await self._patch_finalizers(scaler, remaining)

    async def _claim(
        self,
        key: str,
        scaler: MdsView,
        target: ModelDeployment,
        memory: ScalerMemory,
        step: BindingStep,
        found: Mapping[str, int] | None,
    ) -> None:
        meta = scaler.metadata
        if BINDING_FINALIZER not in (meta.finalizers or ()):
            # First the promise to clean up, then what has to be cleaned up.
            await self._patch_finalizers(scaler, [*(meta.finalizers or ()), BINDING_FINALIZER])
        holding = Holding(meta.name, meta.uid, step.term)
        patch = merge_patch(claim_patch(target.metadata.resource_version, holding, found=found))
        answer = await self._client.patch(
            MODEL_DEPLOYMENTS, target.metadata.name, patch, target.metadata.namespace, type_=ModelDeployment
        )
        memory.own_term, memory.acquired_time = step.term, self._clock.now()
        self._note(key, scaler, answer)

    async def _patch_finalizers(self, scaler: MdsView, finalizers: list[str]) -> None:
        meta = scaler.metadata
        patch = merge_patch({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}})
        await self._client.patch(MODEL_DEPLOYMENT_SCALERS, meta.name, patch, meta.namespace)

    async def _look_up(self, scaler: MdsView, claim: Claim) -> tuple[Holder, Claimant | None]:
        """Read the holder live: only that can show that it is gone. What can be no object's name holds nothing."""
        if not claim.holder_name or not _nameable(claim.holder_name):
            return Holder.GONE, None
        try:
            other = await self._client.get(
                MODEL_DEPLOYMENT_SCALERS, claim.holder_name, scaler.metadata.namespace, type_=MdsView
            )
        except NotFound:
            return Holder.GONE, None
        if other.metadata.uid != claim.holder_uid:
            return Holder.GONE, None
        spec, _ = other.parse_spec()
        claims = spec is not None and spec.mode is Mode.ACTIVE and not spec.suspend and not other.deleting
        # One that no longer claims will release by itself; until then it keeps the target, whatever its age.
        return Holder.ALIVE, claimant_of(other) if claims else None

    def _note(self, key: str, scaler: MdsView, written: ModelDeployment) -> None:
        meta = written.metadata
        self._consistency.wrote(key, scaler.metadata.uid, MODEL_DEPLOYMENTS, meta.namespace, meta.resource_version)


def claimant_of(scaler: MdsView) -> Claimant:
    """The scaler as a party to the binding."""
    meta = scaler.metadata
    return Claimant(meta.creation_timestamp or "", meta.uid, meta.name)


def claim_of(target: ModelDeployment) -> Claim:
    """The annotations of the target; what cannot be read counts as absent."""
    bound, term = read_bound_by(target.metadata), read_term(target.metadata)
    readable = None if isinstance(bound, AnnotationProblem) else bound
    return Claim(
        holder_name=None if readable is None else readable.name,
        holder_uid=None if readable is None else readable.uid,
        term=term if isinstance(term, int) else 0,
        verbatim=target.metadata.annotation(TERM_ANNOTATION) == str(term),
        noted=noted_counts(target).any or not findable_counts(target),
    )


def _nameable(name: str) -> bool:
    """Whether an object can have this name: it comes from text that a person may have written."""
    try:
        MODEL_DEPLOYMENT_SCALERS.path("any", name)
    except ValueError:
        return False
    return 0 < len(name) <= MAX_NAME_LENGTH
