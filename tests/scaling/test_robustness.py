"""No reading, however malformed, raises; bounds always hold; the result does not depend on any order."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.scaling import Observation, State, decide, initial_state, persist, restore
from controller.scaling.state import LARGEST_PERSISTED_BYTES
from hack.bench import fuzz
from tests.scaling.strategies import any_observation, any_spec
from tests.scaling.world import T0


@pytest.mark.parametrize("seed", range(4))
def test_a_run_of_random_ticks_breaks_no_promise(seed: int) -> None:
    taken = list(fuzz.runs(random.Random(seed), 500))
    assert len(taken) == 500


def test_a_broken_promise_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fuzz, "decide", lambda *arguments: 1 / 0)
    assert fuzz.main(["--count", "5", "--output", "json"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out


CALM = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def histories(draw: st.DrawFn) -> tuple[object, object, list[Observation]]:
    spec, capacity = draw(any_spec())
    names = tuple(role.name for role in spec.roles)
    now, ticks = T0, []
    for _ in range(draw(st.integers(1, 5))):
        now += draw(st.sampled_from([0.0, 5.0, 15.0, 400.0, -5.0, -5000.0]))
        ticks.append(draw(any_observation(names, now)))
    return spec, capacity, ticks


@CALM
@given(histories())
def test_no_observation_raises_and_bounds_always_hold(case) -> None:
    spec, capacity, ticks = case
    state = initial_state()
    bounds = {role.name: (role.min_replicas, role.max_replicas) for role in spec.roles}
    for seen in ticks:
        state, decision = decide(spec, capacity, state, seen, seen.now)
        assert [role.name for role in decision.roles] == list(bounds)
        for role in decision.roles:
            low, high = bounds[role.name]
            assert low <= role.desired <= high
        # What is remembered and what is said is JSON, and comes back equal.
        assert msgspec.json.decode(msgspec.json.encode(state), type=State) == state
        assert msgspec.json.decode(msgspec.json.encode(decision), type=type(decision)) == decision
        for name in bounds:
            assert len(msgspec.json.encode(persist(state, name))) <= LARGEST_PERSISTED_BYTES
        restore({name: persist(state, name) for name in bounds}, seen.now)


@CALM
@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_roles_and_members_never_matters(case, random) -> None:
    spec, capacity, ticks = case
    state, shuffled_state = initial_state(), initial_state()
    for seen in ticks:
        shuffled_roles = [
            msgspec.structs.replace(role, members=tuple(random.sample(role.members, len(role.members))))
            for role in seen.roles
        ]
        random.shuffle(shuffled_roles)
        shuffled = msgspec.structs.replace(seen, roles=tuple(shuffled_roles))
        state, decision = decide(spec, capacity, state, seen, seen.now)
        reversed_capacity = dict(reversed(list(capacity.items())))
        shuffled_state, other = decide(spec, reversed_capacity, shuffled_state, shuffled, seen.now)
        assert other == decision
