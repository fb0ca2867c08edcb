"""Several controllers in one process: each a queue, what is done with its keys, and workers of its own.

    await run_loops([Loop(queue, reconcile, workers=8, observer=metrics), …], grace_seconds=15.0)

Promised: it ends when every queue is shut down and empty; a failure of one loop ends all. A cancellation shuts the
queues down and lets the reconciles under way come to their end, for `grace_seconds` at most; then they are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.kube.workers import Reconcile, ReconcileOutcome, Result, run_workers
from controller.kube.workqueue import WorkQueue


class LoopObserver(Protocol):
    """Numbers about the reconciles of one loop."""

    def began(self) -> None:
        """A worker took a key."""

    def left(self) -> None:
        """A worker is done with its key."""

    def reconciled(self, result: Result, seconds: float) -> None:
        """One reconcile ended."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One controller."""

    queue: WorkQueue
    reconcile: Reconcile
    workers: int
    observer: LoopObserver

    async def run(self) -> None:
        """Until the queue is shut down and empty."""
        await run_workers(self.queue, self._reconcile, self.workers, observer=self.observer)

    async def _reconcile(self, key: str) -> ReconcileOutcome:
        self.observer.began()
        try:
            return await self.reconcile(key)
        finally:
            self.observer.left()


async def run_loops(loops: Sequence[Loop], grace_seconds: float) -> None:
    """Work until every queue is shut down."""
    work = asyncio.ensure_future(_run_all(loops))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        for loop in loops:
            loop.queue.shut_down()
        await asyncio.wait({work}, timeout=grace_seconds)
        work.cancel()
        await asyncio.wait({work})
        raise


async def _run_all(loops: Sequence[Loop]) -> None:
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop.run())
