"""What a history of a ModelDeployment proves, told from versions alone."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api import model_deployment_crd
from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.audit import CountWriter, Retirements, count_writers, retirements
from controller.embedded.contract import MODEL_DEPLOYMENTS
from controller.embedded.manifests import RoleManifest, model_deployment_manifest, namespace_manifest
from controller.foundation import WallClock

OURS, SCALER = "model-deployment-scaler", "chat/uid-1"
PREFIX = "scaling.worker.gpustack.ai/"


def version(
    count: int, manager: str = OURS, *, bound_by: str = SCALER, term: str = "1", written: str | None = None
) -> dict[str, Any]:
    """One version: its count, whose it is, and what the annotations say."""
    fields = {"f:spec": {"f:roles": {'k:{"name":"server"}': {"f:replicas": {}}}}}
    annotations = {
        f"{PREFIX}bound-by": bound_by,
        f"{PREFIX}term": term,
        f"{PREFIX}written": f"server={count}" if written is None else written,
    }
    return {
        "metadata": {"annotations": annotations, "managedFields": [{"manager": manager, "fieldsV1": fields}]},
        "spec": {"roles": [{"name": "server", "replicas": count}]},
    }


CREATED = version(1, "kubectl", bound_by="", term="", written="")
OUR_WRITER = CountWriter(OURS, SCALER)


@pytest.mark.parametrize(
    ("later", "writers"),
    [
        pytest.param([], set(), id="nobody wrote after the creation"),
        pytest.param([version(1), version(1)], set(), id="a write that changes no count is none"),
        pytest.param([version(2), version(3)], {OUR_WRITER}, id="one scaler is one writer"),
        pytest.param(
            [version(2, term="1"), version(2, term="2"), version(3, term="2")],
            {OUR_WRITER},
            id="a process that succeeds another one writes for the same scaler",
        ),
        pytest.param(
            [version(2, term="1"), version(2, term="2"), version(3, term="1")],
            {OUR_WRITER, CountWriter(OURS, SCALER, stale_term=1)},
            id="a write under a term that is over is another writer",
        ),
        pytest.param(
            [version(2), version(5, "argocd", written="server=2")],
            {OUR_WRITER, CountWriter("argocd", SCALER, noted=False)},
            id="a person's or a tool's write is another writer",
        ),
        pytest.param(
            [version(2), version(5, written="server=2")],
            {OUR_WRITER, CountWriter(OURS, SCALER, noted=False)},
            id="a count without its note came past the fence",
        ),
        pytest.param(
            [version(2), version(3, bound_by="other/uid-2", term="2")],
            {OUR_WRITER, CountWriter(OURS, "other/uid-2")},
            id="two scalers are two writers",
        ),
        pytest.param(
            [version(2), version(3, bound_by="")],
            {OUR_WRITER, CountWriter(OURS, "")},
            id="a write while nobody holds the target is another writer",
        ),
    ],
)
def test_the_effective_writers_of_counts(later: list[dict[str, Any]], writers: set[CountWriter]) -> None:
    assert count_writers([CREATED, *later]) == writers


async def test_the_api_server_itself_says_who_wrote() -> None:
    api = ApiServer(clock=WallClock())
    await api.start()
    api.install_crd(model_deployment_crd())
    api.put(namespace_manifest("demo"))
    roles = [RoleManifest("prefill", 1, "Prefill"), RoleManifest("decode", 1, "Decode")]
    api.put(
        model_deployment_manifest(
            name="chat", namespace="demo", roles=roles, model_name="m", engine_version="1", port=1
        )
    )
    client = ApiClient(api.url, {"User-Agent": "somebody/1"})
    try:
        for count in (2, 3):
            deployment = api.get(MODEL_DEPLOYMENTS, "chat", "demo")
            assert deployment is not None
            deployment["spec"]["roles"][1]["replicas"] = count
            await client.merge_patch(
                MODEL_DEPLOYMENTS, "demo", "chat", {"spec": {"roles": deployment["spec"]["roles"]}}
            )
        versions = [each.object for each in api.history(MODEL_DEPLOYMENTS, "chat", "demo")]
    finally:
        await client.close()
        await api.stop()
    assert count_writers(versions) == {CountWriter("somebody", "", noted=False)}


def operation(state: str, pod: str = "a", started: str = "1") -> dict[str, Any]:
    return {"status": {"retirement": {"state": state, "targetMemberUIDs": [pod], "startedAt": started}}}


NONE: dict[str, Any] = {"status": {}}


@pytest.mark.parametrize(
    ("versions", "counted"),
    [
        pytest.param([NONE, NONE], Retirements(), id="none"),
        pytest.param([operation("Admitted"), operation("Draining")], Retirements(1), id="one that is under way"),
        pytest.param(
            [operation("Admitted"), operation("Deleting"), operation("Settling"), NONE],
            Retirements(1, completed=1),
            id="one that came to its end",
        ),
        pytest.param([operation("Draining"), NONE], Retirements(1, adopted=1), id="one that was called back"),
        pytest.param(
            [operation("Draining"), operation("Aborted"), operation("Aborted"), NONE],
            Retirements(1, aborted=1),
            id="one that was given up",
        ),
        pytest.param(
            [operation("Aborted"), operation("Admitted", started="2"), operation("Settling", started="2"), NONE],
            Retirements(1, completed=1, aborted=1),
            id="one that was given up and ordered again",
        ),
        pytest.param(
            [operation("Settling"), NONE, operation("Admitted", "b"), operation("Settling", "b"), NONE],
            Retirements(2, completed=2),
            id="one after the other",
        ),
        pytest.param(
            [operation("Settling"), operation("Admitted", "b")], Retirements(2, completed=1), id="without a pause"
        ),
        pytest.param(
            [operation("Draining", started="1"), operation("Draining", started="5"), operation("Deleting"), NONE],
            Retirements(1, completed=1),
            id="one that a new leader took up",
        ),
    ],
)
def test_how_retirements_went(versions: list[dict[str, Any]], counted: Retirements) -> None:
    assert retirements(versions) == counted
