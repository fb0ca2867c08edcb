"""Writes counts, under the fence and in no other way."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from controller.api import MODEL_DEPLOYMENTS, AnnotationProblem, MdsView, ModelDeployment, read_bound_by, read_term
from controller.kube import ConsistencyStore, Invalid, KubeClient, NotFound
from controller.reconcile.fence import DeclaredCount, Holding, fence_patch


class CommitOutcome(StrEnum):
    """What became of a write."""

    COMMITTED = "committed"
    OVERTAKEN = "overtaken"  # somebody else holds the target now
    MOVED = "moved"  # a count changed under us: the next tick decides anew
    GONE = "gone"  # the target was deleted


class RefusedForAnUnknownReason(Exception):
    """The API server refused the patch although everything it tests still holds."""


class Committer:
    """Count writes of one process."""

    def __init__(self, client: KubeClient, consistency: ConsistencyStore) -> None:
        self._client = client
        self._consistency = consistency

    async def commit(
        self,
        key: str,
        scaler: MdsView,
        target: ModelDeployment,
        holding: Holding,
        wanted: Mapping[str, int],
        written: Mapping[str, int],
    ) -> CommitOutcome:
        """Write `wanted`; `written` are the counts of all the scaler's roles after it.

        Raises ApiError when the write failed for a reason that is not the fence, and RefusedForAnUnknownReason.
        """
        meta = target.metadata
        patch = fence_patch(meta.uid, holding, declared_counts(target), wanted, written)
        try:
            answer = await self._client.patch(
                MODEL_DEPLOYMENTS, meta.name, patch, meta.namespace, type_=ModelDeployment
            )
        except NotFound:
            return CommitOutcome.GONE
        except Invalid as refusal:
            return await self._explain(target, holding, wanted, refusal)
        self._consistency.wrote(
            key, scaler.metadata.uid, MODEL_DEPLOYMENTS, meta.namespace, answer.metadata.resource_version
        )
        return CommitOutcome.COMMITTED

    async def _explain(
        self, target: ModelDeployment, holding: Holding, wanted: Mapping[str, int], refusal: Invalid
    ) -> CommitOutcome:
        """Why the patch was refused: read the object again and compare, for the message says nothing."""
        meta = target.metadata
        try:
            live = await self._client.get(MODEL_DEPLOYMENTS, meta.name, meta.namespace, type_=ModelDeployment)
        except NotFound:
            return CommitOutcome.GONE
        if live.metadata.uid != meta.uid:
            return CommitOutcome.GONE
        bound, term = read_bound_by(live.metadata), read_term(live.metadata)
        if (
            bound is None
            or isinstance(bound, AnnotationProblem)
            or bound.uid != holding.scaler_uid
            or term != holding.term
        ):
            return CommitOutcome.OVERTAKEN
        before = {role.name: (role.index, role.replicas) for role in declared_counts(target)}
        after = {role.name: (role.index, role.replicas) for role in declared_counts(live)}
        if any(before.get(name) != after.get(name) for name in wanted):
            return CommitOutcome.MOVED
        raise RefusedForAnUnknownReason(f"the API server refused the counts {dict(wanted)}: {refusal.message}")


def declared_counts(target: ModelDeployment) -> list[DeclaredCount]:
    """The roles as declared, in order."""
    return [DeclaredCount(index, role.name, role.replicas) for index, role in enumerate(target.roles)]
