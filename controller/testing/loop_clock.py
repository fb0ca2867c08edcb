"""A clock whose model time is the event loop's: on a virtual-time loop, timers and model time never disagree."""

from __future__ import annotations

import asyncio

from controller.foundation import ScaledClock

_EPOCH_SECONDS = 1_700_000_000.0


class LoopClock(ScaledClock):
    """Model time is the running loop's time, `factor` times as fast and counted from `epoch_seconds`."""

    def __init__(self, epoch_seconds: float = _EPOCH_SECONDS, factor: float = 1.0) -> None:
        super().__init__(epoch_seconds, factor)

    def now(self) -> float:
        """Model time, in seconds since the Unix epoch. Raises RuntimeError where no loop runs."""
        return self.epoch_seconds + self.factor * asyncio.get_running_loop().time()
