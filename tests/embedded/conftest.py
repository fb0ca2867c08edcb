"""Fixtures of the embedded world: virtual time, quick engines, an HTTP session.

Every async test of this room but those of the API server runs on virtual time: sockets are real, and what happens in a
second does not depend on the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import aiohttp
import pytest

from controller.embedded.engine import EngineConfig, EngineServer, EngineState
from controller.embedded.loopback import LoopbackAddresses
from controller.plant import ServiceTime
from controller.testing import LoopClock, VirtualTimeLoop

# 20 ms a decode step and 20,000 prompt tokens a second.
SERVICE = ServiceTime(20_000.0, (1, 8), (0.020, 0.024))

StartEngine = Callable[..., Awaitable[EngineServer]]


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.parent.name == "apiserver":
        return {"real": asyncio.SelectorEventLoop}
    return {"virtual": VirtualTimeLoop}


@pytest.fixture
def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """Without time-outs: an answer that never comes is a deadlock, and the loop says so."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        yield session


@pytest.fixture
async def start_engine(clock: LoopClock) -> AsyncIterator[StartEngine]:
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
