"""What the status says, and how it is written."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api import (
    ModelDeploymentStatus,
    RetirementState,
    ServingEndpoints,
    find_condition,
    model_deployment_crd,
)
from controller.deployment.record import restored, retirement_patch, stored
from controller.deployment.replicas import Replica
from controller.deployment.status import Situation, deployment_status, same_status, status_patch
from controller.deployment.weights import Weights, WeightsReason, WeightsVerdict
from tests.deployment.builders import deployment, group, operation, pod, single

NOW = 1_800_000_000.0
READY = WeightsVerdict(Weights("m"), WeightsReason.NOT_APPLICABLE)


def _status(
    roles: list[dict[str, Any]] | None = None, *replicas: Replica, old: dict[str, Any] | None = None, **how: Any
) -> ModelDeploymentStatus:
    spec = {"router": {"name": "vllm-router"}} if how.pop("router", False) else {}
    given: dict[str, Any] = {
        "deployment": deployment(roles, status=old, **spec),
        "replicas": replicas,
        "routers": (),
        "weights": READY,
        "revision": "",
        "refusals": {},
        "outdated": {},
        "endpoints": {},
        "rollout_waits_for": "",
        "problems": (),
    }
    return deployment_status(Situation(**{**given, **how}), NOW)


TWO = [{"name": "server", "replicas": 2}]


@pytest.mark.parametrize(
    ("status", "phase", "message"),
    [
        pytest.param(_status(TWO), "Starting", "server 0/2 ready", id="nothing serves yet"),
        pytest.param(_status(TWO, single(0)), "Degraded", "server 1/2 ready", id="some of it serves"),
        pytest.param(_status(TWO, single(0), single(1)), "Ready", "", id="all of it serves"),
        pytest.param(_status(TWO, single(0), single(1), single(2, eligible=False)), "Ready", "", id="a replica on its way out is no fault"),
        pytest.param(_status(TWO, single(0), single(1), refusals={"server": "no"}), "Degraded", "server: no", id="a refused role is one"),
        pytest.param(_status(TWO, single(0), single(1), router=True), "Degraded", "standalone mode deploys none", id="so is a router that nobody has deployed"),
        pytest.param(_status(TWO, single(0), single(1), router=True, routers=(pod(router="vllm-router", ready=False),)), "Degraded", "is Ready", id="or one that is not Ready"),
        pytest.param(_status(TWO, single(0), single(1), router=True, routers=(pod(router="vllm-router"),)), "Ready", "", id="with a router that is Ready it serves"),
        pytest.param(_status(TWO, single(0), problems=("Pod x was refused",)), "Degraded", "Pod x was refused", id="what could not be done is said"),
    ],
)  # fmt: skip
def test_the_phase(status: ModelDeploymentStatus, phase: str, message: str):
    assert status.phase == phase
    assert message in status.phase_message


def test_counts_by_role():
    status = _status(
        [{"name": "prefill", "kind": "Prefill", "replicas": 2}, {"name": "decode", "kind": "Decode"}],
        single(0, role="prefill"),
        single(1, role="prefill", ready=False, eligible=False),
        single(0, role="decode"),
        single(1, role="decode", eligible=False),
        single(2, role="decode", deleting=True),
    )
    found = {role.name: role for role in status.roles or ()}
    assert (found["prefill"].desired, found["prefill"].ready) == (2, 1)
    assert (found["decode"].desired, found["decode"].ready) == (1, 2)
    assert status.role_summary == "1P2D"


def test_quota_is_not_observed_and_no_number_is_made_up_for_it():
    (role,) = _status(None, single(0)).roles or ()
    assert role.quota_reserved is None


def test_endpoints_that_nobody_looked_at_are_no_number():
    (role,) = _status([{"name": "server", "size": 2}], group(0, {}, {})).roles or ()
    assert role.ready == 1
    assert role.endpoints is not None
    assert (role.endpoints.eligible, role.endpoints.serving) == (None, ServingEndpoints(state="Unknown"))


def test_a_role_that_took_over_its_command_line_is_unmanaged():
    (role,) = _status([{"name": "server", "command": ["mine"]}], single(0, scraped=False)).roles or ()
    assert (role.unmanaged, role.ready) == (True, 1)


def test_the_endpoint_is_the_service_or_the_router_once_that_is_ready():
    assert _status(None, single(0)).endpoint == "http://chat.team.svc:8000"
    assert _status([{"name": "server", "extraArgs": ["--ssl-keyfile", "k"]}]).endpoint.startswith("https://")
    assert _status(None, router=True).endpoint == ""
    routed = _status(None, router=True, routers=(pod(router="vllm-router"),))
    assert routed.endpoint == "http://chat-router.team.svc:8081"


@pytest.mark.parametrize(
    ("how", "type_", "status", "reason"),
    [
        pytest.param({}, "ReplicasUpToDate", "True", "UpToDate", id="everything is made from the present spec"),
        pytest.param({"outdated": {"server": 1}}, "ReplicasUpToDate", "False", "RolloutInProgress", id="a rollout is under way"),
        pytest.param({"outdated": {"server": 1}, "weights": WeightsVerdict(None, WeightsReason.ARTIFACT_NOT_FOUND, "no")}, "ReplicasUpToDate", "False", "RolloutHeldByWeights", id="weights hold a rollout"),
        pytest.param({"silent": ("chat-server-0",)}, "ReplicasUpToDate", "Unknown", "PodSpecHashUnreadable", id="a Pod does not say what it was made from"),
        pytest.param({"silent": ("chat-server-0",), "outdated": {"server": 1}}, "ReplicasUpToDate", "False", "RolloutInProgress", id="another one is made again meanwhile"),
        pytest.param({"stopped": ("chat-server-0",), "outdated": {"server": 1}}, "ReplicasUpToDate", "False", "RolloutStopped", id="a replica denies the present spec"),
        pytest.param({}, "RoleKindsReady", "True", "AllKindsReady", id="all roles are Ready"),
        pytest.param({"refusals": {"server": "no"}}, "RoleKindsReady", "False", "KindsNotReady", id="a role cannot be carried out"),
        pytest.param({}, "RouterReady", "True", "NotApplicable", id="without a router there is nothing to wait for"),
        pytest.param({"router": True}, "RouterReady", "Unknown", "NotDeployed", id="a router that nobody has deployed was not observed"),
        pytest.param({}, "WeightsReady", "True", "NotApplicable", id="weights without an artifact"),
        pytest.param({"weights": WeightsVerdict(None, WeightsReason.ARTIFACT_NOT_FOUND, "no")}, "WeightsReady", "False", "ArtifactNotFound", id="weights that are missing"),
    ],
)  # fmt: skip
def test_conditions(how: dict[str, Any], type_: str, status: str, reason: str):
    found = find_condition(_status(None, single(0), **how).conditions, type_)  # type: ignore[arg-type]
    assert found is not None
    assert (str(found.status), found.reason) == (status, reason)


def test_a_condition_keeps_the_time_of_its_last_change():
    old = {"type": "RouterReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    changed = {"type": "WeightsReady", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = _status(None, old={"conditions": [old, changed]})
    times = {condition.type: condition.last_transition_time for condition in status.conditions or ()}
    assert times["RouterReady"] == "2026-01-01T00:00:00Z"
    assert times["WeightsReady"] == "2027-01-15T08:00:00Z"


def test_members_without_a_value_are_removed_by_name_and_the_retirement_is_not_touched():
    patch = status_patch("7", _status(None, router=True))
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert patch["status"]["endpoint"] is None
    assert patch["status"]["model"] is None
    assert "retirement" not in patch["status"]


def test_everything_that_is_written_is_known_to_the_schema():
    (version, *_) = model_deployment_crd()["spec"]["versions"]
    known = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert set(status_patch("7", _status(None, single(0)))["status"]) <= set(known)
    operations = retirement_patch("7", operation())["status"]["retirement"]
    assert set(operations) == set(known["retirement"]["properties"])


def test_two_statuses_that_differ_in_the_retirement_alone_are_the_same():
    with_one = _status(None, single(0))
    made = deployment(status={"retirement": {"roleName": "server", "state": "Draining"}})
    assert not same_status(with_one, made.status)
    assert same_status(deployment().status, made.status)


# --- the operation ---


@pytest.mark.parametrize("state", [state for state in RetirementState if state is not RetirementState.COMPLETED])
def test_an_operation_is_what_it_was_before_it_was_stored(state: RetirementState):
    before = operation(state, last_retry_token="t", reason="because")
    assert restored(stored(before), hands_over=False, now=9.0) == before


def test_clearing_is_an_explicit_null():
    assert retirement_patch("7", None) == {"metadata": {"resourceVersion": "7"}, "status": {"retirement": None}}


def test_a_member_that_the_operation_does_not_have_is_removed_by_name():
    value = retirement_patch("7", operation(reason=""))["status"]["retirement"]
    assert value["reason"] is None
    assert value["replicaOrdinal"] == 2
    assert value["targetWorkloadUID"] == ""


def test_an_ordinal_of_zero_is_written():
    assert retirement_patch("7", operation(ordinal=0))["status"]["retirement"]["replicaOrdinal"] == 0


def test_what_cannot_be_read_back_keeps_the_replica():
    made = deployment(status={"retirement": {"roleName": "server", "state": "Vanishing", "startedAt": "yesterday"}})
    assert made.status.retirement is not None
    found = restored(made.status.retirement, hands_over=True, now=9.0)
    assert (found.state, found.started_at, found.phase_started_at, found.hands_over) == (
        RetirementState.ABORTED,
        9.0,
        9.0,
        True,
    )
    assert "Vanishing" in found.reason
