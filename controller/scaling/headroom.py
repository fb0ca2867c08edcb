"""Learnt headroom: how much larger demand is, one start-up later, than its level now.

Whoever asks for a replica gets it one start-up later, so the headroom that is needed is a quantile of demand(t +
start-up) ÷ level(t). It is read from a histogram of that ratio with an hour's memory. The prior's headroom h is where
it starts: a normal distribution around 1 whose 95th percentile is 1/h, with the weight of thirty ticks of ten
seconds.

Bins are geometric, 4 % wide: a linear bin of 0.05 would cost up to 5 % of headroom at a ratio of one. They reach 16:
clipped at 4, bursts were answered with half of what they needed.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from math import erf, exp, sqrt

MEMORY_SECONDS = 3600.0
PRIOR_WEIGHT = 30.0
TICK_SECONDS = 10.0  # what one unit of weight is

_WIDTH = 1.04
_SMALLEST = 0.25
_BINS = 107  # up to 16.6
_Z95 = 1.645

Weights = tuple[float, ...]

# The upper edges of all bins but the last, which is open.
_EDGES = tuple(_SMALLEST * _WIDTH ** (index + 1) for index in range(_BINS - 1))


@lru_cache(maxsize=64)
def prior(headroom: float) -> Weights:
    """What is believed before anything was seen."""
    sigma = max(1e-3, (1.0 / headroom - 1.0) / _Z95)

    def below(ratio: float) -> float:
        return 0.5 * (1.0 + erf((ratio - 1.0) / (sigma * sqrt(2.0))))

    reached = [below(edge) for edge in _EDGES]
    return tuple(PRIOR_WEIGHT * (high - low) for low, high in zip([0.0, *reached], [*reached, 1.0], strict=True))


def learnt(weights: Weights, ratio: float, seconds: float) -> Weights:
    """The histogram `seconds` later, with the ratio seen in them."""
    faded = exp(-seconds / MEMORY_SECONDS)
    known = [weight * faded for weight in weights]
    known[bisect_right(_EDGES, ratio)] += seconds / TICK_SECONDS
    return tuple(known)


def quantile(weights: Weights, q: float) -> float:
    """The ratio below which a share `q` of the weight lies, linear inside its bin."""
    rank, reached = q * sum(weights), 0.0
    for index, weight in enumerate(weights):
        if reached + weight >= rank and weight > 0.0:
            low = _EDGES[index - 1] if index else 0.0
            high = _EDGES[index] if index < len(_EDGES) else low * _WIDTH
            return low + (high - low) * (rank - reached) / weight
        reached += weight
    return 1.0


def compact(weights: Weights) -> tuple[tuple[int, float], ...]:
    """The bins that matter, three significant digits each; what is left out is less than a thousandth."""
    least = sum(weights) / (1000.0 * _BINS)
    return tuple((index, float(f"{weight:.3g}")) for index, weight in enumerate(weights) if weight > least)


def expanded(bins: tuple[tuple[int, float], ...]) -> Weights:
    """The histogram of a compact form; bins that do not exist are ignored."""
    weights = [0.0] * _BINS
    for index, weight in bins:
        if 0 <= index < _BINS and weight > 0.0:
            weights[index] = weight
    return tuple(weights)
