"""A count write is on its way and the target changes: the whole write is refused, and the next tick decides anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from controller.embedded.apiserver.faults import Delay
from tests.reconcile.harness import World

PREFIX = "scaling.worker.gpustack.ai/"
LATE = Delay(
    0.3
)  # of the loop's time, in which the change is made; the claim is the first write, the counts the second


async def _refused(team: World) -> None:
    """The count write that was held up arrives, and is refused."""
    await team.until(lambda: len(team.answers("patch", "modeldeployments")) >= 2, "it has arrived")
    assert team.answers("patch", "modeldeployments")[:2] == [200, 422]


def _role(name: str, replicas: int) -> dict[str, Any]:
    return {"name": name, "kind": "Server", "replicas": replicas, "instanceType": "h200"}


async def _committing(team: World, change: Callable[[dict[str, Any]], None]) -> None:
    """A target of two roles whose first count write is held up while `change` is made."""
    team.target()
    roles = [_role("server", 1), _role("other", 1)]
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["spec"].update(roles=roles))
    (await team.replica(0)).load(1800, 600)
    team.scaler(roles=[{"name": name, "minReplicas": 1, "maxReplicas": 5} for name in ("server", "other")])
    held = team.faults.add(LATE, verb="patch", resource="modeldeployments", nth=2)
    await team.controller()
    await team.until(lambda: held.fired, "the write is on its way")
    team.edit(MODEL_DEPLOYMENTS, "chat", change)


def _counts(team: World) -> dict[str, int]:
    return {role["name"]: role["replicas"] for role in team.states()[-1]["spec"]["roles"]}


def _reordered(obj: dict[str, Any]) -> None:
    obj["spec"]["roles"].reverse()


def _counted(obj: dict[str, Any]) -> None:
    obj["spec"]["roles"][0]["replicas"] = 2


def _renamed(obj: dict[str, Any]) -> None:
    obj["spec"]["roles"][0]["name"] = "serving"


def _removed(obj: dict[str, Any]) -> None:
    del obj["spec"]["roles"][0]


def _another_term(obj: dict[str, Any]) -> None:
    obj["metadata"]["annotations"][f"{PREFIX}term"] = "9"


def _released(obj: dict[str, Any]) -> None:
    del obj["metadata"]["annotations"][f"{PREFIX}bound-by"]


CHANGES = [
    ("the roles are reordered", _reordered, {"server": 1, "other": 1}),
    ("somebody sets the count", _counted, {"server": 2, "other": 1}),
    ("the role is renamed", _renamed, {"serving": 1, "other": 1}),
    ("the role is removed", _removed, {"other": 1}),
    ("another process raises the term", _another_term, {"server": 1, "other": 1}),
    ("somebody removes the binding", _released, {"server": 1, "other": 1}),
]


@pytest.mark.parametrize(("change", "expected"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
async def test_nothing_is_written_over_a_change_that_the_decision_did_not_know(team: World, change, expected):
    await _committing(team, change)
    assert _counts(team) == expected, "the change came first"
    await _refused(team)
    await team.quiet(40)
    team.audit()


async def test_roles_that_were_reordered_are_scaled_by_their_names(team: World):
    await _committing(team, _reordered)
    await team.until(lambda: _counts(team) == {"server": 3, "other": 1}, "written anew")
    assert team.annotations()["written"] == "other=1,server=3", "also the count that was right already"
    team.audit()


async def test_a_release_on_its_way_takes_nothing_from_whoever_took_the_target_over(team: World):
    await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    held = team.faults.add(LATE, verb="patch", resource="modeldeployments")
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=True))
    await team.until(lambda: held.fired, "the release is on its way")
    heir = {f"{PREFIX}bound-by": "heir/0c6e", f"{PREFIX}term": "2"}
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["metadata"]["annotations"].update(heir))
    await team.until(lambda: team.answers("patch", "modeldeployments")[-1] == 409, "refused")
    await team.quiet(40)
    assert (team.annotations()["bound-by"], team.annotations()["term"]) == ("heir/0c6e", "2")


async def test_a_target_recreated_while_a_count_is_on_its_way_is_not_written(team: World):
    await team.loaded()
    held = team.faults.add(LATE, verb="patch", resource="modeldeployments", nth=2)
    await team.controller()
    await team.until(lambda: held.fired, "the write is on its way")
    annotations = {f"{PREFIX}{key}": value for key, value in team.annotations().items()}
    team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    target = team.target()
    team.server.put({**target, "metadata": {**target["metadata"], "annotations": annotations}})
    await _refused(team)
    await team.quiet(50)
    assert team.count() == 1


async def test_a_scaler_deleted_while_a_count_is_on_its_way_gives_back_and_ends(team: World):
    await team.loaded()
    held = team.faults.add(LATE, verb="patch", resource="modeldeployments", nth=2)
    await team.controller()
    await team.until(lambda: held.fired, "the write is on its way")
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await team.until(lambda: team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None, "gone")
    assert "bound-by" not in team.annotations()
    team.audit()
