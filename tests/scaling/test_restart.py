"""A restart in the middle of anything: the persisted memory decides as the old process would have, or holds."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.scaling import (
    Adaptive,
    Algorithm,
    Behavior,
    DirectionBehavior,
    PersistedRole,
    Predictive,
    RoleCapacity,
    Stage,
    State,
    TokenThroughput,
    decide,
    initial_state,
    persist,
    restore,
)
from controller.scaling.state import LARGEST_PERSISTED_BYTES, Panic
from tests.scaling.world import INTERVAL, World, running, server_world

ALGORITHMS = [
    pytest.param(running(10.0), id="Proportional"),
    pytest.param(TokenThroughput(), id="TokenThroughput"),
    pytest.param(Predictive(horizon_seconds=60.0), id="Predictive"),
    pytest.param(Adaptive(), id="Adaptive"),
]


def through_status(state: State, now: float) -> State:
    """What another process makes of what this one persisted, through JSON as status has it."""
    record = msgspec.json.encode(persist(state, "server"))
    assert len(record) <= LARGEST_PERSISTED_BYTES
    return restore({"server": msgspec.json.decode(record, type=PersistedRole)}, now)


def restart(world: World) -> None:
    """Another process takes over."""
    world.state = through_status(world.state, world.now)


def drive(
    algorithm: Algorithm, loads: list[int], restart_at: int | None, *, down_window: float = 300.0, per_step: int = 4
) -> list[int]:
    """The declared counts, tick by tick, of a run whose counts are carried out at once. Loads are in replicas."""
    behavior = Behavior(scale_down=DirectionBehavior(stabilization_window_seconds=down_window))
    world = server_world(3, algorithm, behavior=behavior, high=40)
    counts = []
    for index in range(len(loads) * per_step):
        load = loads[index // per_step]
        role = world.roles["server"]
        role.serve(1000.0 * load, INTERVAL)
        for engine in role.engines:
            engine.running = 10.0 * load / len(role.engines)
        desired = world.tick().role("server").desired
        counts.append(desired)
        # The engines serve any load: what is compared is the decision, not the plant.
        role.current = desired
        if index == restart_at:
            restart(world)
    return counts


# Learnt ratios and forecasts are worth what was seen, and a new process does not see its first interval: for those
# two the promise rests on the down window as well.
SHRINKS = [
    *(
        pytest.param(*case.values, window, id=f"{case.id} {window:.0f} s")
        for case in ALGORITHMS[:2]
        for window in (0.0, 120.0)
    ),
    *(pytest.param(*case.values, 300.0, id=f"{case.id} 300 s") for case in ALGORITHMS),
]


@pytest.mark.parametrize(("algorithm", "down_window"), SHRINKS)
@given(loads=st.lists(st.integers(0, 12), min_size=12, max_size=20), restart_at=st.integers(2, 60))
@settings(max_examples=12, deadline=None)
def test_a_restart_never_commits_a_shrink_that_the_run_without_it_would_not_have_committed(
    algorithm: Algorithm, down_window: float, loads: list[int], restart_at: int
) -> None:
    without = drive(algorithm, loads, None, down_window=down_window)
    with_one = drive(algorithm, loads, restart_at, down_window=down_window)
    lowest = without[0]
    for index, (mine, theirs) in enumerate(zip(with_one, without, strict=True)):
        lowest = min(lowest, theirs)
        assert mine >= lowest, (index, with_one, without)


class Tick(NamedTuple):
    """One decision of a replay, and the panic that it leaves behind."""

    now: float
    raw: int | None
    desired: int
    limited_by: Stage | None
    panic: Panic | None


def replayed(algorithm: Algorithm, loads: list[int], restart_at: int) -> tuple[list[Tick], list[Tick]]:
    """Decisions on the same observations, as in Shadow: without a restart, and with one."""
    world = server_world(3, algorithm, high=40)
    observations = []
    for index in range(len(loads) * 4):
        role, load = world.roles["server"], loads[index // 4]
        role.serve(1000.0 * load, INTERVAL)
        for engine in role.engines:
            engine.running = 10.0 * load / len(role.engines)
        world.now += INTERVAL
        observations.append(world.observe())
    runs: list[list[Tick]] = []
    for restarts in (False, True):
        state, ticks = initial_state(), []
        for index, observation in enumerate(observations):
            state, decision = decide(world.spec, world.capacity, state, observation, observation.now)
            role = decision.role("server")
            panic = state.roles["server"].panic
            ticks.append(Tick(observation.now, role.raw, role.desired, role.limited_by, panic))
            if restarts and index == restart_at:
                state = through_status(state, observation.now)
        runs.append(ticks)
    return runs[0], runs[1]


def floor_at(run: list[Tick], index: int) -> int:
    """What a panic that lasts keeps the tick's count at: the highest count since it began. 0 without one."""
    before, after = run[index - 1].panic, run[index].panic
    if before is None or after is None:
        return 0
    assert before.since == after.since
    assert before.floor == max(tick.desired for tick in run[:index] if tick.now >= before.since)
    return before.floor


# In ticks. The new process never sees the interval from the last reading of the old one to its own first one. A gauge
# has no window that reaches back to it; the panic window does so for three more ticks, and a panic begun in the last of
# them by only one of the two ends twelve ticks later.
SAME_AGAIN = [
    pytest.param(running(10.0), 0, 0, 20, id="Proportional"),
    pytest.param(TokenThroughput(), 12, 3 + 12, 12, id="TokenThroughput"),
]
DOWN_WINDOW_TICKS = 20


@pytest.mark.parametrize(("algorithm", "rates_after", "panics_after", "shrinks_after"), SAME_AGAIN)
@example(loads=[0, 7, 4, 0, 3, 6, 0, 0, 6, 0, 0, 0, 0, 0], restart_at=18)  # a panic renewed on two floors
@example(loads=[0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0], restart_at=11)  # remembered by one down window
@example(loads=[1, 1, 1, 12, *[3] * 10], restart_at=15)  # a panic that ends later in one of them
@example(loads=[1, 1, 1, 12, *[1] * 10], restart_at=15)  # a shrink in the first tick that allows it
@given(loads=st.lists(st.integers(0, 12), min_size=14, max_size=24), restart_at=st.integers(2, 40))
@settings(max_examples=25, deadline=None)
def test_one_stable_window_after_a_restart_the_same_observations_give_the_same_counts(
    algorithm: Algorithm, rates_after: int, panics_after: int, shrinks_after: int, loads: list[int], restart_at: int
) -> None:
    """Two memories outlive the window: a panic that is renewed before it ends keeps its floor, and the down window keeps
    what was recommended in between. Nothing else may tell the two apart."""
    without, with_one = replayed(algorithm, loads, restart_at)
    first = restart_at + 1
    unlike = set(range(first, first + rates_after))  # ticks whose recommendations may differ
    for index in range(first + rates_after, len(without)):
        pair = (without[index], with_one[index])
        crossings = {tick.panic and tick.panic.last_crossing for tick in pair}
        assert len(crossings) == 1 or index < first + panics_after, index
        if len(crossings) == 1:
            floor = max(floor_at(without, index), floor_at(with_one, index))
            assert len({max(tick.raw or 0, floor) for tick in pair}) == 1, (index, pair)
        low, high = sorted(pair, key=lambda tick: tick.desired)
        if low.raw != high.raw:
            unlike.add(index)
        elif index >= first + shrinks_after and low.desired != high.desired:
            assert unlike & set(range(index - DOWN_WINDOW_TICKS + 1, index)), (index, pair)
            assert high.limited_by is Stage.STABILIZATION, (index, pair)


def interrupted(
    algorithm: Algorithm, loads: list[int], restart_at: int, *, status_age: int, silence: int, down_window: float
) -> tuple[list[int], list[int]]:
    """Counts decided on the same observations, of a role whose count stays: by one process, and by two of which the
    second starts from a status that is `status_age` ticks old. `silence` ticks are nobody's."""
    behavior = Behavior(scale_down=DirectionBehavior(stabilization_window_seconds=down_window))
    world = server_world(12, algorithm, behavior=behavior, high=40)
    observations = []
    for index in range(len(loads) * 4):
        role, load = world.roles["server"], loads[index // 4]
        role.serve(1000.0 * load, INTERVAL)
        for engine in role.engines:
            engine.running = 10.0 * load / len(role.engines)
        world.now += INTERVAL
        observations.append(world.observe())
    seen = [each for index, each in enumerate(observations) if not restart_at < index <= restart_at + silence]
    counts: list[list[int]] = []
    for restarts in (False, True):
        state, states, desired = initial_state(), [], []
        for index, observation in enumerate(seen):
            state, decision = decide(world.spec, world.capacity, state, observation, observation.now)
            desired.append(decision.role("server").desired)
            states.append(state)
            if restarts and index == restart_at:
                state = through_status(states[max(0, index - status_age)], observation.now)
        counts.append(desired)
    return counts[0], counts[1]


@pytest.mark.parametrize("algorithm", ALGORITHMS[:2])
@pytest.mark.parametrize("down_window", [60.0, 180.0])
@given(
    loads=st.lists(st.integers(0, 12), min_size=14, max_size=20),
    restart_at=st.integers(14, 40),
    status_age=st.integers(0, 4),
    silence=st.integers(0, 16),
)
@settings(max_examples=40, deadline=None)
def test_what_was_lost_between_an_old_status_and_a_late_start_lets_nothing_shrink_early(
    algorithm: Algorithm, down_window: float, loads: list[int], restart_at: int, status_age: int, silence: int
) -> None:
    """A status is written at most once a minute, and a new process needs seconds to start: the first window of the new
    process misses that much, and its mean is no recommendation to have less."""
    without, with_one = interrupted(
        algorithm, loads, restart_at, status_age=status_age, silence=silence, down_window=down_window
    )
    lowest = without[0]
    for index, (mine, theirs) in enumerate(zip(with_one, without, strict=True)):
        lowest = min(lowest, theirs)
        assert mine >= lowest, (index, with_one, without)


def test_a_restart_in_a_panic_goes_on_with_its_floor() -> None:
    world = server_world(1, TokenThroughput())
    world.decide()
    world.run("server", 500.0, 300.0, follow=True)
    world.run("server", 6000.0, 120.0, follow=True)
    restart(world)
    assert isinstance(world.state.roles["server"].panic, Panic)
    decision = world.run("server", 100.0, 60.0, follow=True)
    assert (decision.raw, decision.desired) == (6, 6)


def test_after_a_restart_the_counts_are_held_and_the_record_says_until_when() -> None:
    world = server_world(6, TokenThroughput())
    world.decide()
    world.run("server", 500.0, 290.0)
    restart(world)
    decision = world.run("server", 500.0, 90.0)
    assert decision.desired == 6
    assert decision.limited_by is Stage.COVERAGE
    assert decision.next_change_time == world.now - 75.0 + 180.0


def test_growing_does_not_wait_after_a_restart() -> None:
    world = server_world(2, TokenThroughput())
    world.decide()
    world.run("server", 1900.0, 300.0)
    restart(world)
    assert world.run("server", 6000.0, 60.0).desired >= 5


def test_a_minute_of_absence_holds_until_a_whole_window_and_then_the_down_window_have_been_seen() -> None:
    world = server_world(6, TokenThroughput())
    world.decide()
    world.run("server", 500.0, 600.0)
    restart(world)
    world.now += 60.0
    assert world.run("server", 500.0, 180.0 + 285.0).desired == 6
    assert world.run("server", 500.0, 60.0).desired == 1


def test_an_hour_of_absence_makes_the_down_window_unknown() -> None:
    world = server_world(6, TokenThroughput())
    world.decide()
    world.run("server", 500.0, 600.0)
    restart(world)
    world.now += 3600.0
    decision = world.run("server", 500.0, 240.0)
    assert decision.desired == 6
    assert decision.limited_by is Stage.STABILIZATION
    assert world.run("server", 500.0, 225.0).desired == 6
    assert world.run("server", 500.0, 30.0).desired == 1


def test_a_record_from_the_future_is_not_believed() -> None:
    world = server_world(6, TokenThroughput())
    world.decide()
    world.run("server", 500.0, 600.0)
    kept = persist(world.state, "server")
    assert restore({"server": kept}, world.now - 1.0).roles == {}
    assert restore({"server": kept}, world.now).roles["server"].history == kept.history


def test_a_role_never_decided_persists_nothing() -> None:
    assert persist(initial_state(), "server") == PersistedRole()
    assert restore({"server": PersistedRole()}, 0.0).roles["server"].history.known_since is None


@pytest.mark.parametrize("restarted", [False, True], ids=["in one process", "also after a restart"])
def test_a_new_fingerprint_drops_what_was_computed_under_the_old_one(restarted: bool) -> None:
    world = server_world(6, TokenThroughput())
    world.decide()
    world.run("server", 500.0, 600.0)
    if restarted:
        restart(world)
    changed_at = world.now
    world.capacity = {"server": RoleCapacity(effective_tokens_per_second=2000.0, fingerprint="another")}
    world.run("server", 100.0, 30.0)
    kept = world.state.roles["server"]
    assert kept.fingerprint == "another"
    assert kept.history.known_since is not None
    assert kept.history.known_since > changed_at
    assert kept.flows[0].end >= world.now - INTERVAL
    assert kept.peak_tokens_per_second < 200.0, "the old peak was counted in other tokens, maybe"
    assert kept.sampling_since is not None
    assert kept.sampling_since > changed_at, "nothing shrinks before a window was sampled under it"
