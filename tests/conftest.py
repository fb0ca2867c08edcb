"""What every test can rely on."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import settings

from tests.busy import slow_down
from tests.reruns import ask_safety_once

# Beyond this the processes' own start costs more than they save.
_MOST_WORKERS = 8

# An example that takes long on a busy machine is no failure. The same examples in every run: a change is judged by what it
# changes. `HYPOTHESIS_PROFILE=explore` draws new ones, to look for what these do not show.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "patient"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--busy",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="make event loops this many times as slow, with stalls: shows tests that depend on the machine's pace",
    )


def pytest_configure(config: pytest.Config) -> None:
    if (factor := config.getoption("--busy")) != 1.0:
        slow_down(factor, seed=os.getpid())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ask_safety_once(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: a test keeps a core busy for less than half of its time."""
    del config
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + 1, _MOST_WORKERS)


def _to_stderr(*_: Any) -> Any:
    """Log lines go where they go in a process: standard output is for results."""
    return structlog.PrintLogger(sys.stderr)


@pytest.fixture(autouse=True)
def _logging_as_in_a_process() -> Iterator[None]:
    """A test that configures logging (to a stream that is closed after it) leaves nothing behind."""
    structlog.configure(logger_factory=_to_stderr)
    yield
    structlog.reset_defaults()
