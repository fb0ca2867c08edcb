"""A raise-only integrator of missed latency targets: what the model of demand and capacity did not foresee.

Each ten seconds it moves by 0.3 % of the difference between the share of late observations and one in a hundred: ten
minutes of total failure raise the counts by a fifth, a clean hour takes one percent back. Ten times that gain costs a
third more replicas at equal attainment, because one burst then ratchets it up for hours.
"""

from __future__ import annotations

from math import exp

from controller.scaling.histograms import Buckets, share_surely_above

GAIN_PER_TEN_SECONDS = 0.003
TOLERATED_SHARE = 0.01
SMALLEST, LARGEST = 1.0, 1.6


def after(factor: float, late: float, observations: float, seconds: float) -> float:
    """The factor after `seconds` in which `late` of `observations` missed the target; unchanged without any."""
    if not observations >= 1.0:
        return factor
    error = late / observations - TOLERATED_SHARE
    moved = factor * exp(GAIN_PER_TEN_SECONDS * error * seconds / 10.0)
    return min(LARGEST, max(SMALLEST, moved))


def late_share(latencies: Buckets | None, target_seconds: float | None) -> tuple[float, float]:
    """(late, all) observations; only buckets wholly above the target are late. (0, 0) where there is no saying."""
    if latencies is None or not latencies.bounds or target_seconds is None or not target_seconds > 0.0:
        return 0.0, 0.0
    return share_surely_above(latencies, target_seconds), latencies.count
