"""The process dies at every single write; what follows ends as if it had not.

Between the end of one write and the beginning of the next a process changes nothing that outlives it, so dying after
each write, and once before the first, is dying everywhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from controller.api import MODEL_DEPLOYMENTS, RETIREMENT_RETRY_ANNOTATION
from tests.deployment.direct import Moment
from tests.deployment.world import World

Act = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Story:
    says: str
    before: Act  # with a process that lives
    story: Act  # with one that dies on the way
    roles: tuple[dict[str, Any], ...] = ({"name": "server", "replicas": 2},)


async def _nothing(world: World) -> None:
    del world


async def _settled(world: World) -> None:
    await world.rest()


async def _brought_up(world: World) -> None:
    await world.run(10)


async def _lowered(world: World) -> None:
    world.scale(1)
    await world.run(60)


async def _raised_while_draining(world: World) -> None:
    uid = world.uid("chat-server-1")
    world.engines.holds[uid] = 1
    world.scale(1)
    await world.run(20)
    assert world.state == "Draining"
    world.scale(2)
    await world.run(20)
    assert world.uid("chat-server-1") == uid


async def _aborted(world: World) -> None:
    await world.rest()
    world.engines.holds[world.uid("chat-server-1")] = 1
    world.scale(1)
    await world.run(245)
    assert world.state == "Aborted"


async def _retried(world: World) -> None:
    world.engines.holds.clear()
    world.annotate(RETIREMENT_RETRY_ANNOTATION, "server:1:now")
    await world.run(60)
    assert RETIREMENT_RETRY_ANNOTATION not in (world.deployment.metadata.annotations or {})


async def _rolled_out(world: World) -> None:
    world.declare([{"name": "server", "replicas": 2, "extraArgs": ["--max-num-seqs", "8"]}])
    await world.run(120)
    assert world.deployment.condition("ReplicasUpToDate").status == "True"  # type: ignore[union-attr]


async def _deleted(world: World) -> None:
    world.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await world.run(10)


GROUP = ({"name": "server", "replicas": 2, "size": 2},)
STORIES = [
    Story("bringing up", _nothing, _brought_up),
    Story("bringing up replicas of two Pods", _nothing, _brought_up, GROUP),
    Story("retiring a replica", _settled, _lowered),
    Story("retiring a replica of two Pods", _settled, _lowered, GROUP),
    Story("adopting a replica back", _settled, _raised_while_draining),
    Story("retrying an aborted retirement", _aborted, _retried),
    Story("rolling a changed spec out", _settled, _rolled_out),
    Story("clearing up after a deleted deployment", _settled, _deleted),
]


def _end(world: World) -> tuple[object, ...]:
    """What is left at the end, without times and resource versions."""
    found = world._deployment("team/chat")
    roles = None if found is None else [(role.desired, role.ready, role.endpoints) for role in found.status.roles or ()]
    return (
        world.names(),
        world.eligible(),
        sorted(service.metadata.name for service in world._services("team/chat")),
        None if found is None else (found.status.phase, world.state),
        roles,
    )


async def _play(story: Story, dies_at: int | None, moment: Moment) -> tuple[World, tuple[object, ...], int]:
    world = World()
    world.declare(list(story.roles))
    await story.before(world)
    if dies_at is None:
        world.start()
    else:
        world.crash_at_write(dies_at, moment)
    client = world.client
    await story.story(world)
    deleted = [name for verb, plural, name in world.client.writes if (verb, plural) == ("delete", "pods")]
    assert len(deleted) == len(set(deleted)), "a Pod was deleted twice by one process"
    return world, _end(world), len(client.writes)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.says)
async def test_a_crash_at_any_write_changes_nothing_about_the_end(story: Story):
    _, undisturbed, writes = await _play(story, None, Moment.BEFORE)
    assert writes >= 3
    for number, moment in [(0, Moment.BEFORE), *((number, Moment.AFTER) for number in range(writes))]:
        world, end, _ = await _play(story, number, moment)
        assert world.crashes == 1, f"write {number} was never made"
        assert end == undisturbed, f"{moment.value} write {number}"
