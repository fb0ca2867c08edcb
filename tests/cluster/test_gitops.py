"""Tools that apply a manifest again and again, on both servers: which way of applying leaves the counts alone.

These are the facts that docs/gitops.md rests on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller.api import FIELD_MANAGER, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, RESUME_ANNOTATION
from controller.embedded.audit import audit
from controller.reconcile.foreign import REVERSALS_BEFORE_HOLD
from tests.cluster.api import Api
from tests.cluster.kubectl import Kubectl, find_kubectl
from tests.cluster.world import World, world

ARGO, FLUX = "argocd-controller", "kustomize-controller"


@pytest.fixture
async def team(api: Api, tmp_path: Path) -> AsyncIterator[World]:
    async with world(api, tmp_path) as made:
        yield made


@pytest.fixture
async def kubectl(api: Api, tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl")
    made = Kubectl(program, api.server.kubeconfig(api.namespace), tmp_path)
    yield made
    await made.stop()


def _manifest(replicas: int | None = None, model: str = "m") -> dict[str, Any]:
    role: dict[str, Any] = {"name": "server", "kind": "Server", "instanceType": "h200"}
    if replicas is not None:
        role["replicas"] = replicas
    return {
        "apiVersion": MODEL_DEPLOYMENTS.api_version,
        "kind": "ModelDeployment",
        "metadata": {"name": "chat"},
        "spec": {"model": {"name": model}, "engine": {"name": "vLLM"}, "roles": [role]},
    }


async def _scaled(team: World) -> None:
    """A scaler that has brought the target to three."""
    team.load(1800, 600)
    await team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")


@pytest.mark.parametrize("manager", [ARGO, FLUX])
async def test_server_side_apply_without_replicas_leaves_the_counts_alone(team: World, manager: str):
    (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(), manager, force=True)).ok()
    await team.until(lambda: "chat" in team.objects(MODEL_DEPLOYMENTS), "there")
    assert team.count() == 1, "the default of the schema"
    await _scaled(team)
    for number in range(5):
        (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(model=f"m{number}"), manager, force=True)).ok()
        await team.ticks(1)
    assert team.count() == 3
    assert team.objects(MODEL_DEPLOYMENTS)["chat"]["spec"]["model"]["name"] == "m4", "everything else is applied"
    assert team.reason("ReplicasConflict") != "ForeignWriter"
    found = audit(team.targets())
    assert (found.effective_writers, found.problems, found.foreign) == (1, (), ())


async def test_server_side_apply_with_replicas_is_a_foreign_write_and_after_three_the_scaler_lets_it_be(team: World):
    (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(1), ARGO, force=True)).ok()
    await team.until(lambda: "chat" in team.objects(MODEL_DEPLOYMENTS), "there")
    await _scaled(team)

    async def sync() -> None:
        """A tool that puts back what Git says, at every interval."""
        while True:
            await asyncio.sleep(1.1)  # managedFields times have whole seconds
            (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(1), ARGO, force=True)).ok()

    loop = asyncio.create_task(sync())
    await team.until(lambda: "WritesStopped" in team.event_reasons(), "it gives in")
    message = next(c.message for c in team.status().conditions if c.type == "ReplicasConflict")
    assert ARGO in message
    await team.until(lambda: team.count() == 1, "Git has its way")
    ours = len([write for write in audit(team.targets()).writes if write.ours])
    await team.ticks(8)
    loop.cancel()
    found = audit(team.targets())
    assert len([write for write in found.writes if write.ours]) == ours, "nothing more is written"
    # Between two reversals the scaler may raise more than once, as the demand is measured: reversals are what is counted.
    assert len(found.foreign) == REVERSALS_BEFORE_HOLD
    assert {write.manager for write in found.foreign} == {ARGO}
    assert (found.effective_writers, found.problems) == (1, ())

    (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(), ARGO, force=True)).ok()
    order = {"metadata": {"annotations": {RESUME_ANNOTATION: "replicas are out of Git"}}}
    (await team.api.patch(MODEL_DEPLOYMENT_SCALERS, "chat", order)).ok()
    await team.until(lambda: team.count() == 3, "on a person's word it goes on")
    (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(), ARGO, force=True)).ok()
    await team.ticks(2)
    assert team.count() == 3


async def test_taking_replicas_out_of_git_before_the_scaler_has_written_falls_back_to_the_default(team: World):
    (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(4), ARGO, force=True)).ok()
    answer = await team.api.apply(MODEL_DEPLOYMENTS, _manifest(), ARGO, force=True)
    assert answer.ok()["spec"]["roles"][0]["replicas"] == 1, "nobody else owned the field"


async def test_taking_replicas_out_of_git_after_the_scaler_has_written_changes_nothing(team: World):
    (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(2), ARGO, force=True)).ok()
    await team.until(lambda: "chat" in team.objects(MODEL_DEPLOYMENTS), "there")
    await _scaled(team)
    owners = team.objects(MODEL_DEPLOYMENTS)["chat"]["metadata"]["managedFields"]
    replicas = [
        entry["manager"]
        for entry in owners
        if "f:replicas" in str(entry["fieldsV1"].get("f:spec", {})) and not entry.get("subresource")
    ]
    assert replicas == [FIELD_MANAGER], "whoever changes a count owns it alone"
    answer = await team.api.apply(MODEL_DEPLOYMENTS, _manifest(), ARGO, force=True)
    assert answer.ok()["spec"]["roles"][0]["replicas"] == 3


async def test_a_share_of_the_field_keeps_the_count_when_replicas_are_taken_out_of_git(team: World, kubectl: Kubectl):
    """What docs/gitops.md tells people to do first where no scaler has written yet."""
    (await team.api.apply(MODEL_DEPLOYMENTS, _manifest(4), ARGO, force=True)).ok()
    command = ("apply", "--server-side", "--field-manager", FIELD_MANAGER, "-f", "-")
    await kubectl(*command, stdin=_share(4))
    answer = await team.api.apply(MODEL_DEPLOYMENTS, _manifest(), ARGO, force=True)
    assert answer.ok()["spec"]["roles"][0]["replicas"] == 4


async def test_an_object_that_was_applied_by_the_client_is_applied_on_the_server_before_the_share(
    team: World, kubectl: Kubectl
):
    """The order of docs/gitops.md; the share alone would take over the whole spec, with a warning."""
    whole = _manifest(4)
    await kubectl("apply", "-f", "-", stdin=whole)
    await kubectl("apply", "--server-side", "-f", "-", stdin=whole)
    command = ("apply", "--server-side", "--field-manager", FIELD_MANAGER, "-f", "-")
    status, _, told = await kubectl.run(*command, stdin=_share(4))
    assert (status, told) == (0, "")
    await kubectl("apply", "--server-side", "-f", "-", stdin=_manifest())
    left = (await team.api.read(MODEL_DEPLOYMENTS, "chat")).ok()
    assert left["spec"]["roles"][0]["replicas"] == 4
    (ours,) = (each for each in left["metadata"]["managedFields"] if each["manager"] == FIELD_MANAGER)
    assert "f:engine" not in ours["fieldsV1"]["f:spec"], "it has the counts and nothing else"


def _share(replicas: int) -> dict[str, Any]:
    manifest = _manifest()
    return {**manifest, "spec": {"roles": [{"name": "server", "replicas": replicas}]}}


async def test_client_side_apply_replaces_the_roles_and_with_them_the_counts(team: World, kubectl: Kubectl):
    """Why docs/gitops.md asks for server-side apply: a list of a custom resource is merged by nobody else."""
    await kubectl("apply", "-f", "-", stdin=_manifest())
    await team.until(lambda: "chat" in team.objects(MODEL_DEPLOYMENTS), "there")
    await _scaled(team)
    await kubectl("apply", "-f", "-", stdin=_manifest(model="m2"))
    await team.until(lambda: team.reason("ReplicasConflict") == "ForeignWriter", "a foreign write")
    message = next(c.message for c in team.status().conditions if c.type == "ReplicasConflict")
    assert "server 3 → 1" in message
