"""A count that somebody changes before the scaler has written one is told like any other, and reverses nothing."""

from __future__ import annotations

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, Condition, find_condition
from tests.reconcile.direct import PREFIX, Pair


async def _bound() -> Pair:
    """Bound, and with the one replica that the load asks for: nothing is written."""
    world = Pair()
    world.declare([{"name": "server", "replicas": 1}])
    world.load(400)
    world.scaler()
    world.start()
    await world.until(lambda: world.note("bound-by"), "bound")
    await world.run(60)
    assert not world.note("written")
    return world


def _conflict(world: Pair) -> Condition:
    found = find_condition(world.status.conditions, "ReplicasConflict")
    assert found is not None
    return found


async def _told(world: Pair, change: str) -> None:
    await world.until(lambda: _conflict(world).reason == "ForeignWriter" and change in _conflict(world).message, "told")
    assert "kubectl changed" in _conflict(world).message
    assert "ForeignWriter" in world.reasons()
    assert not world.status.foreign_reversals, "no count of ours was reversed"


async def test_until_then_nobody_is_said_to_have_written():
    world = await _bound()
    assert world.note("found") == "server=1"
    assert _conflict(world).reason == "Resolved"
    assert _conflict(world).message.startswith("nothing was written yet since the target was bound")


async def test_a_person_may_change_it_as_often_as_they_like():
    world = await _bound()
    for count in (3, 5, 4, 2):
        world.clock.advance(2)  # managedFields times have whole seconds
        world.scale(count)
        await _told(world, f"server 1 → {count}")
    await world.until(lambda: world.count() == 1, "and scaling goes on from there")
    assert (world.note("written"), world.note("found")) == ("server=1", "")
    await world.until(lambda: _conflict(world).message == "the counts are the last ones written here", "over")
    assert "WritesStopped" not in world.reasons()
    world.audit()


async def test_it_is_told_by_the_next_process_too():
    world = await _bound()
    world.scale(3)
    term = world.note("term")
    world.start()
    await _told(world, "server 1 → 3")
    assert int(world.note("term")) > int(term)
    assert world.note("found") == "server=1", "to raise the term is no new beginning"


async def test_what_is_changed_between_two_bindings_is_nobodys_fault():
    world = await _bound()
    world.edit_scaler(lambda obj: obj["spec"].update(suspend=True))
    await world.until(lambda: not world.note("bound-by"), "released")
    assert not world.note("found")
    assert find_condition(world.status.conditions, "ReplicasConflict") is None, "nobody compares"
    world.scale(2)
    world.edit_scaler(lambda obj: obj["spec"].update(suspend=False))
    await world.until(lambda: world.note("found") == "server=2", "bound anew")
    assert _conflict(world).reason == "Resolved"
    world.scale(4)
    await _told(world, "server 2 → 4")


async def test_in_shadow_no_count_is_compared_whatever_was_written_before():
    world = await _bound()
    world.load(2400)
    await world.until(lambda: world.note("written") == "server=3", "written")
    world.edit_scaler(lambda obj: obj["spec"].update(mode="Shadow"))
    await world.until(lambda: not world.note("bound-by"), "released")
    world.scale(2)
    await world.run(60)
    assert world.status.binding is not None
    assert (world.status.binding.term, world.status.binding.acquired_time) == (1, None)
    assert _conflict(world).reason == "Resolved"
    assert _conflict(world).message.startswith("this scaler does not hold the target")


async def test_who_takes_over_begins_with_what_it_finds():
    world = await _bound()
    world.load(2400)
    await world.until(lambda: world.note("written") == "server=3", "written")
    await world.until(lambda: len(world.eligible()) == 3, "all serve")
    world.edit_scaler(lambda obj: obj["metadata"].update(finalizers=[]))
    world.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    world.scale(2)
    world.load(1900)
    world.scaler("heir")
    await world.until(lambda: world.note("bound-by").startswith("heir/"), "taken over")
    assert (world.note("found"), world.note("written")) in (("server=2", ""), ("", "server=2"))
    world.audit()


@pytest.mark.parametrize("key", ["found", "written"])
async def test_a_note_that_somebody_took_away_is_made_anew_under_a_higher_term(key: str):
    world = await _bound()
    if key == "written":
        world.load(2400)
        await world.until(lambda: world.note("written") == "server=3", "written")
        await world.run(60)
    term, count = world.note("term"), world.count()
    world.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["metadata"]["annotations"].pop(PREFIX + key))
    await world.until(lambda: world.note("found") == f"server={count}", "noted anew")
    assert int(world.note("term")) == int(term) + 1
    await world.run(60)
    assert _conflict(world).reason == "Resolved", "our own count is nobody else's"
    world.audit()
