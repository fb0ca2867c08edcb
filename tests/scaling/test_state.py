"""What survives a process stays small, whatever a scaler has been through, and comes back as it was."""

from __future__ import annotations

import random

import msgspec
import pytest

from controller.scaling import PersistedRole, RoleCapacity, State, persist, restore
from controller.scaling.capacities import usable_capacities
from controller.scaling.forecast import Forecaster, Pending, Scores
from controller.scaling.history import History, Recommendation
from controller.scaling.kalman import Trend
from controller.scaling.memory import with_observation
from controller.scaling.startup import startup_quantile, with_startups
from controller.scaling.state import (
    LARGEST_EVENTS,
    LARGEST_PERSISTED_BYTES,
    LARGEST_STARTUPS,
    Factor,
    Panic,
    RoleState,
    ScaleEvent,
    Settling,
    TokensPerRequest,
)
from controller.scaling.windows import LARGEST_RING, Flow
from tests.scaling.world import T0, server_world


def crowded(seed: int) -> State:
    """A role that has had everything happen to it."""
    rng = random.Random(seed)
    third = 1.0 / 3.0
    highs = tuple(Recommendation(T0 + index + third, 1024 - index) for index in range(1000))
    role = RoleState(
        history=History(highs=highs, lows=tuple(reversed(highs)), known_since=T0 + third, last=T0 + third),
        events=tuple(ScaleEvent(T0 + index + third, -1000) for index in range(LARGEST_EVENTS)),
        panic=Panic(since=T0 + third, last_crossing=T0 + third, floor=1024),
        settling=Settling(
            unadmitted_since=T0 + third,
            rolled_back=True,
            pauses=99,
            raise_not_before=T0 + third,
            starting_since=T0 + third,
        ),
        fingerprint="sha256:" + "f" * 64,
        current_replicas=1024,
        desired_replicas=1024,
        flows=tuple(
            Flow(T0 + index * 5.0 + third, 5.0 + third, rng.random() * 1e9, rng.random() * 1e9, 1.0, 2.0, 3.0)
            for index in range(LARGEST_RING)
        ),
        startups_seconds=tuple(rng.random() * 86400.0 for _ in range(LARGEST_STARTUPS)),
        tokens_per_request=TokensPerRequest(1e9 * third, 1e9 * third, 1e9 * third),
        peak_tokens_per_second=1e12 * third,
        factor=Factor(1e12 * third, 1e12 * third, 900 * third, third, 2),
        headroom=tuple(rng.random() * 300.0 for _ in range(107)),
        miss_factor=1.0 + third,
        forecaster=Forecaster(
            trend=Trend(third, third, third, third, third, 10**9),
            updated_at=T0 + third,
            pending=(Pending(third, third, third, third, third),) * 64,
            scores=Scores(third, third, third, third, third),
        ),
    )
    return State(decided_at=T0 + LARGEST_RING * 5.0 + third, roles={"server": role})


@pytest.mark.parametrize("seed", range(5))
def test_the_worst_memory_fits_into_status(seed: int) -> None:
    assert len(msgspec.json.encode(persist(crowded(seed), "server"))) <= LARGEST_PERSISTED_BYTES


def test_what_is_restored_persists_to_the_same_again() -> None:
    state = crowded(0)
    kept = persist(state, "server")
    again = persist(restore({"server": kept}, state.decided_at or 0.0), "server")
    assert msgspec.structs.replace(again, flows=(), headroom=()) == msgspec.structs.replace(kept, flows=(), headroom=())
    assert len(again.flows) == len(kept.flows)
    assert msgspec.json.decode(msgspec.json.encode(kept), type=PersistedRole) == kept


def test_a_small_memory_is_a_small_record() -> None:
    world = server_world(2)
    world.decide()
    world.run("server", 1500.0, 600.0)
    assert len(msgspec.json.encode(persist(world.state, "server"))) < 1000


def test_start_ups_are_measured_as_quantiles_of_the_last_few() -> None:
    kept = with_startups((), (80.0, 70.0, 90.0))
    assert (startup_quantile(kept, 0.5), startup_quantile(kept, 0.9)) == (80.0, 90.0)
    for _ in range(100):
        kept = with_startups(kept, (100.0,))
    assert kept == (100.0,) * LARGEST_STARTUPS
    assert startup_quantile((), 0.9) is None


def test_what_is_no_start_up_is_not_kept() -> None:
    assert with_startups((), (float("nan"), float("inf"), -1.0, 0.0, 1e9)) == ()


def test_scale_events_are_kept_for_the_longest_period_of_a_policy_and_bounded() -> None:
    world = server_world(2)
    observation = world.observe().roles[0]
    kept = RoleState(current_replicas=5, desired_replicas=2)
    without = with_observation(kept, observation, world.spec, decided_at=T0, stable_seconds=180.0, now=T0 + 15.0)
    assert without.events == (), "nobody asks for them"


CAPACITIES = [
    pytest.param(RoleCapacity(effective_tokens_per_second=float("nan")), None, id="NaN is no capacity"),
    pytest.param(RoleCapacity(effective_tokens_per_second=0.0), None, id="neither is zero"),
    pytest.param(RoleCapacity(effective_tokens_per_second=1e-300), None, id="nor what turns loads into infinities"),
    pytest.param(
        RoleCapacity(
            effective_tokens_per_second=9.0,
            seed_tokens_per_second=0.0,
            headroom=2.0,
            prompt_token_weight=-1.0,
            curve=((8.0, 1.0), (2.0, 3.0)),
        ),
        RoleCapacity(effective_tokens_per_second=9.0),
        id="of a usable one only the usable parts are kept",
    ),
]


@pytest.mark.parametrize(("given", "usable"), CAPACITIES)
def test_a_capacity_that_cannot_divide_is_none(given: RoleCapacity, usable: RoleCapacity | None) -> None:
    assert usable_capacities({"a": given}) == ({} if usable is None else {"a": usable})
