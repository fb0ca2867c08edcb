"""`mdscaler explain` tells the chain, what bound it, and what happened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from controller.api import LEASES, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from controller.cli import leases, run
from controller.embedded.apiserver.faults import Delay, Drop, Respond
from controller.foundation import format_micro_time, format_time, wall_now
from tests.reconcile.harness import World, world


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def _short_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "SECOND_LOOK_SECONDS", 0.2)


def _freeze(team: World) -> None:
    """What is stored of the scaler stays as it is, whatever its controller decides while it is told."""
    team.faults.add(Drop(), verb="patch", resource="modeldeploymentscalers", subresource="status", times=None)


async def _explain(team: World, *arguments: str) -> int:
    options = ["--kubeconfig", str(team.directory / "kubeconfig"), "-n", "team"]
    return await asyncio.to_thread(run, ["explain", *arguments, *options])


def _decided(team: World, *, ago: float) -> None:
    """What a controller leaves that decided last so long ago."""
    status = {
        "lastDecisionTime": format_time(wall_now() - ago),
        "conditions": [{"type": "ScalingActive", "status": "True", "reason": "Deciding", "message": ""}],
    }
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj.update(status=status))


def _lease(team: World, *, age: float | None = None, holder: str = "pod-0_1", namespace: str = "default") -> None:
    spec: dict[str, Any] = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    if age is not None:
        spec["renewTime"] = format_micro_time(wall_now() - age)
    metadata = {"name": "model-deployment-scaler", "namespace": namespace}
    team.server.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


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
    assert "no controller has looked at it: Nobody holds a Lease model-deployment-scaler: unless a controller" in text
    assert "conditions" not in text


async def test_a_controller_that_may_wait_for_the_lease_of_another_one_is_found_out(team: World, capsys):
    team.target()
    team.scaler()
    _lease(team, age=2)
    assert await _explain(team, "chat") == 0
    text = capsys.readouterr().out
    assert "no controller has looked at it: does a running controller serve this namespace" in text
    assert "Lease default/model-deployment-scaler is held by pod-0_1: if it serves other namespaces only" in text
    assert await _explain(team, "chat", "--lease-name", "other") == 0
    assert "Nobody holds a Lease other:" in capsys.readouterr().out
    team.faults.add(Respond(403, b"{}"), verb="list", resource="leases")
    assert await _explain(team, "chat") == 0, "whoever may not read Leases is told the rest"
    assert "Lease" not in capsys.readouterr().out


NOBODY_RUNS = [
    ("the Lease of a killed controller ran out", {"age": 150}, ("ran out 2 min ago: that controller is gone; start",)),
    ("a Lease that never said when it was renewed", {"age": None}, ("of pod-0_1 ran out: that controller is gone",)),
    (
        "the Lease was given back",
        {"holder": ""},
        ("Nobody holds a Lease model-deployment-scaler: unless a", "start one"),
    ),
    ("there is no Lease", None, ("Nobody holds a Lease model-deployment-scaler: unless a controller",)),
]


@pytest.mark.parametrize("decided", [True, False], ids=["of a scaler that decides", "of one that nobody looked at"])
@pytest.mark.parametrize(("lease", "told"), [case[1:] for case in NOBODY_RUNS], ids=[case[0] for case in NOBODY_RUNS])
async def test_that_no_controller_runs_is_told_at_once(
    team: World, capsys, lease: dict[str, Any] | None, told: tuple[str, ...], decided: bool
):
    team.target()
    team.scaler()
    if decided:
        _decided(team, ago=8)
    if lease is not None:
        _lease(team, **lease)
    assert await _explain(team, "chat") == 0
    text = capsys.readouterr().out
    assert [words for words in told if words not in text] == []
    assert "is held by" not in text
    assert ("last reported decision" in text) is decided


async def test_nothing_is_said_of_a_controller_that_holds_its_lease(team: World, capsys):
    team.target()
    team.scaler()
    _decided(team, ago=8)
    _lease(team, age=2)
    assert await _explain(team, "chat") == 0
    assert "Lease" not in capsys.readouterr().out


async def test_a_controller_whose_clock_is_behind_is_not_called_gone(team: World, capsys):
    team.target()
    team.scaler()
    _decided(team, ago=8)
    # `until` looks more often than that: the second look finds what was renewed when it was asked for.
    second = team.faults.add(Delay(0.3), verb="list", resource=LEASES.plural, nth=2)
    _lease(team, age=3600)
    asked = asyncio.create_task(_explain(team, "chat", "--output", "json"))
    await team.until(lambda: second.fired, "the second look")
    _lease(team, age=3598)
    assert await asked == 0
    told = json.loads(capsys.readouterr().out)["leases"]
    assert told == [{"name": "default/model-deployment-scaler", "holder": "pod-0_1", "standing": "renewed"}]


async def test_a_controller_that_is_gone_beside_one_that_runs_is_told(team: World, capsys):
    team.target()
    team.scaler()
    _lease(team, age=2)
    _lease(team, age=7300, holder="pod-9", namespace="other")
    assert await _explain(team, "chat") == 0
    text = capsys.readouterr().out
    assert "Lease default/model-deployment-scaler is held by pod-0_1" in text
    assert ". Lease other/model-deployment-scaler of pod-9 ran out 2 h ago: that controller is gone" in text
    assert "start one" not in text


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
    _decided(team, ago=7300)
    _lease(team, age=2)
    assert await _explain(team, "chat") == 0
    assert (
        "last reported decision 2 h ago, though one is due every 5 s and reported within a minute: does a running"
        in capsys.readouterr().out
    )
