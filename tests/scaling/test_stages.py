"""The planner's stages, each alone: what it does to desired, floor and ceiling, and what it says about it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.scaling import (
    MetricsStatus,
    Pool,
    RatioSpec,
    Stage,
)
from controller.scaling.stages import (
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
from controller.scaling.state import Settling
from tests.scaling.stage_world import Given, alone, waiting, world
from tests.scaling.world import T0

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
