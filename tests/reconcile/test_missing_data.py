"""Engines, Pods or the cache say less than there is: nothing shrinks on it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, PODS
from controller.embedded.apiserver.faults import Cut, CutStream
from tests.reconcile.harness import World
from tests.reconcile.scripted_engine import ScriptedEngine

# Several stabilization windows of the scaler.
LONG = 16


async def _three(team: World) -> list[ScriptedEngine]:
    """Three replicas that need each other: 700 of 1,000 tokens/s each."""
    await team.loaded()
    engines = [team.engines[0], await team.replica(1), await team.replica(2)]

    def three(obj: dict[str, Any]) -> None:
        obj["spec"]["roles"][0]["replicas"] = 3
        obj["status"] = {"roles": [{"name": "server", "desired": 3, "ready": 3}]}

    team.edit(MODEL_DEPLOYMENTS, "chat", three)
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"]["sampling"].update(pendingTimeoutSeconds=60))
    for engine in engines:
        engine.load(525, 175)
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    await team.ticks(10)
    assert team.count() == 3
    return engines


def _hang(team: World, engine: ScriptedEngine, name: str) -> None:
    engine.hang()


def _garbage(team: World, engine: ScriptedEngine, name: str) -> None:
    engine.mode = "garbage"


def _without_address(team: World, engine: ScriptedEngine, name: str) -> None:
    team.edit(PODS, name, lambda obj: obj["status"].update(podIP=""))


def _without_annotations(team: World, engine: ScriptedEngine, name: str) -> None:
    team.edit(PODS, name, lambda obj: obj["metadata"]["annotations"].clear())


def _without_labels(team: World, engine: ScriptedEngine, name: str) -> None:
    team.edit(PODS, name, lambda obj: obj["metadata"]["labels"].pop("app.kubernetes.io/name"))


def _of_another_owner(team: World, engine: ScriptedEngine, name: str) -> None:
    team.edit(PODS, name, lambda obj: obj["metadata"]["ownerReferences"][0].update(uid="another"))


LOSSES = [
    ("hang", _hang),
    ("answer garbage", _garbage),
    ("have no address", _without_address),
    ("have no annotations", _without_annotations),
    ("have lost the label that the cache selects by", _without_labels),
    ("belong to another owner", _of_another_owner),
]


CASES = [(f"two {what}", 2, loss) for what, loss in LOSSES] + [(f"all {what}", 3, loss) for what, loss in LOSSES[::2]]


@pytest.mark.parametrize(("number", "loss"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
async def test_nothing_shrinks_when_of_three_replicas(team: World, number: int, loss):
    engines = await _three(team)
    for ordinal in range(3 - number, 3):
        loss(team, engines[ordinal], f"chat-server-{ordinal}")
    await team.ticks(LONG)
    assert set(team.counts()) <= {1, 3}
    assert team.count() == 3


async def test_nothing_shrinks_while_no_replica_is_ready(team: World):
    await _three(team)
    for ordinal in range(3):
        team.edit(PODS, f"chat-server-{ordinal}", lambda obj: obj["status"]["conditions"][0].update(status="False"))
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["status"]["roles"][0].update(ready=0))
    await team.ticks(LONG)
    assert team.count() == 3


async def test_nothing_shrinks_on_a_cache_of_pods_that_stands_still(team: World):
    """The engines behind the addresses that are still cached have made way for others."""
    team.faults.add(CutStream(Cut.STALL, 4), verb="watch", resource="pods", times=None)
    engines = await _three(team)
    for ordinal, engine in enumerate(engines):
        team.server.delete(PODS, f"chat-server-{ordinal}", "team")
        await engine.stop()
        team.engines.remove(engine)
        (await team.replica(ordinal)).load(525, 175)
    await team.ticks(LONG)
    assert team.count() == 3
