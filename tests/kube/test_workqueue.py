"""The work queue's clauses, client-go's cases, and its metrics."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections import Counter
from dataclasses import dataclass, field

import pytest

from controller.kube import ItemBackoff, Priority, WorkQueue


@dataclass
class QueueLog:
    """What the metrics of a queue would show."""

    depth: int = 0
    adds: int = 0
    retries: int = 0
    waited: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    def added(self, depth: int) -> None:
        self.adds += 1
        self.depth = depth

    def started(self, depth: int, waited_seconds: float) -> None:
        self.depth = depth
        self.waited.append(waited_seconds)

    def finished(self, worked_seconds: float) -> None:
        self.worked.append(worked_seconds)

    def retried(self) -> None:
        self.retries += 1


async def take_all(queue: WorkQueue) -> list[str]:
    """What is ready now, in order, each done at once."""
    taken = []
    while len(queue):
        key = await queue.get()
        assert key is not None
        taken.append(key)
        queue.done(key)
    return taken


# ---- one worker per key --------------------------------------------------------------------------------------------


async def test_many_producers_and_workers_never_share_a_key_and_lose_none() -> None:
    """Q1."""
    queue = WorkQueue()
    busy: set[str] = set()
    handled: Counter[str] = Counter()

    async def produce(number: int) -> None:
        rng = random.Random(number)
        for _ in range(50):
            queue.add(str(rng.randrange(50)))
            await asyncio.sleep(rng.random() * 0.01)

    async def work(number: int) -> None:
        rng = random.Random(number)
        while (key := await queue.get()) is not None:
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(rng.random() * 0.01)
            busy.remove(key)
            handled[key] += 1
            queue.done(key)

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(work(number))
        async with asyncio.TaskGroup() as producers:
            for number in range(50):
                producers.create_task(produce(number))
        queue.shut_down()
    assert set(handled) == {str(number) for number in range(50)}


async def test_an_add_while_a_worker_has_the_key_means_exactly_one_more_run() -> None:
    """Q2, Q4, Q6."""
    queue = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    for _ in range(5):
        queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert len(queue) == 1
    assert await take_all(queue) == ["a"]
    queue.add("a")
    assert await take_all(queue) == ["a"]


async def test_ten_adds_before_a_worker_comes_are_one_run() -> None:
    """Q3, Q5."""
    queue = WorkQueue()
    for _ in range(10):
        queue.add("a")
    assert len(queue) == 1
    assert await take_all(queue) == ["a"]


async def test_done_without_having_the_key_is_a_bug() -> None:
    with pytest.raises(KeyError):
        WorkQueue().done("a")


async def test_a_waiting_worker_is_woken_by_an_add() -> None:
    queue = WorkQueue()
    getter = asyncio.ensure_future(queue.get())
    await asyncio.sleep(1)
    queue.add("a")
    assert await getter == "a"


async def test_a_cancelled_get_takes_nothing_and_hands_its_wake_up_on() -> None:
    queue = WorkQueue()
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


# ---- the end -------------------------------------------------------------------------------------------------------


async def test_after_shutdown_what_is_ready_is_handed_out_and_then_nothing() -> None:
    """Q8, Q11, Q12."""
    queue = WorkQueue()
    queue.add("a")
    queue.add("b")
    queue.shut_down()
    queue.add("c")
    queue.add_after("d", 1)
    assert await take_all(queue) == ["a", "b"]
    assert await queue.get() is None


async def test_waiting_workers_are_released_by_a_shutdown() -> None:
    """B6."""
    queue = WorkQueue()
    getters = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down()
    assert await asyncio.gather(*getters) == [None, None, None]


async def test_a_drain_waits_for_work_in_progress_and_for_its_repetition() -> None:
    """Q7, Q10."""
    queue = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    drain = asyncio.ensure_future(queue.drain())
    await asyncio.sleep(1)
    assert not drain.done()
    queue.done("a")
    await asyncio.sleep(1)
    assert not drain.done()
    assert await queue.get() == "a"
    queue.done("a")
    await drain


async def test_a_second_shutdown_ends_a_drain() -> None:
    """Q9."""
    queue = WorkQueue()
    queue.add("stuck")
    await queue.get()
    drain = asyncio.ensure_future(queue.drain())
    await asyncio.sleep(0)
    queue.shut_down()
    await drain


async def test_shutdown_cancels_timers() -> None:
    """D7, K2."""
    queue = WorkQueue()
    queue.add_after("a", 3600)
    queue.shut_down()
    assert queue._timer is None
    await asyncio.sleep(7200)
    assert len(queue) == 0


async def test_no_reference_to_a_key_is_kept_after_it_is_done() -> None:
    """Q13."""

    class Key(str):
        pass

    queue = WorkQueue()
    key = Key("a")
    gone = weakref.ref(key)
    queue.add(key)
    taken = await queue.get()
    assert taken is not None
    queue.add_after(taken, 1)
    queue.done(taken)
    await asyncio.sleep(2)
    taken = await queue.get()
    assert taken is not None
    queue.done(taken)
    queue.forget(taken)
    del key, taken
    gc.collect()
    assert gone() is None


# ---- delays --------------------------------------------------------------------------------------------------------


async def test_a_delayed_key_is_not_ready_early() -> None:
    """D1, B5."""
    queue = WorkQueue()
    queue.add_after("a", 10)
    await asyncio.sleep(9.99)
    assert len(queue) == 0
    await asyncio.sleep(0.02)
    assert await take_all(queue) == ["a"]


@pytest.mark.parametrize(("first", "second"), [(10, 5), (5, 10)], ids=["the second is earlier", "the second is later"])
async def test_of_two_delays_the_earlier_wins(first: float, second: float) -> None:
    """D2, B8."""
    queue = WorkQueue()
    queue.add_after("a", first)
    queue.add_after("a", second)
    await asyncio.sleep(5.01)
    assert await take_all(queue) == ["a"]
    await asyncio.sleep(10)
    assert len(queue) == 0


async def test_delayed_keys_come_in_the_order_of_their_times() -> None:
    """D3, D4."""
    queue = WorkQueue()
    for key, seconds in (("third", 3), ("first", 1), ("second", 2)):
        queue.add_after(key, seconds)
    await asyncio.sleep(4)
    assert await take_all(queue) == ["first", "second", "third"]


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_delay_of_nothing_is_none(seconds: float) -> None:
    """D5."""
    queue = WorkQueue()
    queue.add_after("a", seconds)
    assert len(queue) == 1


async def test_a_key_that_is_ready_is_not_delayed_as_well() -> None:
    """D6, B4."""
    queue = WorkQueue()
    queue.add("a")
    queue.add_after("a", 1)
    assert await take_all(queue) == ["a"]
    queue.add_after("b", 5)
    queue.add("b")
    assert await take_all(queue) == ["b"]
    await asyncio.sleep(10)
    assert len(queue) == 0


async def test_keys_that_are_woken_long_before_their_time_leave_nothing_behind() -> None:
    """A key that asks for an hour and is woken every second must not fill the heap with 3,600 dead entries."""
    queue = WorkQueue()
    for _ in range(5000):
        queue.add_after("a", 3600)
        queue.add("a")
        key = await queue.get()
        assert key is not None
        queue.done(key)
    assert len(queue._heap) < 200


# ---- back-off ------------------------------------------------------------------------------------------------------


def test_backoff_doubles_for_each_key_apart_and_is_forgotten() -> None:
    """L1, L7."""
    backoff = ItemBackoff(base_seconds=0.001)
    assert [backoff.next_delay("a") for _ in range(5)] == pytest.approx([0.001, 0.002, 0.004, 0.008, 0.016])
    assert backoff.next_delay("b") == pytest.approx(0.001)
    assert backoff.failures("a") == 5
    backoff.forget("a")
    assert backoff.failures("a") == 0
    assert backoff.next_delay("a") == pytest.approx(0.001)


def test_backoff_is_capped_and_does_not_overflow() -> None:
    """L2."""
    backoff = ItemBackoff()
    delays = [backoff.next_delay("a") for _ in range(2000)]
    assert delays[0] == 0.005
    assert max(delays) == delays[-1] == 300.0
    assert delays == sorted(delays)


async def test_a_failed_key_comes_back_after_its_backoff() -> None:
    queue = WorkQueue(backoff=ItemBackoff(base_seconds=1.0))
    moments = []
    start = asyncio.get_running_loop().time()
    for _ in range(4):
        queue.add_rate_limited("a")
        key = await queue.get()
        assert key is not None
        moments.append(asyncio.get_running_loop().time() - start)
        queue.done(key)
    assert moments == pytest.approx([1, 3, 7, 15])
    assert queue.failures("a") == 4


# ---- priorities ----------------------------------------------------------------------------------------------------


async def test_live_keys_overtake_those_of_the_initial_list_and_each_lane_is_first_in_first_out() -> None:
    """B1."""
    queue = WorkQueue()
    for key in ("i1", "i2", "i3"):
        queue.add(key, Priority.LOW)
    queue.add("l1")
    queue.add("l2")
    assert await take_all(queue) == ["l1", "l2", "i1", "i2", "i3"]


async def test_a_live_event_raises_a_key_and_nothing_lowers_it() -> None:
    """B2."""
    queue = WorkQueue()
    queue.add("a", Priority.LOW)
    queue.add("b", Priority.LOW)
    queue.add("b")
    queue.add("b", Priority.LOW)
    assert await take_all(queue) == ["b", "a"]


async def test_priority_survives_processing_and_delays() -> None:
    """B3, B8."""
    queue = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("x", Priority.LOW)
    queue.add("a", Priority.LOW)
    queue.add("a")
    queue.done("a")
    assert await take_all(queue) == ["a", "x"]
    queue.add_after("d", 1, Priority.NORMAL)
    queue.add_after("d", 2, Priority.LOW)
    queue.add("x", Priority.LOW)
    await asyncio.sleep(3)
    assert await take_all(queue) == ["d", "x"]


# ---- metrics -------------------------------------------------------------------------------------------------------


async def test_metrics_have_client_gos_meanings() -> None:
    """K1, B7."""
    log = QueueLog()
    queue = WorkQueue(observer=log, backoff=ItemBackoff(base_seconds=1.0))
    queue.add("a")
    queue.add("a")
    queue.add_after("b", 5)
    assert (log.adds, log.depth) == (1, 1)
    await asyncio.sleep(2)
    await queue.get()
    assert (log.waited, log.depth) == ([2.0], 0)
    await asyncio.sleep(3)
    assert (log.adds, log.depth) == (2, 1)
    assert queue.unfinished_seconds() == queue.longest_running_seconds() == 3.0
    await queue.get()
    await asyncio.sleep(4)
    assert queue.unfinished_seconds() == 11.0
    assert queue.longest_running_seconds() == 7.0
    queue.done("a")
    queue.done("b")
    assert log.worked == [7.0, 4.0]
    assert queue.unfinished_seconds() == queue.longest_running_seconds() == 0.0
    queue.add_rate_limited("a")
    assert (log.retries, log.adds) == (1, 2)
    await asyncio.sleep(2)
    assert log.adds == 3


@pytest.mark.parametrize("seed", range(25))
async def test_random_use_never_breaks_the_queue(seed: int) -> None:
    """A model of what must be handed out, against random adds, delays, failures and workers."""
    rng = random.Random(seed)
    log = QueueLog()
    queue = WorkQueue(observer=log)
    busy: set[str] = set()
    owed: dict[str, float] = {}  # key → when it must have been handed out at the latest
    now = asyncio.get_running_loop().time

    async def work() -> None:
        while (key := await queue.get()) is not None:
            assert key not in busy
            busy.add(key)
            owed.pop(key, None)
            await asyncio.sleep(rng.random() * 0.2)
            busy.discard(key)
            queue.done(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())
        for _ in range(300):
            key = rng.choice("abcdefgh")
            match rng.randrange(4):
                case 0:
                    queue.add(key, rng.choice(list(Priority)))
                    owed[key] = min(owed.get(key, 1e9), now())
                case 1:
                    delay = rng.random() * 3
                    queue.add_after(key, delay)
                    owed[key] = min(owed.get(key, 1e9), now() + delay)
                case 2:
                    queue.add_rate_limited(key)
                    owed[key] = min(owed.get(key, 1e9), now() + 300)
                case _:
                    queue.forget(key)
            await asyncio.sleep(rng.random() * 0.1)
        await asyncio.sleep(400)
        assert owed == {}
        assert len(queue) == 0
        assert log.depth == 0
        assert len(log.waited) == len(log.worked) == log.adds
        queue.shut_down()
