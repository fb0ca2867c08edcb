"""Adaptive, part by part, with the values of the study it comes from."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.scaling import (
    Adaptive,
    Correction,
    Histogram,
    Member,
    MemberReading,
    Posture,
    RoleCapacity,
    RoleKind,
    capacity_factor,
    headroom,
    misses,
)
from controller.scaling.capacity_factor import measured, on_curve, value
from controller.scaling.histograms import Buckets
from controller.scaling.known_peak import capped, with_demand
from controller.scaling.samples import Increase, MemberSample, SampleState
from controller.scaling.state import Factor
from controller.scaling.ticks import RoleTick, summed
from tests.scaling.world import T0, World, server_world

# Concurrency and total tokens/s of Qwen3-8B on an H200, as published.
CURVE = ((2.0, 1882.56), (4.0, 3653.261), (8.0, 6414.232), (16.0, 11477.608), (24.0, 14527.811), (32.0, 17135.159))
SEED = 17135.159
PRIOR = RoleCapacity(
    effective_tokens_per_second=0.75 * SEED, seed_tokens_per_second=SEED, headroom=0.75, curve=CURVE, fingerprint="f"
)


def adaptive_world(
    algorithm: Adaptive | None = None, *, replicas: int = 1, capacity: RoleCapacity = PRIOR, interval: float = 10.0
) -> World:
    world = server_world(replicas, high=100, interval=interval)
    world.spec = world.spec.__class__(
        roles=world.spec.roles, algorithm=algorithm or Adaptive(), sampling_interval_seconds=interval
    )
    world.capacity = {"server": capacity}
    return world


# ---------------------------------------------------------------- measured capacity


def ticked(samples: list[tuple[Member, MemberSample]], seconds: float) -> RoleTick:
    tick = summed(RoleKind.SERVER, samples, prompt_weight=1.0, prefill=None)
    return msgspec.structs.replace(tick, seconds=seconds)


def factor_after(
    seconds: float,
    *,
    running: float = 16.0,
    served: float = 5738.8,
    members: int = 4,
    ready_since: float = T0 - 3600.0,
    state: SampleState = SampleState.FRESH,
    capacity: RoleCapacity = PRIOR,
    waiting: float = 0.0,
) -> Factor:
    factor, step, now = Factor(), 10.0, T0
    for _ in range(round(seconds / step)):
        now += step
        samples = [
            (
                Member(
                    key=f"m{index}",
                    incarnation="0",
                    replica=f"m{index}",
                    ready=True,
                    serving=True,
                    ready_since=ready_since,
                    sampled_at=now,
                ),
                MemberSample(
                    state=state,
                    elapsed_seconds=step if state is SampleState.FRESH else 0.0,
                    increase=Increase(
                        computed_prompt_tokens=0.8 * served * step, generation_tokens=0.2 * served * step
                    ),
                    gauges=MemberReading(running_requests=running, waiting_requests=waiting),
                    before=MemberReading(running_requests=running),
                ),
            )
            for index in range(members)
        ]
        factor = measured(factor, capacity, ticked(samples, step), now)
    return factor


def test_half_of_the_prior_is_measured_as_half() -> None:
    assert value(factor_after(60.0), PRIOR) == pytest.approx(0.63, abs=0.01)
    assert value(factor_after(3600.0), PRIOR) == pytest.approx(0.51, abs=0.005)


UNUSABLE = [
    pytest.param({"running": 2.0}, id="two running requests say nothing"),
    pytest.param({"running": 1.0}, id="below the smallest measured concurrency nothing was measured"),
    pytest.param({"state": SampleState.RESET}, id="a reset member has no rate"),
    pytest.param({"state": SampleState.WARMING}, id="neither has a first reading"),
    pytest.param({"ready_since": T0 - 5.0}, id="a member in its warm-up serves short of itself"),
]


@pytest.mark.parametrize("given", UNUSABLE)
def test_what_says_nothing_about_capacity(given: dict[str, object]) -> None:
    assert value(factor_after(50.0, **given), PRIOR) is None  # type: ignore[arg-type]


def test_the_curve_is_linear_between_points_and_flat_above() -> None:
    assert on_curve(CURVE, 12.0) == pytest.approx((6414.232 + 11477.608) / 2)
    assert on_curve(CURVE, 64.0) == 17135.159
    assert on_curve(CURVE, 1.9) is None
    assert on_curve((), 5.0) is None


def test_the_factor_is_clipped() -> None:
    assert value(factor_after(3600.0, served=1.0), PRIOR) == pytest.approx(0.25, rel=0.05)
    assert value(factor_after(3600.0, served=1e6), PRIOR) == pytest.approx(3.0, rel=0.05)


APPLIED = [
    pytest.param(0.6, Correction.LOWER, 0.6, id="a replica that does less than its prior lowers it"),
    pytest.param(1.5, Correction.LOWER, 1.0, id="by default one that does more raises nothing"),
    pytest.param(1.5, Correction.BOTH, 1.5, id="unless both directions are asked for"),
    pytest.param(0.6, Correction.OFF, 1.0, id="switched off it is only reported"),
    pytest.param(None, Correction.BOTH, 1.0, id="unmeasured it is one"),
]


@pytest.mark.parametrize(("kappa", "correction", "result"), APPLIED)
def test_what_is_applied_of_it(kappa: float | None, correction: Correction, result: float) -> None:
    assert capacity_factor.applied(kappa, correction) == result


POINT = RoleCapacity(effective_tokens_per_second=1000.0, fingerprint="p")


def test_without_a_curve_only_saturated_replicas_count() -> None:
    assert value(factor_after(600.0, served=500.0, capacity=POINT), POINT) is None
    saturated = factor_after(600.0, served=500.0, capacity=POINT, waiting=5.0)
    assert value(saturated, POINT) == pytest.approx(0.5, abs=0.01)
    assert value(factor_after(600.0, served=5000.0, capacity=POINT, waiting=5.0), POINT) == 1.0, "it only lowers"


def test_a_saturated_estimate_is_forgotten() -> None:
    # A sticky minimum never recovers after a shift of the mix.
    factor = factor_after(600.0, served=500.0, capacity=POINT, waiting=5.0)
    relaxed = value(measured(factor, POINT, ticked([], 1800.0), T0), POINT)
    assert relaxed == pytest.approx(1.0 - 0.5 / 2.718, abs=0.01)


# ---------------------------------------------------------------- headroom


def ratio_after(ratios: list[float], q: float = 0.95, h: float = 0.75) -> float:
    weights = headroom.prior(h)
    for ratio in ratios:
        weights = headroom.learnt(weights, ratio, 10.0)
    return headroom.quantile(weights, q)


def test_the_first_ratio_is_the_priors() -> None:
    for h in (0.5, 0.75, 0.9):
        assert ratio_after([], h=h) == pytest.approx(1.0 / h, abs=0.05)


def test_constant_demand_needs_no_headroom_after_an_hour() -> None:
    assert ratio_after([1.0] * 360) <= 1.05


def test_bursts_are_held_for() -> None:
    assert ratio_after([1.0, 1.0, 1.0, 2.0] * 90) >= 1.5


def test_ten_times_the_level_is_not_clipped() -> None:
    assert ratio_after([10.0] * 360, q=0.98) == pytest.approx(10.0, rel=0.05)
    assert ratio_after([1e9] * 360) >= 16.0


@given(st.lists(st.floats(0, 100), max_size=50), st.floats(0.5, 0.99))
def test_a_compact_histogram_has_the_same_quantile(ratios: list[float], q: float) -> None:
    weights = headroom.prior(0.75)
    for ratio in ratios:
        weights = headroom.learnt(weights, ratio, 10.0)
    kept = headroom.expanded(headroom.compact(weights))
    assert headroom.quantile(kept, q) == pytest.approx(headroom.quantile(weights, q), rel=0.02)


def test_a_filling_window_teaches_nothing() -> None:
    world = adaptive_world()
    world.decide()
    world.run("server", 9000.0, 190.0)
    learnt = world.state.roles["server"].headroom
    assert learnt == headroom.prior(0.75)
    world.run("server", 9000.0, 60.0)
    assert world.state.roles["server"].headroom != headroom.prior(0.75)


# ---------------------------------------------------------------- known peak, misses


CAPS = [
    pytest.param(1.5 * 6, 14.0, 1.5, 9.0, id="below the known peak the learnt headroom is asked for"),
    pytest.param(1.5 * 12, 14.0, 1.5, 14.7, id="beyond it a margin over the peak is enough"),
    pytest.param(1.5 * 6, 1.5, 1.5, 2.0, id="without a past the prior's headroom is the limit"),
]


@pytest.mark.parametrize(("wanted", "peak", "level", "target"), CAPS)
def test_headroom_learnt_in_a_trough_is_not_multiplied_onto_the_crest(
    wanted: float, peak: float, level: float, target: float
) -> None:
    assert capped(wanted, peak, level, margin=1.05, headroom=0.75) == pytest.approx(target)


def test_a_peak_fades_over_hours_and_is_never_below_the_present() -> None:
    assert with_demand(10.0, 1.0, 6 * 3600.0) == pytest.approx(10.0 / 2.71828, rel=1e-3)
    assert with_demand(10.0, 11.0, 10.0) == 11.0


def test_total_failure_raises_by_a_fifth_in_ten_minutes() -> None:
    factor = 1.0
    for _ in range(60):
        factor = misses.after(factor, late=50.0, observations=50.0, seconds=10.0)
    assert factor == pytest.approx(1.195, abs=0.01)


def test_a_clean_hour_takes_one_percent_back() -> None:
    factor = 1.2
    for _ in range(360):
        factor = misses.after(factor, late=0.0, observations=50.0, seconds=10.0)
    assert factor == pytest.approx(1.187, abs=0.001)


def test_it_stays_between_one_and_its_limit_and_needs_observations() -> None:
    assert misses.after(1.0, 0.0, 50.0, 1e6) == 1.0
    assert misses.after(1.0, 50.0, 50.0, 1e6) == 1.6
    assert misses.after(1.3, 0.0, 0.0, 1e6) == 1.3
    assert misses.late_share(None, 0.5) == (0.0, 0.0)
    assert misses.late_share(Buckets((0.5, 1.0), (4.0, 8.0, 10.0)), 0.5) == (6.0, 10.0)


def miss_factor_after(ticks: int, **engine: object) -> float:
    world = adaptive_world(Adaptive(ttft_target_milliseconds=500.0), replicas=2)
    world.decide()
    for tick in range(1, ticks + 1):
        for index, each in enumerate(world.roles["server"].engines):
            each.ttft = Histogram((0.5, 1.0), (0.0, 20.0 * tick, 20.0 * tick))
            for name, what in engine.items():
                setattr(each, name, what if index else getattr(each, name))
        world.roles["server"].serve(1000.0, 10.0)
        world.tick()
    return world.state.roles["server"].miss_factor


def test_late_first_tokens_raise_the_counts() -> None:
    assert miss_factor_after(30) == pytest.approx(1.09, abs=0.01)


def test_without_a_target_nothing_is_late() -> None:
    world = adaptive_world()
    world.decide()
    world.run("server", 1000.0, 60.0)
    assert world.state.roles["server"].miss_factor == 1.0


# ---------------------------------------------------------------- together


def test_the_first_decision_asks_for_the_priors_headroom() -> None:
    world = adaptive_world()
    world.decide()
    decision = world.run("server", 14000.0, 60.0)
    assert decision.learned.headroom == pytest.approx(1.33, abs=0.05)
    assert decision.raw == 2


def test_constant_demand_is_met_without_guessed_headroom_after_an_hour() -> None:
    world = adaptive_world(replicas=2)
    world.decide()
    assert world.run("server", 16500.0, 300.0).raw == 2, "0.96 of a replica needs two while 1.33 of it is kept ready"
    decision = world.run("server", 16000.0, 3600.0)
    assert decision.raw == 1
    assert decision.learned.headroom <= 1.05


def test_a_prior_a_third_too_high_is_corrected_from_what_is_measured() -> None:
    world = adaptive_world(replicas=4)
    for engine in world.roles["server"].engines:
        engine.running = 16.0
    world.decide()
    decision = world.run("server", 4 * 0.75 * 11477.608, 600.0)
    assert decision.capacity_factor == pytest.approx(0.75, abs=0.02)
    assert decision.learned.capacity_factor == decision.capacity_factor
    uncorrected = adaptive_world(Adaptive(correction=Correction.OFF), replicas=4)
    for engine in uncorrected.roles["server"].engines:
        engine.running = 16.0
    uncorrected.decide()
    assert uncorrected.run("server", 4 * 0.75 * 11477.608, 600.0).raw < decision.raw


def test_other_algorithms_only_report_the_factor() -> None:
    world = server_world(4, interval=10.0)
    world.capacity = {"server": PRIOR}
    for engine in world.roles["server"].engines:
        engine.running = 16.0
    world.decide()
    decision = world.run("server", 4 * 0.75 * 11477.608, 600.0)
    assert decision.capacity_factor == pytest.approx(0.75, abs=0.02)
    assert decision.raw == 3, "34,433 tokens/s over 12,851 per replica"


def test_waiting_work_is_drained_whatever_the_headroom_says() -> None:
    world = adaptive_world(replicas=1)
    engine = world.roles["server"].engines[0]
    world.decide()
    world.run("server", 17000.0, 60.0)
    for _ in range(6):
        engine.waiting += 200.0
        world.roles["server"].serve(17135.0, 10.0)
        decision = world.tick().role("server")
    assert decision.raw >= 4
    assert "waiting to be drained" in decision.algorithm_reason


def test_a_burst_asks_for_more_under_a_stricter_posture() -> None:
    raws = []
    for posture in (Posture.ECONOMY, Posture.STANDARD, Posture.STRICT):
        world = adaptive_world(Adaptive(posture=posture))
        world.decide()
        for tick in range(120):
            world.roles["server"].serve(15000.0 if tick % 12 < 3 else 90000.0 / 12, 10.0)
            world.tick()
        raws.append(world.decisions[-1].role("server").raw)
    assert raws == sorted(raws)


def test_nothing_shrinks_in_the_first_five_minutes() -> None:
    world = adaptive_world(replicas=6)
    world.decide()
    assert world.run("server", 1000.0, 290.0).desired == 6
    assert world.run("server", 1000.0, 310.0).desired == 1
