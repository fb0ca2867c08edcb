"""What the tests of the whole loop share: most of all, time that passes only while everybody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import structlog

from controller.testing import VirtualTimeLoop
from tests.reconcile.harness import World, world

# Processes live by the machine's clock.
_WITH_PROCESSES = {"test_processes.py"}
# Real time that the kernel has for what one end of a connection sent to reach the other, before time goes on without it.
_GRACE_SECONDS = 0.005


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.name in _WITH_PROCESSES:
        return {"ordinary": asyncio.new_event_loop}
    return {"virtual": lambda: VirtualTimeLoop(grace_seconds=_GRACE_SECONDS)}


@pytest.fixture(autouse=True)
def _plain_logs() -> None:
    """The console renderer draws every traceback with all its variables, which takes longer than the test around it."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(),
        ]
    )


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    """A world with one namespace, taken down after the test."""
    async with world(tmp_path) as made:
        yield made


@pytest.fixture
async def lax(tmp_path: Path) -> AsyncIterator[World]:
    """The same, with a server that checks nothing."""
    async with world(tmp_path, schemas=False) as made:
        yield made
