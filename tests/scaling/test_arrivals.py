"""Arrivals by flow conservation: what was served plus what the queues grew by, in the role's own tokens."""

from __future__ import annotations

import pytest

from controller.scaling import DecisionSpec, MetricsStatus, RoleKind, RoleSpec, TokenThroughput
from controller.scaling.windows import Flow
from tests.scaling.world import INTERVAL, Engine, World, capacity, server_world


def last_flow(world: World, role: str = "server") -> Flow:
    return world.state.roles[role].flows[-1]


def test_a_saturated_role_still_shows_what_arrives() -> None:
    # Three replicas of 17,135 tokens/s serve all they can while 13.4 requests/s of 1,280 tokens queue up: four arrive.
    world = server_world(3, per_replica=17135.16, interval=10.0)
    role = world.roles["server"]
    for engine in role.engines:
        engine.waiting = 0.0
    world.decide()
    for _ in range(3):
        role.serve(51405.48, 10.0, tokens_per_request=1280.0)
        for engine in role.engines:
            engine.waiting += 134.0 / 3
        world.tick()
    assert last_flow(world).low / 17135.16 == pytest.approx(4.0, abs=0.01)


def test_a_draining_queue_is_no_demand() -> None:
    world = server_world(2)
    role = world.roles["server"]
    role.engines[0].waiting = 60.0
    world.decide()
    for _ in range(4):
        role.serve(2000.0, INTERVAL)
        role.engines[0].waiting -= 15.0
        world.tick()
    assert last_flow(world).low == pytest.approx(2000.0 - 1000.0)


def test_a_member_that_enters_or_leaves_takes_its_queue_along() -> None:
    world = server_world(2)
    role = world.roles["server"]
    world.decide()
    role.serve(2000.0, INTERVAL)
    world.tick()
    role.engines[1].waiting = 500.0
    leaving = role.engines.pop()
    role.engines.append(Engine("newcomer", waiting=300.0))
    role.engines[0].prompt += 1000.0 * INTERVAL
    world.tick()
    assert last_flow(world).low == pytest.approx(1000.0)
    assert leaving.name not in world.state.roles["server"].members, "a member that vanished is forgotten at once"


def test_a_reset_member_is_silent_for_one_interval_and_never_negative() -> None:
    world = server_world(2)
    role = world.roles["server"]
    world.decide()
    role.serve(2000.0, INTERVAL)
    world.tick()
    role.serve(2000.0, INTERVAL)
    role.engines[0].prompt = role.engines[0].generation = role.engines[0].finished = 5.0
    world.tick()
    assert last_flow(world).low == pytest.approx(1000.0)
    assert last_flow(world).high == pytest.approx(2000.0), "its replica counts as exactly at target for shrinking"
    role.serve(2000.0, INTERVAL)
    world.tick()
    assert last_flow(world).low == last_flow(world).high == pytest.approx(2000.0)


def test_nobody_answering_is_a_hole_and_not_a_zero() -> None:
    world = server_world(2)
    role = world.roles["server"]
    world.decide()
    role.serve(2000.0, INTERVAL)
    world.tick()
    for engine in role.engines:
        engine.silent = True
    decision = world.tick().role("server")
    assert last_flow(world).low is None
    assert last_flow(world).high == 2000.0
    assert decision.metrics is MetricsStatus.ALL_SCRAPES_FAILED
    assert decision.observed.coverage == 0.0


def test_a_mean_request_needs_enough_finished_ones() -> None:
    world = server_world(1)
    role = world.roles["server"]
    world.decide()
    role.serve(100.0, INTERVAL, tokens_per_request=1000.0)
    world.tick()
    assert world.state.roles["server"].tokens_per_request.ratio is None, "one and a half requests are no mean"
    role.engines[0].waiting = 50.0
    role.serve(100.0, INTERVAL)
    world.tick()
    assert last_flow(world).low == pytest.approx(100.0), "so the queue says nothing yet"
    for _ in range(4):
        role.serve(1000.0, INTERVAL)
        world.tick()
    assert world.state.roles["server"].tokens_per_request.ratio == pytest.approx(1000.0)


def test_the_mean_request_survives_a_stop_of_the_load() -> None:
    world = server_world(1)
    world.decide()
    world.run("server", 1000.0, 120.0)
    world.run("server", 0.0, 600.0)
    assert world.state.roles["server"].tokens_per_request.ratio == pytest.approx(1000.0)


KINDS = [
    pytest.param(RoleKind.SERVER, 10.0, id="a Server counts computed prompt and generation"),
    pytest.param(RoleKind.PREFILL, 8.0, id="a Prefill role counts computed prompt tokens"),
    pytest.param(RoleKind.DECODE, 2.0, id="a Decode role counts generation, though it repeats the prompt counts"),
]


@pytest.mark.parametrize(("kind", "thousands"), KINDS)
def test_the_tokens_that_count_depend_on_the_kind(kind: RoleKind, thousands: float) -> None:
    spec = DecisionSpec(
        roles=(RoleSpec(name="role", kind=kind, min_replicas=1, max_replicas=9),), algorithm=TokenThroughput()
    )
    world = World(spec, capacity(role=5000.0))
    world.resize("role", 1)
    world.decide()
    world.roles["role"].serve(10_000.0, INTERVAL, prompt_share=0.8)
    world.tick()
    assert last_flow(world, "role").low == pytest.approx(thousands * 1000.0)


def test_a_prompt_token_may_weigh_less_than_a_generated_one() -> None:
    world = server_world(1)
    world.capacity = {
        "server": world.capacity["server"].__class__(effective_tokens_per_second=1000.0, prompt_token_weight=0.25)
    }
    world.decide()
    world.roles["server"].serve(1000.0, INTERVAL, prompt_share=0.8)
    world.tick()
    assert last_flow(world).low == pytest.approx(0.25 * 800.0 + 200.0)


def test_a_part_of_the_demand_that_is_unknown_makes_all_of_it_unknown() -> None:
    world = server_world(1)
    world.decide()
    world.roles["server"].serve(1000.0, INTERVAL)
    world.roles["server"].engines[0].prompt = None
    world.tick()
    assert last_flow(world).low is None


def pd_world(prefill_running: float | None, decode_waiting: float, waiting_for_kv: float | None) -> World:
    roles = tuple(
        RoleSpec(name=kind.value.lower(), kind=kind, min_replicas=1, max_replicas=9)
        for kind in (RoleKind.DECODE, RoleKind.PREFILL)
    )
    world = World(DecisionSpec(roles=roles, algorithm=TokenThroughput()), capacity(prefill=1000.0, decode=1000.0))
    for name in ("prefill", "decode"):
        world.resize(name, 1)
    world.roles["prefill"].engines[0].running = prefill_running
    world.roles["prefill"].engines[0].waiting = 0.0 if prefill_running is not None else None
    decode = world.roles["decode"].engines[0]
    decode.waiting, decode.waiting_for_kv = decode_waiting, waiting_for_kv
    return world


DECODE_QUEUES = [
    pytest.param(10.0, 24.0, None, 14.0, id="what is under way on Prefill is taken off a Decode queue"),
    pytest.param(30.0, 24.0, None, 0.0, id="and never makes it negative"),
    pytest.param(30.0, 24.0, 4.0, 20.0, id="an engine that tells the two apart is believed"),
    pytest.param(None, 24.0, None, 0.0, id="without an answer from Prefill nothing is surely Decode's own"),
]


@pytest.mark.parametrize(("prefill", "waiting", "for_kv", "own"), DECODE_QUEUES)
def test_waiting_on_decode_may_be_prefill_pressure(
    prefill: float | None, waiting: float, for_kv: float | None, own: float
) -> None:
    world = pd_world(prefill, waiting, for_kv)
    assert world.decide().role("decode").observed.waiting_requests == own


def test_a_queue_for_kv_that_grows_is_no_demand_on_decode() -> None:
    world = pd_world(0.0, 0.0, None)
    decode, prefill = world.roles["decode"], world.roles["prefill"]
    world.decide()
    for _ in range(5):
        decode.serve(1000.0, INTERVAL, prompt_share=0.0, tokens_per_request=100.0)
        decode.engines[0].waiting += 20.0
        prefill.engines[0].running += 20.0
        prefill.engines[0].prompt += 100.0
        world.tick()
    assert last_flow(world, "decode").low == pytest.approx(1000.0)


def test_deciding_again_on_the_same_readings_changes_nothing() -> None:
    world = server_world(2)
    world.decide()
    world.run("server", 1500.0, 120.0)
    observation, state = world.observe(), world.state
    world.now += 3.0
    late = world.observe()
    unchanged = tuple(
        role.__class__(
            name=role.name,
            current_replicas=role.current_replicas,
            ready_replicas=role.ready_replicas,
            members=observation.roles[index].members,
        )
        for index, role in enumerate(late.roles)
    )
    world.observe = lambda: late.__class__(now=world.now, roles=unchanged)  # type: ignore[method-assign]
    again = world.decide().role("server")
    assert world.state.roles["server"].flows == state.roles["server"].flows
    assert (again.raw, again.desired) == (2, 2)


def test_a_member_that_was_ready_and_is_not_counts_as_at_target_for_shrinking() -> None:
    world = server_world(4)
    world.decide()
    world.run("server", 1200.0, 300.0)
    for engine in world.roles["server"].engines[2:]:
        engine.ready = False
        engine.silent = True
    for _ in range(40):
        world.roles["server"].serve(600.0, INTERVAL)
        decision = world.tick().role("server")
    assert decision.raw == 1
    assert decision.desired >= 3, "two broken replicas must not shrink the role to what the rest serves"


def test_a_member_read_while_it_starts_has_a_rate_as_soon_as_it_is_ready() -> None:
    world = server_world(1)
    world.roles["server"].engines.append(Engine("new", ready=False))
    world.decide()
    world.roles["server"].serve(1000.0, INTERVAL)
    world.tick()
    assert last_flow(world).high == last_flow(world).low, "while it starts it is no silent member"
    world.roles["server"].engines[1].ready = True
    world.roles["server"].serve(1800.0, INTERVAL)
    world.tick()
    assert last_flow(world).low == pytest.approx(1800.0)
