"""What every test can rely on."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import settings

# An example that takes long on a busy machine is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def _to_stderr(*_: Any) -> Any:
    """Log lines go where they go in a process: standard output is for results."""
    return structlog.PrintLogger(sys.stderr)


@pytest.fixture(autouse=True)
def _logging_as_in_a_process() -> Iterator[None]:
    """A test that configures logging (to a stream that is closed after it) leaves nothing behind."""
    structlog.configure(logger_factory=_to_stderr)
    yield
    structlog.reset_defaults()
