"""NVIDIA Dynamo planner: sizing from a capacity model, load thresholds, consolidation, and its predictors.

Source: ai-dynamo/dynamo `components/src/dynamo/planner/core` (load, state machine, replica calculation). The GPU budget
is in `dynamo_budget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite

from controller.scaling import kalman
from controller.simulation.baselines.arithmetic import up

CONTEXT_TOKENS = 4096
KV_TOKENS = 100_000

# The planner starts its filter with this variance in level and slope.
START_VARIANCE = 1000.0

# (scale up at, scale down below) of a worker's load as a share of its context or cache.
THRESHOLDS = {
    ("prefill", "throughput"): (1.0, 0.1),
    ("prefill", "latency"): (0.1, 0.0),
    ("decode", "throughput"): (1.0, 0.6),
    ("decode", "latency"): (0.4, 0.1),
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of one interval, and the throughput of one GPU."""

    requests: float
    prompt_tokens: float
    output_tokens: float
    interval_seconds: float
    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    prefill_gpus: int = 1
    decode_gpus: int = 1
    prefill_correction: float = 1.0
    minimum: int = 1


def replicas(traffic: Traffic) -> tuple[int, int]:
    """(prefill, decode) of the planner with correction factors: work per second ÷ throughput of a replica."""
    per_second = traffic.requests / traffic.interval_seconds
    prefill_work = per_second * traffic.prompt_tokens * min(1.0, traffic.prefill_correction)
    prefill = up(prefill_work / traffic.prefill_tokens_per_second / traffic.prefill_gpus)
    decode = up(per_second * traffic.output_tokens / traffic.decode_tokens_per_second / traffic.decode_gpus)
    return max(prefill, traffic.minimum), max(decode, traffic.minimum)


def threshold_replicas(role: str, mode: str, loads: Sequence[float]) -> int:
    """One step up if any worker is over its line, one down if all are under theirs and more than one is left."""
    whole = CONTEXT_TOKENS if role == "prefill" else KV_TOKENS
    high, low = THRESHOLDS[role, mode]
    shares = [load / whole for load in loads]
    if any(share >= high for share in shares):
        return len(shares) + 1
    if len(shares) > 1 and all(share < low or share == 0.0 for share in shares):
        return len(shares) - 1
    return len(shares)


@dataclass(frozen=True, slots=True)
class DecodeModel:
    """The fitted latency of a decode step over tokens in cache, and the tokens of one mean request."""

    seconds_per_token: float = 1e-5
    seconds: float = 1e-3
    request_tokens: float = 1000.0


def consolidated_replicas(
    workers: int,
    kv_per_worker: float,
    itl_target_ms: float,
    largest_kv: float | None,
    sensitivity: float,
    model: DecodeModel | None = None,
) -> int:
    """One decode worker less if the survivors' cache and latency allow it."""
    if workers < 2:
        return workers
    fitted = model or DecodeModel()
    kv = kv_per_worker * workers / (workers - 1)
    if largest_kv is not None and kv > largest_kv:
        return workers
    itl_ms = 1e3 * (fitted.seconds_per_token * (kv + fitted.request_tokens) + fitted.seconds)
    return workers - 1 if itl_ms < itl_target_ms * sensitivity else workers


@dataclass(slots=True)
class Predictor:
    """The input hygiene that its predictors share: leading zeros are skipped, NaN is stored as zero."""

    buffer: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """One observation."""
        value = value if isfinite(value) else 0.0
        if value or self.buffer:
            self.buffer.append(value)

    def forecast(self) -> float:
        """The constant predictor: the last value."""
        return self.buffer[-1] if self.buffer else 0.0


@dataclass(slots=True)
class KalmanPredictor(Predictor):
    """A local linear trend, one interval ahead. Reading a forecast does not move the filter."""

    noise: kalman.Noise = field(default_factory=lambda: kalman.Noise(1.0, 0.1, 10.0))
    minimum_points: int = 5
    trend: kalman.Trend | None = None

    def add(self, value: float) -> None:
        """One observation."""
        known = len(self.buffer)
        super(KalmanPredictor, self).add(value)
        if len(self.buffer) == known:
            return
        value = self.buffer[-1]
        if self.trend is None:
            self.trend = kalman.started(value, START_VARIANCE, START_VARIANCE)
        else:
            self.trend = kalman.updated(kalman.advanced(self.trend, 1.0, self.noise), value, self.noise)

    def forecast(self) -> float:
        """The level one interval from now, never negative; the last value before there are enough."""
        if self.trend is None or len(self.buffer) < self.minimum_points:
            return self.buffer[-1] if self.buffer else 0.0
        return kalman.extrapolated(self.trend, 1.0)
