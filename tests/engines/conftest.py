"""What the tests of engines share: time that passes only while everybody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from controller.testing import VirtualTimeLoop


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """An engine that answers does so within every time-out, however slow the machine, and one that hangs never does."""
    del item
    return {"virtual": VirtualTimeLoop}
