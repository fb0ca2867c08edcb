"""Any trace is made to need between one and about five replicas, within the bounds that the demo has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from controller.plant import (
    DEFAULT_SWEEP,
    DEFAULT_TRACE,
    BatchLimits,
    RequestTrace,
    closed_loop,
    dimension,
    fit_service_time,
    read_sweep,
    read_trace,
    spread,
    token_rate,
)

DATA = Path(__file__).parents[1] / "data" / "traces"
SERVICE = fit_service_time(read_sweep(DEFAULT_SWEEP))


def synthetic(rate: float, prompt: int, output: int, *, minutes: float = 30) -> RequestTrace:
    """Poisson arrivals whose rate swings once up and down."""
    random = np.random.default_rng(1)
    seconds = minutes * 60
    t = np.sort(random.random(round(rate * seconds)) * seconds)
    keep = random.random(len(t)) < (1 + 0.5 * np.sin(2 * np.pi * t / seconds)) / 1.5
    t = t[keep]
    return RequestTrace(
        t,
        random.geometric(1 / prompt, len(t)).astype(np.int64),
        np.minimum(random.geometric(1 / output, len(t)), 8 * output).astype(np.int64),
        seconds,
    )


TRACES = [
    pytest.param(lambda: read_trace(DEFAULT_TRACE), id="the Azure conversation hour"),
    pytest.param(lambda: read_trace(DATA / "azure23-conv-1h-10s.csv.gz"), id="the same hour in bins"),
    pytest.param(lambda: read_trace(DATA / "aibrix-8min-updown-raw.csv.gz"), id="a short wave"),
    pytest.param(lambda: synthetic(0.4, 800, 200, minutes=60), id="a small service"),
    pytest.param(lambda: synthetic(60, 2000, 30), id="a large service that mostly reads"),
    pytest.param(lambda: synthetic(9, 1200, 1500), id="long answers"),
    pytest.param(lambda: synthetic(6, 500, 100, minutes=3), id="three minutes only"),
]


@pytest.mark.parametrize("source", TRACES)
def test_the_need_peaks_at_about_five_replicas_within_the_bounds(source) -> None:  # type: ignore[no-untyped-def]
    trace = spread(source(), seed=4)
    made = dimension(trace, SERVICE, seed=4)
    assert 1.0 <= made.thinning <= 5.0
    assert made.longest_decode_seconds < 200
    assert made.need_replicas_peak <= 5.01
    held_back = made.longest_decode_seconds > 185 and made.thinning == 1.0  # too small a trace for five
    assert made.need_replicas_peak >= 4.5 or held_back
    assert made.need_replicas_low < made.need_replicas_mean < made.need_replicas_peak
    # What is stated follows from what is returned.
    peak = token_rate(made.trace, 60).max()
    assert made.need_replicas_peak == pytest.approx(peak / made.effective_tokens_per_second)
    assert made.effective_tokens_per_second == pytest.approx(0.75 * made.capacity_tokens_per_second)
    assert made.service.slowdown == pytest.approx(made.slowdown)
    assert made.ttft_target_seconds == pytest.approx(2.0 * made.slowdown)


def test_the_capacity_is_that_of_the_slowed_engine_under_the_traces_own_mix() -> None:
    made = dimension(spread(read_trace(DEFAULT_TRACE), 1), SERVICE, seed=1)
    lengths = list(zip(made.trace.prompt_tokens.tolist(), made.trace.output_tokens.tolist(), strict=True))
    measured = closed_loop(made.service, 32, lengths, requests=600, limits=BatchLimits(32, frame_tokens=10_000))
    assert measured.total_tokens_per_second == pytest.approx(made.capacity_tokens_per_second, rel=0.08)


def test_the_same_seed_gives_the_same_dimension() -> None:
    trace = spread(read_trace(DATA / "aibrix-8min-updown-raw.csv.gz"), 1)
    first, again, other = (dimension(trace, SERVICE, seed=seed) for seed in (1, 1, 2))
    assert first.slowdown == again.slowdown
    assert np.array_equal(first.trace.t_seconds, again.trace.t_seconds)
    assert not np.array_equal(first.trace.t_seconds, other.trace.t_seconds)
