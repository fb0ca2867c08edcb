"""Laws that hold for every load, every count and every algorithm."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.scaling import (
    Adaptive,
    Algorithm,
    Behavior,
    DecisionSpec,
    DirectionBehavior,
    Member,
    Metric,
    Observation,
    Pool,
    Predictive,
    Proportional,
    RatioSpec,
    RoleCapacity,
    RoleDecision,
    RoleKind,
    RoleObservation,
    RoleSpec,
    TokenThroughput,
    decide,
    initial_state,
)
from hack.bench.ramp import ALGORITHMS as RAMP_ALGORITHMS
from hack.bench.ramp import run
from tests.scaling.strategies import any_observation, any_spec
from tests.scaling.world import INTERVAL, T0, World, capacity, running, server_world

ALGORITHMS = [
    pytest.param(running(10.0), id="Proportional"),
    pytest.param(TokenThroughput(), id="TokenThroughput"),
    pytest.param(Predictive(), id="Predictive"),
    pytest.param(Adaptive(), id="Adaptive"),
]
LOADS = st.lists(st.integers(0, 12), min_size=6, max_size=14)
FEW = settings(max_examples=12, deadline=None)
SHRINK_AT_ONCE = Behavior(scale_down=DirectionBehavior(stabilization_window_seconds=0.0))


def drive(
    world: World,
    loads: list[int],
    *,
    unit: float = 1000.0,
    gauge: float = 10.0,
    per_step: int = 4,
    seconds: float | None = None,
) -> list[RoleDecision]:
    """Loads in replicas, each for a few ticks; the declared count follows, the engines serve whatever comes."""
    step = world.spec.sampling_interval_seconds if seconds is None else seconds
    decisions = []
    for load in loads:
        for _ in range(per_step):
            role = world.roles["server"]
            role.serve(unit * load, step)
            for engine in role.engines:
                engine.running = gauge * load / len(role.engines)
            decision = world.tick(step).role("server")
            role.current = decision.desired
            decisions.append(decision)
    return decisions


def counts(decisions: list[RoleDecision]) -> list[tuple[int | None, int]]:
    return [(decision.raw, decision.desired) for decision in decisions]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(loads=LOADS, power=st.integers(-6, 6))
@FEW
def test_scaling_loads_and_capacities_alike_leaves_counts_unchanged(
    algorithm: Algorithm, loads: list[int], power: int
) -> None:
    factor = 2.0**power
    scaled = algorithm
    if isinstance(algorithm, Proportional):
        scaled = msgspec.structs.replace(algorithm, role_targets={"server": 10.0 * factor})
    plain = drive(server_world(3, algorithm), loads)
    large = drive(
        server_world(3, scaled, per_replica=1000.0 * factor), loads, unit=1000.0 * factor, gauge=10.0 * factor
    )
    assert counts(plain) == counts(large)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(loads=LOADS, days=st.integers(-10_000, 10_000))
@FEW
def test_a_time_shift_changes_nothing(algorithm: Algorithm, loads: list[int], days: int) -> None:
    here, there = server_world(3, algorithm), server_world(3, algorithm)
    there.now += days * 86400.0
    for engine in there.roles["server"].engines:
        engine.ready_since = days * 86400.0
    shifted = drive(there, loads)
    for decision, other in zip(drive(here, loads), shifted, strict=True):
        assert (other.raw, other.desired, other.limited_by) == (decision.raw, decision.desired, decision.limited_by)
        assert other.algorithm_reason == decision.algorithm_reason
        if decision.next_change_time is not None:
            assert other.next_change_time == decision.next_change_time + days * 86400.0


@pytest.mark.parametrize("algorithm", ALGORITHMS[1:2])
@given(loads=LOADS)
@FEW
def test_splitting_every_tick_in_two_gives_the_same_windows(algorithm: Algorithm, loads: list[int]) -> None:
    whole = server_world(3, algorithm, behavior=SHRINK_AT_ONCE)
    halves = server_world(3, algorithm, behavior=SHRINK_AT_ONCE)
    for world in (whole, halves):
        world.decide()
    one = drive(whole, loads)
    two = drive(halves, loads, per_step=8, seconds=INTERVAL / 2)[1::2]
    for decision, other in zip(one, two, strict=True):
        assert other.observed.demand_tokens_per_second == pytest.approx(decision.observed.demand_tokens_per_second)


def partial(world: World, answering: int) -> RoleDecision:
    """The decision when only the first members answer, from this moment's state."""
    observation = world.observe()
    role = observation.roles[0]
    members = tuple(
        member if index < answering else msgspec.structs.replace(member, reading=None)
        for index, member in enumerate(role.members)
    )
    observation = msgspec.structs.replace(observation, roles=(msgspec.structs.replace(role, members=members),))
    return decide(world.spec, world.capacity, world.state, observation, observation.now)[1].roles[0]


@pytest.mark.parametrize("algorithm", ALGORITHMS[:2])
@given(before=st.integers(0, 10), now=st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6))
@FEW
def test_more_coverage_never_blocks_what_less_allowed_for_members_at_or_below_target(
    algorithm: Algorithm, before: int, now: list[float]
) -> None:
    world = server_world(6, algorithm, behavior=SHRINK_AT_ONCE)
    drive(world, [before] * 6)
    role = world.roles["server"]
    role.current = 6
    for engine, load in zip(role.engines, now, strict=True):
        engine.prompt += 1000.0 * load * INTERVAL * 0.8
        engine.generation += 1000.0 * load * INTERVAL * 0.2
        engine.running = 10.0 * load
    world.now += INTERVAL
    shrunk = [partial(world, answering).desired for answering in range(1, 7)]
    for less, more in pairwise(shrunk):
        if less < 6:
            assert more <= less
        assert more <= max(less, 6) or less > 6


@given(hot=st.integers(1, 5))
@FEW
def test_one_silent_member_never_blocks_growth(hot: int) -> None:
    world = server_world(6, running(10.0))
    for engine in world.roles["server"].engines:
        engine.running = 10.0 + 5.0 * hot
    world.now += INTERVAL
    assert partial(world, 5).desired > 6


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_hard_band_holds_whenever_floors_and_ceilings_leave_a_way(data: st.DataObject) -> None:
    spec, of_roles = data.draw(any_spec())
    names = tuple(role.name for role in spec.roles)
    bands = [item for item in spec.ratios if item.min is not None or item.max is not None]
    state, now = initial_state(), T0
    for _ in range(3):
        now += 15.0
        state, decision = decide(spec, of_roles, state, data.draw(any_observation(names, now)), now)
        ends = {role.name: role.stages[-1] for role in decision.roles}
        if any(end.reason.startswith("nothing moves") for end in ends.values()):
            continue
        desired = {role.name: role.desired for role in decision.roles}
        for band in bands:
            above, below = desired[band.numerator_role], desired[band.denominator_role]
            assert band.min is None or above >= band.min * below - 1e-6
            assert band.max is None or above <= band.max * below + 1e-6


@pytest.mark.parametrize("name", list(RAMP_ALGORITHMS))
@pytest.mark.parametrize("startup", [76.0, 180.0])
def test_no_ramp_makes_an_algorithm_ask_for_more_than_twice_the_need(name: str, startup: float) -> None:
    assert run(RAMP_ALGORITHMS[name], 8, 120, startup).over_ask <= 2.0


def test_the_recorded_arguments_replay_to_the_same_decision() -> None:
    world = server_world(3, Adaptive())
    drive(world, [2, 5, 1])
    arguments = (world.spec, world.capacity, world.state, world.observe(), world.now)
    again = tuple(
        msgspec.json.decode(msgspec.json.encode(each), type=kind)
        for each, kind in zip(
            arguments, (DecisionSpec, dict[str, RoleCapacity], type(world.state), Observation, float), strict=True
        )
    )
    assert decide(*again) == decide(*arguments)


def test_deciding_changes_none_of_its_arguments() -> None:
    world = server_world(3, TokenThroughput())
    drive(world, [2, 5])
    observation = world.observe()
    before = msgspec.json.encode((world.spec, world.capacity, world.state, observation))
    decide(world.spec, world.capacity, world.state, observation, world.now)
    assert msgspec.json.encode((world.spec, world.capacity, world.state, observation)) == before


# ---------------------------------------------------------------- what no other project's tables have


def three_roles(ratios: tuple[RatioSpec, ...], *, low: int = 1, high: int = 12) -> World:
    kinds = {"encode": RoleKind.ENCODE, "prefill": RoleKind.PREFILL, "decode": RoleKind.DECODE}
    spec = DecisionSpec(
        roles=tuple(
            RoleSpec(name=name, kind=kind, min_replicas=low, max_replicas=high) for name, kind in kinds.items()
        ),
        algorithm=TokenThroughput(),
        ratios=ratios,
    )
    world = World(spec, capacity(prefill=1000.0, decode=1000.0))
    for name in kinds:
        world.resize(name, 2)
    world.decide()
    return world


def serve_roles(world: World, prefill: float, decode: float, ticks: int) -> dict[str, int]:
    for _ in range(ticks):
        world.roles["prefill"].serve(prefill, INTERVAL, prompt_share=1.0)
        world.roles["decode"].serve(decode, INTERVAL, prompt_share=0.0)
        decision = world.tick()
        for role in decision.roles:
            world.roles[role.name].current = role.desired
    return {role.name: role.desired for role in world.decisions[-1].roles}


def test_encode_follows_its_ratio_and_the_band_raises_the_smaller_role() -> None:
    world = three_roles(
        (
            RatioSpec(numerator_role="encode", denominator_role="prefill", target=0.5),
            RatioSpec(numerator_role="prefill", denominator_role="decode", min=0.5, max=2.0),
        )
    )
    assert serve_roles(world, prefill=1500.0, decode=7500.0, ticks=20) == {"encode": 2, "prefill": 4, "decode": 8}


def test_a_band_at_the_bounds_is_kept_from_the_other_side() -> None:
    world = three_roles((RatioSpec(numerator_role="prefill", denominator_role="decode", min=1.0, max=1.0),), high=5)
    after = serve_roles(world, prefill=1500.0, decode=20_000.0, ticks=20)
    assert after["prefill"] == after["decode"] == 5


def test_encode_without_a_ratio_follows_its_running_requests() -> None:
    world = three_roles(())
    for engine in world.roles["encode"].engines:
        engine.running = 20.0
    assert world.tick().role("encode").raw == 5


def test_all_members_reset_at_once_is_a_hole_and_not_a_zero() -> None:
    world = server_world(4, TokenThroughput(), behavior=SHRINK_AT_ONCE)
    drive(world, [4] * 6)
    for engine in world.roles["server"].engines:
        engine.prompt = engine.generation = engine.finished = 0.0
        engine.incarnation = "1"
    decision = world.tick().role("server")
    assert decision.desired == 4
    assert decision.observed.demand_tokens_per_second == pytest.approx(4000.0)


def test_a_pod_replaced_under_its_name_gives_no_rate() -> None:
    world = server_world(2, TokenThroughput())
    drive(world, [2] * 4)
    engine = world.roles["server"].engines[0]
    engine.incarnation, engine.prompt = "2", engine.prompt + 1e9
    world.roles["server"].serve(2000.0, INTERVAL)
    assert world.tick().role("server").raw == 2


COVERAGES = [pytest.param(answering, id=f"{answering} of 10 members answer") for answering in range(11)]


@pytest.mark.parametrize("answering", COVERAGES)
def test_the_shrink_that_is_allowed_grows_with_coverage(answering: int) -> None:
    world = server_world(10, TokenThroughput(), behavior=SHRINK_AT_ONCE)
    world.decide()
    for engine in world.roles["server"].engines[answering:]:
        engine.silent = True
    for _ in range(40):
        for engine in world.roles["server"].engines[:answering]:
            engine.prompt += 100.0 * INTERVAL
            engine.generation += 0.0
        world.tick()
    desired = world.decisions[-1].role("server").desired
    # Each silent member may be at target; those that answer carry a tenth of it each; survivors stay under nine tenths.
    expected = 10 if answering == 0 else min(10, -(-((10 - answering) * 10 + answering) // 9))
    assert desired == expected


def test_quota_that_falls_below_the_current_count_shrinks_nobody() -> None:
    world = server_world(4, TokenThroughput())
    world.decide()
    drive(world, [4, 4, 9])
    observation = world.observe()
    role = msgspec.structs.replace(observation.roles[0], pool="h200", current_replicas=4)
    for free, desired in ((-3.0, 4), (0.0, 4), (2.0, 6), (100.0, 9)):
        pools = (Pool(name="h200", free_accelerators=free),)
        seen = msgspec.structs.replace(observation, roles=(role,), pools=pools)
        assert decide(world.spec, world.capacity, world.state, seen, world.now)[1].roles[0].desired == desired


def test_a_raise_that_nobody_admits_is_taken_back_and_tried_again_later() -> None:
    world = server_world(2, TokenThroughput())
    world.decide()
    history = []
    for _ in range(120):
        role = world.roles["server"]
        role.serve(4000.0, INTERVAL)
        role.unadmitted = role.current - 2
        desired = world.tick().role("server").desired
        history.append(desired)
        role.current = desired
    assert history[:3] == [4, 4, 4]
    first_back = history.index(2, 1)
    assert first_back * INTERVAL == pytest.approx(300.0, abs=2 * INTERVAL)
    again = history.index(4, first_back)
    assert (again - first_back) * INTERVAL == pytest.approx(300.0, abs=2 * INTERVAL)
    second_back = history.index(2, again)
    third = history.index(4, second_back)
    assert (third - second_back) * INTERVAL == pytest.approx(600.0, abs=2 * INTERVAL)


def test_another_writers_count_is_the_new_baseline_and_is_held_for_the_down_window() -> None:
    world = server_world(2, TokenThroughput())
    drive(world, [2] * 30)
    world.roles["server"].current = 7
    decision = world.tick().role("server")
    assert decision.desired == 7
    assert "7 was recommended" in decision.stages[3].reason
    world.run("server", 1500.0, 300.0)
    assert world.decisions[-1].role("server").desired == 2


def test_a_writer_that_reverts_every_three_minutes_is_followed_and_answered() -> None:
    world = server_world(2, TokenThroughput())
    drive(world, [4] * 10)
    for _ in range(3):
        world.roles["server"].current = 2
        assert drive(world, [4] * 3)[-1].desired == 4


def test_a_role_that_is_not_observed_keeps_its_count() -> None:
    world = server_world(3, TokenThroughput())
    drive(world, [3] * 4)
    _, decision = decide(
        world.spec, world.capacity, world.state, Observation(now=world.now + 15.0, roles=()), world.now + 15.0
    )
    assert decision.roles[0].desired == 3


def test_bounds_hold_without_samples_and_without_capacity() -> None:
    for current, desired in ((0, 2), (50, 9)):
        spec = DecisionSpec(
            roles=(RoleSpec(name="a", kind=RoleKind.SERVER, min_replicas=2, max_replicas=9),),
            algorithm=Proportional(metric=Metric.RUNNING_REQUESTS, role_targets={}),
        )
        seen = Observation(now=T0, roles=(RoleObservation(name="a", current_replicas=current, ready_replicas=0),))
        decision = decide(spec, {}, initial_state(), seen, T0)[1].roles[0]
        assert (decision.desired, decision.limited_by) == (desired, "bounds")


def test_members_of_a_crowd_are_forgotten_with_their_pods() -> None:
    world = server_world(1, TokenThroughput())
    for generation in range(50):
        world.roles["server"].engines = [world.roles["server"].engines[0].__class__(f"pod-{generation}")]
        world.tick()
    assert list(world.state.roles["server"].members) == ["pod-49"]
    assert len(msgspec.json.encode(world.state)) < 20_000
    assert isinstance(world.observe().roles[0].members[0], Member)


def test_a_band_raises_beyond_a_roles_own_recommendation_where_no_up_window_forbids_it() -> None:
    world = three_roles((RatioSpec(numerator_role="prefill", denominator_role="decode", min=1.0),))
    world.roles["prefill"].current = 1
    for _ in range(30):
        world.roles["prefill"].serve(500.0, INTERVAL, prompt_share=1.0)
        world.roles["decode"].serve(3500.0, INTERVAL, prompt_share=0.0)
        decision = world.tick()
    assert (decision.role("prefill").raw, decision.role("prefill").desired) == (1, 4)
    assert decision.role("prefill").limited_by == "ratio"
