"""Capacity at another mix of input and output tokens than the one that was measured.

The replica time per output token is linear in the mix: `y(c, m) = B(c) + A·m`, with m input tokens per output token
at concurrency c, A seconds per input token (nearly independent of c) and B seconds per output token. Only the ratio
matters for throughput. The fit is closed form: a prior for A from a general law and, where gaps between tokens were
measured, from the identity's own gaps; then one ridge step over all workloads of the identity at equal concurrency.

Measured on 820 official rows (held-out workload, equal concurrency, clean rows): two known workloads predict the third
within 2.3 % (median) and 7.5 % (p90), one within 2.8 % and 10.1 %. Source of every constant: workload-mix reference §4;
its §6 worked examples are tests. Known for models with a light KV cache; unknown for long contexts (above 15k tokens).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import StrEnum
from statistics import median
from typing import Final, NamedTuple

import msgspec

from catalog.identity import Role
from catalog.quantiles import value_at
from catalog.schema import Point, PointFlag, Profile

# Law for the share of a replica that one input token costs, as a function of concurrency: q = 0.0355·(c/16)^0.69.
LAW_SCALE: Final = 0.0355
LAW_EXPONENT: Final = 0.69
LAW_TAU: Final = 0.45
# The gap between tokens at concurrency c leaves the share of prefills: a = 1.2·(0.975·y − itl/c)/m. Accuracy grows
# with m.
GAP_FACTOR: Final = 1.2
GAP_OF_STEP: Final = 0.975
GAP_TAU: Final = (0.10, 0.5)
GAP_TAU_LIMIT: Final = 1.2
GAP_IS_PER_TOKEN: Final = 1.05
# Relative error of one measured y (reruns of one image, rounded up).
NOISE: Final = 0.03
A_LIMIT: Final = 0.95
B_FLOOR: Final = 0.05


class MixRefusal(StrEnum):
    """Why no prediction is made. The measured point serves unchanged."""

    NOT_SERVER = "NotServer"
    NO_CLEAN_POINTS = "NoCleanPoints"
    AT_CLAMP = "AtClamp"
    SIGMA_TOO_LARGE = "SigmaTooLarge"
    TOO_FEW_REQUESTS = "TooFewRequests"
    LENGTHS_BEYOND_MEASURED = "LengthsBeyondMeasured"
    CONCURRENCY_NOT_MEASURED = "ConcurrencyNotMeasured"


class CurvePoint(NamedTuple):
    """One clean point in seconds: `y` per output token of the whole replica, `m` input per output token."""

    concurrency: int
    y: float
    m: float
    itl: float | None
    tpot: float | None
    ttft: float | None


class Curve(NamedTuple):
    """The clean points of one workload, ascending, with the mean lengths of its requests."""

    input_tokens: float
    output_tokens: float
    points: tuple[CurvePoint, ...]


class MixFit(msgspec.Struct, frozen=True):
    """A and B(c) with what is needed to judge a prediction. `grid` ascends; the tuples beside it are per grid point."""

    a: float
    sd_a: float
    prior_a: float
    prior_tau: float
    residual: float
    grid: tuple[int, ...]
    b: tuple[float, ...]
    mean_m: tuple[float, ...]
    clamped: tuple[bool, ...]
    largest_common: int
    curves: tuple[Curve, ...]

    def at(self, concurrency: int) -> int | None:
        """Index of a concurrency in the grid, None where it was not measured."""
        index = bisect_left(self.grid, concurrency)
        return index if index < len(self.grid) and self.grid[index] == concurrency else None

    def rho(self, concurrency: int) -> float | None:
        """Output tokens that one input token costs at this concurrency, None where it was not measured."""
        index = self.at(concurrency)
        return None if index is None else self.a / self.b[index]


def curve_of(profile: Profile) -> Curve | None:
    """The clean points of a profile; None where none is left."""
    points = tuple(curve_point(point) for point in profile.points if PointFlag.COLD_TAIL not in point.flags)
    return Curve(*profile.workload.lengths, points) if points else None


def curve_point(point: Point) -> CurvePoint:
    """A measured point in the quantities of the law."""
    return CurvePoint(
        concurrency=point.concurrency,
        y=1 / point.output_tokens_per_second,
        m=point.total_tokens_per_second / point.output_tokens_per_second - 1,
        itl=None if PointFlag.CHUNKED_ITL in point.flags else _seconds(value_at(point.itl, 50.0)),
        tpot=_seconds(value_at(point.tpot, 50.0)),
        ttft=_seconds(value_at(point.ttft, 50.0)),
    )


def fit_profiles(profiles: Sequence[Profile]) -> MixFit | MixRefusal:
    """Fit the workloads of one identity. The caller passes profiles of one tool and image only; the first one leads."""
    if not profiles or profiles[0].role is not Role.SERVER:
        return MixRefusal.NOT_SERVER
    curves = [curve for curve in map(curve_of, profiles) if curve is not None]
    return fit_curves(curves)


def fit_curves(curves: Sequence[Curve]) -> MixFit | MixRefusal:
    """The closed form of workload-mix §4 (1) and (2)."""
    usable = [curve for curve in curves if curve.points and all(p.m > 0 for p in curve.points)]
    if not usable:
        return MixRefusal.NO_CLEAN_POINTS
    a0, tau = _prior(usable)
    grid = sorted({point.concurrency for curve in usable for point in curve.points})
    at_grid = [[at for curve in usable if (at := _interpolate(curve, c)) is not None] for c in grid]
    numerator, denominator = 1 / (tau * tau * a0), 1 / (tau * a0) ** 2
    means: list[tuple[float, float]] = []
    for samples in at_grid:
        weights = [1 / (NOISE * y) ** 2 for y, _ in samples]
        whole = sum(weights)
        mean_y = sum(u * y for u, (y, _) in zip(weights, samples, strict=True)) / whole
        mean_m = sum(u * m for u, (_, m) in zip(weights, samples, strict=True)) / whole
        means.append((mean_y, mean_m))
        for u, (y, m) in zip(weights, samples, strict=True):
            numerator += u * (m - mean_m) * (y - mean_y)
            denominator += u * (m - mean_m) ** 2
    limit = A_LIMIT * min(y / m for samples in at_grid for y, m in samples)
    raw = numerator / denominator
    a = min(max(raw, 0.0), limit)
    b: list[float] = []
    clamped: list[bool] = []
    for (mean_y, mean_m), samples in zip(means, at_grid, strict=True):
        floor = B_FLOOR * min(y for y, _ in samples)
        b.append(max(mean_y - a * mean_m, floor))
        clamped.append(mean_y - a * mean_m < floor or a != raw)
    return MixFit(
        a=a,
        sd_a=denominator**-0.5,
        prior_a=a0,
        prior_tau=tau,
        residual=_residual(a, b, at_grid),
        grid=tuple(grid),
        b=tuple(b),
        mean_m=tuple(mean_m for _, mean_m in means),
        clamped=tuple(clamped),
        largest_common=min(curve.points[-1].concurrency for curve in usable),
        curves=tuple(usable),
    )


def _prior(curves: Iterable[Curve]) -> tuple[float, float]:
    """(A0, tau): the precision-weighted mean of the prior sources in log space."""
    law = []
    sources: list[tuple[float, float]] = []
    for curve in curves:
        for point in curve.points:
            q = LAW_SCALE * (point.concurrency / 16) ** LAW_EXPONENT
            law.append(q * point.y / (1 + q * point.m))
        gap = _gap_source(curve)
        if gap is not None:
            sources.append(gap)
    sources.append((median(law), LAW_TAU))
    precision = sum(1 / tau**2 for _, tau in sources)
    return math.exp(sum(math.log(a) / tau**2 for a, tau in sources) / precision), precision**-0.5


def _gap_source(curve: Curve) -> tuple[float, float] | None:
    gaps = [
        (point, point.itl)
        for point in curve.points
        if point.itl is not None and point.itl <= GAP_IS_PER_TOKEN * point.concurrency * point.y
    ]
    if 2 * len(gaps) < len(curve.points) or not gaps:
        return None
    a = GAP_FACTOR * median([(GAP_OF_STEP * p.y - itl / p.concurrency) / p.m for p, itl in gaps])
    tau = GAP_TAU[0] + GAP_TAU[1] / median([point.m for point in curve.points])
    return (a, tau) if a > 0 and tau < GAP_TAU_LIMIT else None


def _interpolate(curve: Curve, concurrency: int) -> tuple[float, float] | None:
    """(y, m) of a curve at a concurrency, by straight lines in log-log inside its range; None outside."""
    points = curve.points
    index = bisect_left([point.concurrency for point in points], concurrency)
    if index == len(points):
        return None
    upper = points[index]
    if upper.concurrency == concurrency:
        return upper.y, upper.m
    if index == 0:
        return None
    lower = points[index - 1]
    share = math.log(concurrency / lower.concurrency) / math.log(upper.concurrency / lower.concurrency)
    return lower.y * (upper.y / lower.y) ** share, lower.m * (upper.m / lower.m) ** share


def _residual(a: float, b: Sequence[float], at_grid: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Root of the summed squared relative residuals over the number of concurrencies with at least two workloads."""
    shared = [(base, samples) for base, samples in zip(b, at_grid, strict=True) if len(samples) > 1]
    if not shared:
        return 0.0
    total = sum(((y - base - a * m) / y) ** 2 for base, samples in shared for y, m in samples)
    return math.sqrt(total / len(shared))


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
