"""How late the event loop is: the one figure that tells a healthy asyncio process from a stalled one.

A probe sleeps and records by how much it overslept. A loop that stalls answers no health request either, so the check
here catches what comes in between: a loop that is late all the time.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from prometheus_client import CollectorRegistry, Histogram

from controller.foundation import monotonic

_PROBE_SECONDS = 0.25
# Above this the lease is in danger (its retry period is 2 s) and a restart is better than going on.
_UNHEALTHY_SECONDS = 5.0
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopLag:
    """Measures the lag of the loop it runs in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._histogram = Histogram(
            "mdscaler_event_loop_lag_seconds",
            "How late a timer of the event loop fired.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._last = 0.0

    async def run(self) -> NoReturn:
        """Measure until cancelled."""
        while True:
            before = monotonic()
            await asyncio.sleep(_PROBE_SECONDS)
            self._last = max(0.0, monotonic() - before - _PROBE_SECONDS)
            self._histogram.observe(self._last)

    def check(self) -> str | None:
        """A health check."""
        if self._last > _UNHEALTHY_SECONDS:
            return f"the event loop is {self._last:.1f} s late"
        return None
