"""The process dies at every single write of scaler and standalone mode; what follows ends as if it had not.

Between the end of one write and the beginning of the next a process changes nothing that outlives it, so dying after
each write (its answer is lost with the process) and once before the first is dying everywhere. The writes are counted by
a run that nobody disturbs: a new one is a new place to die at, and a new kind of write fails the test until somebody has
looked at the story that it belongs to.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from controller.api import BINDING_FINALIZER, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, RESUME_ANNOTATION
from controller.foundation import format_time
from tests.reconcile.direct import Pair


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    """Thousands of passes say little that a failure needs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


Act = Callable[[Pair], Awaitable[None]]

CLAIM, FENCE, STATUS = "patch modeldeployments/", "fence modeldeployments/", "patch modeldeploymentscalers/status"
FINALIZER, REPORT = "patch modeldeploymentscalers/", "patch modeldeployments/status"
LABEL, MAKE, END, SERVICE = "patch pods/", "create pods/", "delete pods/", "create services/"


@dataclass(frozen=True)
class Story:
    says: str
    before: Act  # with a process that lives
    story: Act  # with one that dies on the way
    writes: frozenset[str]  # every kind of write that the story may make


async def _nothing(world: Pair) -> None:
    world.load(2400)
    world.scaler()


async def _grown(world: Pair) -> None:
    await world.until(lambda: world.count() == 3, "grown")
    await world.until(lambda: len(world.eligible()) == 3, "all serve")


async def _three(world: Pair) -> None:
    await _nothing(world)
    await _grown(world)
    world.load(400)
    await world.until(lambda: world.status.roles[0].recommended_replicas == 3, "reported")


async def _shrunk(world: Pair) -> None:
    await world.until(lambda: world.count() == 1, "lowered")
    await world.until(lambda: world.names() == ["chat-server-0"] and not world.state, "retired")


async def _nearly_aborted(world: Pair) -> None:
    await _three(world)
    world.engines.holds[world.uid("chat-server-2")] = 1
    await world.until(lambda: world.state == "Draining", "draining")


async def _aborted_and_tried_again(world: Pair) -> None:
    await world.run(1)
    world.clock.advance(238)  # of the 240 s that a drain may take
    await world.until(lambda: world.count() == 3, "taken back")
    await world.until(lambda: len(world.eligible()) == 3 and not world.state, "adopted")
    world.engines.holds.clear()
    await _shrunk(world)
    await world.until(lambda: world.status.roles[0].lowering is None, "forgotten")


async def _bound(world: Pair) -> None:
    await _nothing(world)
    await _grown(world)


async def _suspended(world: Pair) -> None:
    world.edit_scaler(lambda obj: obj["spec"].update(suspend=True))
    await world.until(lambda: not world.note("bound-by"), "released")
    await world.until(lambda: world.reason("Bound") == "Suspended", "said so")


async def _shadowed(world: Pair) -> None:
    world.edit_scaler(lambda obj: obj["spec"].update(mode="Shadow"))
    await world.until(lambda: not world.note("bound-by"), "released")
    await world.until(lambda: world.reason("Bound") == "Shadow", "said so")


async def _deleted(world: Pair) -> None:
    world.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await world.until(lambda: world.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None, "gone")
    assert not world.note("bound-by")


async def _recreated(world: Pair) -> None:
    old = world.deployment.metadata.uid
    world.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await world.run(10)
    world.declare([{"name": "server", "replicas": 1}])
    assert world.deployment.metadata.uid != old
    await _grown(world)
    await world.until(lambda: world.status.binding.target_uid == world.deployment.metadata.uid, "known")


async def _orphaned(world: Pair) -> None:
    await _bound(world)
    world.edit_scaler(lambda obj: obj["metadata"].update(finalizers=[]))
    world.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    world.server.put({**world.server.get(MODEL_DEPLOYMENTS, "chat", "team")})
    world.load(4800)


async def _taken_over(world: Pair) -> None:
    uid = world.scaler("heir")
    await world.until(lambda: world.note("bound-by") == f"heir/{uid}", "taken over")
    await world.until(lambda: world.count() == 5 and len(world.eligible()) == 5, "and scaled")


async def _edited(world: Pair) -> None:
    world.scale(4)
    world.load(2400)
    await world.until(lambda: world.reason("ReplicasConflict") == "ForeignWriter", "noticed")
    await world.until(lambda: world.count() == 3, "lowered in the end")
    await world.until(lambda: len(world.names()) == 3 and not world.state, "retired")


async def _idle(world: Pair) -> None:
    world.load(400)
    world.scaler()
    await world.until(lambda: world.note("found") == "server=1", "bound")
    await world.until(lambda: world.reason("ReplicasConflict") == "Resolved", "said so")


async def _set_first(world: Pair) -> None:
    world.scale(3)
    await world.until(lambda: world.reason("ReplicasConflict") == "ForeignWriter", "noticed")
    await world.until(lambda: world.count() == 1, "lowered in the end")
    await world.until(lambda: world.names() == ["chat-server-0"] and not world.state, "retired")


async def _stopped(world: Pair) -> None:
    await _bound(world)
    times = [{"time": format_time(world.clock.now())}] * 3
    world.edit_scaler(lambda obj: obj["status"].update(foreignReversals=times))
    world.scale(1)
    await world.until(lambda: world.names() == ["chat-server-0"] and not world.state, "as somebody wants it")
    await world.until(lambda: world.reason("ReplicasConflict") == "ForeignWriter", "it has given in")
    assert world.count() == 1


async def _told_to_go_on(world: Pair) -> None:
    world.edit_scaler(lambda obj: obj["metadata"].setdefault("annotations", {}).update({RESUME_ANNOTATION: "now"}))
    await _grown(world)
    await world.until(lambda: len(world.status.foreign_reversals) == 1, "only the last one counts again")


async def _crowded(world: Pair) -> None:
    world.load(2400)
    world.homeless |= {"chat-server-1", "chat-server-2"}
    world.scaler()


async def _rolled_back(world: Pair) -> None:
    await world.until(lambda: world.count() == 3, "raised")
    await world.until(lambda: world.count() == 1, "taken back")
    await world.until(lambda: world.names() == ["chat-server-0"] and not world.state, "and gone")


_BIND = {FINALIZER, CLAIM, STATUS}
_SCALE = {STATUS, FENCE, REPORT, LABEL, MAKE}
STORIES = [
    Story("binding, growing", _nothing, _grown, frozenset(_BIND | _SCALE | {SERVICE})),
    Story("shrinking, retiring", _three, _shrunk, frozenset({CLAIM, STATUS, FENCE, REPORT, LABEL, END})),
    Story(
        "an aborted retirement, taken back and tried again",
        _nearly_aborted,
        _aborted_and_tried_again,
        frozenset({CLAIM, STATUS, FENCE, REPORT, LABEL, END}),
    ),
    Story("suspending", _bound, _suspended, frozenset({CLAIM, STATUS})),
    Story("going back to Shadow", _bound, _shadowed, frozenset({CLAIM, STATUS})),
    Story("deleting the scaler", _bound, _deleted, frozenset({CLAIM, FINALIZER})),
    Story(
        "another target of the same name",
        _bound,
        _recreated,
        frozenset({CLAIM, STATUS, FENCE, REPORT, LABEL, MAKE, END, SERVICE, "delete services/"}),
    ),
    Story("the target of a scaler that is gone", _orphaned, _taken_over, frozenset(_BIND | _SCALE)),
    Story("somebody else's count", _bound, _edited, frozenset(_SCALE | {CLAIM, END})),
    Story("somebody else's count before our first", _idle, _set_first, frozenset(_SCALE | {CLAIM, END})),
    Story("going on after three reversals", _stopped, _told_to_go_on, frozenset(_SCALE | {CLAIM})),
    Story("a raise that nobody has a place for", _crowded, _rolled_back, frozenset(_BIND | _SCALE | {SERVICE, END})),
]


def _end(world: Pair) -> dict[str, Any]:
    """What is left at the end, without times, terms and resource versions."""
    scalers = world.server.list(MODEL_DEPLOYMENT_SCALERS, "team")
    bound = world.note("bound-by").partition("/")[0]
    roles = world.status.roles
    return {
        "counts": [role.replicas for role in world.deployment.roles],
        "written": world.note("written"),
        "bound": bound,
        "scalers": [(each["metadata"]["name"], each["metadata"].get("finalizers", [])) for each in scalers],
        "pods": world.names(),
        "eligible": world.eligible(),
        "made": world.pods_made(),
        "retirement": world.state,
        "reversals": len(world.status.foreign_reversals),
        "conflict": world.reason("ReplicasConflict"),
        "lowering": [role.lowering is not None for role in roles],
        "why": world.reason("Bound"),
    }


def _check(world: Pair) -> None:
    """What holds however it went."""
    found = world.audit()
    term, stored = world.note("term"), world.status.binding
    assert stored is None or str(stored.term) == term, "the status remembers the term"
    for _, holding in found.claims:
        assert holding.term
    if bound := world.note("bound-by"):
        uids = {each["metadata"]["uid"]: each for each in world.server.list(MODEL_DEPLOYMENT_SCALERS, "team")}
        holder = uids.get(bound.partition("/")[2])
        assert holder is not None, "an orphan binding"
        assert BINDING_FINALIZER in holder["metadata"]["finalizers"], "a binding that nobody would give back"
    for client in world.clients:
        assert len(client.deleted) == len(set(client.deleted)), "a Pod was deleted twice by one process"


async def _play(story: Story, begin: Callable[[Pair], None]) -> tuple[dict[str, Any], list[str], int]:
    """The story with the process that `begin` starts: what is left, what it wrote, and how many processes died."""
    world = Pair()
    world.declare([{"name": "server", "replicas": 1}])
    await story.before(world)
    begin(world)
    client = world.clients[-1]
    await story.story(world)
    await world.run(60)
    _check(world)
    return _end(world), client.log, world.crashes


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.says)
async def test_a_crash_at_any_write_changes_nothing_about_the_end(story: Story):
    expected, writes, _ = await _play(story, Pair.start)
    assert set(writes) == story.writes
    for number in range(-1, len(writes)):
        end, _, crashes = await _play(story, lambda world, number=number: world.dies_after(number))
        assert crashes == 1, f"write {number} was never made"
        assert end == expected, f"died after write {number} of {writes}"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.says)
async def test_an_answer_lost_at_any_write_changes_nothing_about_the_end(story: Story):
    expected, writes, _ = await _play(story, Pair.start)
    for number in range(len(writes)):
        end, _, _ = await _play(story, lambda world, number=number: world.loses_answer_of(number))
        assert end == expected, f"the answer to write {number} of {writes} was lost"
