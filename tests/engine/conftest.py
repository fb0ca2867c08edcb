"""One world for all cases: starting an engine takes most of a minute. Each case brings it to the count that it needs
before it begins, so they depend neither on each other nor on their order.

Nothing runs without `--real-engine`: it installs vLLM (once, gigabytes) and keeps two cores busy for a quarter of an
hour. What was measured is printed at the end of the run, whatever the verdict.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hack.engine import Engine, EngineMissing, install_engine
from tests.engine.world import World, world

_HERE = Path(__file__).resolve().parent
_FIGURES = pytest.StashKey[list[str]]()


class Figures:
    """Takes down what was measured."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def add(self, line: str) -> None:
        self._lines.append(line)
        print(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--real-engine", action="store_true", help="run vLLM processes; it is installed where it is missing"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--real-engine", default=False):
        for item in items:
            if _HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="only with --real-engine (make test-engine)"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[_FIGURES]:
        terminalreporter.section("measured")
    for line in config.stash[_FIGURES]:
        terminalreporter.line(line)


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        found = install_engine(_say)
    except EngineMissing as missing:
        pytest.exit(f"no real engine: {missing}", returncode=missing.exit_status)
    now = datetime.now(UTC)
    request.config.stash[_FIGURES].append(f"{now:%Y-%m-%d %H:%M} UTC; {found}; {_machine()}")
    return found


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> Figures:
    return Figures(request.config.stash[_FIGURES])


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def team(request: pytest.FixtureRequest, engine: Engine) -> AsyncIterator[World]:
    directory = Path(tempfile.mkdtemp(prefix="test-engine-"))
    async with world(engine, directory) as made:
        yield made
    if request.session.testsfailed:
        _say(f"logs and decision records: {directory}")
    else:
        shutil.rmtree(directory)


def _machine() -> str:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return f"{os.cpu_count()} cores ({names[0] if names else platform.machine()}), Linux {platform.release()}"


def _say(line: str) -> None:
    print(f"\n{line}", file=sys.__stderr__, flush=True)
