"""Objects of the embedded operator have the shape of the contract."""

from __future__ import annotations

from typing import Any

import pytest

from controller.embedded.contract import read_deployment
from controller.embedded.deployment_status import RoleCounts, deployment_status
from controller.embedded.pods import PodFacts, pod_object, pod_status, router_members
from controller.embedded.retirement import Retirement, RetirementState

DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "chat", "namespace": "team-a", "uid": "u-1", "generation": 7},
    "spec": {
        "model": {"name": "Qwen/Qwen3-8B"},
        "engine": {"name": "vLLM", "version": "0.32.0"},
        "roles": [
            {"name": "server", "kind": "Server", "replicas": 3, "extraArgs": ["--max-num-seqs", "64", "--x=1", "--on"]},
            {"name": "spare", "ports": [{"port": 9000}, {"port": 9001}], "replicas": None},
        ],
    },
}
SPEC = read_deployment(DEPLOYMENT)
FACTS = PodFacts(100.0, "127.1.2.3", 101.0, True, 177.0, 0)


def test_a_deployment_is_read_with_its_defaults() -> None:
    server, spare = SPEC.roles
    assert (SPEC.model_name, SPEC.generation, SPEC.image) == ("Qwen/Qwen3-8B", 7, "embedded/vllm:0.32.0")
    assert (server.replicas, server.port) == (3, 8000)
    assert server.flags == {"max-num-seqs": "64", "x": "1", "on": ""}
    assert (spare.kind, spare.replicas, spare.port) == ("Server", 1, 9000)


def test_a_pod_carries_the_labels_annotations_owner_and_port_of_the_contract() -> None:
    pod = pod_object(SPEC, SPEC.roles[0], 2)
    metadata = pod["metadata"]
    assert metadata["name"] == "chat-server-2"
    assert metadata["labels"] == {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": "server",
        "modeldeployment.gpustack.ai/role-kind": "server",
        "modeldeployment.gpustack.ai/pod-ordinal": "2",
        "modeldeployment.gpustack.ai/member-index": "0",
    }
    assert metadata["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": "8000",
        "prometheus.io/scheme": "http",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"], owner["controller"]) == (
        "worker.gpustack.ai/v1alpha1",
        "ModelDeployment",
        "u-1",
        True,
    )
    (container,) = pod["spec"]["containers"]
    assert container["name"] == "main"
    assert container["ports"] == [{"name": "http", "containerPort": 8000, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("facts", "phase", "ready", "state"),
    [
        pytest.param(PodFacts(100.0, "", None, False, 100.0, 0), "Pending", "False", "waiting", id="just created"),
        pytest.param(PodFacts(100.0, "127.1.2.3", 101.0, False, 100.0, 0), "Running", "False", "running", id="loading"),
        pytest.param(FACTS, "Running", "True", "running", id="serving"),
        pytest.param(
            PodFacts(100.0, "127.1.2.3", 101.0, False, 300.0, 1, down=True), "Running", "False", "waiting", id="down"
        ),
    ],
)
def test_the_status_of_a_pod(facts: PodFacts, phase: str, ready: str, state: str) -> None:
    status = pod_status("u", "image", facts)
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    (container,) = status["containerStatuses"]
    assert status["phase"] == phase
    assert conditions["PodScheduled"]["status"] == "True"
    assert conditions["PodScheduled"]["lastTransitionTime"] == "1970-01-01T00:01:40Z"
    assert conditions["Ready"]["status"] == ready
    assert container["ready"] is (ready == "True")
    assert list(container["state"]) == [state]
    assert container["containerID"] == f"embedded://u-{facts.restart_count}"
    assert status.get("podIP") == (facts.address or None)


def pod(**changes: Any) -> dict[str, Any]:
    made = pod_object(SPEC, SPEC.roles[0], 0)
    made["metadata"] |= {"uid": "p-1"}
    made["metadata"]["labels"]["modeldeployment.gpustack.ai/endpoint-eligible"] = changes.get("eligible", "true")
    made["metadata"] |= changes.get("metadata", {})
    made["status"] = pod_status("p-1", "image", changes.get("facts", FACTS))
    return made


@pytest.mark.parametrize(
    ("subject", "routed"),
    [
        pytest.param(pod(), True, id="eligible and ready"),
        pytest.param(pod(eligible="false"), False, id="not eligible"),
        pytest.param(pod(facts=PodFacts(1.0, "127.1.2.3", 1.0, False, 1.0, 0)), False, id="not ready"),
        pytest.param(pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False, id="being deleted"),
        pytest.param(pod(metadata={"annotations": None}), False, id="without a port"),
    ],
)
def test_which_pods_a_router_may_use(subject: dict[str, Any], routed: bool) -> None:
    assert [(member.uid, member.url) for member in router_members([subject])] == (
        [("p-1", "http://127.1.2.3:8000")] if routed else []
    )


@pytest.mark.parametrize(
    ("server", "phase", "quota"),
    [
        pytest.param(RoleCounts(3, 3, 3), "Ready", "True", id="all ready"),
        pytest.param(RoleCounts(3, 2, 2), "Degraded", "True", id="one is starting"),
        pytest.param(RoleCounts(2, 2, 2), "Degraded", "False", id="one has no quota"),
        pytest.param(RoleCounts(3, 0, 0), "Starting", "True", id="none is ready yet"),
    ],
)
def test_the_status_of_a_deployment(server: RoleCounts, phase: str, quota: str) -> None:
    none = RoleCounts(1, 0, 0) if phase == "Starting" else RoleCounts(1, 1, 1)
    counts = {"server": server, "spare": none}
    status = deployment_status(SPEC, counts, None, endpoint="http://r", previous={}, now=60.0)
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    assert status["phase"] == phase
    assert conditions["QuotaReserved"]["status"] == quota
    assert status["retirement"] is None
    assert status["roles"][0] == {
        "name": "server",
        "kind": "Server",
        "desired": 3,
        "ready": server.ready,
        "quotaReserved": server.admitted,
        "unmanaged": False,
        "endpoints": {"eligible": server.eligible, "serving": {"state": "NotConfigured"}},
    }


def test_conditions_keep_the_time_of_their_last_change_and_a_retirement_is_shown() -> None:
    counts = {"server": RoleCounts(3, 3, 3), "spare": RoleCounts(1, 1, 1)}
    first = deployment_status(SPEC, counts, None, endpoint="", previous={}, now=60.0)
    retirement = Retirement("server", 2, "p-2", 7, 120.0, 130.0, RetirementState.DRAINING, "2 in flight")
    less = counts | {"server": RoleCounts(3, 2, 2)}
    second = deployment_status(SPEC, less, retirement, endpoint="", previous=first, now=180.0)
    times = {condition["type"]: condition["lastTransitionTime"] for condition in second["conditions"]}
    assert times["QuotaReserved"] == "1970-01-01T00:01:00Z"
    assert times["RoleKindsReady"] == "1970-01-01T00:03:00Z"
    assert second["retirement"] == {
        "roleName": "server",
        "replicaOrdinal": 2,
        "observedGeneration": 7,
        "targetMemberUIDs": ["p-2"],
        "targetWorkloadUID": "",
        "state": "Draining",
        "reason": "2 in flight",
        "startedAt": "1970-01-01T00:02:00Z",
        "deadline": "1970-01-01T00:07:00Z",
        "phaseStartedAt": "1970-01-01T00:02:10Z",
    }
