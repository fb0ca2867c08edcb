"""A local linear trend as a Kalman filter: the level and slope of a series in noise.

State (level, trend), one step: level += trend, process noise diag(q_level, q_trend), the level measured with noise r
(Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 1989, §2.3). The two-by-two algebra is
written out: it is exact, and a hundredth of the cost of a matrix library at this size.

A step may be fractional, so that ticks of unequal length and holes move the state by their own time.
"""

from __future__ import annotations

from math import exp, log

import msgspec


class Trend(msgspec.Struct, frozen=True, array_like=True):
    """Level and slope per step, their covariance, and the number of measurements in them."""

    level: float
    slope: float
    level_variance: float
    covariance: float
    slope_variance: float
    points: int


class Noise(msgspec.Struct, frozen=True):
    """Process noise of level and slope per step, and the variance of one measurement."""

    level: float
    slope: float
    measurement: float


def started(measurement: float, level_variance: float, slope_variance: float) -> Trend:
    """The filter after its first measurement: the level is known as well as `level_variance`, the slope is not."""
    return Trend(measurement, 0.0, level_variance, 0.0, slope_variance, 1)


def advanced(trend: Trend, steps: float, noise: Noise) -> Trend:
    """The prediction `steps` later, with what it has lost in certainty."""
    return Trend(
        level=trend.level + steps * trend.slope,
        slope=trend.slope,
        level_variance=trend.level_variance
        + steps * (2.0 * trend.covariance + steps * trend.slope_variance + noise.level),
        covariance=trend.covariance + steps * trend.slope_variance,
        slope_variance=trend.slope_variance + steps * noise.slope,
        points=trend.points,
    )


def updated(trend: Trend, measurement: float, noise: Noise) -> Trend:
    """The state corrected by a measurement of now."""
    total = trend.level_variance + noise.measurement
    if not total > 0.0:
        return trend
    level_gain, slope_gain = trend.level_variance / total, trend.covariance / total
    surprise = measurement - trend.level
    return Trend(
        level=trend.level + level_gain * surprise,
        slope=trend.slope + slope_gain * surprise,
        level_variance=(1.0 - level_gain) * trend.level_variance,
        covariance=(1.0 - level_gain) * trend.covariance,
        slope_variance=trend.slope_variance - slope_gain * trend.covariance,
        points=trend.points + 1,
    )


def damped_steps(steps: float, damping: float) -> float:
    """How many undamped steps `steps` damped ones are worth: the sum of damping¹…damping^steps."""
    if damping >= 1.0:
        return steps
    return damping * (1.0 - exp(steps * log(damping))) / (1.0 - damping)


def extrapolated(trend: Trend, steps: float, damping: float = 1.0) -> float:
    """The level `steps` from now, its slope damped; never below zero."""
    return max(0.0, trend.level + damped_steps(steps, damping) * trend.slope)
