"""Predictive: `TokenThroughput`, and a forecast as a floor under it.

The forecast divides by its own capacity where it has one. Unless the user trusts it always, it is capped by twice
what the windows say now and by the known peak, so a slope can never ask for a multiple of anything that was seen.
"""

from __future__ import annotations

import msgspec

from controller.scaling.counts import replicas_for
from controller.scaling.forecast import Forecaster, Horizon, expected, observed
from controller.scaling.kalman import Noise
from controller.scaling.known_peak import capped
from controller.scaling.recommendation import Recommended
from controller.scaling.situation import Situation
from controller.scaling.startup import expected_startup
from controller.scaling.state import RoleState
from controller.scaling.throughput import token_throughput, window_seconds
from controller.scaling.types import Forecast, Predictive, Trust
from controller.scaling.windows import mean

# A forecast may double what is seen; a factor of ten is what undamped slopes asked for on real traces.
LARGEST_GROWTH = 2.0
PEAK_MARGIN = 1.25


def predictive(algorithm: Predictive, situation: Situation) -> tuple[Recommended, RoleState]:
    """One role's recommendation under `Predictive`, and its memory with the panic and the forecaster after this
    tick."""
    reactive, state = token_throughput(algorithm.token_throughput, situation)
    forecaster, found = forecast(algorithm, situation)
    state = msgspec.structs.replace(state, forecaster=forecaster)
    if found is None or situation.capacity is None:
        return reactive, state
    reactive = msgspec.structs.replace(reactive, forecast=found)
    per_replica = situation.capacity.forecast_tokens_per_second or situation.capacity.effective_tokens_per_second
    replicas = replicas_for(found.tokens_per_second / per_replica)
    if reactive.raw is None or replicas <= reactive.raw:
        return reactive, state
    reason = (
        f"{found.tokens_per_second:,.0f} tokens/s expected in {found.horizon_seconds:.0f} s,"
        f" {per_replica:,.0f} per replica (trend trusted {found.trend_share:.0%})"
    )
    high = max(replicas, reactive.high or 0)
    return msgspec.structs.replace(reactive, raw=replicas, high=high, reason=reason), state


def forecast(algorithm: Predictive, situation: Situation) -> tuple[Forecaster, Forecast | None]:
    """The forecaster after this tick, and what it expects; None before `minPoints`."""
    forecaster = situation.state.forecaster
    if situation.capacity is None:
        return forecaster, None
    per_replica = situation.capacity.forecast_tokens_per_second or situation.capacity.effective_tokens_per_second
    bare = algorithm.trust is Trust.ALWAYS
    noise = Noise(algorithm.q_level, algorithm.q_trend, algorithm.measurement_noise)
    seconds = algorithm.horizon_seconds
    if seconds is None:
        seconds = expected_startup(situation.state.startups_seconds) + situation.interval_seconds
    horizon = Horizon(seconds=seconds, step_seconds=situation.interval_seconds)
    flows, now = situation.state.flows, situation.now
    if situation.tick.seconds and flows and flows[-1].end == now and flows[-1].low is not None:
        measured = max(0.0, flows[-1].low) / per_replica
        forecaster = observed(
            forecaster, measured, now, step_seconds=situation.interval_seconds, noise=noise, bare=bare
        )
    forecaster, found = expected(forecaster, flows, now, horizon, per_replica=per_replica, bare=bare)
    if found is None or found.points < algorithm.min_points:
        return forecaster, None
    tokens = found.value * per_replica
    if not bare:
        tokens = _capped(algorithm, situation, tokens)
    return forecaster, Forecast(
        horizon_seconds=seconds,
        tokens_per_second=tokens,
        level_tokens_per_second=found.level * per_replica,
        trend_share=found.share,
    )


def _capped(algorithm: Predictive, situation: Situation, tokens: float) -> float:
    windows = (algorithm.token_throughput.stable_window_seconds, algorithm.token_throughput.panic_window_seconds)
    seen = [
        mean(situation.state.flows, situation.now, window_seconds(window, situation.interval_seconds)).low or 0.0
        for window in windows
    ]
    level = mean(situation.state.flows, situation.now, window_seconds(60.0, situation.interval_seconds)).low or 0.0
    tokens = min(tokens, LARGEST_GROWTH * max(seen))
    return capped(tokens, situation.state.peak_tokens_per_second, level, margin=PEAK_MARGIN, headroom=1.0)
