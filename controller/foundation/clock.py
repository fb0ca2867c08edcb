"""Clocks: where every component of this project gets its time from.

Two kinds of time exist and are never mixed:

* **model time** (`Clock.now`) drives sampling, decisions, pending and retirement budgets. In production it is the wall
  clock; in the demo it runs faster: model time = epoch + factor × (wall − epoch). Everybody who is handed the same
  (epoch, factor) pair agrees on it, also after a restart.
* **wall time** (`time.monotonic`, the event loop) drives leases, HTTP time-outs, watches and back-off.

Nothing in this project calls `time.time()` outside this module.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Protocol


class Clock(Protocol):
    """A source of model time in seconds since the Unix epoch."""

    def now(self) -> float:
        """Model time, in seconds since the Unix epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of model time. Cancel-safe."""
        ...

    def wall_seconds(self, model_seconds: float) -> float:
        """How many seconds of wall time `model_seconds` of model time take."""
        ...


class WallClock:
    """Model time is wall time: what production uses."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def wall_seconds(self, model_seconds: float) -> float:
        return model_seconds


class ScaledClock:
    """Model time runs `factor` times as fast as wall time, both being equal at `epoch_seconds`.

    Raises ValueError when the factor is not a positive finite number or the epoch is not finite.
    """

    def __init__(self, epoch_seconds: float, factor: float) -> None:
        if not 0.0 < factor < float("inf"):
            raise ValueError(f"clock factor must be a positive number, got {factor!r}")
        if not math.isfinite(epoch_seconds):
            raise ValueError(f"clock epoch must be a Unix time in seconds, got {epoch_seconds!r}")
        self.epoch_seconds = epoch_seconds
        self.factor = factor

    def now(self) -> float:
        return self.epoch_seconds + self.factor * (time.time() - self.epoch_seconds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self.factor)

    def wall_seconds(self, model_seconds: float) -> float:
        return model_seconds / self.factor


# Sums of fractions round at the seventh decimal of today's Unix time (its last place is worth 0.24 µs), so a sleep of
# 0.3 s could outlast three steps of 0.1 s.
_ROUNDING_SECONDS = 1e-6


class ManualClock:
    """A clock that stands still until a test moves it; `sleep` returns once the time has been reached."""

    def __init__(self, start_seconds: float = 1_700_000_000.0) -> None:
        self._now = start_seconds
        self._changed = asyncio.Event()

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the time forward and wake whoever sleeps. Raises ValueError for a step that is not zero or positive."""
        if not 0.0 <= seconds < float("inf"):
            raise ValueError(f"a clock only moves forward, got {seconds!r}")
        self._now += seconds
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def sleep(self, seconds: float) -> None:
        until = self._now + seconds
        await asyncio.sleep(0)  # like the other clocks: a sleep of nothing still lets others run
        while until - self._now > _ROUNDING_SECONDS:
            await self._changed.wait()

    def wall_seconds(self, model_seconds: float) -> float:
        return model_seconds


def boot_time() -> float:
    """Monotonic seconds that also pass while the machine is suspended, where the system can tell: what a lease counts
    by. `time.monotonic` stands still then on Linux, while everybody else's clock goes on."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def monotonic() -> float:
    """Wall-clock seconds that never jump; for leases, time-outs and measurements."""
    return time.monotonic()


def wall_now() -> float:
    """Wall-clock seconds since the Unix epoch; for Lease and Event timestamps and for log lines."""
    return time.time()
