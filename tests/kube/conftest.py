"""Every async test of this room runs on virtual time; loopback sockets work on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from controller.kube import Connection, KubeClient
from controller.testing import VirtualTimeLoop
from tests.kube.scripted_server import ScriptedServer

# Enough for every change to meet some of each fault; the full thousand take about a minute.
DEFAULT_SEEDS = 20


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=DEFAULT_SEEDS, help="random schedules of the model and elector tests")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "model_seed" in metafunc.fixturenames:
        count = metafunc.config.getoption("--seeds", default=DEFAULT_SEEDS)
        metafunc.parametrize("model_seed", range(int(count)))


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
