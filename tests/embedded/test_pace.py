"""The clock factor that a machine can afford follows from requests and frames."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from controller.embedded.pace import affordable_factor, bearable_factor, measured_cores, patience_seconds
from controller.foundation import ScaledClock
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


@pytest.mark.parametrize(
    ("cpu_share", "cores"),
    [
        pytest.param(1.0, 1.0, id="a core to spare is a whole core"),
        pytest.param(0.95, 1.0, id="a little noise does not count"),
        pytest.param(0.5, 0.3, id="half a core that is shared carries less than half"),
        pytest.param(0.1, 0.06, id="a tenth"),
    ],
)
def test_how_much_of_a_core_there_is(cpu_share: float, cores: float) -> None:
    ticks = itertools.count()
    wall = [0.0]

    def now() -> float:
        wall[0] = next(ticks) * 0.1
        return wall[0]

    assert measured_cores(now, lambda: cpu_share * wall[0], seconds=0.5) == pytest.approx(cores)


def test_however_busy_the_machine_nothing_runs_slower_than_real_time() -> None:
    subject = trace([120], 2000)
    assert bearable_factor(subject, 1.0) == affordable_factor(subject)
    assert bearable_factor(subject, 0.5) == affordable_factor(subject, cores=0.5)
    assert bearable_factor(subject, 0.051) == bearable_factor(subject, 0.01) == 1.0


@pytest.mark.parametrize(
    ("factor", "asked", "waits"),
    [
        pytest.param(1.0, 240.0, 240.0, id="in real time as long as it says"),
        pytest.param(60.0, 240.0, 3600.0, id="at sixty times real time still a minute of the wall clock"),
        pytest.param(60.0, 0.0, 0.0, id="who does not wait at all still does not"),
    ],
)
def test_no_wait_is_shorter_than_a_machine_may_stall(factor: float, asked: float, waits: float) -> None:
    assert patience_seconds(ScaledClock(0.0, factor), asked) == pytest.approx(waits)
