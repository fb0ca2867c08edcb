"""`mdscaler explain` tells the chain, what bound it, and what happened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from controller.cli import run
from controller.embedded.apiserver.faults import Drop, Respond
from controller.foundation import format_time, wall_now
from tests.reconcile.harness import World, world


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


def _freeze(team: World) -> None:
    """What is stored of the scaler stays as it is, whatever its controller decides while it is told."""
    team.faults.add(Drop(), verb="patch", resource="modeldeploymentscalers", subresource="status", times=None)


async def _explain(team: World, *arguments: str) -> int:
    options = ["--kubeconfig", str(team.directory / "kubeconfig"), "-n", "team"]
    return await asyncio.to_thread(run, ["explain", *arguments, *options])


def _reported(team: World) -> tuple[int | None, int]:
    role = team.status().roles[0]
    return role.raw_recommended_replicas, role.current_replicas


async def test_the_chain_is_told_in_words(team: World, capsys):
    team.target()
    (await team.replica(0)).load(5900, 1900)
    team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 5, "as many as allowed")
    await team.until(lambda: "Rescaled" in team.event_reasons(), "told")
    await team.until(lambda: _reported(team) == (8, 5), "reported")
    _freeze(team)
    assert await _explain(team, "chat") == 0
    text = capsys.readouterr().out
    assert "ModelDeploymentScaler chat → ModelDeployment chat (Active)" in text
    assert "raw: 8" in text
    assert "bounds: 8 → 5" in text
    assert "limited by: bounds" in text
    assert "Rescaled" in text
    assert "capacity: 1,000 tokens/s per replica (Explicit)" in text
    assert "last reported decision" in text
    assert "not deciding" not in text


async def test_the_same_as_json(team: World, capsys):
    team.target()
    (await team.replica(0)).load(1800, 600)
    team.scaler(mode="Shadow")
    await team.controller()
    await team.until(lambda: team.status().roles and _reported(team) == (3, 1), "recommended")
    _freeze(team)
    assert await _explain(team, "chat", "--output", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    role = answer["status"]["roles"][0]
    assert answer["deciding"] is True
    assert (answer["mode"], role["rawRecommendedReplicas"], role["recommendedReplicas"]) == ("Shadow", 3, 3)
    assert next(stage["stage"] for stage in role["stages"]) == "coverage"


async def test_a_scaler_that_is_not_there(team: World, capsys):
    assert await _explain(team, "nosuch") == 1
    assert "no ModelDeploymentScaler nosuch in namespace team" in capsys.readouterr().err


async def test_an_invalid_spec_is_told_even_before_a_controller_saw_it(team: World, capsys):
    team.scaler(
        roles=[{"name": "server", "minReplicas": 1, "maxReplicas": 2}],
        ratios=[{"numeratorRole": "a", "denominatorRole": "b", "target": "1"}],
    )
    assert await _explain(team, "chat") == 0
    out = capsys.readouterr().out
    assert "the spec is invalid: spec.ratios[0]" in out
    assert "ModelDeploymentScaler chat → ModelDeployment chat (Active)" in out, "what can be read is told"


async def test_a_scaler_that_nobody_has_looked_at(team: World, capsys):
    team.target()
    team.scaler()
    assert await _explain(team, "chat") == 0
    text = capsys.readouterr().out
    assert "no controller has looked at it: does a running controller serve this namespace" in text
    assert "Nobody holds a Lease model-deployment-scaler." in text
    assert "conditions" not in text


async def test_a_controller_that_may_wait_for_the_lease_of_another_one_is_found_out(team: World, capsys):
    team.target()
    team.scaler()
    metadata = {"name": "model-deployment-scaler", "namespace": "default"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    team.server.put({**lease, "spec": {"holderIdentity": "pod-0_1", "leaseDurationSeconds": 15}})
    assert await _explain(team, "chat") == 0
    text = capsys.readouterr().out
    assert "Lease default/model-deployment-scaler is held by pod-0_1: if it serves other namespaces only" in text
    assert await _explain(team, "chat", "--lease-name", "other") == 0
    assert "Nobody holds a Lease other." in capsys.readouterr().out
    team.faults.add(Respond(403, b"{}"), verb="list", resource="leases")
    assert await _explain(team, "chat") == 0, "whoever may not read Leases is told the rest"
    assert "Lease" not in capsys.readouterr().out


def _suspend(team: World) -> None:
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=True))


def _take_target_away(team: World) -> None:
    team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        pytest.param(_suspend, "Suspended", id="suspended"),
        pytest.param(_take_target_away, "TargetUnsupported", id="without a target"),
    ],
)
async def test_what_is_stored_of_a_scaler_that_decides_nothing_now_is_told_as_the_past(
    team: World, capsys, stop: Callable[[World], None], reason: str
):
    team.target()
    (await team.replica(0)).load(1800, 600)
    team.scaler(roles=[{"name": "server", "minReplicas": 1, "maxReplicas": 3}])
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    await team.until(lambda: team.status().roles[0].current_replicas == 3, "reported")
    stop(team)
    await team.until(lambda: team.reason("ScalingActive") == reason, "stopped")
    assert await _explain(team, "chat") == 0
    text = capsys.readouterr().out
    assert f", not deciding now ({reason})" in text
    assert "role server at the last decision: declared 3" in text
    assert "earliest change" not in text
    assert "RetirementBlocked" not in text
    assert await _explain(team, "chat", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out)["deciding"] is False


async def test_decisions_that_are_long_overdue_are_told(team: World, capsys):
    team.target()
    team.scaler()
    status = {
        "lastDecisionTime": format_time(wall_now() - 7300),
        "conditions": [{"type": "ScalingActive", "status": "True", "reason": "Deciding", "message": ""}],
    }
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj.update(status=status))
    assert await _explain(team, "chat") == 0
    assert (
        "last reported decision 2 h ago, though one is due every 5 s and reported within a minute: does a running"
        in capsys.readouterr().out
    )
