"""What `kubectl get` shows of a scaler that decides nothing now: what is so, and nothing that was."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, Summary
from tests.reconcile.harness import World


def _columns(team: World) -> tuple[str, str, str]:
    summary = team.status().summary or Summary()
    return summary.ready, summary.desired, summary.limited_by


def _report(team: World, *roles: dict[str, Any]) -> None:
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj.update(status={"roles": list(roles)}), manager="operator")


def _edit_scaler(team: World, **spec: Any) -> None:
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(spec))


async def _deciding(team: World) -> None:
    await team.loaded()
    _report(team, {"name": "server", "kind": "Server", "ready": 1})
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    await team.until(lambda: _columns(team)[1] == "server=3", "reported")


async def test_a_suspended_scaler_goes_on_showing_who_is_ready_and_wants_nothing(team: World):
    await _deciding(team)
    _edit_scaler(team, suspend=True)
    await team.until(lambda: _columns(team) == ("server=1", "", ""), "no count is wanted any more")
    assert team.reason("ScalingActive") == "Suspended"
    assert team.status().roles[0].recommended_replicas == 3, "what was decided last stays readable"
    _report(team, {"name": "server", "kind": "Server", "ready": 2})
    await team.until(lambda: _columns(team) == ("server=2", "", ""), "the target's own word")
    _report(team, {"name": "server", "kind": "Server"})
    await team.until(lambda: _columns(team) == ("server=?", "", ""), "what nobody reports is not 0")
    _edit_scaler(team, suspend=False)
    await team.until(lambda: _columns(team)[1] == "server=3", "it decides again")


@pytest.mark.parametrize(
    ("change", "ready"),
    [
        pytest.param("another role", "nosuch=?", id="a role that the target does not have"),
        pytest.param("a spec that cannot be read", "", id="a spec of which the roles cannot be told"),
        pytest.param("no target", "", id="no target"),
    ],
)
async def test_a_scaler_that_can_decide_nothing_wants_nothing(lax: World, change: str, ready: str):
    await _deciding(lax)
    if change == "another role":
        _edit_scaler(lax, roles=[{"name": "nosuch", "maxReplicas": 2}])
    elif change == "no target":
        lax.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    else:
        _edit_scaler(lax, roles="all")
    await lax.until(lambda: _columns(lax) == (ready, "", ""), "nothing is wanted")


async def test_a_suspended_scaler_is_not_written_again_while_nothing_changes(team: World):
    await _deciding(team)
    _edit_scaler(team, suspend=True)
    await team.until(lambda: _columns(team) == ("server=1", "", ""), "suspended")
    version = team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["metadata"].update(annotations={"a": "b"}))
    await team.quiet(30)
    assert team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") == version
