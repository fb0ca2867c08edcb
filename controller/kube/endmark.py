"""Waiting for the mark that ends the initial events of a streamed list.

A server that does not know the parameter (before 1.27 it was ignored without a word) sends objects, then live events,
and never a mark: in a quiet cluster it falls silent, in a busy one it does not. So there are two limits, and a warning
every ten seconds for whoever waits in front of the log.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, Self

import structlog

from controller.kube.errors import NO_MARK_REASON, TimedOut

# Initial events flow without a pause.
INITIAL_SILENCE_SECONDS = 30.0
# 150,000 objects take 20 s; who is slower than this is better served by pages, and a start has two minutes in all.
INITIAL_SECONDS = 60.0
TICK_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class LineSource(Protocol):
    """An open watch."""

    async def next_lines(self) -> list[bytes]:
        """At least one line, or none at the end."""
        ...


class MarkWait:
    """A context manager around the reading of the initial events of one stream."""

    def __init__(self, stream: LineSource, resource: str) -> None:
        self._stream = stream
        self._resource = resource
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._ticker: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._arm()
        return self

    def __exit__(self, *_: object) -> None:
        if self._ticker is not None:
            self._ticker.cancel()

    async def next_lines(self) -> list[bytes]:
        """The stream's next lines. Raises TimedOut (NO_MARK_REASON) when no mark is to be expected any more."""
        left = self._started + INITIAL_SECONDS - self._loop.time()
        try:
            async with asyncio.timeout(min(INITIAL_SILENCE_SECONDS, left)):
                return await self._stream.next_lines()
        except TimeoutError:
            waited = self._loop.time() - self._started
            raise TimedOut(f"no end mark of the streamed list within {waited:.0f} s", reason=NO_MARK_REASON) from None

    def _arm(self) -> None:
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        waited = round(self._loop.time() - self._started)
        _log.warning("still waiting for the end of a streamed list", resource=self._resource, seconds=waited)
        self._arm()
