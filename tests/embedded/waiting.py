"""Waiting for what will be, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.foundation import Clock

# Of virtual time: much more than anything here takes, so that only what never comes is missed. It costs half a minute.
PATIENCE_SECONDS = 3600.0
_LOOK_SECONDS = 0.1


async def until(condition: Callable[[], object], clock: Clock) -> None:
    """Return when the condition holds. Raises TimeoutError where it never does."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await clock.sleep(_LOOK_SECONDS)
