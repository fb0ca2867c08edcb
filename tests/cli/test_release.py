"""`mdscaler release` gives back what a scaler holds when no controller runs, and touches nothing else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller.api import BINDING_FINALIZER, FIELD_MANAGER, LEASES, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from controller.cli import leases, run
from controller.embedded.apiserver.faults import Delay, Drop, LoseResponse, Respond
from controller.foundation import format_micro_time, wall_now
from tests.reconcile.harness import World, world

PREFIX = "scaling.worker.gpustack.ai/"


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def _short_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "SECOND_LOOK_SECONDS", 0.2)


async def _release(team: World, *arguments: str) -> int:
    options = ["--kubeconfig", str(team.directory / "kubeconfig")]
    return await asyncio.to_thread(run, ["release", *arguments, *options])


async def _left_behind(team: World, name: str = "chat") -> str:
    """What a controller leaves when it is taken away: a scaler that holds its target of three. Its UID."""
    team.target(name, replicas=3)
    uid: str = team.scaler(name, target=name)["metadata"]["uid"]
    team.edit(MODEL_DEPLOYMENT_SCALERS, name, lambda obj: obj["metadata"].update(finalizers=[BINDING_FINALIZER]))
    held = {f"{PREFIX}bound-by": f"{name}/{uid}", f"{PREFIX}term": "1", f"{PREFIX}written": "server=3"}
    team.edit(MODEL_DEPLOYMENTS, name, lambda obj: obj["metadata"].update(annotations=held), FIELD_MANAGER)
    return uid


def _scaler(team: World, name: str = "chat") -> dict[str, Any]:
    found = team.server.get(MODEL_DEPLOYMENT_SCALERS, name, "team")
    assert found is not None
    return found


def _lease(
    team: World, *, age: float = 0.0, lasts: int = 3600, holder: str = "pod-0_1", namespace: str = "system"
) -> None:
    """A Lease that lasts for longer than any test, or as long as is said."""
    renewed = format_micro_time(wall_now() - age)
    spec = {"holderIdentity": holder, "leaseDurationSeconds": lasts, "renewTime": renewed}
    metadata = {"name": "model-deployment-scaler", "namespace": namespace}
    team.server.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


async def test_the_claim_goes_the_term_and_the_counts_stay(team: World, capsys):
    await _left_behind(team)
    assert await _release(team, "chat", "-n", "team") == 0
    assert "team/chat: released ModelDeployment chat, removed the finalizer" in capsys.readouterr().out
    assert (team.count(), team.annotations()) == (3, {"term": "1", "written": "server=3"})
    assert BINDING_FINALIZER not in _scaler(team)["metadata"].get("finalizers", [])
    assert await _release(team, "chat", "-n", "team") == 0, "twice is once"
    assert "nothing to give back" in capsys.readouterr().out
    team.audit()


async def test_a_scaler_that_waits_for_its_finalizer_goes(team: World, capsys):
    uid = await _left_behind(team)
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    assert _scaler(team)["metadata"]["deletionTimestamp"]
    assert await _release(team, "chat", "-n", "team", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "released": [
            {"namespace": "team", "scaler": "chat", "uid": uid, "targets": ["chat"], "finalizer": True, "gone": True}
        ]
    }
    assert team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None
    assert await _release(team, "chat", "-n", "team") == 0
    assert "nothing to do" in capsys.readouterr().out


async def test_a_finalizer_of_somebody_else_is_left(team: World):
    await _left_behind(team)

    def add(obj: dict[str, Any]) -> None:
        obj["metadata"]["finalizers"].append("example.com/other")

    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", add)
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    assert await _release(team, "chat", "-n", "team") == 0
    assert _scaler(team)["metadata"]["finalizers"] == ["example.com/other"]


async def test_a_running_controller_takes_up_what_was_released_under_a_higher_term(team: World):
    await _left_behind(team)
    assert await _release(team, "chat", "-n", "team") == 0
    await team.controller("second")
    await team.until(lambda: team.annotations().get("bound-by"), "bound again")
    assert team.annotations()["term"] == "2"
    assert BINDING_FINALIZER in _scaler(team)["metadata"]["finalizers"]


async def test_what_another_scaler_holds_is_not_touched(team: World):
    await _left_behind(team)
    team.target("other")

    def claim(obj: dict[str, Any]) -> None:
        obj["metadata"].setdefault("annotations", {})[f"{PREFIX}bound-by"] = f"else/{other}"

    other = team.scaler("else", target="other", mode="Shadow")["metadata"]["uid"]
    team.edit(MODEL_DEPLOYMENTS, "other", claim)
    assert await _release(team, "chat", "-n", "team") == 0
    assert team.annotations("other")["bound-by"] == f"else/{other}"


@pytest.mark.parametrize("arguments", [("chat",), ("--all",)], ids=["by name", "all"])
async def test_the_claim_of_a_scaler_that_is_gone_is_released(team: World, capsys, arguments):
    uid = await _left_behind(team)
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["metadata"].update(finalizers=[]))
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    assert team.annotations()["bound-by"] == f"chat/{uid}"
    assert await _release(team, *arguments, "-n", "team") == 0
    assert "the scaler itself was gone" in capsys.readouterr().out
    assert "bound-by" not in team.annotations()


async def test_all_of_them_everywhere(team: World, capsys):
    await _left_behind(team, "a")
    await _left_behind(team, "b")
    assert await _release(team, "--all") == 0
    out = capsys.readouterr().out
    assert "team/a: released ModelDeployment a" in out
    assert "team/b: released ModelDeployment b" in out
    for name in "ab":
        assert "bound-by" not in team.annotations(name)
        team.server.delete(MODEL_DEPLOYMENT_SCALERS, name, "team")
        assert team.server.get(MODEL_DEPLOYMENT_SCALERS, name, "team") is None
    assert await _release(team, "--all") == 0, "twice is once"


# ---- a controller that runs ------------------------------------------------------------------------------------------


async def test_while_a_controller_leads_nothing_is_done(team: World, capsys):
    await _left_behind(team)
    _lease(team)
    assert await _release(team, "chat", "-n", "team") == 1
    error = capsys.readouterr().err
    assert "a controller is running (pod-0_1 holds Lease system/model-deployment-scaler; if it was killed" in error
    assert "delete the scaler and it gives the target back" in error
    assert "--even-if-a-controller-runs" in error
    assert "bound-by" in team.annotations()
    assert await _release(team, "chat", "-n", "team", "--even-if-a-controller-runs") == 0
    assert "bound-by" not in team.annotations()


async def test_how_long_the_lease_of_a_killed_controller_holds_is_told(team: World, capsys):
    await _left_behind(team)
    _lease(team, age=8.0)
    assert await _release(team, "chat", "-n", "team") == 1
    found = re.search(r"if it was killed, the Lease ends in (\d+) s\)", capsys.readouterr().err)
    assert found is not None
    assert 1 <= int(found[1]) <= 3592


async def test_nobody_is_told_to_delete_a_scaler_that_is_not_there(team: World, capsys):
    await _left_behind(team)
    _lease(team)
    assert await _release(team, "nosuch", "-n", "team") == 1
    error = capsys.readouterr().err
    assert "there is no ModelDeploymentScaler nosuch in namespace team" in error
    assert "delete the scaler" not in error


LEASES_SEEN = [
    ("one that nobody holds", {"holder": ""}, 0),
    ("one that expired and is not renewed", {"age": 60.0, "lasts": 15}, 0),
    ("a fresh one of another name's namespace", {"namespace": "elsewhere"}, 1),
]


@pytest.mark.parametrize(("lease", "status"), [c[1:] for c in LEASES_SEEN], ids=[c[0] for c in LEASES_SEEN])
async def test_leases(team: World, lease: dict[str, Any], status: int):
    await _left_behind(team)
    _lease(team, **lease)
    assert await _release(team, "chat", "-n", "team") == status


async def test_a_lease_in_a_namespace_that_was_not_meant_does_not_count(team: World):
    await _left_behind(team)
    _lease(team, namespace="elsewhere")
    assert await _release(team, "chat", "-n", "team", "--lease-namespace", "system") == 0


async def test_a_leader_whose_clock_is_late_shows_by_renewing(team: World, capsys):
    await _left_behind(team)
    # `until` looks more often than that: the second look finds what was renewed when it was asked for.
    second = team.faults.add(Delay(0.3), verb="list", resource=LEASES.plural, nth=2)
    _lease(team, age=3600.0, lasts=15)
    asked = asyncio.create_task(_release(team, "chat", "-n", "team"))
    await team.until(lambda: second.fired, "the second look")
    _lease(team, age=3598.0, lasts=15)
    assert await asked == 1
    assert "renews Lease" in capsys.readouterr().err


# ---- what goes wrong on the way --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Drop(), LoseResponse()], ids=["before", "after"])
@pytest.mark.parametrize("number", [1, 2])
async def test_killed_at_any_write_the_next_run_does_the_rest(team: World, number: int, fault):
    await _left_behind(team)
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    before = len(team.states())
    team.faults.add(fault, verb="patch", nth=number)
    team.faults.add(Drop(), verb="patch", nth=number + 1, times=None)
    assert await _release(team, "chat", "-n", "team") == 1
    team.faults.clear()
    assert await _release(team, "chat", "-n", "team") == 0
    assert "bound-by" not in team.annotations()
    assert team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None
    assert len(team.states()) == before + 1, "released once"


async def test_it_writes_no_more_than_the_test_above_enumerates(team: World):
    await _left_behind(team)
    team.server.requests.clear()
    assert await _release(team, "chat", "-n", "team") == 0
    writes = [record for record in team.server.requests if record.info.verb not in ("get", "list", "watch")]
    assert len(writes) == 2


async def test_who_is_outrun_looks_again(team: World):
    await _left_behind(team)
    team.faults.add(Respond(409, b'{"kind":"Status","code":409,"reason":"Conflict"}'), verb="patch", times=2)
    assert await _release(team, "chat", "-n", "team") == 0
    assert "bound-by" not in team.annotations()


WRONG = [
    ("no name", [], "give the name of a scaler, or --all"),
    ("a name and --all", ["chat", "--all"], "give the name of a scaler, or --all"),
    ("what can be no name", ["../x", "-n", "team"], "../x"),
]


@pytest.mark.parametrize(("arguments", "said"), [c[1:] for c in WRONG], ids=[c[0] for c in WRONG])
async def test_wrong_use_is_told_in_one_line(team: World, capsys, arguments, said):
    assert await _release(team, *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


async def test_what_is_not_allowed_is_told(team: World, capsys):
    await _left_behind(team)
    team.faults.add(Respond(403, b'{"kind":"Status","code":403,"message":"no way"}'), verb="patch", times=None)
    assert await _release(team, "chat", "-n", "team") == 1
    assert "no way" in capsys.readouterr().err
