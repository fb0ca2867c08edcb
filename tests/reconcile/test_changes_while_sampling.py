"""Reading the engines takes seconds. What was decided for a scaler or a target that changed meanwhile is not written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from tests.reconcile.harness import World
from tests.reconcile.scripted_engine import ScriptedEngine

# Longer than any test holds an engine back: the answer always comes, only late.
PATIENCE_SECONDS = 30.0


async def _grown_and_reading(team: World, load: float = 3600) -> ScriptedEngine:
    """A scaler that has grown its target to 3, and is reading an engine whose answer will ask for 5."""
    team.target()
    engine = await team.replica(0)
    engine.load(1800, 600)
    team.scaler()
    await team.controller(scrape_timeout_seconds=PATIENCE_SECONDS)
    await team.until(lambda: team.count() == 3, "grown")
    engine.hang()
    await team.until(lambda: engine.hanging, "the engine is being read")
    engine.load(10 * load, load)
    await team.quiet(10)
    return engine


def _edit_scaler(**change: object) -> Callable[[World], None]:
    return lambda team: team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(change))


def _replace_by_a_shadow(team: World) -> None:
    def without_finalizer(obj):
        obj["metadata"]["finalizers"] = []

    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", without_finalizer)
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    team.scaler(mode="Shadow")


CHANGES = [
    ("the scaler is suspended", _edit_scaler(suspend=True)),
    ("the scaler becomes a Shadow", _edit_scaler(mode="Shadow")),
    ("the maximum is lowered", _edit_scaler(roles=[{"name": "server", "minReplicas": 1, "maxReplicas": 3}])),
    ("the spec becomes invalid", _edit_scaler(roles=[{"name": "nosuch", "minReplicas": 1, "maxReplicas": 3}])),
    ("the scaler is deleted", lambda team: team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")),
    ("another scaler of the same name takes its place", _replace_by_a_shadow),
]


@pytest.mark.parametrize("change", [c[1] for c in CHANGES], ids=[c[0] for c in CHANGES])
async def test_a_scaler_that_changed_while_its_engines_were_read_does_not_act_on_its_old_spec(team: World, change):
    engine = await _grown_and_reading(team)
    change(team)
    await team.quiet(5)
    engine.resume()
    await team.quiet(30)
    assert team.counts() == [1, 3]


async def test_a_scaler_deleted_before_it_ever_wrote_claims_nothing(team: World):
    team.target()
    engine = await team.replica(0)
    engine.hang()
    team.scaler()
    await team.controller(scrape_timeout_seconds=PATIENCE_SECONDS)
    await team.until(lambda: engine.hanging, "its first sample is under way")
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await team.quiet(5)
    engine.resume()
    await team.quiet(30)
    assert team.annotations() == {}


def _edit_role(**change: object) -> Callable[[World], None]:
    return lambda team: team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["spec"]["roles"][0].update(change))


TARGET_CHANGES = [
    ("the role gets a command of its own", _edit_role(command=["sh"]), "TargetUnsupported"),
    ("the role becomes elastic", _edit_role(elasticEp={"width": 4}), "TargetUnsupported"),
    ("the role is renamed", _edit_role(name="other"), "InvalidSpec"),
]


@pytest.mark.parametrize(("change", "reason"), [c[1:] for c in TARGET_CHANGES], ids=[c[0] for c in TARGET_CHANGES])
async def test_a_target_that_became_unsupported_while_it_was_read_is_left_alone(team: World, change, reason):
    engine = await _grown_and_reading(team)
    change(team)
    await team.quiet(5)
    engine.resume()
    await team.until(lambda: team.reason("ScalingActive") == reason, reason)
    await team.quiet(20)
    assert team.counts() == [1, 3]


async def test_a_target_that_is_being_deleted_is_left_alone(team: World):
    engine = await _grown_and_reading(team)

    def held(obj):
        obj["metadata"]["finalizers"] = ["example.org/slow"]

    team.edit(MODEL_DEPLOYMENTS, "chat", held)
    team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await team.quiet(5)
    engine.resume()
    await team.until(lambda: team.reason("Bound") == "TargetTerminating", "seen")
    assert team.counts() == [1, 3]
