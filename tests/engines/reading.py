"""One body, read as an engine would have sent it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.engines import BodyReader, BodyRefused, EngineReading, MissingReason

READER = BodyReader()
RUNNING = "vllm:num_requests_running 3\n"


def read(text: str, **options: Any) -> EngineReading:
    return READER.read(text.encode(), **options)


def why(text: str, field: str, **options: Any) -> MissingReason:
    reading = read(text, **options)
    assert getattr(reading, field) is None
    missing = reading.why_missing(field)
    assert missing is not None
    return missing.reason


def refusal(text: str, **options: Any) -> BodyRefused:
    with pytest.raises(BodyRefused) as refused:
        read(text, **options)
    return refused.value
