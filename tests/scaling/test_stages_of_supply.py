"""The stages that know what the cluster gives: quota and settling, each alone."""

from __future__ import annotations

import msgspec
import pytest

from controller.scaling import (
    Pool,
    RatioSpec,
    RoleObservation,
)
from controller.scaling.stages import (
    quota,
    settling,
)
from controller.scaling.stages.settling import after_rollback, observed_settling, stalled_replicas
from controller.scaling.state import Settling
from tests.scaling.stage_world import Given, alone, waiting, world
from tests.scaling.world import T0

# ---------------------------------------------------------------- quota


def shared(roles: dict[str, Given], free: float, ratios: tuple[RatioSpec, ...] = ()) -> dict[str, int]:
    plans, context = world(roles, pools=(Pool(name="h200", free_accelerators=free),), ratios=ratios)
    return {name: plan.desired for name, plan in quota(plans, context).items()}


QUOTA = [
    pytest.param({"a": Given(desired=9, pool="h200")}, 3.0, {"a": 7}, id="as many as the pool has free"),
    pytest.param({"a": Given(desired=9, pool="h200", cost=2.0)}, 3.0, {"a": 5}, id="at what a replica costs"),
    pytest.param(
        {"a": Given(desired=9, pool="h200", unadmitted=2)}, 3.0, {"a": 5}, id="less what is already asked for"
    ),
    pytest.param({"a": Given(desired=9, pool="h200")}, 0.0, {"a": 4}, id="an empty pool admits nothing"),
    pytest.param({"a": Given(desired=9, pool="h200")}, -5.0, {"a": 4}, id="an overdrawn pool shrinks nobody"),
    pytest.param({"a": Given(desired=2, pool="h200")}, 0.0, {"a": 2}, id="shrinking needs no quota"),
    pytest.param({"a": Given(desired=9, pool=None)}, 0.0, {"a": 9}, id="a role whose pool is unknown is not limited"),
    pytest.param({"a": Given(desired=9, pool="b200")}, 0.0, {"a": 9}, id="another pool's shortage does not matter"),
    pytest.param(
        {"a": Given(current=1, desired=5, pool="h200"), "b": Given(current=4, desired=8, pool="h200")},
        4.0,
        {"a": 4, "b": 5},
        id="the role that has the smaller part of its wish comes first",
    ),
    pytest.param(
        {"a": Given(desired=8, pool="h200"), "b": Given(desired=2, pool="h200")},
        1.0,
        {"a": 5, "b": 2},
        id="a donor goes first: what it gives back is not free yet",
    ),
    pytest.param(
        {"a": Given(desired=8, pool="h200", cost=4.0), "b": Given(desired=8, pool="h200", cost=1.0)},
        3.0,
        {"a": 4, "b": 7},
        id="what is too small for one may do for the other",
    ),
]


@pytest.mark.parametrize(("roles", "free", "after"), QUOTA)
def test_quota(roles: dict[str, Given], free: float, after: dict[str, int]) -> None:
    assert shared(roles, free) == after


def test_a_preferred_ratio_decides_who_gets_scarce_quota() -> None:
    roles = {"p": Given(current=4, desired=8, pool="h200"), "d": Given(current=2, desired=8, pool="h200")}
    prefer = RatioSpec(numerator_role="p", denominator_role="d", target=4.0)
    assert shared(roles, 2.0) == {"p": 4, "d": 4}
    assert shared(roles, 2.0, (prefer,)) == {"p": 6, "d": 2}


def test_quota_tells_the_shortfall_in_numbers() -> None:
    plans, context = world({"a": Given(desired=9, pool="h200")}, pools=(Pool(name="h200", free_accelerators=3.0),))
    assert (
        quota(plans, context)["a"].records[-1].reason == "pool h200 has 3 free accelerators: 3 of 5 more replicas fit"
    )


# ---------------------------------------------------------------- settling


SETTLING = [
    pytest.param(
        Given(desired=6, unadmitted=1, settling=waiting(60.0)), 4, id="a raise waits for the one before to be admitted"
    ),
    pytest.param(
        Given(desired=6, unadmitted=1, settling=waiting(60.0), panicking=True), 6, id="in a panic it does not wait"
    ),
    pytest.param(Given(desired=6, starting=3), 6, id="it does not wait for replicas that load"),
    pytest.param(Given(desired=3, unadmitted=1, settling=waiting(60.0)), 3, id="a shrink never waits"),
    pytest.param(
        Given(desired=6, unadmitted=2, settling=waiting(300.0)), 2, id="what is not admitted in time is taken back"
    ),
    pytest.param(
        Given(desired=6, unadmitted=2, settling=waiting(300.0), floor=4),
        2,
        id="even below a floor, by exactly those replicas",
    ),
    pytest.param(Given(desired=6, unadmitted=2, settling=waiting(300.0), low=3), 3, id="but not below the minimum"),
    pytest.param(Given(desired=1, unadmitted=1, settling=waiting(300.0)), 1, id="a lower wish stands"),
    pytest.param(
        Given(desired=6, unadmitted=2, settling=waiting(300.0), panicking=True),
        2,
        id="a deadline is evidence also in a panic",
    ),
    pytest.param(
        Given(desired=6, settling=Settling(raise_not_before=T0 + 100.0, pauses=1)),
        4,
        id="after a roll-back raises pause",
    ),
    pytest.param(Given(desired=6, settling=Settling(raise_not_before=T0, pauses=1)), 6, id="until the pause is over"),
]


@pytest.mark.parametrize(("role", "after"), SETTLING)
def test_settling(role: Given, after: int) -> None:
    assert alone(settling, role).desired == after


def test_pauses_double_up_to_eight_times_and_end_with_an_admission() -> None:
    state, now, pauses = Settling(), T0, []
    pending = RoleObservation(name="a", current_replicas=4, ready_replicas=3, unadmitted_replicas=1)
    settled = RoleObservation(name="a", current_replicas=3, ready_replicas=3)
    for _ in range(6):
        state = observed_settling(state, pending, 300.0, now)
        now += 300.0
        state = after_rollback(observed_settling(state, pending, 300.0, now), 300.0, now)
        assert after_rollback(state, 300.0, now + 15.0) == state, "one roll-back is one pause, however long it takes"
        assert state.raise_not_before is not None
        pauses.append((state.raise_not_before - now) / 300.0)
        now += 15.0
        state = observed_settling(state, settled, 300.0, now)
        now = state.raise_not_before or now
    assert pauses == [1, 2, 4, 8, 8, 8]
    assert observed_settling(state, settled, 300.0, now + 300.0) == Settling()


def test_a_start_is_stalled_after_half_an_hour_or_three_times_the_measured_one() -> None:
    role = RoleObservation(name="a", current_replicas=4, ready_replicas=2, starting_replicas=2)
    since = Settling(starting_since=T0)
    assert stalled_replicas(since, role, 76.0, T0 + 1799.0) == 0
    assert stalled_replicas(since, role, 76.0, T0 + 1800.0) == 2
    assert stalled_replicas(since, role, 900.0, T0 + 1800.0) == 0
    assert stalled_replicas(since, role, 900.0, T0 + 2700.0) == 2
    single = msgspec.structs.replace(role, starting_since=(T0, T0 + 1000.0))
    assert stalled_replicas(since, single, 76.0, T0 + 1800.0) == 1, "each on its own clock where it is known"
