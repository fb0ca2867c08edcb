"""Writes a scaler's status: one merge patch with the resourceVersion it was made from.

A status in which a higher term stands was written by a process that leads now: it is never overwritten, and this
process is deposed.
"""

from __future__ import annotations

import contextlib
from enum import StrEnum

from controller.api import MODEL_DEPLOYMENT_SCALERS, MdsView, ScalerStatus
from controller.kube import ApiError, Conflict, ConsistencyStore, KubeClient, NotFound, merge_patch
from controller.reconcile.binding import believed
from controller.reconcile.memory import ScalerMemory
from controller.reconcile.report import status_patch


class StatusOutcome(StrEnum):
    """What became of a status write."""

    WRITTEN = "written"
    DEPOSED = "deposed"
    OUTDATED = "outdated"  # the spec changed meanwhile: look again
    CONTENDED = "contended"  # others wrote the object faster, the spec is the same
    FAILED = "failed"  # the API server did not take it
    GONE = "gone"


# Each one more is a read and a write; who is outrun so often meets somebody who writes without a pause.
_ATTEMPTS = 5


class StatusWriter:
    """Status writes of one process."""

    def __init__(self, client: KubeClient, consistency: ConsistencyStore) -> None:
        self._client = client
        self._consistency = consistency

    async def write(self, key: str, scaler: MdsView, status: ScalerStatus, memory: ScalerMemory) -> StatusOutcome:
        """Store `status`. After a conflict or a failure the live object is looked at; a changed spec means a new
        reconcile, whatever became of the status. Raises ApiError."""
        view = scaler
        for attempt in range(_ATTEMPTS):
            if attempt:
                found = await self._look(scaler)
                if isinstance(found, StatusOutcome):
                    return found
                view = found
            if overtaken(view, memory):
                memory.deposed = True
                return StatusOutcome.DEPOSED
            patch = merge_patch(status_patch(view.metadata.resource_version, status))
            try:
                answer = await self._client.patch(
                    MODEL_DEPLOYMENT_SCALERS,
                    view.metadata.name,
                    patch,
                    view.metadata.namespace,
                    type_=MdsView,
                    subresource="status",
                )
            except Conflict:
                continue
            except NotFound:
                return StatusOutcome.GONE
            except ApiError:
                # The caller may go on without the status, but not for a scaler that is no longer what the cache shows.
                with contextlib.suppress(ApiError):
                    if isinstance(found := await self._look(scaler), StatusOutcome):
                        return found
                raise
            meta = answer.metadata
            self._consistency.wrote(key, meta.uid, MODEL_DEPLOYMENT_SCALERS, meta.namespace, meta.resource_version)
            return StatusOutcome.WRITTEN
        return StatusOutcome.CONTENDED

    async def _look(self, scaler: MdsView) -> MdsView | StatusOutcome:
        """The scaler as it is now, or that it is gone or asks for something else."""
        meta = scaler.metadata
        try:
            live = await self._client.get(MODEL_DEPLOYMENT_SCALERS, meta.name, meta.namespace, type_=MdsView)
        except NotFound:
            return StatusOutcome.GONE
        if live.metadata.uid != meta.uid:
            return StatusOutcome.GONE
        if live.metadata.generation != meta.generation or live.deleting != scaler.deleting:
            return StatusOutcome.OUTDATED
        return live


def overtaken(scaler: MdsView, memory: ScalerMemory) -> bool:
    """The stored status carries a higher term for our target than the one this process wrote."""
    stored = scaler.parse_status()[0].binding
    return (
        stored is not None
        and memory.own_term is not None
        and stored.target_uid == memory.target_uid
        and believed(stored.term) > memory.own_term
    )
