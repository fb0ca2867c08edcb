"""What a run of the embedded world showed, as plain numbers for reports. Frozen; nothing here refers to a live part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.embedded.audit import Audit
from controller.embedded.census import RoleCounts
from controller.embedded.retirement_history import Retirements


@dataclass(frozen=True, slots=True)
class WorldSnapshot:
    """The world at one moment, for a live view. Rates and latencies cover the last model minute; None: nothing yet.

    The demand of clients that lag is that of the minute they have got to: they have sent nothing of the last one yet.
    """

    t_seconds: float  # since the traffic began; negative before
    duration_seconds: float  # of the traffic
    demand_tokens_per_second: float
    served_tokens_per_second: float
    ttft_p50_seconds: float | None
    ttft_p95_seconds: float | None
    replicas: Mapping[str, RoleCounts]
    running_requests: int
    waiting_requests: int
    held_requests: int
    lag_seconds: float  # of the clients
    late_requests: int
    requests: int
    completed: int
    lost: int


@dataclass(frozen=True, slots=True)
class WorldSeries:
    """One value per interval; interval i covers [t_seconds[i], t_seconds[i] + interval_seconds). Counts of replicas (by
    role) and requests in the engines are those at its end; None: no value in the interval."""

    interval_seconds: float
    t_seconds: Sequence[float]
    demand_tokens_per_second: Sequence[float]
    prompt_tokens_per_second: Sequence[float]  # of the demand
    served_tokens_per_second: Sequence[float]
    requests: Sequence[int]
    lost: Sequence[int]
    ttft_p50_seconds: Sequence[float | None]
    ttft_p95_seconds: Sequence[float | None]
    itl_p50_seconds: Sequence[float | None]
    replicas: Mapping[str, Sequence[RoleCounts]]
    running_requests: Sequence[int]
    waiting_requests: Sequence[int]

    @property
    def ready_replicas(self) -> list[int]:
        """Ready replicas of all roles."""
        return [sum(each.ready for each in counts) for counts in zip(*self.replicas.values(), strict=True)]

    @property
    def desired_replicas(self) -> list[int]:
        """Declared replicas of all roles."""
        return [sum(each.desired for each in counts) for counts in zip(*self.replicas.values(), strict=True)]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles in milliseconds of model time; None without values."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class RoleResults:
    """What one role came to."""

    ready_replica_seconds: float
    desired_replica_seconds: float
    max_ready_replicas: int
    max_desired_replicas: int
    replica_changes: int  # of the declared count


@dataclass(frozen=True, slots=True)
class WorldResults:
    """Totals of a run, and its course. Times are model time, from the start of the traffic to its last answer.

    `cut_requests`: in flight at engines that were ended; their clients lost them. `writers` and `retirements` are
    what the API server's history proves; None where it does not reach back to the beginning.
    """

    duration_seconds: float
    requests: int
    completed: int
    lost: int
    rejected: int
    abandoned: int
    tokens: int
    output_tokens: int
    roles: Mapping[str, RoleResults]
    ttft_milliseconds: Quantiles
    itl_milliseconds: Quantiles
    latest_send_seconds: float  # how far the clients ever lagged behind their schedule
    late_requests: int  # sent so late that the load was not the one that was asked for
    loss_reasons: Mapping[str, int]  # the first texts, and how often each was given
    cut_requests: int
    writers: Audit | None
    retirements: Retirements | None
    series: WorldSeries

    @property
    def ready_replica_seconds(self) -> float:
        """Of all roles."""
        return sum(role.ready_replica_seconds for role in self.roles.values())

    @property
    def desired_replica_seconds(self) -> float:
        """Of all roles."""
        return sum(role.desired_replica_seconds for role in self.roles.values())

    @property
    def replica_changes(self) -> int:
        """Of all declared counts."""
        return sum(role.replica_changes for role in self.roles.values())
