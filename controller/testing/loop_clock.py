"""A clock whose model time is the event loop's: on a virtual-time loop, timers and model time never disagree."""

from __future__ import annotations

import asyncio

_EPOCH_SECONDS = 1_700_000_000.0


class LoopClock:
    """Model time is the running loop's time, counted from `epoch_seconds`."""

    def __init__(self, epoch_seconds: float = _EPOCH_SECONDS) -> None:
        self.epoch_seconds = epoch_seconds

    def now(self) -> float:
        """Model time, in seconds since the Unix epoch. Raises RuntimeError where no loop runs."""
        return self.epoch_seconds + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait for so long. Cancel-safe."""
        await asyncio.sleep(max(0.0, seconds))

    def wall_seconds(self, model_seconds: float) -> float:
        """As many."""
        return model_seconds
