"""What a run of the embedded world showed, as plain numbers for reports. Frozen; nothing here refers to a live part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorldSnapshot:
    """The world at one moment, for a live view. Rates and latencies cover the last model minute; None: nothing yet."""

    t_seconds: float  # since the traffic began; negative before
    duration_seconds: float  # of the traffic
    demand_tokens_per_second: float
    served_tokens_per_second: float
    ttft_p50_seconds: float | None
    ttft_p95_seconds: float | None
    desired_replicas: int
    ready_replicas: int
    running_requests: int
    waiting_requests: int
    held_requests: int
    requests: int
    completed: int
    lost: int


@dataclass(frozen=True, slots=True)
class WorldSeries:
    """One value per interval; interval i covers [t_seconds[i], t_seconds[i] + interval_seconds). Counts of replicas and
    requests in the engines are those at its end; None: no value in the interval."""

    interval_seconds: float
    t_seconds: Sequence[float]
    demand_tokens_per_second: Sequence[float]
    served_tokens_per_second: Sequence[float]
    requests: Sequence[int]
    lost: Sequence[int]
    ttft_p50_seconds: Sequence[float | None]
    ttft_p95_seconds: Sequence[float | None]
    itl_p50_seconds: Sequence[float | None]
    desired_replicas: Sequence[int]
    ready_replicas: Sequence[int]
    running_requests: Sequence[int]
    waiting_requests: Sequence[int]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles in milliseconds of model time; None without values."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class WorldResults:
    """Totals of a run, and its course. Times are model time, from the start of the traffic to its last answer."""

    duration_seconds: float
    requests: int
    completed: int
    lost: int
    rejected: int
    abandoned: int
    tokens: int
    output_tokens: int
    ready_replica_seconds: float
    desired_replica_seconds: float
    max_ready_replicas: int
    max_desired_replicas: int
    replica_changes: int  # of the declared count
    ttft_milliseconds: Quantiles
    itl_milliseconds: Quantiles
    latest_send_seconds: float  # how far the clients ever lagged behind their schedule
    loss_reasons: Sequence[str]  # of the first losses
    series: WorldSeries
