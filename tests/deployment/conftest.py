"""Thousands of passes are played here; what they log is nobody's to read."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.deployment.world import TWO, World


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Only errors are logged."""
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR), cache_logger_on_first_use=False
    )
    yield
    structlog.configure(**before)


@pytest.fixture
async def chat() -> World:
    """Two Ready, eligible replicas."""
    world = World()
    world.declare(TWO)
    await world.rest()
    assert world.eligible() == ["chat-server-0", "chat-server-1"]
    return world
