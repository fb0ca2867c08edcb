"""A Pod as its kubelet and its router see it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.embedded.engine import EngineDialect, EngineKind
from controller.embedded.pods import PodFacts, pod_status, read_pod, router_members, router_pod, router_status
from controller.embedded.pre_stop import PreStop
from tests.embedded.pods import GAUGES, PORT, pod

FACTS = PodFacts(100.0, "127.1.2.3", 101.0, True, 177.0, 0)


def stored(**changes: Any) -> dict[str, Any]:
    made = pod(**changes)
    made["metadata"]["uid"] = "p-1"
    return made


def test_a_pod_is_read_with_its_command_line_probes_and_hook() -> None:
    seen = read_pod(stored())
    assert (seen.name, seen.uid, seen.role, seen.kind, seen.port) == ("chat-server-0", "p-1", "server", "server", PORT)
    assert seen.flags == {"served-model-name": "m", "port": str(PORT), "max-num-seqs": "4"}
    assert (seen.unready_after_seconds, seen.restart_after_seconds) == (30.0, 60.0)
    assert seen.pre_stop == PreStop(25.0, PORT, "/metrics", GAUGES)
    assert (seen.grace_seconds, seen.deleting) == (30.0, False)


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        pytest.param({"annotations": {}}, "port", None, id="without the annotation it has no server"),
        pytest.param(
            {"annotations": {"prometheus.io/scrape": "true"}}, "port", PORT, id="the declared port stands in for one"
        ),
        pytest.param(
            {"annotations": {"prometheus.io/scrape": "true"}, "container": {"ports": []}}, "port", 8000,
            id="and the contract's where none is declared",
        ),
        pytest.param({"container": {"readinessProbe": {}}}, "unready_after_seconds", None, id="not probed"),
        pytest.param(
            {"container": {"livenessProbe": {"periodSeconds": 5}}}, "restart_after_seconds", 15.0, id="three failures"
        ),
        pytest.param({"container": {"lifecycle": {}}}, "pre_stop", None, id="no hook"),
        pytest.param(
            {"container": {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}}, "pre_stop", PreStop(5.0), id="a sleep"
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 7}},
            "grace_seconds", 7.0, id="the grace of the deletion counts, not the spec's",
        ),
        pytest.param({"spec": {"terminationGracePeriodSeconds": None}}, "grace_seconds", 30.0, id="the default grace"),
    ],
)  # fmt: skip
def test_what_is_read_of_a_pod(changes: dict[str, Any], field: str, value: object) -> None:
    made = stored(**changes)
    made["spec"] = {name: member for name, member in made["spec"].items() if member is not None}
    assert getattr(read_pod(made), field) == value


def test_a_flag_with_an_equals_sign_and_one_without_value() -> None:
    line = ["serve", "m", "--x=1", "--on", "--max_num_seqs", "8", "--max-num-seqs", "9"]
    assert read_pod(stored(container={"args": line})).flags == {"x": "1", "on": "", "max-num-seqs": "9"}


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
    status = pod_status(read_pod(stored()), facts)
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    (container,) = status["containerStatuses"]
    assert status["phase"] == phase
    assert conditions["PodScheduled"]["status"] == "True"
    assert conditions["PodScheduled"]["lastTransitionTime"] == "1970-01-01T00:01:40Z"
    assert conditions["Ready"]["status"] == ready
    assert (container["name"], container["ready"]) == ("main", ready == "True")
    assert list(container["state"]) == [state]
    assert container["containerID"] == f"embedded://p-1-{facts.restart_count}"
    assert status.get("podIP") == (facts.address or None)


def routable(facts: PodFacts = FACTS, **changes: Any) -> dict[str, Any]:
    made = stored(**changes)
    made["status"] = pod_status(read_pod(made), facts)
    return made


@pytest.mark.parametrize(
    ("subject", "routed"),
    [
        pytest.param(routable(), True, id="eligible and ready"),
        pytest.param(
            routable(labels={"modeldeployment.gpustack.ai/endpoint-eligible": "false"}), False, id="not eligible"
        ),
        pytest.param(routable(PodFacts(1.0, "127.1.2.3", 1.0, False, 1.0, 0)), False, id="not ready"),
        pytest.param(routable(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False, id="being deleted"),
        pytest.param(routable(annotations={}), False, id="without a port"),
    ],
)
def test_which_pods_a_router_may_use(subject: dict[str, Any], routed: bool) -> None:
    assert [(member.uid, member.url) for member in router_members([subject])] == (
        [("p-1", f"http://127.1.2.3:{PORT}")] if routed else []
    )


@pytest.mark.parametrize(
    ("changes", "kind", "dialect"),
    [
        pytest.param({}, EngineKind.SERVER, EngineDialect.VLLM, id="a server of vLLM"),
        pytest.param(
            {"labels": {"modeldeployment.gpustack.ai/role-kind": "decode"}}, EngineKind.DECODE, EngineDialect.VLLM,
            id="a decode process",
        ),
        pytest.param(
            {"container": {"command": ["python3", "-m", "sglang.launch_server"]}}, EngineKind.SERVER,
            EngineDialect.SGLANG, id="SGLang, by its command line",
        ),
    ],
)  # fmt: skip
def test_a_router_is_told_what_its_members_do(
    changes: dict[str, Any], kind: EngineKind, dialect: EngineDialect
) -> None:
    (member,) = router_members([routable(**changes)])
    assert (member.kind, member.dialect) == (kind, dialect)


def test_a_router_is_a_pod_of_the_deployment_and_no_member_of_a_role() -> None:
    made = router_pod("demo", "chat", "llm-d-router", 8081)
    labels = made["metadata"]["labels"]
    assert labels["modeldeployment.gpustack.ai/router"] == "llm-d-router"
    assert labels["app.kubernetes.io/instance"] == "chat"
    assert "app.kubernetes.io/component" not in labels
    assert made["spec"]["nodeName"] != "embedded"
    made["metadata"]["uid"] = "r"
    status = router_status(made, "127.0.0.1", 1.0)
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"]) == ("router", True)  # kubectl counts these for READY
    assert router_members([made | {"status": status}]) == []
