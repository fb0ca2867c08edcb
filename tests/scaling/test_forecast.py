"""The forecast: a filter that starts well, a level that is the better mean, and a trend that has to earn its share."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.scaling import Predictive, RoleCapacity, TokenThroughput, Trust, kalman
from controller.scaling.forecast import Forecaster, Horizon, expected, observed
from controller.scaling.kalman import Noise
from controller.scaling.windows import Flow, remember
from tests.scaling.world import World, server_world

NOISE = Noise(0.02, 0.0005, 1.0)


def forecast_all(
    series: list[float], horizon: float = 60.0, *, seconds: float = 10.0, bare: bool = False
) -> tuple[list[float], list[float]]:
    """(forecasts, shares of the trend) after each tick."""
    forecaster, ring, values, shares = Forecaster(), (), [], []
    for index, value in enumerate(series):
        now = (index + 1) * seconds
        ring = remember(ring, Flow(now, seconds, value, value), 600.0)
        forecaster = observed(forecaster, value, now, step_seconds=seconds, noise=NOISE, bare=bare)
        forecaster, found = expected(
            forecaster, ring, now, Horizon(seconds=horizon, step_seconds=seconds), per_replica=1.0, bare=bare
        )
        if found is not None:
            values.append(found.value)
            shares.append(found.share)
    return values, shares


def test_the_second_measurement_gives_nearly_the_whole_slope() -> None:
    forecaster = observed(Forecaster(), 10.0, 0.0, step_seconds=10.0, noise=NOISE, bare=False)
    forecaster = observed(forecaster, 20.0, 10.0, step_seconds=10.0, noise=NOISE, bare=False)
    assert forecaster.trend is not None
    assert forecaster.trend.slope == pytest.approx(10.0, rel=0.03)


def test_leading_zeros_do_not_start_the_filter() -> None:
    forecaster = Forecaster()
    for tick in range(5):
        forecaster = observed(forecaster, 0.0, 10.0 * tick, step_seconds=10.0, noise=NOISE, bare=False)
    assert forecaster.trend is None
    assert observed(forecaster, 3.0, 60.0, step_seconds=10.0, noise=NOISE, bare=False).trend is not None


def test_a_hole_moves_the_filter_by_its_own_time() -> None:
    steady = kalman.advanced(kalman.started(5.0, 1.0, 1.0), 4.0, NOISE)
    steps = kalman.started(5.0, 1.0, 1.0)
    for _ in range(4):
        steps = kalman.advanced(steps, 1.0, NOISE)
    assert steady.level == steps.level
    assert steady.covariance == pytest.approx(steps.covariance, rel=0.01)


def test_damping_bounds_what_a_slope_can_add() -> None:
    assert kalman.damped_steps(30.0, 1.0) == 30.0
    assert kalman.damped_steps(30.0, 0.85) == pytest.approx(5.6, abs=0.1)
    assert kalman.damped_steps(1e9, 0.85) == pytest.approx(0.85 / 0.15)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=60), st.floats(1.0, 3600.0), st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_forecast_is_never_negative_and_never_nonsense(series: list[float], horizon: float, bare: bool) -> None:
    values, shares = forecast_all(series, horizon, bare=bare)
    assert all(math.isfinite(value) and value >= 0.0 for value in values)
    assert all(0.0 <= share <= 1.0 for share in shares)


@given(st.floats(0.1, 100.0), st.integers(10, 80))
@settings(deadline=None, max_examples=30)
def test_constant_load_is_forecast_as_it_is(level: float, ticks: int) -> None:
    values, _ = forecast_all([level] * ticks)
    assert values[-1] == pytest.approx(level)


def test_on_a_long_ramp_the_trend_earns_its_share_and_beats_both_means() -> None:
    ramp = [1.0 + 0.05 * tick for tick in range(120)]
    values, shares = forecast_all(ramp, 60.0)
    assert shares[0] == 0.0, "nothing is believed before the first score"
    assert shares[-1] > 0.7
    actual = ramp[-1]
    made = len(ramp) - 7  # six ticks earlier
    mean60 = sum(ramp[made - 5 : made + 1]) / 6
    target = sum(ramp[-6:]) / 6
    assert abs(values[made] - target) < 0.5 * abs(mean60 - target)
    assert values[-1] > actual


def test_on_noise_the_trend_earns_nothing() -> None:
    noise = [5.0 + (1.5 if (tick * 7) % 5 < 2 else -1.0) for tick in range(200)]
    _, shares = forecast_all(noise, 60.0)
    assert shares[-1] < 0.1


def test_after_a_spike_the_forecast_returns() -> None:
    series = [2.0] * 60 + [20.0] + [2.0] * 60
    values, _ = forecast_all(series, 120.0)
    assert values[-1] == pytest.approx(2.0, abs=0.2)


def test_the_level_follows_the_mean_that_was_right() -> None:
    # A square wave of four minutes: the last minute says more about the next than the last three do.
    wave = [1.0 if (tick // 24) % 2 else 9.0 for tick in range(300)]
    values, _ = forecast_all(wave, 30.0)
    assert values[-1] == pytest.approx(9.0 if wave[-1] == 9.0 else 1.0, abs=1.5)


def predictive_world(algorithm: Predictive, *, interval: float = 10.0, per_replica: float = 12851.37) -> World:
    world = server_world(1, high=100, interval=interval)
    world.spec = world.spec.__class__(roles=world.spec.roles, algorithm=algorithm, sampling_interval_seconds=interval)  # type: ignore[arg-type]
    world.capacity = {"server": RoleCapacity(effective_tokens_per_second=per_replica, fingerprint="f")}
    return world


LITERAL = Predictive(
    horizon_seconds=300.0, q_level=0.5, q_trend=0.3, measurement_noise=10.0, min_points=2, trust=Trust.ALWAYS
)


def test_trusted_always_the_bare_filter_asks_for_eight_times_the_need() -> None:
    # The published round: two clients, then twenty-four, at 1,882.56 and 14,527.811 tokens/s.
    world = predictive_world(LITERAL)
    world.decide()
    asked = []
    for tick in range(12):
        world.roles["server"].serve(1882.56 if tick < 3 else 14527.811, 10.0)
        forecast = world.tick().role("server").forecast
        asked.append(math.ceil(forecast.tokens_per_second / 12851.37) if forecast is not None else None)
    assert asked == [None, 1, 1, 16, 13, 10, 8, 6, 5, 4, 3, 2]
    assert max(decision.role("server").raw or 0 for decision in world.decisions) == 16


def test_a_trend_that_has_to_earn_its_trust_never_asks_for_twice_the_need() -> None:
    world = predictive_world(Predictive())
    world.decide()
    raws = []
    for tick in range(40):
        world.roles["server"].serve(1882.56 if tick < 3 else 14527.811, 10.0)
        raws.append(world.tick().role("server").raw)
    assert max(raws) == 2


def test_nothing_is_forecast_before_min_points() -> None:
    world = predictive_world(Predictive(min_points=5))
    world.decide()
    for _ in range(4):
        world.roles["server"].serve(5000.0, 10.0)
        assert world.tick().role("server").forecast is None
    world.roles["server"].serve(5000.0, 10.0)
    assert world.tick().role("server").forecast is not None


def test_the_horizon_is_the_measured_start_up_and_one_interval() -> None:
    world = predictive_world(Predictive())
    world.roles["server"].startups = (80.0, 100.0, 120.0)
    world.decide()
    world.roles["server"].startups = ()
    assert world.run("server", 5000.0, 60.0).forecast.horizon_seconds == 130.0
    assert predictive_world(Predictive(horizon_seconds=200.0)).spec.algorithm.horizon_seconds == 200.0


def test_an_outage_is_not_bridged_as_a_fall_of_the_load() -> None:
    world = predictive_world(Predictive(horizon_seconds=60.0))
    world.decide()
    before = world.run("server", 40000.0, 300.0)
    for engine in world.roles["server"].engines:
        engine.silent = True
    for _ in range(3):
        world.tick()
    trend = world.state.roles["server"].forecaster.trend
    assert trend is not None
    assert trend.level == pytest.approx(40000.0 / 12851.37, rel=0.01)
    assert before.raw == 4


def test_the_forecast_divides_by_its_own_capacity() -> None:
    world = predictive_world(Predictive(), per_replica=10_000.0)
    world.capacity = {
        "server": RoleCapacity(
            effective_tokens_per_second=10_000.0, forecast_tokens_per_second=2_000.0, fingerprint="f"
        )
    }
    world.decide()
    decision = world.run("server", 9_000.0, 300.0)
    assert decision.raw == 5
    assert "2,000 per replica" in decision.algorithm_reason


def test_the_forecast_never_lowers_what_the_windows_ask_for() -> None:
    fast = predictive_world(Predictive())
    slow = server_world(1, TokenThroughput(), high=100, interval=10.0, per_replica=12851.37)
    for world in (fast, slow):
        world.decide()
    for tick in range(60):
        load = 60_000.0 if tick < 20 else 5_000.0
        pair = []
        for world in (fast, slow):
            world.roles["server"].serve(load, 10.0)
            pair.append(world.tick().role("server").raw)
        assert pair[0] >= pair[1]


@given(st.lists(st.integers(0, 60), min_size=10, max_size=60))
@settings(deadline=None, max_examples=30)
def test_no_series_makes_it_ask_for_more_than_twice_the_windows(loads: list[int]) -> None:
    world = predictive_world(Predictive(horizon_seconds=120.0), per_replica=1.0)
    slow = server_world(1, TokenThroughput(), high=100, interval=10.0, per_replica=1.0)
    for each in (world, slow):
        each.decide()
    for load in loads:
        for each in (world, slow):
            each.roles["server"].serve(float(load), 10.0)
            each.tick()
        flows = world.state.roles["server"].flows
        seen = [
            sum(flow.low * flow.seconds for flow in part) / sum(flow.seconds for flow in part)
            for part in (flows[-6:], flows[-18:])
        ]
        raw = world.decisions[-1].role("server").raw
        reactive = slow.decisions[-1].role("server").raw
        assert raw <= max(reactive, math.ceil(2.0 * max(seen) + 1e-6))
