"""Fitting step times to a sweep.

Two things are unknown: the prefill rate, one number, and the decode step at every measured concurrency. In steady state
c requests take one turn in c × output / (output tokens per second) seconds, in which the engine prefills c prompts and
makes output − 1 decode steps. At a point where most steps prefill nothing, the median inter-token latency is the decode
step, so over such points

    prefill rate = Σ c·input / Σ (turn − (output − 1) · ITL p50)

Where prompts come in most steps (many requests, short answers), the median is that of a step with a prefill in it and
bounds the decode step from above only. The decode steps are then moved, by simulating each point, until the simulated
throughput is the measured one. A sweep of such points alone does not tell the two apart by itself; there the rate is
taken under which the simulated latencies come closest to the measured ones.

Reached on the H200 sweep of Qwen3-8B (`data/sweep-h200-qwen3-8b.json`; concurrency 2 4 8 16 24 32): prefill rate
46.4 k tokens/s; with the 1,046 prompt tokens that the engine really got, total tokens/s within 0.8 % of the sweep at
every point, in waves and in a plain closed loop; with the nominal 1,024, within 1.8 %. ITL p50 within 2 %. TTFT p50 in
waves .045 .090 .177 .358 .358 .540 s against .048 .059 .166 .225 .353 .491 measured: a wave prefills in whole steps of
at most 8,192 tokens, and the measured medians lie between two of them. TTFT p99 .745 s at 32 against .736.
"""

from __future__ import annotations

import math

from controller.plant.closed_loop import closed_loop
from controller.plant.service_time import DEFAULT_MAX_NUM_BATCHED_TOKENS, ServiceTime
from controller.plant.sweep import Sweep, SweepPoint

# A decode step is never moved further from the measured ITL than this: beyond it the sweep contradicts itself, and the
# latency is the figure that was measured directly.
_MOST_MOVED = 2.0
_ROUNDS = 6
_TURNS = 4
# Rates tried where no formula gives one: 30 steps of 20 % span a factor of 200.
_GRID_STEP = 1.2
_GRID_SIZE = 30
_THROUGHPUT_WEIGHT = 10.0  # capacity is what the fit is for


def fit_service_time(sweep: Sweep) -> ServiceTime:
    """Step times under which a simulated closed loop reproduces the sweep. See the module for how and how well."""
    rate = _prefill_rate(sweep)
    if rate is not None:
        return _calibrated(sweep, rate)[0]
    # Slowest thinkable: the whole turn is prefill.
    slowest = max(point.total_tokens_per_second - point.output_tokens_per_second for point in sweep.points)
    candidates = [slowest * _GRID_STEP**n for n in range(1, _GRID_SIZE)]
    return min((_calibrated(sweep, candidate) for candidate in candidates), key=lambda fitted: fitted[1])[0]


def _prefill_rate(sweep: Sweep) -> float | None:
    """The rate by the formula of the module; None when no point carries it or the latencies exceed the turns."""
    tokens = seconds = 0.0
    for point in sweep.points:
        if _mostly_decodes(point, sweep):
            turn = point.concurrency * sweep.output_tokens / point.output_tokens_per_second
            tokens += point.concurrency * sweep.input_tokens
            seconds += turn - (sweep.output_tokens - 1) * point.itl_seconds
    return tokens / seconds if seconds > 0 else None


def _calibrated(sweep: Sweep, prefill_rate: float) -> tuple[ServiceTime, float]:
    """Step times whose throughput is the measured one, as far as the rate allows, and how far off the figures are."""
    sizes = tuple(point.concurrency for point in sweep.points)
    bounds = _bounds(sweep)
    steps = [min(max(point.itl_seconds, low), high) for point, (low, high) in zip(sweep.points, bounds, strict=True)]
    prompt, output = max(1, round(sweep.input_tokens)), max(1, round(sweep.output_tokens))
    error = math.inf
    for _ in range(_ROUNDS):
        service = ServiceTime(prefill_rate, sizes, tuple(steps))
        error = 0.0
        for index, point in enumerate(sweep.points):
            c = point.concurrency
            simulated = closed_loop(service, c, [(prompt, output)], requests=_TURNS * c, waves=sweep.in_waves)
            tokens = c * output
            surplus = tokens / simulated.output_tokens_per_second - tokens / point.output_tokens_per_second
            low, high = bounds[index]
            steps[index] = min(max(steps[index] - surplus / max(1, output - 1), low), high)
            error += _THROUGHPUT_WEIGHT * _apart(simulated.output_tokens_per_second, point.output_tokens_per_second)
            error += _apart(simulated.itl_p50_seconds, point.itl_seconds)
            error += _apart(simulated.ttft_p50_seconds, point.ttft_seconds)
    return ServiceTime(prefill_rate, sizes, _never_falling(steps)), error


def _apart(simulated: float, measured: float) -> float:
    return abs(math.log(max(simulated, 1e-9) / measured))


def _mostly_decodes(point: SweepPoint, sweep: Sweep) -> bool:
    """Whether most steps of a turn hold no prefill. Waves prefill together, a closed loop one by one."""
    full_steps = sweep.input_tokens / DEFAULT_MAX_NUM_BATCHED_TOKENS
    prefills = point.concurrency * (full_steps if sweep.in_waves else max(1.0, full_steps))
    return prefills < (sweep.output_tokens - 1) / 2


def _bounds(sweep: Sweep) -> list[tuple[float, float]]:
    """Between what the decode step of each point may lie."""
    bounds: list[tuple[float, float]] = []
    floor = min(point.itl_seconds for point in sweep.points) / 100
    for point in sweep.points:
        itl = point.itl_seconds
        if _mostly_decodes(point, sweep):
            floor = itl / _MOST_MOVED
            bounds.append((floor, itl * _MOST_MOVED))
        else:
            bounds.append((min(floor, itl), itl))
    return bounds


def _never_falling(steps: list[float]) -> tuple[float, ...]:
    """A larger batch is never faster; a dip is noise of the measurement."""
    highest = 0.0
    result = []
    for step in steps:
        highest = max(highest, step)
        result.append(highest)
    return tuple(result)
