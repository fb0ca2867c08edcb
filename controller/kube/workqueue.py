"""A queue of keys: what needs work, at most once each, never by two workers at a time, never forgotten.

Promised

1. A key that is added many times before a worker takes it is handed out once.
2. A key that is added while a worker has it is handed out again after `done`, once; never to a second worker meanwhile.
3. `add_after` keeps the earliest of the times a key was given; a plain add makes it ready at once.
4. Ready keys of normal priority go first, in the order in which they came; low ones follow. A key is raised to normal
   by a normal add, never lowered. Low is for the initial list, so that a live event overtakes a restart.
5. After `shut_down` adds are ignored, and what is ready is still handed out; then `get` returns None. Delayed keys are
   dropped: they will be found again by the next start.

The observer hears client-go's events with client-go's meanings. Nothing here awaits except `get` and `drain`.
Cancellation: a cancelled `get` takes nothing out.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
from collections import deque
from collections.abc import Callable

from controller.kube.observers import SILENT, QueueObserver
from controller.kube.ratelimit import ItemBackoff

_HEAP_SLACK = 64


class Priority(enum.IntEnum):
    """Two lanes; the higher one first."""

    LOW = 0
    NORMAL = 1


class WorkQueue:
    """Keys with work to do. For one event loop; `now` is monotonic seconds (default: the loop's time)."""

    def __init__(
        self,
        *,
        observer: QueueObserver = SILENT,
        backoff: ItemBackoff | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._observer = observer
        self._backoff = backoff or ItemBackoff()
        self._clock = now
        # A key is in at most one of: ready (in a lane), dirty while processing, waiting.
        self._lanes: dict[Priority, deque[str]] = {Priority.NORMAL: deque(), Priority.LOW: deque()}
        self._ready: dict[str, tuple[Priority, float]] = {}  # key → lane, ready since
        self._processing: dict[str, float] = {}  # key → taken at
        self._again: dict[str, Priority] = {}  # added while processing
        self._waiting: dict[str, tuple[float, Priority, int]] = {}  # key → ready at, lane, its entry in the heap
        self._heap: list[tuple[float, int, str]] = []  # holds stale entries too; `_waiting` decides
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._shut_down = False

    def __len__(self) -> int:
        """The number of ready keys; those being processed or waiting for their time do not count."""
        return len(self._ready)

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` was called."""
        return self._shut_down

    # ---- adding ----------------------------------------------------------------------------------------------------

    def add(self, key: str, priority: Priority = Priority.NORMAL) -> None:
        """The key needs work now."""
        if self._shut_down:
            return
        if self._waiting and (delayed := self._waiting.pop(key, None)) is not None:
            priority = max(priority, delayed[1])
        if key in self._processing:
            self._again[key] = max(priority, self._again.get(key, priority))
            return
        self._make_ready(key, priority)

    def add_after(self, key: str, seconds: float, priority: Priority = Priority.NORMAL) -> None:
        """The key needs work in so many seconds, or sooner when it was or will be added for sooner."""
        if seconds <= 0:
            self.add(key, priority)
            return
        if self._shut_down or key in self._ready or key in self._again:
            return
        at = self._now() + seconds
        known = self._waiting.get(key)
        if known is not None and known[0] <= at:
            self._waiting[key] = (known[0], max(priority, known[1]), known[2])
            return
        self._sequence += 1
        self._waiting[key] = (at, max(priority, known[1]) if known else priority, self._sequence)
        heapq.heappush(self._heap, (at, self._sequence, key))
        self._compact()
        self._arm()

    def add_rate_limited(
        self,
        key: str,
        priority: Priority = Priority.NORMAL,
        *,
        cap_seconds: float | None = None,
        at_least_seconds: float = 0.0,
    ) -> float:
        """The key failed: try again after its back-off, which is returned in seconds. `cap_seconds` and
        `at_least_seconds` bound it for a failure that is not the key's own (`ratelimit`)."""
        delay = max(self._backoff.next_delay(key, cap_seconds), at_least_seconds)
        if not self._shut_down:
            self._observer.retried()
        self.add_after(key, delay, priority)
        return delay

    def forget(self, key: str) -> None:
        """The key succeeded: its next failure is its first."""
        self._backoff.forget(key)

    def failures(self, key: str) -> int:
        """How often the key has failed in a row."""
        return self._backoff.failures(key)

    # ---- working ---------------------------------------------------------------------------------------------------

    async def get(self) -> str | None:
        """The next key, which is then this worker's until `done`; None when the queue is shut down and empty."""
        while not self._ready:
            if self._shut_down:
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._getters.append(waiter)
            try:
                await waiter
            except BaseException:
                if waiter in self._getters:
                    self._getters.remove(waiter)
                elif not waiter.cancelled():
                    self._wake_getter()  # the wake-up was ours but we leave: hand it on
                raise
        return self._take()

    def done(self, key: str) -> None:
        """The worker has finished with the key. Raises KeyError for a key that nobody has."""
        taken_at = self._processing.pop(key)
        self._observer.finished(self._now() - taken_at)
        again = self._again.pop(key, None)
        if again is not None:
            self._make_ready(key, again)
        self._check_idle()

    def unfinished_seconds(self) -> float:
        """Sum of the ages of all work in progress (workqueue_unfinished_work_seconds): grows while a worker is
        stuck."""
        now = self._now()
        return sum(now - taken_at for taken_at in self._processing.values())

    def longest_running_seconds(self) -> float:
        """Age of the oldest work in progress (workqueue_longest_running_processor_seconds)."""
        return self._now() - min(self._processing.values()) if self._processing else 0.0

    # ---- ending ----------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Take no more keys; workers finish what is ready. A waiting `drain` returns when nothing is in progress or
        at the second call."""
        if self._shut_down:
            self._idle.set()
        self._shut_down = True
        self._waiting.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake_getter()
        self._check_idle()

    async def drain(self) -> None:
        """Shut down and wait until all work in progress is done. Cancel-safe; a further `shut_down` ends the wait."""
        if not self._shut_down:
            self.shut_down()
        await self._idle.wait()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        if self._clock is None:
            self._clock = asyncio.get_running_loop().time
        return self._clock()

    def _make_ready(self, key: str, priority: Priority) -> None:
        known = self._ready.get(key)
        if known is not None:
            if priority > known[0]:
                self._lanes[known[0]].remove(key)  # rare: a live event for a key of the initial list
                self._lanes[priority].append(key)
                self._ready[key] = (priority, known[1])
            return
        self._lanes[priority].append(key)
        self._ready[key] = (priority, self._now())
        self._observer.added(len(self._ready))
        if self._getters:
            self._wake_getter()

    def _take(self) -> str:
        lane = self._lanes[Priority.NORMAL] or self._lanes[Priority.LOW]
        key = lane.popleft()
        _, since = self._ready.pop(key)
        now = self._now()
        self._processing[key] = now
        self._observer.started(len(self._ready), now - since)
        return key

    def _wake_getter(self) -> None:
        while self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _compact(self) -> None:
        """Keys that are woken long before their time would leave their old entries in the heap for hours."""
        if len(self._heap) > 2 * len(self._waiting) + _HEAP_SLACK:
            self._heap = [entry for entry in self._heap if not self._is_stale(entry)]
            heapq.heapify(self._heap)

    def _arm(self) -> None:
        """Let the timer strike at the earliest waiting time."""
        while self._heap and self._is_stale(self._heap[0]):
            heapq.heappop(self._heap)
        earliest = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if self._armed_for == earliest:
                return
            self._timer.cancel()
            self._timer = None
        if earliest is not None:
            self._armed_for = earliest
            self._timer = asyncio.get_running_loop().call_later(max(0.0, earliest - self._now()), self._strike)

    def _is_stale(self, entry: tuple[float, int, str]) -> bool:
        waiting = self._waiting.get(entry[2])
        return waiting is None or waiting[2] != entry[1]

    def _strike(self) -> None:
        self._timer = None
        now = self._now()
        while self._heap and (self._heap[0][0] <= now or self._is_stale(self._heap[0])):
            entry = heapq.heappop(self._heap)
            if not self._is_stale(entry):
                self.add(entry[2], self._waiting[entry[2]][1])
        self._arm()

    def _check_idle(self) -> None:
        if self._shut_down and not self._processing and not self._ready:
            self._idle.set()
