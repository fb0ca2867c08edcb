"""Several controllers in one process: they begin together and end in order."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube import Done, Loop, ReconcileOutcome, WorkQueue, run_loops


class Numbers:
    """Counts."""

    def __init__(self) -> None:
        self.active = self.most = self.ended = 0

    def began(self) -> None:
        self.active += 1
        self.most = max(self.most, self.active)

    def left(self) -> None:
        self.active -= 1

    def reconciled(self, result: object, seconds: float) -> None:
        del result, seconds
        self.ended += 1


class Slow:
    """A loop whose reconciles take their time."""

    def __init__(self, seconds: float, workers: int = 2) -> None:
        self.seconds = seconds
        self.done: list[str] = []
        self.numbers = Numbers()
        self.queue = WorkQueue()
        self.loop = Loop(self.queue, self._reconcile, workers, self.numbers)

    async def _reconcile(self, key: str) -> ReconcileOutcome:
        await asyncio.sleep(self.seconds)
        self.done.append(key)
        return Done()


async def test_every_loop_has_workers_of_its_own() -> None:
    quick, slow = Slow(0.1), Slow(100.0)
    for number in range(4):
        slow.queue.add(f"s{number}")
        quick.queue.add(f"q{number}")
    running = asyncio.create_task(run_loops([quick.loop, slow.loop], grace_seconds=1.0))
    await asyncio.sleep(1.0)
    assert sorted(quick.done) == ["q0", "q1", "q2", "q3"], "a loop that hangs holds up no other"
    assert (slow.numbers.active, slow.numbers.most, quick.numbers.ended) == (2, 2, 4)
    running.cancel()
    await asyncio.wait({running})


async def test_what_is_under_way_at_the_end_is_ended_and_nothing_is_begun() -> None:
    first, second = Slow(5.0, workers=1), Slow(8.0, workers=1)
    for loop in (first, second):
        loop.queue.add("a")
    running = asyncio.create_task(run_loops([first.loop, second.loop], grace_seconds=60.0))
    await asyncio.sleep(1.0)
    running.cancel()
    await asyncio.sleep(0)
    first.queue.add("late")
    await asyncio.wait({running})
    assert running.cancelled()
    assert (first.done, second.done) == (["a"], ["a"])


async def test_who_takes_longer_than_the_grace_is_cancelled() -> None:
    slow = Slow(1000.0)
    slow.queue.add("a")
    running = asyncio.create_task(run_loops([slow.loop], grace_seconds=3.0))
    await asyncio.sleep(1.0)
    began = asyncio.get_running_loop().time()
    running.cancel()
    await asyncio.wait({running})
    assert asyncio.get_running_loop().time() - began == pytest.approx(3.0)
    assert (slow.done, slow.numbers.active) == ([], 0)


async def test_they_end_when_their_queues_do() -> None:
    one, other = Slow(0.1), Slow(0.1)
    one.queue.add("a")
    running = asyncio.create_task(run_loops([one.loop, other.loop], grace_seconds=1.0))
    await asyncio.sleep(1.0)
    one.queue.shut_down()
    await asyncio.sleep(1.0)
    assert not running.done()
    other.queue.shut_down()
    await running
    assert one.done == ["a"]
