"""Knative Pod Autoscaler: stable and panic windows, burst capacity, scale-down delay.

Source: knative/serving `pkg/autoscaler/scaling/autoscaler.go`, `pkg/autoscaler/aggregation`,
`pkg/autoscaler/metrics`, `pkg/reconciler/autoscaling/resources/target.go`. Unlike ours it panics against READY pods
only, and silent seconds inside a window are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor

from controller.simulation.baselines.arithmetic import down, up

SCALE_DOWN_SLOT_SECONDS = 2.0
SMALLEST_TARGET = 0.01


@dataclass(frozen=True, slots=True)
class Settings:
    """One revision's autoscaling settings; the defaults are those of the shipped configuration."""

    target: float
    total_per_pod: float
    burst_capacity: float = 211.0
    max_up_rate: float = 1000.0
    max_down_rate: float = 2.0
    panic_threshold: float = 2.0
    stable_seconds: float = 60.0
    scale_down_delay_seconds: float = 0.0
    activation_scale: int = 1
    reachable: bool = True


@dataclass(frozen=True, slots=True)
class Panic:
    """Since when, and the highest count reached in it."""

    since: float
    floor: int


@dataclass(frozen=True, slots=True)
class Scale:
    """The outcome of one tick."""

    replicas: int
    excess_burst_capacity: int
    panicking: bool


def started(ready: int, now: float) -> Panic | None:
    """A restarted autoscaler with more than one pod begins in panic, so that an empty window does not shrink it."""
    return Panic(now, ready) if ready > 1 else None


@dataclass(slots=True)
class Autoscaler:
    """One revision's state between ticks."""

    settings: Settings
    panic: Panic | None = None
    _slots: dict[int, int] = field(default_factory=dict)

    def scale(self, now: float, stable: float, panic: float, ready: int) -> Scale:
        """One tick. `stable` and `panic` are window averages over all pods, in the target's unit."""
        settings = self.settings
        counted = max(1, ready)
        highest = ceil(settings.max_up_rate * counted)
        lowest = floor(counted / settings.max_down_rate) if settings.reachable else 0
        stable_count, panic_count = up(stable / settings.target), up(panic / settings.target)
        over = panic_count / counted >= settings.panic_threshold
        stable_count = self._activated(max(lowest, min(stable_count, highest)))
        panic_count = self._activated(max(lowest, min(panic_count, highest)))
        if over:
            self.panic = Panic(now, self.panic.floor if self.panic else 0)
        elif self.panic is not None and self.panic.since + settings.stable_seconds < now:
            self.panic = None
        wanted = stable_count
        if self.panic is not None:
            wanted = max(stable_count, panic_count, self.panic.floor)
            self.panic = Panic(self.panic.since, wanted)
        if settings.scale_down_delay_seconds > 0.0 and settings.reachable:
            wanted = self._delayed(now, wanted)
        return Scale(wanted, self._excess(panic, ready), self.panic is not None)

    def _activated(self, count: int) -> int:
        return max(count, self.settings.activation_scale) if count > 0 else count

    def _excess(self, panic: float, ready: int) -> int:
        burst = self.settings.burst_capacity
        if burst <= 0.0:
            return int(burst)
        return down(ready * self.settings.total_per_pod - burst - panic)

    def _delayed(self, now: float, wanted: int) -> int:
        slot = int(now // SCALE_DOWN_SLOT_SECONDS)
        slots = ceil(self.settings.scale_down_delay_seconds / SCALE_DOWN_SLOT_SECONDS)
        self._slots[slot] = max(wanted, self._slots.get(slot, 0))
        self._slots = {old: count for old, count in self._slots.items() if old > slot - slots}
        return max(self._slots.values())


@dataclass(slots=True)
class WindowAverage:
    """An average over one-second buckets. While it fills it divides by the seconds since the first write; later, silent
    seconds are zeros; seconds after the last write count neither way; a gap as long as the window empties it."""

    seconds: int
    _buckets: dict[int, float] = field(default_factory=dict)
    _first: int | None = None
    _last: int | None = None

    def record(self, at: float, value: float) -> None:
        """Add a value; one older than the window is dropped."""
        second = int(at)
        if self._first is None or self._last is None or second - self._last >= self.seconds:
            self._buckets, self._first, self._last = {}, second, second
        elif second <= self._last - self.seconds:
            return
        self._first, self._last = min(self._first, second), max(self._last, second)
        self._buckets[second] = self._buckets.get(second, 0.0) + value
        self._buckets = {old: kept for old, kept in self._buckets.items() if old > self._last - self.seconds}

    def average(self, at: float) -> float:
        """The average as seen at a time."""
        if self._first is None or self._last is None or int(at) - self._last >= self.seconds:
            return 0.0
        start = max(self._first, int(at) - self.seconds + 1)
        inside = [value for second, value in self._buckets.items() if second >= start]
        return sum(inside) / (self._last - start + 1)


def sample_size(pods: int) -> int:
    """How many of a population are scraped: all up to three, then enough for 95 % confidence."""
    if pods <= 3:
        return pods
    needed = 1.96**2 * 100.0 / 25.0
    return ceil(pods * needed / (pods + needed - 1.0))


def targets(
    total: float, utilization: float, *, container_concurrency: float | None, annotation: float | None, rps: bool
) -> tuple[float, float]:
    """(target per pod, total capacity per pod): the annotation, but no more than the container takes; else the
    default."""
    limit = None if rps else container_concurrency
    if annotation is not None:
        total = annotation if not limit else min(annotation, limit)
    elif limit:
        total = limit
    return max(SMALLEST_TARGET, total * utilization), total
