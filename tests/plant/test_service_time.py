"""The fitted engine reproduces the sweep it was fitted to, and extrapolates carefully."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.plant import (
    DEFAULT_SWEEP,
    BatchLimits,
    ServiceTime,
    Sweep,
    closed_loop,
    fit_service_time,
    parse_sweep,
    read_sweep,
)

SWEEP = read_sweep(DEFAULT_SWEEP)
FITTED = fit_service_time(SWEEP)


@pytest.mark.parametrize("waves", [pytest.param(True, id="in waves"), pytest.param(False, id="one by one")])
@pytest.mark.parametrize("point", SWEEP.points, ids=lambda point: f"concurrency {point.concurrency}")
def test_a_closed_loop_of_1024_and_256_tokens_reproduces_the_sweep(point: Any, waves: bool) -> None:
    result = closed_loop(FITTED, point.concurrency, [(1024, 256)], requests=10 * point.concurrency, waves=waves)
    assert result.total_tokens_per_second == pytest.approx(point.total_tokens_per_second, rel=0.03)
    assert result.itl_p50_seconds == pytest.approx(point.itl_seconds, rel=0.05)


@pytest.mark.parametrize(
    ("concurrency", "low", "high"),
    # Medians lie between two whole steps of eight prompts; the figures are the sweep's.
    [(2, 0.040, 0.050), (4, 0.058, 0.095), (8, 0.160, 0.195), (16, 0.170, 0.370), (24, 0.350, 0.370), (32, 0.36, 0.55)],
)
def test_the_time_to_first_token_in_waves_is_that_of_the_sweep(concurrency: int, low: float, high: float) -> None:
    result = closed_loop(FITTED, concurrency, [(1024, 256)], requests=8 * concurrency, waves=True)
    assert low <= result.ttft_p50_seconds <= high


def test_the_slowest_first_token_at_full_load_is_that_of_the_sweep() -> None:
    result = closed_loop(FITTED, 32, [(1024, 256)], requests=320, waves=True)
    assert result.ttft_p99_seconds == pytest.approx(0.736, rel=0.05)


def test_slowing_an_engine_stretches_every_duration_by_the_factor() -> None:
    plain = closed_loop(FITTED, 16, [(900, 100)], requests=160)
    slow = closed_loop(FITTED.slowed(4).slowed(5), 16, [(900, 100)], requests=160)
    assert slow.total_tokens_per_second == pytest.approx(plain.total_tokens_per_second / 20)
    assert slow.ttft_p50_seconds == pytest.approx(plain.ttft_p50_seconds * 20)
    assert slow.itl_p50_seconds == pytest.approx(plain.itl_p50_seconds * 20)


def test_beyond_the_slots_throughput_stands_still_and_requests_queue() -> None:
    limits = BatchLimits(max_num_seqs=32, frame_tokens=1000)
    full = closed_loop(FITTED, 32, [(1024, 256)], requests=320, limits=limits)
    twice = closed_loop(FITTED, 64, [(1024, 256)], requests=640, limits=limits)
    assert twice.total_tokens_per_second == pytest.approx(full.total_tokens_per_second, rel=0.02)
    turn = 32 * 1280 / full.total_tokens_per_second
    assert twice.ttft_p50_seconds == pytest.approx(full.ttft_p50_seconds + turn, rel=0.15)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param(1, 0.010, id="below the first batch size the step is held"),
        pytest.param(4, 0.010, id="at a measured batch size it is the measured step"),
        pytest.param(6, 0.011, id="between two it is interpolated"),
        pytest.param(12, 0.016, id="beyond the last it goes on along the steeper slope"),
    ],
)
def test_decode_steps_by_batch_size(batch: int, expected: float) -> None:
    service = ServiceTime(1000.0, (4, 8, 10), (0.010, 0.012, 0.014))
    assert service.decode_step_seconds(batch) == pytest.approx(expected)


def test_a_step_costs_its_decoding_and_its_prefill() -> None:
    service = ServiceTime(1000.0, (4,), (0.010,), slowdown=2.0)
    assert service.step_seconds(4, 500) == pytest.approx(2 * (0.010 + 0.5))
    assert service.step_seconds(0, 500) == pytest.approx(2 * 0.5)


def sweep_of(truth: ServiceTime, prompt: int, output: int, sizes: list[int]) -> Sweep:
    """The sweep that a benchmark of this engine would give."""
    points = []
    for size in sizes:
        measured = closed_loop(truth, size, [(prompt, output)], requests=4 * size)
        points.append(
            {
                "concurrency": size,
                "totalTokensPerSecond": measured.total_tokens_per_second,
                "outputTokensPerSecond": measured.output_tokens_per_second,
                "ttft": {"p50": measured.ttft_p50_seconds * 1000},
                "itl": {"p50": measured.itl_p50_seconds * 1000},
            }
        )
    return parse_sweep({"workload": {"inputTokens": prompt, "outputTokens": output}, "points": points})


def assert_reproduced(sweep: Sweep, fitted: ServiceTime, prompt: int, output: int) -> None:
    for point in sweep.points:
        again = closed_loop(fitted, point.concurrency, [(prompt, output)], requests=4 * point.concurrency)
        assert again.total_tokens_per_second == pytest.approx(point.total_tokens_per_second, rel=0.05)


@settings(max_examples=20, deadline=None)
@given(
    truth=st.builds(
        lambda rate, base, slope: ServiceTime(rate, (1, 100), (base, base + 99 * slope)),
        rate=st.floats(2_000, 200_000),
        base=st.floats(0.002, 0.05),
        slope=st.floats(0, 0.002),
    ),
    prompt=st.integers(64, 4096),
    output=st.integers(32, 600),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5, unique=True),
)
def test_any_sweep_of_such_an_engine_is_fitted_to_its_throughput(
    truth: ServiceTime, prompt: int, output: int, sizes: list[int]
) -> None:
    sweep = sweep_of(truth, prompt, output, sizes)
    assert_reproduced(sweep, fit_service_time(sweep), prompt, output)


@pytest.mark.parametrize(
    ("truth", "prompt", "output", "sizes"),
    [
        pytest.param(
            ServiceTime(2000, (1, 99), (0.03, 0.03)), 3628, 32, [1, 33], id="one clean point, one that is not"
        ),
        pytest.param(
            ServiceTime(40e3, (1, 99), (0.006, 0.016)), 1024, 128, [64, 96], id="many requests, short answers"
        ),
        pytest.param(ServiceTime(118e3, (1, 99), (0.02, 0.02)), 1830, 33, [17, 65], id="answers of one line"),
    ],
)
def test_a_sweep_whose_steps_all_hold_prefills_is_fitted_too(
    truth: ServiceTime, prompt: int, output: int, sizes: list[int]
) -> None:
    sweep = sweep_of(truth, prompt, output, sizes)
    fitted = fit_service_time(sweep)
    assert_reproduced(sweep, fitted, prompt, output)
    assert fitted.prefill_tokens_per_second == pytest.approx(truth.prefill_tokens_per_second, rel=0.2)
