"""The joint stage: constraints between roles that no stage alone can keep."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.scaling import (
    RatioSpec,
)
from controller.scaling.stages import (
    joint,
)
from controller.scaling.stages.projection import AtLeast, broken, project, rules_of
from tests.scaling.stage_world import Given, world


def joined(prefill: Given, decode: Given, **band: float) -> tuple[int, int, str]:
    spec = RatioSpec(numerator_role="p", denominator_role="d", **band)
    plans, context = world({"p": prefill, "d": decode}, ratios=(spec,))
    after = joint(plans, context)
    return after["p"].desired, after["d"].desired, after["p"].records[-1].reason


JOINT = [
    pytest.param(
        Given(desired=4), Given(desired=4), {"min": 0.5, "max": 2.0}, (4, 4), id="a band that is kept moves nothing"
    ),
    pytest.param(Given(desired=2), Given(desired=6), {"min": 0.5}, (3, 6), id="a broken band is met by raising"),
    pytest.param(
        Given(desired=2, ceiling=2), Given(desired=6), {"min": 0.5}, (2, 4), id="under a ceiling the other comes down"
    ),
    pytest.param(
        Given(current=3, desired=2, ceiling=3),
        Given(current=6, desired=9, floor=6),
        {"min": 0.5},
        (3, 6),
        id="as far as both allow",
    ),
    pytest.param(
        Given(current=1, desired=2, ceiling=2),
        Given(current=8, desired=9, floor=8),
        {"min": 0.5},
        (1, 8),
        id="without any solution both keep their counts",
    ),
    pytest.param(
        Given(current=1, desired=9, ceiling=2),
        Given(current=30, desired=30, floor=8, ceiling=9),
        {"min": 0.5},
        (1, 9),
        id="or what bounds and a roll-back leave of them",
    ),
]


@pytest.mark.parametrize(("prefill", "decode", "band", "after"), JOINT)
def test_joint(prefill: Given, decode: Given, band: dict[str, float], after: tuple[int, int]) -> None:
    assert joined(prefill, decode, **band)[:2] == after


def test_a_clash_names_the_constraints() -> None:
    prefill = Given(current=1, desired=2, floor=1, ceiling=2)
    reason = joined(prefill, Given(current=8, desired=9, floor=8, ceiling=20), min=0.5)[2]
    assert reason == "nothing moves: d must be 8…20, p must be 1…2, and p ≥ 0.5 × d"


def test_roles_without_a_band_between_them_do_not_hold_each_other() -> None:
    spec = RatioSpec(numerator_role="p", denominator_role="d", min=0.5)
    roles = {
        "p": Given(current=1, desired=2, ceiling=2),
        "d": Given(current=8, desired=9, floor=8),
        "free": Given(current=1, desired=7),
    }
    plans, context = world(roles, ratios=(spec,))
    assert {name: plan.desired for name, plan in joint(plans, context).items()} == {"p": 1, "d": 8, "free": 7}


counts = st.integers(0, 12)


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int], dict[str, int], tuple[RatioSpec, ...]]:
    names = draw(st.sampled_from([("e", "p"), ("e", "p", "d")]))
    floors = {name: draw(st.integers(0, 6)) for name in names}
    ceilings = {name: floors[name] + draw(st.integers(0, 6)) for name in names}
    wanted = {name: draw(counts) for name in names}
    ratios = []
    for above, below in (("e", "p"), ("p", "d"), ("d", "e")):
        if above in names and below in names and draw(st.booleans()):
            low = draw(st.one_of(st.none(), st.sampled_from([0.25, 0.5, 1.0, 1.5])))
            ratios.append(
                RatioSpec(
                    numerator_role=above,
                    denominator_role=below,
                    min=low,
                    max=draw(st.one_of(st.none(), st.sampled_from([1.0, 2.0, 3.0]))),
                )
            )
    return wanted, floors, ceilings, tuple(ratios)


@given(problems())
@settings(max_examples=200, deadline=None)
def test_the_projection_finds_a_vector_whenever_there_is_one(problem) -> None:
    wanted, floors, ceilings, ratios = problem
    rules = rules_of(ratios, wanted)
    found = project(wanted, floors, ceilings, rules)
    vectors = [{}]
    for name in wanted:
        vectors = [vector | {name: count} for vector in vectors for count in range(floors[name], ceilings[name] + 1)]
    possible = [vector for vector in vectors if not broken(vector, rules)]
    assert (found is not None) == bool(possible)
    if found is not None:
        assert found in possible
        if all(floors[name] <= count <= ceilings[name] for name, count in wanted.items()) and not broken(wanted, rules):
            assert found == wanted, "what keeps everything is not touched"


def test_contradictory_bands_leave_only_nothing() -> None:
    rules = (AtLeast("p", 2.0, "d"), AtLeast("d", 1.0, "p"))
    zero = {"p": 0, "d": 0}
    assert project({"p": 3, "d": 3}, zero, {"p": 1000, "d": 1000}, rules) == zero
    assert project({"p": 3, "d": 3}, {"p": 1, "d": 1}, {"p": 1000, "d": 1000}, rules) is None
