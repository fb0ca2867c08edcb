"""From bucket lines to one histogram: per rank, checked, then summed over ranks.

Rules: ranks with different bounds are summed over the bounds they share; counts never fall with the bound; the sum must
be possible for the buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from controller.engines.reading import Histogram, MissingReason


class Unobserved(Exception):
    """A reading that is not there. Raised inside this room only; it becomes a `Missing`."""

    def __init__(self, reason: MissingReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(slots=True)
class RankHistogram:
    """The lines of one histogram of one rank."""

    buckets: dict[float, float] = field(default_factory=dict)
    sum: float | None = None
    count: float | None = None


# A histogram is read while it is written, so the sum may be an observation ahead of the buckets. Only gross
# contradictions among many observations are worth a refusal: all of them in the first bucket and minutes in the sum, or
# the reverse (vllm#8115, #8819).
_SUM_FACTOR = 2.0
_SUM_CHECKED_FROM = 100


def complete(rank: RankHistogram) -> Histogram:
    """One rank's histogram, checked; its bucket counts are finite and not negative. Raises Unobserved."""
    if math.inf not in rank.buckets:
        # The engine always prints +Inf, so buckets without it are a part of the truth.
        if rank.count is None or not math.isfinite(rank.count):
            raise Unobserved(MissingReason.INCOMPLETE, "buckets without +Inf and without a count")
        rank.buckets[math.inf] = rank.count
    buckets = tuple(sorted(rank.buckets.items()))
    counts = [count for _, count in buckets]
    if any(later < earlier for earlier, later in pairwise(counts)):
        raise Unobserved(MissingReason.INCONSISTENT, "bucket counts that fall with the bound")
    total = rank.sum if rank.sum is not None and math.isfinite(rank.sum) and rank.sum >= 0 else None
    if total is not None and counts[-1] >= _SUM_CHECKED_FROM and not _possible(buckets, total):
        raise Unobserved(MissingReason.INCONSISTENT, "a sum that cannot belong to the buckets")
    return Histogram(buckets, total, counts[-1])


def merge(histograms: Sequence[Histogram]) -> tuple[Histogram, bool]:
    """The sum of several ranks, and whether bounds had to be left out because not every rank has them."""
    if len(histograms) == 1:
        return histograms[0], False
    counts = [dict(histogram.buckets) for histogram in histograms]
    common = sorted(set.intersection(*(set(rank) for rank in counts)))
    buckets = tuple((upper, math.fsum(rank[upper] for rank in counts)) for upper in common)
    total = _sum(histogram.sum for histogram in histograms)
    return Histogram(buckets, total, buckets[-1][1]), any(len(rank) != len(common) for rank in counts)


def _possible(buckets: Sequence[tuple[float, float]], total: float) -> bool:
    lowest = highest = lower = below = 0.0
    for upper, count in buckets:
        if inside := count - below:
            lowest += inside * max(lower, 0.0)
            highest += inside * upper
        lower, below = upper, count
    return lowest / _SUM_FACTOR <= total <= highest * _SUM_FACTOR


def _sum(values: Iterable[float | None]) -> float | None:
    numbers = list(values)
    known = [number for number in numbers if number is not None]
    return math.fsum(known) if len(known) == len(numbers) else None
