"""Retirement, pass by pass: what becomes of a replica when its count falls, and what people can do about it."""

from __future__ import annotations

import pytest

from controller.api import ELIGIBLE_LABEL, PODS, RETIREMENT_RETRY_ANNOTATION
from tests.deployment.world import World

PD = [{"name": "prefill", "kind": "Prefill", "replicas": 2}, {"name": "decode", "kind": "Decode", "replicas": 2}]


async def test_a_lower_count_retires_the_highest_ordinals_one_at_a_time(chat: World):
    chat.scale(4)
    await chat.rest()
    chat.scale(1)
    await chat.run(120)
    assert chat.names() == ["chat-server-0"]
    one = ["Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling", "-"]
    assert chat.states() == ["-", *one, *one, *one]
    retired = [note.partition(":")[0] for _, reason, note in chat.events if reason == "RetirementDeleting"]
    assert retired == ["chat-server-3", "chat-server-2", "chat-server-1"]


async def test_replicas_that_wait_for_their_retirement_serve_on(chat: World):
    chat.scale(3)
    await chat.rest()
    chat.engines.holds[chat.uid("chat-server-2")] = 1
    chat.scale(1)
    await chat.run(30)
    assert chat.state == "Draining"
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]


async def test_a_busy_replica_stays_until_it_is_idle(chat: World):
    chat.engines.holds[chat.uid("chat-server-1")] = 2
    chat.scale(1)
    await chat.run(200)
    assert (chat.state, chat.names()) == ("Draining", ["chat-server-0", "chat-server-1"])
    chat.engines.holds.clear()
    await chat.run(10)
    assert (chat.state, chat.names()) == ("", ["chat-server-0"])


async def test_answers_under_way_at_a_router_keep_an_idle_engine(chat: World):
    chat.routes.answers.add(chat.uid("chat-server-1"))
    chat.scale(1)
    await chat.run(60)
    assert chat.state == "Draining"
    chat.routes.answers.clear()
    await chat.run(10)
    assert chat.names() == ["chat-server-0"]


@pytest.mark.parametrize("role", [0, 1])
async def test_a_disaggregated_replica_gets_a_minute_to_hand_over(role: int):
    world = World()
    world.declare(PD)
    await world.rest()
    world.scale(*([1, 2] if role == 0 else [2, 1]))
    await world.run(59)
    assert world.state == "Draining"
    reads = world.engines.reads
    await world.run(5)
    assert (world.state, len(world.names())) == ("", 3)
    assert (reads, world.engines.reads) == (0, 2)


async def test_a_replica_that_never_served_goes_without_a_drain(chat: World):
    chat.slow = {"chat-server-2"}
    chat.scale(3)
    await chat.rest()
    chat.scale(2)
    await chat.rest()
    assert chat.names() == ["chat-server-0", "chat-server-1"]
    assert "Draining" not in chat.states()
    assert chat.engines.reads == 0


async def test_a_replica_that_served_and_is_down_now_is_not_taken_for_one_that_never_did(chat: World):
    chat.slow = {"chat-server-1"}
    await chat.rest()
    chat.start()  # a process that has not seen it serve
    chat.engines.deaf.add(chat.uid("chat-server-1"))
    chat.scale(1)
    await chat.run(100)
    assert (chat.state, chat.names()) == ("Draining", ["chat-server-0", "chat-server-1"])


async def test_a_replica_that_lost_its_annotations_is_not_taken_for_one_that_never_served(chat: World):
    chat.slow = {"chat-server-1"}
    await chat.rest()
    chat.edit(PODS, "chat-server-1", lambda obj: obj["metadata"].update(annotations={}))
    chat.start()  # a process that has not seen it serve
    chat.scale(1)
    await chat.run(100)
    assert (chat.state, chat.names()) == ("Draining", ["chat-server-0", "chat-server-1"])


@pytest.mark.parametrize("at", ["Disqualified", "Draining"])
async def test_load_that_returns_gives_the_same_replica_back(chat: World, at: str):
    uid = chat.uid("chat-server-1")
    chat.routes.stuck = at == "Disqualified"
    chat.engines.holds[uid] = 1
    chat.scale(1)
    await chat.run(20)
    assert (chat.state, chat.eligible()) == (at, ["chat-server-0"])
    chat.scale(2)
    await chat.rest()
    assert (chat.state, chat.uid("chat-server-1")) == ("", uid)
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]
    assert "RetirementAdopted" in chat.reasons()


async def test_a_count_that_rises_after_the_point_of_no_return_gets_a_new_replica(chat: World):
    uid = chat.uid("chat-server-1")
    chat.scale(1)
    for _ in range(20):
        if chat.state == "Deleting":
            break
        await chat.turn()
        chat.clock.advance(1)
    chat.scale(2)
    await chat.run(10)
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]
    assert chat.uid("chat-server-1") != uid


async def test_a_router_that_does_not_let_go_aborts_the_retirement_and_says_so(chat: World):
    chat.routes.stuck = True
    chat.scale(1)
    await chat.run(31)
    assert chat.state == "Aborted"
    assert chat.retirement is not None
    assert "router still holds chat-server-1" in chat.retirement.reason
    assert chat.eligible() == ["chat-server-0"]
    (event,) = [event for event in chat.events if event[1] == "RetirementAborted"]
    assert event[0] == "Warning"
    assert "retirement-retry=server:1:" in event[2]
    await chat.run(3600)
    assert (chat.state, len(chat.names())) == ("Aborted", 2)


async def _aborted(world: World) -> None:
    world.engines.holds[world.uid("chat-server-1")] = 1
    world.scale(1)
    await world.run(260)
    assert world.state == "Aborted"


async def test_while_one_is_aborted_nothing_else_is_retired():
    world = World()
    world.declare([{"name": "server", "replicas": 2}, {"name": "other", "replicas": 2}])
    await world.rest()
    world.engines.holds[world.uid("chat-server-1")] = 1
    world.scale(1, 1)
    await world.run(600)
    assert world.state == "Aborted"
    assert "chat-other-1" in world.names()


async def test_an_aborted_replica_is_given_back_by_declaring_it_again(chat: World):
    await _aborted(chat)
    uid = chat.uid("chat-server-1")
    chat.scale(2)
    await chat.rest()
    assert (chat.state, chat.uid("chat-server-1")) == ("", uid)
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]


async def test_a_persons_order_retries_an_aborted_retirement_once(chat: World):
    await _aborted(chat)
    chat.annotate(RETIREMENT_RETRY_ANNOTATION, "server:1:first")
    await chat.run(20)
    assert chat.state == "Draining"
    assert chat.retirement is not None
    assert chat.retirement.last_consumed_retry_token == "first"
    assert RETIREMENT_RETRY_ANNOTATION not in (chat.deployment.metadata.annotations or {})
    await chat.run(260)
    assert chat.state == "Aborted"
    chat.annotate(RETIREMENT_RETRY_ANNOTATION, "server:1:first")
    await chat.run(60)
    assert chat.state == "Aborted"
    chat.engines.holds.clear()
    chat.annotate(RETIREMENT_RETRY_ANNOTATION, "server:1:second")
    await chat.run(20)
    assert (chat.state, chat.names()) == ("", ["chat-server-0"])


@pytest.mark.parametrize("order", ["server:1", "server:one:x", f"server:1:{'x' * 300}"])
async def test_an_order_that_cannot_be_read_is_reported_and_changes_nothing(chat: World, order: str):
    await _aborted(chat)
    chat.annotate(RETIREMENT_RETRY_ANNOTATION, order)
    await chat.run(60)
    assert chat.state == "Aborted"
    assert chat.reasons().count("InvalidRetirementRetry") == 1


async def test_an_order_that_cannot_be_read_is_reported_while_nothing_is_retiring(chat: World):
    chat.annotate(RETIREMENT_RETRY_ANNOTATION, "garbage")
    await chat.run(60)
    assert not chat.state
    assert chat.reasons().count("InvalidRetirementRetry") == 1


async def test_an_aborted_replica_that_dies_is_released(chat: World):
    await _aborted(chat)
    chat.server.delete(PODS, "chat-server-1", "team")
    await chat.rest()
    assert (chat.state, chat.names()) == ("", ["chat-server-0"])
    assert chat.reasons()[-1] == "RetirementReleased"


async def test_a_replica_that_dies_while_it_is_retired_is_released(chat: World):
    chat.engines.holds[chat.uid("chat-server-1")] = 1
    chat.scale(1)
    await chat.run(20)
    chat.server.delete(PODS, "chat-server-1", "team")
    await chat.rest()
    assert (chat.state, chat.names()) == ("", ["chat-server-0"])
    assert {"RetirementAborted", "RetirementReleased"} <= set(chat.reasons())


async def test_a_label_that_somebody_gives_back_is_taken_again(chat: World):
    chat.engines.holds[chat.uid("chat-server-1")] = 1
    chat.scale(1)
    await chat.run(20)
    chat.edit(PODS, "chat-server-1", lambda body: body["metadata"]["labels"].update({ELIGIBLE_LABEL: "true"}))
    await chat.rest()
    assert chat.eligible() == ["chat-server-0"]


async def test_a_role_that_the_spec_drops_is_retired():
    world = World()
    world.declare([{"name": "server"}, {"name": "other"}])
    await world.rest()
    world.declare([{"name": "server"}])
    await world.run(60)
    assert world.names() == ["chat-server-0"]
    assert sorted(service.metadata.name for service in world._services("team/chat")) == ["chat", "chat-server"]


async def test_a_command_of_the_users_own_is_never_deleted_by_the_drain():
    world = World()
    world.declare([{"name": "server", "replicas": 2, "command": ["mine"]}])
    await world.rest()
    world.scale(1)
    await world.run(300)
    assert world.state == "Aborted"
    assert world.retirement is not None
    assert "took over its command line" in world.retirement.reason
