from __future__ import annotations

from typing import Any

import pytest

from controller.api import Pod
from controller.deployment import Owner, resolve_mode, who_owns
from controller.foundation.settings import DeploymentsMode
from tests.deployment.builders import deployment, pod

OURS = {"app.kubernetes.io/managed-by": "model-deployment-scaler"}


@pytest.mark.parametrize(
    ("mode", "labels", "owner"),
    [
        pytest.param("managed", None, Owner.US, id="managed is what a person says, whatever the CRD carries"),
        pytest.param("external", OURS, Owner.OTHER, id="external is what a person says, whatever the CRD carries"),
        pytest.param("auto", OURS, Owner.US, id="a CRD of ours means that nobody else is there"),
        pytest.param("auto", {}, Owner.OTHER, id="a CRD without our label is another operator's"),
        pytest.param("auto", {"app.kubernetes.io/managed-by": "Helm"}, Owner.OTHER, id="so is one with another label"),
        pytest.param("auto", None, Owner.OTHER, id="a CRD that cannot be read may be another operator's"),
    ],
)
def test_what_the_flag_means(mode: str, labels: dict[str, str] | None, owner: Owner):
    assert resolve_mode(DeploymentsMode(mode), labels).owner is owner


def _writer(manager: str, subresource: str = "status") -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "subresource": subresource}


@pytest.mark.parametrize(
    ("managers", "pods", "owner", "says"),
    [
        pytest.param([], [], Owner.US, "no other", id="a deployment that nobody has touched is ours"),
        pytest.param([_writer("kubectl", "")], [], Owner.US, "no other", id="who wrote the spec does not matter"),
        pytest.param(
            [_writer("model-deployment-scaler")], [pod()], Owner.US, "no other", id="our own status and Pods are ours"
        ),
        pytest.param(
            [_writer("model-deployment-scaler"), _writer("gpustack-operator")],
            [],
            Owner.OTHER,
            "gpustack-operator",
            id="a status that somebody else has written is his",
        ),
        pytest.param([], [pod(ours=False)], Owner.OTHER, "chat-server-0", id="Pods that somebody else made are his"),
    ],
)
def test_who_owns_a_deployment(managers: list[dict[str, Any]], pods: list[Pod], owner: Owner, says: str):
    found = who_owns(deployment(metadata={"managedFields": managers}), pods)
    assert found.owner is owner
    assert says in found.reason
