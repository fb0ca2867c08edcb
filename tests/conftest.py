"""What every test can rely on."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logging_as_at_the_start() -> Iterator[None]:
    """A test that configures logging (to a stream that is closed after it) leaves nothing behind."""
    yield
    structlog.reset_defaults()
