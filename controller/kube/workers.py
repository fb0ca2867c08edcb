"""Workers: take a key, reconcile it, and turn the outcome into what the queue does next.

    Done()                the key is fine: its failures are forgotten
    RequeueAfter(30.0)    fine, and look again in so many seconds: forgotten *first*, then added (the order matters, or
                          an old back-off would win)
    Requeue()             not fine, but no error either (the cache is behind): back-off, as short as in an outage
    an exception          logged, counted by the observer, back-off; in an outage a short one, or as the server says
    TerminalError         logged, counted, not tried again until something changes

An exception never ends a worker; cancellation does, and leaves the key marked done so that a drain can finish.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from controller.kube.errors import ApiError, Throttled, Transient
from controller.kube.ratelimit import OUTAGE_CAP_SECONDS
from controller.kube.workqueue import WorkQueue

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Look again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Requeue:
    """Try again with back-off, without calling it an error."""


class TerminalError(Exception):
    """Trying again cannot help; only a change of the object can."""


ReconcileOutcome = Done | RequeueAfter | Requeue
Reconcile = Callable[[str], Awaitable[ReconcileOutcome]]


class Result(enum.StrEnum):
    """controller_runtime_reconcile_total{result}, plus what controller-runtime counts apart."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    REQUEUE = "requeue"
    ERROR = "error"
    TERMINAL = "terminal_error"
    TIMEOUT = "timeout"


class WorkerObserver(Protocol):
    """controller_runtime_reconcile_total and …_reconcile_time_seconds."""

    def reconciled(self, result: Result, seconds: float) -> None:
        """One reconcile ended."""


class _Silent:
    def reconciled(self, result: Result, seconds: float) -> None: ...


async def run_workers(
    queue: WorkQueue,
    reconcile: Reconcile,
    count: int,
    *,
    timeout_seconds: float | None = None,
    observer: WorkerObserver | None = None,
) -> None:
    """Work until the queue is shut down and empty. `count` keys at a time, each by one worker only.

    timeout_seconds: a reconcile that takes longer is cancelled and counted as an error.
    """
    if count < 1:
        raise ValueError(f"at least one worker is needed, got {count}")
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(_work(queue, reconcile, timeout_seconds, observer or _Silent()), name=f"worker {number}")


async def _work(
    queue: WorkQueue, reconcile: Reconcile, timeout_seconds: float | None, observer: WorkerObserver
) -> None:
    now = asyncio.get_running_loop().time
    while (key := await queue.get()) is not None:
        started = now()
        try:
            result = await _reconcile_once(queue, key, reconcile, timeout_seconds)
        finally:
            queue.done(key)
        observer.reconciled(result, now() - started)


async def _reconcile_once(queue: WorkQueue, key: str, reconcile: Reconcile, timeout_seconds: float | None) -> Result:
    try:
        async with asyncio.timeout(timeout_seconds) as limit:
            outcome = await reconcile(key)
    except TerminalError as failure:
        _log.error("reconcile failed for good", key=key, error=str(failure))
        queue.forget(key)
        return Result.TERMINAL
    except Exception as failure:  # noqa: BLE001 - whatever it is, the other keys need their worker
        delay = _requeue(queue, key, failure)
        timed_out = isinstance(failure, TimeoutError) and limit.expired()
        _log.error(
            "reconcile failed",
            key=key,
            error=f"it took longer than {timeout_seconds} s" if timed_out else str(failure) or repr(failure),
            failures=queue.failures(key),
            retry_in_seconds=round(delay, 3),
            # An answer of the API server says it all; a trace of our own calls is for our own faults.
            exc_info=not timed_out and not isinstance(failure, ApiError),
        )
        return Result.TIMEOUT if timed_out else Result.ERROR
    match outcome:
        case RequeueAfter(seconds=seconds):
            queue.forget(key)
            queue.add_after(key, seconds)
            return Result.REQUEUE_AFTER
        case Requeue():
            queue.add_rate_limited(key, cap_seconds=OUTAGE_CAP_SECONDS)
            return Result.REQUEUE
        case Done():
            queue.forget(key)
            return Result.SUCCESS


def _requeue(queue: WorkQueue, key: str, failure: Exception) -> float:
    if not isinstance(failure, Throttled | Transient):
        return queue.add_rate_limited(key)
    hint = failure.retry_after_seconds
    if hint is None:
        return queue.add_rate_limited(key, cap_seconds=OUTAGE_CAP_SECONDS)
    return queue.add_rate_limited(key, cap_seconds=min(hint, OUTAGE_CAP_SECONDS), at_least_seconds=hint)
