"""Outcomes of a reconcile and what becomes of its key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from controller.kube import (
    Conflict,
    ConnectFailed,
    Done,
    ItemBackoff,
    Requeue,
    RequeueAfter,
    Result,
    ServerFailed,
    TerminalError,
    Throttled,
    TimedOut,
    WorkQueue,
    run_workers,
)
from tests.kube.support import running


class Log:
    def __init__(self) -> None:
        self.results: list[Result] = []

    def reconciled(self, result: Result, seconds: float) -> None:
        self.results.append(result)


class Bench:
    """A queue with workers, and the moments at which a key was reconciled."""

    def __init__(self, outcomes: list[object], *, workers: int = 1, timeout: float | None = None) -> None:
        self.queue = WorkQueue(backoff=ItemBackoff(base_seconds=1.0))
        self.outcomes = outcomes
        self.moments: list[float] = []
        self.log = Log()
        self.run = run_workers(self.queue, self._reconcile, workers, timeout_seconds=timeout, observer=self.log)

    async def _reconcile(self, key: str) -> Done | RequeueAfter | Requeue:
        self.moments.append(asyncio.get_running_loop().time())
        outcome = self.outcomes.pop(0) if self.outcomes else Done()
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, float):
            await asyncio.sleep(outcome)
            return Done()
        assert isinstance(outcome, Done | RequeueAfter | Requeue)
        return outcome


async def test_errors_back_off_and_a_success_forgets_them() -> None:
    """T1."""
    bench = Bench([RuntimeError("x"), RuntimeError("x"), RuntimeError("x"), Done()])
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(60)
        assert bench.moments == pytest.approx([0, 1, 3, 7])
        assert bench.queue.failures("a") == 0
    assert bench.log.results == [Result.ERROR] * 3 + [Result.SUCCESS]


@pytest.mark.parametrize(
    "failure",
    [ConnectFailed("refused"), TimedOut("no answer"), ServerFailed("etcd", status=500), Throttled("busy", status=429)],
    ids=lambda failure: type(failure).__name__,
)
async def test_a_long_outage_does_not_make_a_key_wait_as_long_again(failure: Exception) -> None:
    """The back-off of a broken object goes to five minutes; a server that is back is met within ten seconds."""
    bench = Bench([failure] * 30)
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(280)
    gaps = [later - earlier for earlier, later in pairwise(bench.moments)]
    assert gaps[:6] == pytest.approx([1, 2, 4, 8, 10, 10])
    assert max(gaps) == pytest.approx(10)


async def test_the_first_conflict_after_an_outage_is_not_punished_for_it() -> None:
    bench = Bench([*[ConnectFailed("refused")] * 20, Conflict("c", status=409), Conflict("c", status=409)])
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(280)
        assert bench.queue.failures("a") == 0
    assert bench.moments[-2] - bench.moments[-3] <= 16.1
    assert bench.moments[-1] - bench.moments[-2] <= 32.1


@pytest.mark.parametrize("hint", [0.5, 3.0, 40.0])
async def test_a_server_that_says_when_is_asked_then(hint: float) -> None:
    """Neither sooner, nor as late as the back-off of the tries before."""
    told = Throttled("busy", status=429, retry_after_seconds=hint)
    bench = Bench([*[RuntimeError("x")] * 5, told, told])
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(280)
    gaps = [later - earlier for earlier, later in pairwise(bench.moments)]
    assert gaps == pytest.approx([1, 2, 4, 8, 16, hint, hint])


async def test_a_cache_that_is_long_behind_is_looked_at_again_within_ten_seconds() -> None:
    bench = Bench([Requeue()] * 12)
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(200)
    assert bench.moments[-1] - bench.moments[-2] == pytest.approx(10)


@pytest.mark.parametrize(
    ("failure", "traced"),
    [
        pytest.param(
            Conflict("another writer was faster", status=409), False, id="an answer of the API server says it all"
        ),
        pytest.param(RuntimeError("x"), True, id="a fault of ours comes with its trace"),
    ],
)
async def test_a_failure_is_logged_in_as_many_lines_as_help(failure: Exception, traced: bool) -> None:
    bench = Bench([failure])
    with capture_logs() as lines:
        async with running(bench.run):
            bench.queue.add("a")
            await asyncio.sleep(1)
    assert [(line["key"], line["exc_info"]) for line in lines if line["event"] == "reconcile failed"] == [("a", traced)]


async def test_requeue_after_forgets_first_and_keeps_its_own_time() -> None:
    """T2: an old back-off must not win over the time that was asked for."""
    bench = Bench([RuntimeError("x"), RuntimeError("x"), RequeueAfter(30.0), RuntimeError("x")])
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(10)
        assert bench.queue.failures("a") == 0
        await asyncio.sleep(50)
        assert bench.moments == pytest.approx([0, 1, 3, 33, 34])
    assert bench.log.results[2:] == [Result.REQUEUE_AFTER, Result.ERROR, Result.SUCCESS]


async def test_a_terminal_error_waits_for_a_change() -> None:
    """T3."""
    bench = Bench([TerminalError("spec is invalid"), Done()])
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(1000)
        assert len(bench.moments) == 1
        bench.queue.add("a")
        await asyncio.sleep(1)
        assert len(bench.moments) == 2
    assert bench.log.results == [Result.TERMINAL, Result.SUCCESS]


@pytest.mark.parametrize(
    "failure", [ZeroDivisionError(), KeyError("k"), AssertionError("bug"), TimeoutError()], ids=repr
)
async def test_whatever_a_reconcile_raises_its_worker_goes_on(failure: Exception) -> None:
    """T4."""
    bench = Bench([failure])
    async with running(bench.run) as (task,):
        bench.queue.add("a")
        bench.queue.add("b")
        await asyncio.sleep(10)
        assert len(bench.moments) == 3
        assert not task.done()
    assert bench.log.results[0] is Result.ERROR


async def test_requeue_backs_off_without_being_an_error() -> None:
    bench = Bench([Requeue(), Requeue(), Done()])
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(10)
    assert bench.moments == pytest.approx([0, 1, 3])
    assert bench.log.results == [Result.REQUEUE, Result.REQUEUE, Result.SUCCESS]


async def test_a_reconcile_that_takes_too_long_is_cancelled_and_tried_again() -> None:
    """T7."""
    bench = Bench([1000.0, Done()], timeout=60.0)
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(100)
    assert bench.moments == pytest.approx([0, 61])
    assert bench.log.results == [Result.TIMEOUT, Result.SUCCESS]


async def test_keys_run_beside_each_other_up_to_the_number_of_workers() -> None:
    """T8."""
    bench = Bench([10.0, 10.0, 10.0], workers=2)
    async with running(bench.run):
        for key in ("a", "b", "c"):
            bench.queue.add(key)
        await asyncio.sleep(30)
    assert bench.moments == pytest.approx([0, 0, 10])


async def test_an_event_during_a_reconcile_is_handled_right_after_it() -> None:
    bench = Bench([10.0, RequeueAfter(100.0)])
    async with running(bench.run):
        bench.queue.add("a")
        await asyncio.sleep(5)
        bench.queue.add("a")
        await asyncio.sleep(50)
        assert bench.moments == pytest.approx([0, 10])


async def test_workers_end_when_the_queue_is_shut_down_and_empty() -> None:
    bench = Bench([])
    bench.queue.add("a")
    bench.queue.shut_down()
    await bench.run
    assert len(bench.moments) == 1


async def test_cancelled_workers_release_their_keys() -> None:
    """T9: a drain must not wait for a key whose worker is gone."""
    bench = Bench([1000.0])
    async with running(bench.run) as (task,):
        bench.queue.add("a")
        await asyncio.sleep(1)
        task.cancel()
        await bench.queue.drain()
        assert task.done() or task.cancelling()


async def test_no_worker_at_all_is_a_mistake() -> None:
    reconcile: Callable[[str], Awaitable[Done]] = lambda key: asyncio.sleep(0, Done())  # noqa: E731
    with pytest.raises(ValueError, match="at least one worker"):
        await run_workers(WorkQueue(), reconcile, 0)
