"""Model time that passes in turns of the event loop, and only while the server under test answers.

On a clock that runs on, a budget of thirty model seconds is a second and a half of a machine that may be busy with
something else: a stall between an engine's counter and its scrape is a wrong rate, a slow answer of the server is a
withdrawal that took too long. Here every model second is so many turns of the loop and one answer of the server, so
both can take as long as they like. A clock that is held stands still, and so does all that lives by it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable

_TURNS_PER_SECOND = 10


class SteadyClock:
    """Runs `factor` times as fast as the wall clock at best. `answered` returns once the server has answered something;
    without it turns of the loop are all that counts. `start` and `stop` it; sleepers of a clock that is stopped are not
    woken any more."""

    def __init__(
        self, epoch_seconds: float, factor: float, answered: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self._now = epoch_seconds
        self._factor = factor
        self._answered = answered
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._task: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0.0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._numbers), woken))
        await woken

    def wall_seconds(self, model_seconds: float) -> float:
        return model_seconds / self._factor

    def hold(self) -> None:
        """Stand still until `release`."""
        self._flowing.clear()

    def release(self) -> None:
        """Go on."""
        self._flowing.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        (ended,) = await asyncio.gather(self._task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended

    async def _run(self) -> None:
        while True:
            if self._answered is not None:
                await self._answered()
            for _ in range(_TURNS_PER_SECOND):
                await self._flowing.wait()
                await asyncio.sleep(self.wall_seconds(1.0 / _TURNS_PER_SECOND))
                self._advance(1.0 / _TURNS_PER_SECOND)

    def _advance(self, seconds: float) -> None:
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
