"""Who may write, on both servers: writes that arrive late, two scalers, a Lease made anew, processes that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.api import BINDING_FINALIZER, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from controller.embedded.audit import audit
from controller.kube import ConnectionLost, KubeClient, Outcome
from controller.kube.patches import JSON_PATCH
from tests.cluster.api import Api
from tests.cluster.objects import LEASES
from tests.cluster.world import FACTOR, FLOOD, SECONDS, TRICKLE, World, annotations, replicas, world

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def team(request: pytest.FixtureRequest, api: Api, tmp_path: Path) -> AsyncIterator[World]:
    async with world(api, tmp_path, process_factor=getattr(request, "param", None)) as made:
        yield made


of_processes = pytest.mark.parametrize("team", [FACTOR], ids=["processes"], indirect=True)


def _prove(team: World) -> None:
    found = audit(team.targets())
    assert found.problems == ()
    assert found.effective_writers <= 1


class Stuck:
    """The count writes of one process, which leave it and, while `holds`, do not arrive until a test sends them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bodies: list[bytes] = []
        self.holds = True
        sent = KubeClient.patch

        async def patch(client: KubeClient, *args: Any, **more: Any) -> Any:
            body = args[2]
            if self.holds and body.content_type == JSON_PATCH:
                self.bodies.append(body.body)
                raise ConnectionLost("no answer", outcome=Outcome.UNKNOWN)
            return await sent(client, *args, **more)

        monkeypatch.setattr(KubeClient, "patch", patch)


async def _arrives(team: World, body: bytes) -> int:
    """The held up write comes at last; the HTTP status."""
    answer = await team.api(
        "PATCH", team.api.path(MODEL_DEPLOYMENTS, "chat"), body, content_type=JSON_PATCH, fieldManager="late"
    )
    return answer.status


async def _suspend(team: World, value: bool) -> None:
    (await team.api.patch(MODEL_DEPLOYMENT_SCALERS, "chat", {"spec": {"suspend": value}})).ok()


async def test_a_count_write_that_was_held_up_is_refused_after_a_release_and_a_new_binding_of_the_same_scaler(
    team: World, monkeypatch: pytest.MonkeyPatch
):
    stuck = Stuck(monkeypatch)
    await team.target()
    team.load(1800, 600)
    await team.scaler()
    await team.controller()
    await team.until(lambda: stuck.bodies, "a write is on its way")
    stuck.holds = False
    await team.until(lambda: team.count() == 3, "written at another try, under a higher term")
    await _suspend(team, True)
    await team.until(lambda: "bound-by" not in team.annotations(), "given back")
    reset = [{"op": "replace", "path": "/spec/roles/0/replicas", "value": 1}]
    (await team.api.patch(MODEL_DEPLOYMENTS, "chat", reset, JSON_PATCH, fieldManager="kubectl")).ok()
    assert await _arrives(team, stuck.bodies[0]) == 422, "nobody holds the target"
    stuck.holds = True
    held = len(stuck.bodies)
    await _suspend(team, False)
    await team.until(lambda: len(stuck.bodies) > held, "bound again, with the counts of then")
    assert replicas((await team.api.read(MODEL_DEPLOYMENTS, "chat")).ok()) == 1
    assert await _arrives(team, stuck.bodies[0]) == 422, "the term is another one"
    _prove(team)


async def test_a_count_write_that_was_held_up_is_refused_by_another_target_of_the_same_name(
    team: World, monkeypatch: pytest.MonkeyPatch
):
    stuck = Stuck(monkeypatch)
    await team.target()
    team.load(1800, 600)
    await team.scaler()
    await team.controller()
    await team.until(lambda: stuck.bodies, "a write is on its way")
    # As it stood when the first write left; with each try the term goes up.
    await team.until(lambda: "bound-by" in team.annotations(), "the binding is seen")
    held = next(each["metadata"]["annotations"] for each in team.targets() if "bound-by" in annotations(each))
    await team.stop_controller("first")
    (await team.api.delete(MODEL_DEPLOYMENTS, "chat")).ok()
    await team.until(lambda: "chat" not in team.objects(MODEL_DEPLOYMENTS), "gone")
    await team.target()
    (await team.api.patch(MODEL_DEPLOYMENTS, "chat", {"metadata": {"annotations": held}})).ok()
    assert await _arrives(team, stuck.bodies[0]) == 422


async def test_of_two_scalers_the_older_writes_and_the_younger_takes_over_when_it_goes(team: World):
    await team.target()
    team.load(1800, 600)
    first = await team.scaler("older")
    await asyncio.sleep(1.1)  # creation times have whole seconds
    second = await team.scaler("younger")
    await team.controller()
    await team.until(lambda: team.reason("Bound", "younger") == "HeldByAnotherScaler", "the younger waits")
    await team.until(lambda: team.count() == 3, "the older works")
    assert team.annotations()["bound-by"] == f"older/{first['metadata']['uid']}"
    (await team.api.delete(MODEL_DEPLOYMENT_SCALERS, "older")).ok()
    team.load(3600, 1200)
    await team.until(lambda: team.count() == 5, "the younger works")
    assert team.annotations()["bound-by"] == f"younger/{second['metadata']['uid']}"
    _prove(team)


# ---- processes -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _process(team: World) -> AsyncIterator[Process]:
    """`mdscaler controller`. Its lease is long, so that no busy machine ends it; tests delete it for the next one."""
    options = {
        "kubeconfig": team.kubeconfig,
        "namespace": team.api.namespace,
        "lease-namespace": team.api.namespace,
        "metrics-bind-address": 0,
        "health-bind-address": 0,
        "clock-epoch": team.epoch,
        "clock-factor": team.factor,
        "lease-duration": 120,
        "renew-deadline": 100,
        "retry-period": 0.5,
        "deployments": "external",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "controller.cli",
        "controller",
        *[f"--{name}={value}" for name, value in options.items()],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.wait(), SECONDS)


async def _seen_so_far(team: World) -> None:
    """The watch has told of every write up to now."""
    (await team.api.patch(MODEL_DEPLOYMENTS, "chat", {"metadata": {"labels": {"so": "far"}}})).ok()
    await team.until(lambda: "so" in team.objects(MODEL_DEPLOYMENTS)["chat"]["metadata"].get("labels", {}), "seen")


@of_processes
async def test_a_stopped_leader_that_wakes_up_after_its_lease_was_deleted_and_made_anew_writes_nothing(team: World):
    await team.target()
    team.load(*FLOOD)
    await team.scaler(most=3)
    async with _process(team) as old:
        await team.until(lambda: team.count() == 3, "the first one works")
        old.send_signal(signal.SIGSTOP)
        (await team.api.delete(LEASES, "model-deployment-scaler")).ok()
        more = [{"name": "server", "minReplicas": 1, "maxReplicas": 5}]
        (await team.api.patch(MODEL_DEPLOYMENT_SCALERS, "chat", {"spec": {"roles": more}})).ok()
        async with _process(team):
            await team.until(lambda: team.count() == 5, "the next one works")
            lease = (await team.api.read(LEASES, "model-deployment-scaler")).ok()
            assert not lease["spec"].get("leaseTransitions"), "the Lease counts from the beginning, the term does not"
            assert team.annotations()["term"] == "2"
            before = len(team.targets())
            old.send_signal(signal.SIGCONT)
            assert await asyncio.wait_for(old.wait(), SECONDS) == 1, "leadership lost"
            await _seen_so_far(team)
            assert {annotations(target)["term"] for target in team.targets()[before:]} <= {"2"}, "it wrote nothing"
    _prove(team)


MOMENTS: list[tuple[str, Callable[[World], object]]] = [
    ("the finalizer is there", lambda team: BINDING_FINALIZER in _finalizers(team)),
    ("the target is bound", lambda team: "bound-by" in team.annotations()),
    ("the status tells of the binding", lambda team: team.status().binding),
    ("the counts are written", lambda team: team.count() == 3),
    ("the status tells of the counts", lambda team: team.status().roles and team.status().roles[0].current_replicas == 3),
]  # fmt: skip


@of_processes
@pytest.mark.parametrize("moment", [m[1] for m in MOMENTS], ids=[m[0] for m in MOMENTS])
async def test_a_process_that_is_killed_as_soon_as(team: World, moment: Callable[[World], object]):
    await team.target()
    team.load(*FLOOD)
    await team.scaler(most=3)
    async with _process(team) as first:
        await team.until(lambda: moment(team), "that far")
        first.kill()
        await first.wait()
        (await team.api.delete(LEASES, "model-deployment-scaler")).ok()
    async with _process(team):
        await team.until(lambda: team.count() == 3, "grown by the next one")
        team.load(*TRICKLE)
        await team.until(lambda: team.count() == 1, "and shrunk")
        await team.until(lambda: team.reason("ReplicasConflict") == "Resolved", "nobody else wrote")
        (await team.api.delete(MODEL_DEPLOYMENT_SCALERS, "chat")).ok()
        await team.until(lambda: "chat" not in team.objects(MODEL_DEPLOYMENT_SCALERS), "gone")
    assert "bound-by" not in team.annotations()
    found = audit(team.targets())
    assert found.foreign == ()
    _prove(team)


def _finalizers(team: World) -> list[str]:
    scaler = team.objects(MODEL_DEPLOYMENT_SCALERS).get("chat", {})
    found: list[str] = (scaler.get("metadata") or {}).get("finalizers") or []
    return found
