"""Events are kept for an hour after their last write, as on the real server (its `--event-ttl`). A sweep of the event
loop drops them, never a commit: followers would see the second event before the first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.embedded.apiserver.storage import Change, Collection, Event
from controller.foundation import wall_now

EVENTS_LIVE_SECONDS = 3600.0
_SWEEP_SECONDS = 60.0


@dataclass(slots=True, eq=False)
class Expiry:
    """Follows one collection; what was not written for `seconds` of wall time goes with the next sweep."""

    collection: Collection
    seconds: float = EVENTS_LIVE_SECONDS
    now: Callable[[], float] = wall_now
    _written: deque[tuple[float, str, int]] = field(default_factory=deque)  # (when, key, resourceVersion), oldest first
    _timer: asyncio.TimerHandle | None = None

    def observe(self, event: Event) -> None:
        """Remember a write."""
        if event.change is not Change.DELETED:
            self._written.append((self.now(), event.current.key, event.resource_version))

    def start(self) -> None:
        """Sweep now and from time to time."""
        self.sweep()
        self._timer = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self.start)

    def stop(self) -> None:
        """Sweep no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def sweep(self) -> None:
        """Drop what was last written long enough ago."""
        oldest = self.now() - self.seconds
        while self._written and self._written[0][0] <= oldest:
            _, key, version = self._written.popleft()
            stored = self.collection.get(key)
            if stored is not None and stored.resource_version == version:
                self.collection.remove(key)
