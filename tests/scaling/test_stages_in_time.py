"""The stages that remember: stabilization and the pace of steps, each alone."""

from __future__ import annotations

import msgspec
import pytest

from controller.scaling import (
    Behavior,
    DirectionBehavior,
    PolicyType,
    ScalingPolicy,
    SelectPolicy,
)
from controller.scaling.history import History, Recommendation
from controller.scaling.stages import (
    stabilization,
    step,
)
from controller.scaling.state import ScaleEvent
from tests.scaling.stage_world import Given, alone
from tests.scaling.world import T0

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
