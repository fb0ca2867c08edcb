"""TokenThroughput: windows over arrivals, the panic state machine, latency evidence, and the backlog's own floor."""

from __future__ import annotations

import msgspec
import pytest

from controller.scaling import Histogram, MetricsStatus, RoleKind, Stage, TokenThroughput
from controller.scaling.histograms import Quantile
from controller.scaling.latency import Latencies, evidence
from controller.scaling.panic import advanced, reached
from controller.scaling.state import Panic
from tests.scaling.world import INTERVAL, T0, World, server_world

ALGORITHM = TokenThroughput(ttft_target_milliseconds=500.0, itl_target_milliseconds=50.0)


def test_demand_divided_by_capacity_rounded_up() -> None:
    world = server_world(3, ALGORITHM)
    world.decide()
    assert world.run("server", 2500.0, 300.0).raw == 3
    assert world.run("server", 3001.0, 300.0).raw == 4


def test_a_whole_number_of_replicas_is_not_rounded_up_by_floats() -> None:
    world = server_world(3, ALGORITHM, per_replica=0.1 + 0.2)
    world.decide()
    assert world.run("server", 0.9, 300.0).raw == 3


def test_without_capacity_the_count_is_held() -> None:
    world = server_world(2, ALGORITHM)
    world.capacity = {}
    world.decide()
    decision = world.run("server", 9000.0, 300.0)
    assert (decision.raw, decision.desired) == (None, 2)
    assert "no capacity" in decision.algorithm_reason
    assert decision.observed.demand_tokens_per_second == pytest.approx(9000.0)


def test_the_first_reading_gives_no_rate() -> None:
    world = server_world(2, ALGORITHM)
    decision = world.decide().role("server")
    assert (decision.raw, decision.desired, decision.metrics) == (None, 2, MetricsStatus.SAMPLED)
    assert "no rate yet" in decision.algorithm_reason


PANIC = Panic(since=T0, last_crossing=T0, floor=3)
MACHINE = [
    pytest.param(None, 5, T0, None, id="below the threshold nothing begins"),
    pytest.param(
        None,
        6,
        T0,
        Panic(since=T0, last_crossing=T0, floor=2),
        id="at the threshold it begins, with the current count as floor",
    ),
    pytest.param(
        PANIC,
        6,
        T0 + 100.0,
        Panic(since=T0, last_crossing=T0 + 100.0, floor=3),
        id="a further crossing restarts its clock",
    ),
    pytest.param(PANIC, 5, T0 + 179.0, PANIC, id="it lasts a stable window after the last crossing"),
    pytest.param(PANIC, 5, T0 + 180.0, None, id="then it is over"),
    pytest.param(
        PANIC,
        6,
        T0 + 900.0,
        Panic(since=T0, last_crossing=T0 + 900.0, floor=3),
        id="unless it is crossed at that very moment",
    ),
]


@pytest.mark.parametrize(("before", "count", "now", "after"), MACHINE)
def test_panic(before: Panic | None, count: int, now: float, after: Panic | None) -> None:
    assert advanced(before, count, count, threshold=2.0, supply=3, current=2, stable_seconds=180.0, now=now) == after


def test_quiet_has_to_be_seen_to_end_a_panic() -> None:
    settings = {"threshold": 2.0, "supply": 3, "current": 2, "stable_seconds": 180.0, "now": T0 + 200.0}
    assert advanced(PANIC, 1, 6, **settings) == msgspec.structs.replace(PANIC, last_crossing=T0 + 200.0)
    assert advanced(None, 1, 6, **settings) is None, "what was not seen begins none"


def test_no_supply_at_all_counts_as_one() -> None:
    assert advanced(None, 1, 9, threshold=2.0, supply=0, current=0, stable_seconds=180.0, now=T0) is None
    assert advanced(None, 2, 2, threshold=2.0, supply=0, current=0, stable_seconds=180.0, now=T0) is not None


def test_the_floor_follows_what_was_decided_and_no_further_than_is_possible() -> None:
    assert reached(PANIC, 7, ceiling=100) == msgspec.structs.replace(PANIC, floor=7)
    assert reached(PANIC, 2, ceiling=100) == PANIC
    assert reached(PANIC, 2, ceiling=2) == msgspec.structs.replace(PANIC, floor=2)
    assert reached(None, 7, ceiling=9) is None


def test_a_sudden_load_grows_at_once_and_is_not_given_up_before_it_was_quiet() -> None:
    world = server_world(1, ALGORITHM)
    world.decide()
    world.run("server", 500.0, 300.0, follow=True)
    world.run("server", 6000.0, 60.0, follow=True)
    grown = world.run("server", 6000.0, 60.0, follow=True)
    assert grown.desired == 6
    assert grown.algorithm_reason.startswith("panic")
    crossing = world.state.roles["server"].panic
    assert crossing is not None
    while world.now + INTERVAL < crossing.last_crossing + 180.0:
        assert world.run("server", 100.0, INTERVAL, follow=True).raw == 6, "not even asked for while it lasts"
    decision = world.run("server", 100.0, INTERVAL, follow=True)
    assert world.state.roles["server"].panic is None
    assert decision.raw < 6
    assert decision.limited_by is Stage.STABILIZATION


def test_replicas_on_their_way_are_supply_and_do_not_panic_again() -> None:
    # Ready alone would panic at every tick and double each time (aibrix#2670).
    world = server_world(2, ALGORITHM)
    world.decide()
    world.run("server", 1500.0, 300.0)
    asked = []
    for _ in range(10):
        world.roles["server"].serve(2000.0, INTERVAL)
        for engine in world.roles["server"].engines:
            engine.waiting += 30.0  # 4,000 tokens/s more than can be served
        asked.append(world.tick().role("server").desired)
        role = world.roles["server"]
        role.current = asked[-1]
        role.starting = role.current - 2
    # Six for the arrivals and two for what has queued up by then; then it waits for them.
    assert asked == [5] + [8] * 9


def _quantile(lower: float, upper: float | None) -> Quantile:
    return Quantile(lower=lower, upper=upper, value=None if upper is None else (lower + upper) / 2, count=100.0)


def latencies(
    ttft: tuple[float, float | None] | None = None, itl: tuple[float, float | None] | None = None
) -> Latencies:
    return Latencies(ttft=_quantile(*ttft) if ttft else None, itl=_quantile(*itl) if itl else None)


EVIDENCE = [
    pytest.param(
        RoleKind.SERVER,
        latencies(ttft=(0.75, 1.0)),
        5.0,
        6,
        id="late first tokens with work waiting ask for as much more",
    ),
    pytest.param(
        RoleKind.SERVER,
        latencies(ttft=(0.75, 1.0)),
        0.0,
        None,
        id="late first tokens without a queue are not helped by replicas",
    ),
    pytest.param(
        RoleKind.SERVER, latencies(ttft=(0.25, 0.75)), 5.0, None, id="a target inside the bucket is no evidence"
    ),
    pytest.param(
        RoleKind.SERVER, latencies(ttft=(2560.0, None)), 5.0, 8, id="however late, no more than twice what serves"
    ),
    pytest.param(RoleKind.SERVER, latencies(itl=(0.075, 0.1)), 0.0, 6, id="slow tokens are evidence without a queue"),
    pytest.param(
        RoleKind.SERVER,
        latencies(ttft=(0.75, 1.0), itl=(0.1, 0.15)),
        5.0,
        8,
        id="of two the larger counts, they do not multiply",
    ),
    pytest.param(
        RoleKind.PREFILL, latencies(itl=(0.1, 0.15)), 5.0, None, id="a Prefill role has no inter-token latency"
    ),
    pytest.param(
        RoleKind.DECODE, latencies(ttft=(10.0, 20.0)), 5.0, None, id="a Decode role's first token excludes prefill"
    ),
    pytest.param(
        RoleKind.DECODE, latencies(itl=(0.075, 0.1)), 0.0, 6, id="a Decode role is judged by its token latency"
    ),
]


@pytest.mark.parametrize(("kind", "seen", "waiting", "replicas"), EVIDENCE)
def test_latency_evidence(kind: RoleKind, seen: Latencies, waiting: float, replicas: int | None) -> None:
    asked = evidence(kind, seen, ttft_target_seconds=0.5, itl_target_seconds=0.05, waiting=waiting, serving_replicas=4)
    assert (asked.replicas if asked else None) == replicas


def test_no_target_and_no_serving_replica_ask_for_nothing() -> None:
    seen = latencies(ttft=(10.0, None), itl=(10.0, None))
    assert (
        evidence(
            RoleKind.SERVER, seen, ttft_target_seconds=None, itl_target_seconds=None, waiting=9.0, serving_replicas=4
        )
        is None
    )
    assert (
        evidence(
            RoleKind.SERVER, seen, ttft_target_seconds=0.5, itl_target_seconds=0.05, waiting=9.0, serving_replicas=0
        )
        is None
    )


def slow_world(observations_per_tick: float) -> World:
    world = server_world(2, ALGORITHM)
    bounds = (0.1, 0.5, 1.0)
    for tick in range(6):
        for engine in world.roles["server"].engines:
            engine.waiting = 3.0
            engine.ttft = Histogram(bounds, (0.0, 0.0, tick * observations_per_tick, tick * observations_per_tick))
        world.roles["server"].serve(200.0, INTERVAL)
        world.tick()
    return world


def test_evidence_is_combined_with_demand_by_maximum() -> None:
    decision = slow_world(20.0).decisions[-1].role("server")
    assert decision.raw == 2
    assert decision.observed.ttft_interval_milliseconds == (500.0, 1000.0)
    assert "p95 time to first token is above 500 ms" in decision.algorithm_reason


def test_evidence_needs_enough_finished_requests() -> None:
    decision = slow_world(1.0).decisions[-1].role("server")
    assert decision.observed.ttft_milliseconds is None
    assert "p95" not in decision.algorithm_reason


def test_an_answer_above_the_last_bound_is_no_number() -> None:
    world = server_world(1, ALGORITHM)
    engine = world.roles["server"].engines[0]
    for tick in range(4):
        engine.ttft = Histogram((0.1, 0.5), (0.0, 0.0, 100.0 * tick))
        world.roles["server"].serve(200.0, INTERVAL)
        decision = world.tick().role("server")
    assert decision.observed.ttft_milliseconds is None
    assert decision.observed.ttft_interval_milliseconds == (500.0, None)


def backlog_world(*, starting: int) -> World:
    world = server_world(2, ALGORITHM)
    role = world.roles["server"]
    world.decide()
    for engine in role.engines:
        engine.waiting = 60.0
    for _ in range(20):
        role.serve(2000.0, INTERVAL)
        world.tick()
    role.starting = starting
    role.current = 2 + starting
    role.serve(2100.0, INTERVAL)
    world.tick()
    return world


def test_a_backlog_that_nobody_comes_to_drain_asks_for_replicas() -> None:
    # 120 requests of 1,000 tokens wait: within a minute that is two replicas beside the two that are busy.
    decision = backlog_world(starting=0).decisions[-1].role("server")
    assert decision.raw == 5
    assert "120 requests are waiting" in decision.algorithm_reason


def test_a_backlog_waits_for_the_replicas_that_already_come() -> None:
    decision = backlog_world(starting=2).decisions[-1].role("server")
    assert decision.raw == 3, "arrivals alone"


def test_the_drain_time_is_no_shorter_than_a_start() -> None:
    world = server_world(2, ALGORITHM)
    role = world.roles["server"]
    role.startups = (240.0,)
    world.decide()
    role.startups = ()
    for engine in role.engines:
        engine.waiting = 60.0
    for _ in range(20):
        role.serve(2001.0, INTERVAL)
        world.tick()
    assert world.decisions[-1].role("server").raw == 3, "120,000 tokens in 240 s are half a replica"


def test_no_window_is_shorter_than_two_intervals() -> None:
    world = server_world(1, TokenThroughput(stable_window_seconds=30.0, panic_window_seconds=10.0), interval=60.0)
    world.decide()
    world.run("server", 100.0, 120.0)
    decision = world.run("server", 700.0, 60.0)
    assert decision.observed.demand_tokens_per_second == pytest.approx(400.0)
