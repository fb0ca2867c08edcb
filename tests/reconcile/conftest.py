"""What the tests of the whole loop share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from tests.reconcile.harness import World, world


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
