"""Work that follows from a commit, done after it and never within: a listener that wrote would show its followers the
second event before the first.

It is done in the order in which it was asked for, at the next turn of the event loop; without a running loop (fixtures
before the start of the server) it waits until `drain`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class WorkQueue:
    """One queue for all controllers of the server. Work never awaits."""

    _work: deque[Callable[[], None]] = field(default_factory=deque)
    _scheduled: bool = False

    def later(self, work: Callable[[], None]) -> None:
        """Do `work` soon."""
        self._work.append(work)
        if self._scheduled:
            return
        try:
            asyncio.get_running_loop().call_soon(self.drain)
        except RuntimeError:
            return  # no loop yet: `drain` is called at the start
        self._scheduled = True

    def drain(self) -> None:
        """Do what there is to do, also what it leads to."""
        self._scheduled = False
        while self._work:
            self._work.popleft()()
