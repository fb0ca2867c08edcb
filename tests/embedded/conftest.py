"""Fixtures of the embedded world: a fast clock, quick engines, an HTTP session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from controller.embedded.engine import EngineConfig, EngineServer, EngineState
from controller.embedded.loopback import LoopbackAddresses
from controller.foundation import ScaledClock, wall_now
from controller.plant import ServiceTime

# 20 ms a decode step and 20,000 prompt tokens a second in model time; a hundred model seconds pass in one of wall time.
SERVICE = ServiceTime(20_000.0, (1, 8), (0.020, 0.024))

StartEngine = Callable[..., Awaitable[EngineServer]]


@pytest.fixture
def clock() -> ScaledClock:
    return ScaledClock(wall_now(), 100.0)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def start_engine(clock: ScaledClock) -> AsyncIterator[StartEngine]:
    """Starts engines and stops them after the test; waits until they serve unless told not to."""
    addresses = LoopbackAddresses()
    started: list[EngineServer] = []

    async def start(*, wait: bool = True, **changes: object) -> EngineServer:
        settings: dict[str, object] = {"model_name": "m", "service": SERVICE, "startup_seconds": 0.0, "frame_tokens": 8}
        engine = EngineServer(EngineConfig(**(settings | changes)), clock)  # type: ignore[arg-type]
        started.append(engine)
        await engine.start(addresses, 18000)
        while wait and engine.state is not EngineState.SERVING:
            await clock.sleep(0.1)
        return engine

    yield start
    for engine in started:
        await engine.stop()
