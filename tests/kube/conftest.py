"""Every async test of this room runs on virtual time; loopback sockets work on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from controller.kube import Connection, KubeClient
from controller.testing import VirtualTimeLoop
from tests.kube.scripted_server import ScriptedServer


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[KubeClient]:
    made = KubeClient(Connection(server.url), user_agent="test/1", field_manager="tester")
    yield made
    await made.close()
