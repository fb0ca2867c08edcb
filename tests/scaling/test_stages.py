"""The planner's stages, each alone: what it does to desired, floor and ceiling, and what it says about it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.scaling import (
    Behavior,
    DirectionBehavior,
    MetricsStatus,
    PolicyType,
    Pool,
    RatioSpec,
    RoleObservation,
    ScalingPolicy,
    SelectPolicy,
    Stage,
)
from controller.scaling.history import History, Recommendation
from controller.scaling.stages import (
    RolePlan,
    bounds,
    consolidation,
    coverage,
    joint,
    quota,
    ratio,
    settling,
    stabilization,
    step,
)
from controller.scaling.stages.settling import after_rollback, observed_settling, stalled_replicas
from controller.scaling.state import ScaleEvent, Settling
from tests.scaling.stage_world import Given, world
from tests.scaling.world import T0


def alone(stage, role: Given, **others: object) -> RolePlan:
    plans, context = world({"a": role}, **others)  # type: ignore[arg-type]
    return stage(plans, context)["a"]


# ---------------------------------------------------------------- coverage


COVERAGE = [
    pytest.param(Given(desired=6, raw=6), 6, id="growing needs no more than the samples that are there"),
    pytest.param(
        Given(desired=2, raw=2, recommended_high=3), 3, id="shrinking goes as far as silent members at target allow"
    ),
    pytest.param(
        Given(desired=2, raw=2, recommended_high=9), 4, id="and not at all if those could need more than there are"
    ),
    pytest.param(
        Given(desired=2, raw=2, sampled=60.0), 4, id="nothing shrinks before a stable window has been sampled"
    ),
    pytest.param(Given(desired=6, raw=6, sampled=60.0), 6, id="growing does not wait for it"),
    pytest.param(Given(desired=4, raw=None), 4, id="without a recommendation the count stays"),
    pytest.param(
        Given(desired=2, raw=None, follows=True),
        2,
        id="a role that follows a ratio has no samples of its own to wait for",
    ),
]


@pytest.mark.parametrize(("role", "after"), COVERAGE)
def test_coverage(role: Given, after: int) -> None:
    assert alone(coverage, role).desired == after


MUTE = [
    pytest.param(MetricsStatus.ALL_SCRAPES_FAILED, 4, id="while one role does not answer, no other shrinks"),
    pytest.param(MetricsStatus.NO_READY_REPLICAS, 4, id="or has no Ready member"),
    pytest.param(MetricsStatus.PARTIAL_COVERAGE, 2, id="a few silent members of one do not hold the others"),
]


@pytest.mark.parametrize(("status", "after"), MUTE)
def test_one_broken_role_lets_the_others_grow_and_not_shrink(status: MetricsStatus, after: int) -> None:
    roles = {
        "shrinking": Given(desired=2, raw=2),
        "growing": Given(desired=6, raw=6),
        "broken": Given(raw=None, status=status),
    }
    plans = coverage(*world(roles))
    assert (plans["shrinking"].desired, plans["growing"].desired, plans["broken"].desired) == (after, 6, 4)
    if after == 4:
        assert plans["shrinking"].records[-1].reason == "broken does not answer: nothing shrinks"


def test_coverage_says_how_long_it_still_takes() -> None:
    plan = alone(coverage, Given(desired=2, raw=2, sampled=60.0))
    assert plan.records[-1].reason == "sampled for 60 s; nothing shrinks before 180 s"
    assert plan.next_change_time == T0 + 120.0
    almost = alone(coverage, Given(desired=2, raw=2, sampled=179.7))
    assert almost.records[-1].reason == "sampled for 179 s; nothing shrinks before 180 s"
    assert alone(coverage, Given(desired=2, raw=None)).records[-1].reason == "holding: no member answered"


# ---------------------------------------------------------------- ratio


def pair(prefill: Given, decode: Given, **ratio_spec: float | None) -> dict[str, int]:
    spec = RatioSpec(numerator_role="prefill", denominator_role="decode", **ratio_spec)  # type: ignore[arg-type]
    plans, context = world({"prefill": prefill, "decode": decode}, ratios=(spec,))
    return {name: plan.desired for name, plan in ratio(plans, context).items()}


RATIOS = [
    pytest.param(
        Given(desired=2), Given(desired=5), {"target": 1.0}, (2, 5), id="a preference moves no role that has a signal"
    ),
    pytest.param(
        Given(desired=9, follows=True),
        Given(desired=5),
        {"target": 0.5},
        (3, 5),
        id="a role without a signal follows, rounded up",
    ),
    pytest.param(
        Given(desired=5), Given(desired=1, follows=True), {"target": 2.0}, (5, 3), id="in either place of the ratio"
    ),
    pytest.param(
        Given(desired=2), Given(desired=8), {"min": 0.5}, (4, 8), id="below the band the smaller role is raised"
    ),
    pytest.param(
        Given(desired=9), Given(desired=2), {"max": 3.0}, (9, 3), id="above the band the other role is raised"
    ),
    pytest.param(
        Given(desired=2, high=3), Given(desired=8), {"min": 0.5}, (3, 6), id="where raising ends, the other is lowered"
    ),
    pytest.param(
        Given(desired=2, high=3),
        Given(desired=8, floor=7),
        {"min": 0.5},
        (2, 8),
        id="never below its floor: then it is left to the joint stage",
    ),
    pytest.param(
        Given(desired=2), Given(desired=4), {"min": 0.5, "max": 0.5}, (2, 4), id="a band of one point that is met"
    ),
    pytest.param(
        Given(desired=3), Given(desired=4), {"min": 0.5, "max": 0.5}, (3, 6), id="a band of one point is met by raising"
    ),
    pytest.param(
        Given(desired=0), Given(desired=0), {"min": 0.5, "max": 2.0}, (0, 0), id="nothing has every ratio to nothing"
    ),
]


@pytest.mark.parametrize(("prefill", "decode", "spec", "after"), RATIOS)
def test_ratio(prefill: Given, decode: Given, spec: dict[str, float], after: tuple[int, int]) -> None:
    prefill.low = decode.low = 0
    assert tuple(pair(prefill, decode, **spec).values()) == after


# ---------------------------------------------------------------- bounds


BOUNDS = [
    pytest.param(Given(desired=0, low=2), 2, "minReplicas is 2", id="too few are raised to the minimum"),
    pytest.param(Given(desired=50, high=9), 9, "maxReplicas is 9", id="too many are lowered to the maximum"),
    pytest.param(Given(current=30, desired=30, floor=30, high=9), 9, "maxReplicas is 9", id="over every floor"),
    pytest.param(Given(desired=5), 5, "", id="within them nothing happens"),
]


@pytest.mark.parametrize(("role", "after", "reason"), BOUNDS)
def test_bounds(role: Given, after: int, reason: str) -> None:
    role.bounded = False
    plan = alone(bounds, role)
    assert (plan.desired, plan.records[-1].reason) == (after, reason)


# ---------------------------------------------------------------- stabilization


def past(*items: tuple[float, int], known: float = 10_000.0) -> History:
    """Recommendations (seconds ago, count), oldest first, already reduced to what windows need."""
    history = History(known_since=T0 - known, last=T0 - items[-1][0])
    highs = tuple(Recommendation(T0 - age, count) for age, count in items)
    return msgspec.structs.replace(history, highs=highs, lows=highs)


STABILIZATION = [
    pytest.param(
        Given(desired=2, history=past((200.0, 5), (0.0, 2))),
        (0.0, 300.0),
        4,
        id="shrinking waits for a higher recommendation to pass, and does not grow to it",
    ),
    pytest.param(
        Given(desired=2, history=past((200.0, 3), (0.0, 2))),
        (0.0, 300.0),
        3,
        id="it goes as far as the highest of the window",
    ),
    pytest.param(
        Given(desired=2, history=past((400.0, 9), (0.0, 2))), (0.0, 300.0), 2, id="what is older does not count"
    ),
    pytest.param(
        Given(desired=9, history=past((30.0, 6), (0.0, 9))),
        (60.0, 300.0),
        6,
        id="growing goes as far as the lowest of its own window",
    ),
    pytest.param(Given(desired=9, history=past((30.0, 2), (0.0, 9))), (60.0, 300.0), 4, id="and never shrinks for it"),
    pytest.param(
        Given(desired=9, history=past((0.0, 9), known=10.0)), (60.0, 300.0), 9, id="growing does not wait for a memory"
    ),
    pytest.param(
        Given(desired=2, history=past((0.0, 2), known=100.0)),
        (0.0, 300.0),
        4,
        id="a window that is not known whole allows no shrink",
    ),
    pytest.param(Given(desired=2, history=History()), (0.0, 0.0), 4, id="an empty memory allows none either"),
    pytest.param(
        Given(desired=2, history=past((0.0, 2), known=0.0)), (0.0, 0.0), 2, id="a window of zero needs no memory"
    ),
]


@pytest.mark.parametrize(("role", "windows", "after"), STABILIZATION)
def test_stabilization(role: Given, windows: tuple[float, float], after: int) -> None:
    behavior = Behavior(
        scale_up=DirectionBehavior(stabilization_window_seconds=windows[0]),
        scale_down=DirectionBehavior(stabilization_window_seconds=windows[1]),
    )
    assert alone(stabilization, role, behavior=behavior).desired == after


def test_stabilization_says_when_it_ends() -> None:
    plan = alone(stabilization, Given(desired=2, history=past((200.0, 5), (0.0, 2))))
    assert plan.records[-1].reason == "4 was recommended within the last 300 s"
    assert plan.next_change_time == T0 + 100.0
    unknown = alone(stabilization, Given(desired=2, history=past((0.0, 2), known=100.0)))
    assert "not known for the whole 300 s" in unknown.records[-1].reason
    assert unknown.next_change_time == T0 + 200.0


# ---------------------------------------------------------------- step


def direction(
    *policies: tuple[PolicyType, int, float], largest: int | None = None, select: SelectPolicy = SelectPolicy.MAX
) -> DirectionBehavior:
    return DirectionBehavior(
        stabilization_window_seconds=0.0,
        max_step_replicas=largest,
        policies=tuple(
            ScalingPolicy(type=kind, value=number, period_seconds=period) for kind, number, period in policies
        ),
        select_policy=select,
    )


FREE = direction()
STEPS = [
    pytest.param(Given(desired=9), direction(largest=2), FREE, 6, id="a largest step up"),
    pytest.param(Given(desired=1), FREE, direction(largest=2), 2, id="a largest step down"),
    pytest.param(Given(desired=19), direction((PolicyType.PERCENT, 50, 60.0)), FREE, 6, id="percent up"),
    pytest.param(
        Given(current=5, desired=19), direction((PolicyType.PERCENT, 50, 60.0)), FREE, 8, id="percent up rounds up"
    ),
    pytest.param(
        Given(current=5, desired=1), FREE, direction((PolicyType.PERCENT, 50, 60.0)), 2, id="percent down truncates"
    ),
    pytest.param(
        Given(desired=9, events=(ScaleEvent(T0 - 30.0, 2),)),
        direction((PolicyType.REPLICAS, 3, 60.0)),
        FREE,
        5,
        id="what was added in the period counts",
    ),
    pytest.param(
        Given(desired=9, events=(ScaleEvent(T0 - 61.0, 2),)),
        direction((PolicyType.REPLICAS, 3, 60.0)),
        FREE,
        7,
        id="what was added before does not",
    ),
    pytest.param(
        Given(desired=19, events=(ScaleEvent(T0 - 30.0, 9),)),
        direction((PolicyType.REPLICAS, 3, 60.0)),
        FREE,
        4,
        id="a limit already exceeded blocks and does not turn round",
    ),
    pytest.param(
        Given(desired=19),
        direction((PolicyType.REPLICAS, 1, 60.0), (PolicyType.PERCENT, 100, 60.0)),
        FREE,
        8,
        id="Max takes the larger of two",
    ),
    pytest.param(
        Given(desired=19),
        direction((PolicyType.REPLICAS, 1, 60.0), (PolicyType.PERCENT, 100, 60.0), select=SelectPolicy.MIN),
        FREE,
        5,
        id="Min takes the smaller",
    ),
    pytest.param(
        Given(desired=19), direction(select=SelectPolicy.DISABLED), FREE, 4, id="a disabled direction does not move"
    ),
    pytest.param(
        Given(desired=19),
        direction((PolicyType.REPLICAS, 9, 60.0), largest=2),
        FREE,
        6,
        id="the largest step holds beside policies",
    ),
]


@pytest.mark.parametrize(("role", "up", "down", "after"), STEPS)
def test_step(role: Given, up: DirectionBehavior, down: DirectionBehavior, after: int) -> None:
    assert alone(step, role, behavior=Behavior(scale_up=up, scale_down=down)).desired == after


# ---------------------------------------------------------------- consolidation


CONSOLIDATION = [
    pytest.param(Given(desired=2, load=1.7), 2, id="two survivors at 85 % are safe"),
    pytest.param(Given(desired=2, load=1.9), 3, id="at 95 % a third one stays"),
    pytest.param(Given(desired=3, load=3.7), 4, id="if even one less is too many, all stay"),
    pytest.param(Given(current=2, desired=1, load=0.9), 1, id="exactly at the margin is allowed"),
    pytest.param(Given(current=2, desired=1, load=0.95), 2, id="two to one and back at constant load does not happen"),
    pytest.param(Given(desired=6, load=9.0), 6, id="growing is not its business"),
    pytest.param(Given(desired=2, load=None), 2, id="without a load it has nothing to say"),
]


@pytest.mark.parametrize(("role", "after"), CONSOLIDATION)
def test_consolidation(role: Given, after: int) -> None:
    assert alone(consolidation, role).desired == after


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


def waiting(seconds: float, **more: object) -> Settling:
    return Settling(unadmitted_since=T0 - seconds, **more)  # type: ignore[arg-type]


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


# ---------------------------------------------------------------- what all stages promise

counts = st.integers(0, 12)


STAGES = [coverage, ratio, bounds, stabilization, step, consolidation, quota, settling, joint]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_every_stage_keeps_desired_between_floor_and_ceiling_and_leaves_a_record(data) -> None:
    role = Given(
        current=data.draw(counts),
        desired=data.draw(counts),
        low=data.draw(st.integers(1, 4)),
        high=data.draw(st.integers(4, 12)),
        raw=data.draw(st.one_of(st.none(), counts)),
        recommended_high=data.draw(counts),
        load=data.draw(st.floats(0, 20)),
        sampled=data.draw(st.sampled_from([None, 10.0, 1000.0])),
        unadmitted=data.draw(st.integers(0, 3)),
        settling=data.draw(st.sampled_from([Settling(), waiting(10.0), waiting(1000.0)])),
        pool="h200",
    )
    role.bounded = False
    plans, context = world({"a": role}, pools=(Pool(name="h200", free_accelerators=data.draw(st.floats(-2, 6))),))
    for stage, name in zip(STAGES, Stage, strict=True):
        before = plans["a"]
        plans = stage(plans, context)
        after = plans["a"]
        assert after.floor <= after.desired <= after.ceiling
        assert after.records[-1].stage is name
        assert (after.records[-1].before, after.records[-1].after) == (before.desired, after.desired)
        if after.desired != before.desired:
            assert after.records[-1].reason
    assert role.low <= plans["a"].desired <= role.high
