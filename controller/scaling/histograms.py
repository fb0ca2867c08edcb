"""Latency histograms: deltas of cumulative buckets, sums over members and ticks, and quantiles as intervals.

A quantile read from buckets is an interval, not a point: the bucket that holds it. `Quantile` therefore carries both
bounds next to the interpolated value, and a target inside the bucket is neither met nor missed. In the +Inf bucket
there is no value at all, only a lower bound.

The interpolation is the one of Prometheus' `histogram_quantile`: linear inside the bucket, the first bucket starting
at 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from operator import ge, lt, sub

import msgspec

from controller.scaling.counts import LARGEST_READING
from controller.scaling.types import Histogram


class Buckets(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """Observations in an interval: `cumulative[i]` fell at or below `bounds[i]` seconds; the last entry counts all."""

    bounds: tuple[float, ...]
    cumulative: tuple[float, ...]

    @property
    def count(self) -> float:
        """All observations, those in the +Inf bucket included."""
        return self.cumulative[-1]


class Quantile(msgspec.Struct, gc=False, frozen=True):
    """Where a quantile lies, in seconds: in [lower, upper], `value` by interpolation. In the +Inf bucket both are
    None."""

    lower: float
    upper: float | None
    value: float | None
    count: float

    def surely_above(self, target: float) -> bool:
        """Whether the whole interval lies above `target`: its bucket (lower, upper] starts at the target or above."""
        return self.lower >= target


def well_formed(histogram: Histogram) -> bool:
    """Whether it has one more count than bounds, ascending bounds, and counts that are numbers and never fall."""
    bounds, cumulative = histogram.bounds, histogram.cumulative
    if len(cumulative) != len(bounds) + 1:
        return False
    # Comparisons with NaN are false, so NaN anywhere fails one of the chains.
    return (
        cumulative[0] >= 0.0
        and cumulative[-1] < LARGEST_READING
        and all(map(ge, cumulative[1:], cumulative))
        and all(map(lt, bounds, bounds[1:]))
        and all(map(isfinite, bounds))
    )


def continues(now: Histogram | None, before: Histogram | None) -> bool:
    """Whether a reading can follow the one before it: both absent, or on the same bounds and not fewer, all numbers.

    A quick look: single buckets are only looked at when the sum over all processes shows that one is wrong.
    """
    if now is None or before is None:
        return now is before
    counts, earlier = now.cumulative, before.cumulative
    return (
        len(counts) == len(earlier)
        and now.bounds == before.bounds
        and earlier[-1] <= counts[-1]
        and sum(counts) < LARGEST_READING  # false for NaN
    )


def increase(now: Histogram, before: Histogram) -> Buckets | None:
    """What was observed between two readings of one process, the earlier well formed.

    None when they cannot be subtracted: other bounds, a bucket that fell (the process started anew), or a count that is
    no number.
    """
    if now.bounds != before.bounds or len(now.cumulative) != len(before.cumulative):
        return None
    grown = tuple(map(sub, now.cumulative, before.cumulative))
    # NaN hides from min() and not from sum().
    if min(grown) < 0.0 or not sum(grown) < LARGEST_READING:
        return None
    return Buckets(now.bounds, grown)


def total_increase(readings: list[tuple[Histogram, Histogram]]) -> Buckets | None:
    """What several processes observed together, each between two readings (now, before) of which the first continues
    the second; None if nothing is known."""
    if not readings:
        return None
    bounds, length = readings[0][0].bounds, len(readings[0][0].cumulative)
    if all(now.bounds == bounds and len(now.cumulative) == length for now, _ in readings):
        after = map(sum, zip(*[now.cumulative for now, _ in readings], strict=True))
        earlier = map(sum, zip(*[before.cumulative for _, before in readings], strict=False))
        grown = tuple(map(sub, after, earlier))
        if len(grown) == length and min(grown) >= 0.0 and sum(grown) < LARGEST_READING:
            return Buckets(bounds, grown)
    # Somebody's buckets differ, fell or are no numbers: each is looked at alone, and those are left out.
    parts = [increase(now, before) for now, before in readings]
    return add([part for part in parts if part is not None])


def project(histogram: Buckets, bounds: tuple[float, ...]) -> Buckets:
    """The same observations on fewer bounds; every bound asked for must be one of its own."""
    if histogram.bounds == bounds:
        return histogram
    place = {bound: index for index, bound in enumerate(histogram.bounds)}
    cumulative = (*(histogram.cumulative[place[bound]] for bound in bounds), histogram.cumulative[-1])
    return Buckets(bounds, cumulative)


def add(parts: Iterable[Buckets]) -> Buckets | None:
    """The sum over members or ticks, on the bounds that all of them share; None without parts.

    Engines of one role may differ in their bounds (custom buckets, a rollout): then only common bounds are kept, which
    is exact, because counts are cumulative.
    """
    kept = list(parts)
    if not kept:
        return None
    bounds = kept[0].bounds
    if any(part.bounds != bounds for part in kept):
        common = set(bounds).intersection(*(part.bounds for part in kept))
        bounds = tuple(sorted(common))
        kept = [project(part, bounds) for part in kept]
    if len(kept) == 1:
        return kept[0]
    return Buckets(bounds, tuple(map(sum, zip(*(part.cumulative for part in kept), strict=True))))


def quantile(buckets: Buckets | None, q: float, minimum_count: float = 1.0) -> Quantile | None:
    """The q-quantile of the observations; None with fewer than `minimum_count` of them or without a finite bound."""
    if buckets is None or not buckets.bounds or not buckets.count >= max(minimum_count, 1e-9):
        return None
    bounds, cumulative = buckets.bounds, buckets.cumulative
    total = cumulative[-1]
    rank = q * total
    below = 0.0
    for index, bound in enumerate(bounds):
        # A scrape can fall between two increments of one observation: the running maximum restores monotony.
        reached = max(below, cumulative[index])
        if reached >= rank and reached > below:
            lower = bounds[index - 1] if index else min(0.0, bound)
            value = lower + (bound - lower) * (rank - below) / (reached - below)
            return Quantile(lower=lower, upper=bound, value=value, count=total)
        below = reached
    return Quantile(lower=bounds[-1], upper=None, value=None, count=total)


def share_surely_above(buckets: Buckets, target: float) -> float:
    """How many observations lie in buckets wholly above `target` seconds (a bucket starting at the target counts)."""
    at_or_below = 0.0
    for bound, count in zip(buckets.bounds, buckets.cumulative, strict=False):
        at_or_below = max(at_or_below, count)
        if bound >= target:
            return max(0.0, buckets.count - at_or_below)
    return 0.0
