"""Staying a good neighbour on the event loop while thousands of objects pass through.

`TimeBudget` tells when a stretch of synchronous work has lasted long enough; the worker then yields. 5 ms keep the loop
lag of everybody else (lease renewal, probes) an order of magnitude below anything that matters, and cost one `sleep(0)`
for some four hundred events.

`calm_collector` and `settle` keep the garbage collector from looking at what the caches hold again and again.
Projections have no cycles and are not tracked at all when their types say `gc=False`, as the metadata here does;
while a list arrives chunk by chunk nothing else of it is alive, so that the collector needs no holding off.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

BUDGET_SECONDS = 0.005


class TimeBudget:
    """Real (never virtual) time since the last rest."""

    def __init__(self, seconds: float = BUDGET_SECONDS, now: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._now = now
        self._until = now() + seconds

    def spent(self) -> bool:
        """Whether it is time to yield. A True starts the next stretch, so `if budget.spent(): await sleep(0)`."""
        now = self._now()
        if now < self._until:
            return False
        self._until = now + self._seconds
        return True

    def restart(self) -> None:
        """The caller has just waited for something else: begin a new stretch."""
        self._until = self._now() + self._seconds


def calm_collector() -> None:
    """Call once at the start of a process with large caches: collect young objects less often.

    CPython's default (700) makes it look at everything decoded lately some fifty times in each 20,000 events.
    """
    gc.set_threshold(50_000, 20, 100)


def settle() -> None:
    """Call once after the initial sync: collect, then take all that lives out of future collections.

    A full collection over 20,000 cached dictionaries took 1.28 s, long enough to lose a lease.
    """
    gc.collect()
    gc.freeze()
