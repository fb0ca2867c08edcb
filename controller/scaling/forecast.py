"""A forecast whose slope has to earn its trust.

On real traffic a mean of the last one to three minutes beats an extrapolated slope by five to ten times, on a one-way
ramp the slope wins. So every forecast is scored when its horizon arrives, and nothing is believed before it has been
right:

- The *level* is the better of the 60 s and the 180 s mean: each is weighted by its past absolute error, to a high
  power.
- The *trend* is what a Kalman filter with a damped slope expects beyond that level. Its share, from none to all, is
  the one that would have made the past forecasts best in the least squares sense, shrunk towards none.

Values are in replicas, so that the filter's noise means the same for every model. Times are seconds.
"""

from __future__ import annotations

from math import exp

import msgspec

from controller.scaling import kalman
from controller.scaling.kalman import Noise, Trend
from controller.scaling.windows import Flow, mean

SHORT_SECONDS = 60.0
LONG_SECONDS = 180.0

# Scores fade over an hour: a service's habits change with the hour of the day.
SCORE_MEMORY_SECONDS = 3600.0

# The slope is worth 0.85 of itself after each ten seconds: thirty steps of it then weigh 5.7, not 30.
DAMPING_PER_TEN_SECONDS = 0.85

# How sharply the better mean is preferred, and as many equal scores before the first real one. With these, the level is
# within 5 % of the better mean in hindsight on every trace that was looked at.
_PREFERENCE = 16
_PRIOR_SCORES = 6.0

# The trend's share is shrunk as if so many forecasts had found no use in it.
_PRIOR_FORECASTS = 10.0

# The slope of a filter that has seen one value is anybody's guess: a hundred times the noise. The bare filter starts as
# the one it is compared with.
_SLOPE_VARIANCE_FACTOR = 100.0
_BARE_VARIANCE = 1000.0

# Forecasts that wait for their horizon; at a horizon of an hour every tenth tick or so is scored.
_LARGEST_PENDING = 64


class Pending(msgspec.Struct, frozen=True, array_like=True):
    """A forecast made earlier, to be scored at `due`."""

    due: float
    short: float
    long: float
    level: float
    beyond: float


class Scores(msgspec.Struct, frozen=True, array_like=True):
    """Faded sums over the forecasts that came due."""

    count: float = 0.0
    short_error: float = 0.0
    long_error: float = 0.0
    useful: float = 0.0  # Σ beyond × (actual − level)
    beyond_squared: float = 0.0


class Forecaster(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered between two forecasts."""

    trend: Trend | None = None
    updated_at: float | None = None
    pending: tuple[Pending, ...] = ()
    scores: Scores = Scores()


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The demand expected at the horizon."""

    value: float
    level: float
    share: float
    points: int


class Horizon(msgspec.Struct, frozen=True, kw_only=True):
    """How far ahead, in seconds; `step_seconds` is what the filter's noise is given for."""

    seconds: float
    step_seconds: float


def observed(
    forecaster: Forecaster, measurement: float, now: float, *, step_seconds: float, noise: Noise, bare: bool
) -> Forecaster:
    """The filter with one more tick. Leading zeros are skipped; time without ticks only makes it less certain."""
    trend, at = forecaster.trend, forecaster.updated_at
    if trend is None or at is None:
        if not measurement > 0.0:
            return forecaster
        level = _BARE_VARIANCE if bare else noise.measurement
        slope = _BARE_VARIANCE if bare else _SLOPE_VARIANCE_FACTOR * noise.measurement
        trend = kalman.started(measurement, level, slope)
    else:
        steps = (now - at) / step_seconds
        trend = kalman.updated(kalman.advanced(trend, steps, noise), measurement, noise)
    return msgspec.structs.replace(forecaster, trend=trend, updated_at=now)


def expected(
    forecaster: Forecaster,
    flows: tuple[Flow, ...],
    now: float,
    horizon: Horizon,
    *,
    per_replica: float,
    bare: bool,
) -> tuple[Forecaster, Expected | None]:
    """Score what came due, forecast, and remember the forecast. None before there is a filter and a level."""
    forecaster = _scored(forecaster, flows, now, horizon, per_replica)
    short = mean(flows, now, SHORT_SECONDS).low
    long = mean(flows, now, LONG_SECONDS).low
    trend = forecaster.trend
    if trend is None or short is None or long is None:
        return forecaster, None
    steps = horizon.seconds / horizon.step_seconds
    if bare:
        value = kalman.extrapolated(trend, steps)
        return forecaster, Expected(value=value, level=trend.level, share=1.0, points=trend.points)
    short, long = short / per_replica, long / per_replica
    weight = _weight_of_short(forecaster.scores)
    level = weight * short + (1.0 - weight) * long
    damping = DAMPING_PER_TEN_SECONDS ** (horizon.step_seconds / 10.0)
    beyond = kalman.extrapolated(trend, steps, damping) - level
    share = _share(forecaster.scores)
    made = Pending(now + horizon.seconds, short, long, level, beyond)
    forecaster = msgspec.structs.replace(forecaster, pending=_waiting(forecaster.pending, made, horizon))
    value = max(0.0, level + share * beyond)
    return forecaster, Expected(value=value, level=level, share=share, points=trend.points)


def _scored(
    forecaster: Forecaster, flows: tuple[Flow, ...], now: float, horizon: Horizon, per_replica: float
) -> Forecaster:
    due = [item for item in forecaster.pending if item.due <= now]
    if not due:
        return forecaster
    waiting = tuple(item for item in forecaster.pending if item.due > now)
    scores = forecaster.scores
    window = min(SHORT_SECONDS, horizon.seconds)
    for item in due:
        seen = mean(flows, item.due, max(window, horizon.step_seconds))
        if seen.low is None:
            continue  # nobody saw what became of it
        actual = seen.low / per_replica
        faded = exp(-horizon.step_seconds / SCORE_MEMORY_SECONDS)
        scores = Scores(
            count=scores.count * faded + 1.0,
            short_error=scores.short_error * faded + abs(item.short - actual),
            long_error=scores.long_error * faded + abs(item.long - actual),
            useful=scores.useful * faded + item.beyond * (actual - item.level),
            beyond_squared=scores.beyond_squared * faded + item.beyond**2,
        )
    return msgspec.structs.replace(forecaster, pending=waiting, scores=scores)


def _weight_of_short(scores: Scores) -> float:
    if not scores.count:
        return 0.5
    typical = (scores.short_error + scores.long_error) / (2.0 * scores.count)
    short = scores.short_error + _PRIOR_SCORES * typical
    long = scores.long_error + _PRIOR_SCORES * typical
    least = min(short, long)
    if not least > 0.0:
        return 0.5
    short, long = (least / short) ** _PREFERENCE, (least / long) ** _PREFERENCE
    return short / (short + long)


def _share(scores: Scores) -> float:
    if not scores.count or not scores.beyond_squared > 0.0:
        return 0.0
    shrunk = scores.beyond_squared * (1.0 + _PRIOR_FORECASTS / scores.count)
    return max(0.0, min(1.0, scores.useful / shrunk))


def _waiting(pending: tuple[Pending, ...], made: Pending, horizon: Horizon) -> tuple[Pending, ...]:
    """The pending forecasts with a new one, unless the horizon is so long that this one can be left out."""
    apart = horizon.seconds / _LARGEST_PENDING
    if pending and made.due - pending[-1].due < apart:
        return pending
    return (*pending[-(_LARGEST_PENDING - 1) :], made)
