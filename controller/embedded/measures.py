"""Bounded memory for what clients measure: distributions of durations, and totals per interval of model time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

# Buckets grow by 2 %, so a quantile is within 1 % of the true value; from 0.1 ms to a day that makes 1,040 at most.
_GROWTH = math.log(1.02)
_SMALLEST = 1e-4
_LARGEST = 86_400.0


class Distribution:
    """Durations in seconds, in logarithmic buckets. Values outside 0.1 ms … 1 day count as the nearest of the two."""

    __slots__ = ("_counts", "count", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.total = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a value `times` times."""
        bucket = math.floor(math.log(min(max(seconds, _SMALLEST), _LARGEST)) / _GROWTH)
        self._counts[bucket] = self._counts.get(bucket, 0) + times
        self.count += times
        self.total += seconds * times

    def merge(self, others: Iterable[Distribution]) -> Distribution:
        """A new distribution of these values and those of `others`."""
        merged = Distribution()
        for one in (self, *others):
            for bucket, count in one._counts.items():  # noqa: SLF001 - its own class
                merged._counts[bucket] = merged._counts.get(bucket, 0) + count
            merged.count += one.count
            merged.total += one.total
        return merged

    @property
    def mean(self) -> float | None:
        """The exact mean, None without values."""
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """The value below which `share` of the values lie, within 1 %; None without values."""
        if not self.count:
            return None
        wanted, seen = share * self.count, 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return math.exp((bucket + 0.5) * _GROWTH)
        raise AssertionError("counts do not add up")


@dataclass(slots=True)
class Interval:
    """What happened in one interval of model time. Tokens arrive with their request and are served when they come."""

    requests: int = 0
    arrived_tokens: int = 0
    arrived_prompt_tokens: int = 0  # of these
    served_tokens: int = 0
    completed: int = 0
    lost: int = 0
    ttft: Distribution = field(default_factory=Distribution)  # of the requests whose first token came in it
    itl: Distribution = field(default_factory=Distribution)


class IntervalSeries:
    """Intervals of equal length from `start_seconds` on, made as they are needed; there are no gaps."""

    def __init__(self, start_seconds: float, interval_seconds: float) -> None:
        self.start_seconds = start_seconds
        self.interval_seconds = interval_seconds
        self.intervals: list[Interval] = []

    def at(self, seconds: float) -> Interval:
        """The interval of a moment; one before the start counts into the first."""
        index = max(0, int((seconds - self.start_seconds) / self.interval_seconds))
        while index >= len(self.intervals):
            self.intervals.append(Interval())
        return self.intervals[index]
