"""Proportional: the HPA's arithmetic on gauges per replica, with our members and replicas."""

from __future__ import annotations

import pytest

from controller.scaling import Metric, MetricsStatus, Proportional
from controller.scaling.proportional import Reading, Tolerance, average_value_replicas
from tests.scaling.world import INTERVAL, Engine, World, running, server_world

TENTH = Tolerance(0.1, 0.1)

ARITHMETIC = [
    pytest.param(3, Reading(60.0, 3), 15.0, 4, id="twenty on average against fifteen: a third more"),
    pytest.param(5, Reading(60.0, 5), 20.0, 3, id="twelve on average against twenty: three"),
    pytest.param(3, Reading(62.0, 3), 20.0, 3, id="within the tolerance nothing moves"),
    pytest.param(3, Reading(90.0, 3, silent=1), 15.0, 6, id="growing, a silent replica is idle"),
    pytest.param(4, Reading(33.0, 2, silent=2), 15.0, 4, id="growing is given up when idle silent ones turn it round"),
    pytest.param(5, Reading(10.0, 3, silent=2), 15.0, 3, id="shrinking, a silent replica is at target"),
    pytest.param(2, Reading(20.0, 2, silent=1), 17.0, 2, id="a surge pod without a reading changes nothing"),
    pytest.param(4, Reading(80.0, 2, pending=2), 20.0, 4, id="replicas on their way are idle supply when growing"),
    pytest.param(4, Reading(10.0, 2, pending=2), 20.0, 1, id="and do not count at all when shrinking"),
    pytest.param(4, Reading(0.0, 0, silent=4), 20.0, 4, id="without a reading the count stays"),
    pytest.param(4, Reading(0.0, 4), 20.0, 0, id="idle wants none; bounds keep the last one"),
]


@pytest.mark.parametrize(("current", "reading", "target", "replicas"), ARITHMETIC)
def test_average_value(current: int, reading: Reading, target: float, replicas: int) -> None:
    assert average_value_replicas(current, reading, target, TENTH) == replicas


def busy_world(
    *loads: float, target: float = 10.0, metric: Metric = Metric.RUNNING_REQUESTS, waiting: float = 0.0
) -> World:
    algorithm = Proportional(metric=metric, role_targets={"server": target})
    world = server_world(len(loads), algorithm)
    for engine, load in zip(world.roles["server"].engines, loads, strict=True):
        engine.running, engine.waiting = load, waiting
    return world


METRICS = [
    pytest.param(Metric.RUNNING_REQUESTS, 2, id="running requests alone"),
    pytest.param(Metric.WAITING_REQUESTS, 3, id="waiting requests alone"),
    pytest.param(Metric.QUEUE_DEPTH, 5, id="both"),
]


@pytest.mark.parametrize(("metric", "replicas"), METRICS)
def test_the_metric_is_what_the_spec_names(metric: Metric, replicas: int) -> None:
    world = busy_world(20.0, metric=metric, waiting=30.0)
    assert world.decide().role("server").raw == replicas


def test_growth_needs_one_reading_and_no_history() -> None:
    decision = busy_world(25.0, 25.0).decide().role("server")
    assert (decision.raw, decision.desired) == (5, 5)


def test_nothing_shrinks_before_three_minutes_or_the_down_window() -> None:
    world = busy_world(1.0, 1.0, 1.0)
    desired = {}
    world.decide()
    for _ in range(24):
        for engine in world.roles["server"].engines:
            engine.generation += 1.0
        decision = world.tick().role("server")
        desired[round(world.now - 1_700_000_000.0)] = decision.desired
    assert all(count == 3 for second, count in desired.items() if second < 300)
    assert desired[300] == 1


def test_members_of_one_replica_share_its_load() -> None:
    # Two processes a replica (external data parallelism): together they have the load of one replica.
    world = server_world(0, running(10.0))
    world.roles["server"].current = 1
    world.roles["server"].engines = [Engine("a", replica="r0", running=9.0), Engine("b", replica="r0", running=9.0)]
    assert world.decide().role("server").raw == 2


def test_a_distrusted_gauge_is_a_silent_member() -> None:
    world = busy_world(30.0)
    raws = [world.tick().role("server").raw for _ in range(4)]
    assert raws == [3, 3, 3, None]


def test_a_member_that_does_not_serve_is_not_looked_at() -> None:
    world = busy_world(5.0, 50.0)
    world.roles["server"].engines[1].serving = False
    assert world.decide().role("server").raw == 1


def test_a_role_without_a_target_is_held() -> None:
    world = server_world(2, Proportional(metric=Metric.RUNNING_REQUESTS, role_targets={}))
    decision = world.decide().role("server")
    assert (decision.raw, decision.desired) == (None, 2)
    assert "no target" in decision.algorithm_reason


def test_no_answer_at_all_holds_and_says_since_when() -> None:
    world = busy_world(1.0, 1.0)
    world.decide()
    for engine in world.roles["server"].engines:
        engine.silent = True
    decision = world.tick().role("server")
    assert (decision.raw, decision.desired, decision.metrics) == (None, 2, MetricsStatus.ALL_SCRAPES_FAILED)
    assert decision.algorithm_reason == f"no member answered; the last answer is {INTERVAL:.0f} s old"
    assert decision.last_sample_time == world.now - INTERVAL
