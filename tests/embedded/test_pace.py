"""The clock factor that a machine can afford follows from requests and frames."""

from __future__ import annotations

import numpy as np
import pytest

from controller.embedded.pace import affordable_factor
from controller.plant import RequestTrace


def trace(per_minute: list[int], output: int) -> RequestTrace:
    t = np.concatenate([60.0 * minute + np.linspace(0, 59, count) for minute, count in enumerate(per_minute)])
    ones = np.ones(len(t), dtype=np.int64)
    return RequestTrace(t, ones, output * ones, 60.0 * len(per_minute))


def test_the_busiest_minute_decides() -> None:
    calm, burst = trace([60, 60, 60], 320), trace([60, 180, 60], 320)
    assert affordable_factor(calm) == pytest.approx(0.95 / (0.002 + 0.0001 * 11))
    assert affordable_factor(burst) == pytest.approx(affordable_factor(calm) / 3)


def test_larger_frames_and_more_cores_allow_a_faster_clock() -> None:
    subject = trace([120], 2000)
    assert affordable_factor(subject, frame_tokens=64) > affordable_factor(subject, frame_tokens=16)
    assert affordable_factor(subject, cores=1.05) == pytest.approx(2 * affordable_factor(subject, cores=0.55))
    with pytest.raises(ValueError, match="idle world"):
        affordable_factor(subject, cores=0.05)
