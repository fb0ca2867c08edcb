"""Foreign objects as views: what is read from them, and that nothing in them can stop a watch."""

from __future__ import annotations

import copy
import json
from decimal import Decimal

import pytest

from controller.api import (
    ConfigMap,
    EndpointProblem,
    EngineName,
    Hub,
    HubModel,
    InstanceType,
    MetricsEndpoint,
    ModelArtifact,
    ModelDeployment,
    Node,
    Pod,
    ReplicaWriter,
    Retirement,
    RoleKind,
    decode_view,
    render,
)
from controller.foundation import parse_time
from tests.api.samples import PD_DEPLOYMENT

POD = {
    "metadata": {
        "name": "qwen-pd-decode-x7k2p",
        "namespace": "team-a",
        "uid": "p-1",
        "creationTimestamp": "2026-10-20T08:00:00Z",
        "labels": {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "qwen-pd",
            "app.kubernetes.io/component": "decode",
            "modeldeployment.gpustack.ai/role-kind": "decode",
            "modeldeployment.gpustack.ai/pod-ordinal": "12",
            "modeldeployment.gpustack.ai/member-index": "1",
            "modeldeployment.gpustack.ai/endpoint-eligible": "true",
        },
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8200", "prometheus.io/path": "/metrics"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Workload", "name": "w", "uid": "w-1"},
            {
                "apiVersion": "worker.gpustack.ai/v1alpha1",
                "kind": "ModelDeployment",
                "name": "qwen-pd",
                "uid": "0d4c",
                "controller": True,
            },
        ],
    },
    "spec": {
        "nodeName": "gpu-3",
        "containers": [
            {"name": "proxy", "ports": [{"containerPort": 8000, "name": "http"}]},
            {"name": "main", "ports": [{"containerPort": 8200}], "env": [{"name": "A", "valueFrom": {}}]},
        ],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.2.3.4",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-10-20T08:00:01Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-10-20T08:01:16Z"},
        ],
        "containerStatuses": [
            {"name": "proxy", "containerID": "containerd://b", "restartCount": 4, "ready": True},
            {"name": "main", "containerID": "containerd://a", "restartCount": 1, "ready": True},
        ],
    },
}


def pod(**changes):
    """The sample Pod with members replaced by dotted path (`__` for a dot)."""
    made = copy.deepcopy(POD)
    for path, value in changes.items():
        *parents, last = path.split("__")
        at = made
        for parent in parents:
            at = at[parent]
        at[last] = value
    return decode_view(Pod, json.dumps(made).encode())


def without(mapping, *keys):
    return {key: value for key, value in mapping.items() if key not in keys}


def test_a_pod_says_who_it_is():
    read = pod()
    assert read.malformed == ()
    assert read.belongs
    assert (read.deployment, read.role, read.role_kind, read.router) == ("qwen-pd", "decode", "decode", None)
    assert (read.ordinal, read.member_index, read.eligible) == (12, 1, True)
    assert read.owned_by("0d4c")
    assert not read.owned_by("w-1")
    assert read.incarnation == ("p-1", "containerd://a", 1)
    assert (read.created_at, read.ready_since) == (
        parse_time("2026-10-20T08:00:00Z"),
        parse_time("2026-10-20T08:01:16Z"),
    )
    assert read.scheduled_since == parse_time("2026-10-20T08:00:01Z")
    assert read.ready
    assert read.scheduled
    assert not read.finished
    assert not read.deleting


def test_a_pod_that_leaves_is_not_ready():
    leaving = pod(metadata__deletionTimestamp="2026-10-20T09:00:00Z")
    assert leaving.deleting
    assert not leaving.ready


@pytest.mark.parametrize(
    ("label", "index"),
    [
        pytest.param(None, 0, id="absent means the first member"),
        pytest.param("3", 3, id="a number"),
        pytest.param("+3", None, id="a sign"),
        pytest.param("1_0", None, id="an underscore"),
        pytest.param("٣", None, id="digits of another script"),
        pytest.param("99999999", None, id="a number beyond any group"),
        pytest.param("", None, id="empty"),
    ],
)
def test_the_member_index_is_read_strictly(label, index):
    key = "modeldeployment.gpustack.ai/member-index"
    labels = without(POD["metadata"]["labels"], key) | ({} if label is None else {key: label})
    assert pod(metadata__labels=labels).member_index == index


def test_the_metrics_endpoint_follows_the_annotations():
    found = pod().metrics_endpoint()
    assert found == MetricsEndpoint("http", "10.2.3.4", 8200, "/metrics")
    assert found.url == "http://10.2.3.4:8200/metrics"


def test_an_ipv6_address_stands_in_brackets():
    assert pod(status__podIP="fd00::7").metrics_endpoint().url == "http://[fd00::7]:8200/metrics"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"prometheus.io/scrape": "false"}, EndpointProblem.NOT_ANNOTATED, id="scraping is off"),
        pytest.param({"prometheus.io/scrape": None}, EndpointProblem.NOT_ANNOTATED, id="no annotation at all"),
        pytest.param({"prometheus.io/port": "http"}, EndpointProblem.BAD_PORT, id="a port by name"),
        pytest.param({"prometheus.io/port": "0"}, EndpointProblem.BAD_PORT, id="port zero"),
        pytest.param({"prometheus.io/port": None}, EndpointProblem.BAD_PORT, id="no port"),
        pytest.param({"prometheus.io/port": "9999"}, EndpointProblem.PORT_NOT_DECLARED, id="a port nobody declares"),
        pytest.param({"prometheus.io/scheme": "file"}, EndpointProblem.BAD_SCHEME, id="a scheme that is not HTTP"),
        pytest.param(
            {"prometheus.io/path": "@evil/"}, EndpointProblem.BAD_PATH, id="a path that would change the host"
        ),
        pytest.param({"prometheus.io/path": "/a b"}, EndpointProblem.BAD_PATH, id="a path with a space"),
    ],
)
def test_a_pod_without_readable_metrics_says_why(changes, problem):
    annotations = {k: v for k, v in (POD["metadata"]["annotations"] | changes).items() if v is not None}
    assert pod(metadata__annotations=annotations).metrics_endpoint() is problem


@pytest.mark.parametrize("address", ["", "localhost", "10.2.3", "10.2.3.4:80"])
def test_a_pod_without_an_address_has_no_metrics(address):
    assert pod(status__podIP=address).metrics_endpoint() is EndpointProblem.NO_ADDRESS


def test_the_only_container_is_the_engine_whatever_its_name():
    statuses = [{"name": "vllm", "containerID": "containerd://c", "restartCount": 2}]
    assert pod(status__containerStatuses=statuses).incarnation == ("p-1", "containerd://c", 2)
    assert pod(status__containerStatuses=None).incarnation == ("p-1", "", 0)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            b'{"metadata":{"resourceVersion":"12","creationTimestamp":null,"annotations":'
            b'{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}',
            id="a bookmark of a real server",
        ),
        pytest.param(b'{"metadata":{"name":"p"}}', id="metadata only"),
        pytest.param(b'{"metadata":{"name":"p"},"spec":null,"status":null}', id="null members"),
        pytest.param(
            b'{"metadata":{"labels":null,"annotations":null,"ownerReferences":null},"spec":{"containers":[{"name":"a",'
            b'"ports":null}]},"status":{"conditions":null,"containerStatuses":null}}',
            id="null lists",
        ),
    ],
)
def test_missing_and_null_members_are_absent_not_malformed(line):
    read = decode_view(Pod, line)
    assert read.malformed == ()
    assert not read.ready
    assert read.metrics_endpoint() is EndpointProblem.NOT_ANNOTATED


def deployment():
    return decode_view(ModelDeployment, json.dumps(PD_DEPLOYMENT).encode())


def test_a_deployment_and_its_roles():
    read = deployment()
    assert read.malformed == ()
    assert read.spec.engine.known is EngineName.VLLM
    assert read.spec.model.artifact_ref.name == "qwen3-8b"
    assert read.disaggregated()
    prefill, decode = read.roles
    assert (prefill.known_kind, prefill.replicas, prefill.size) == (RoleKind.PREFILL, 3, 1)
    assert (prefill.pool, decode.pool) == ("gpustack--nvidia-h200-linux-amd64", "nvidia-h200")
    assert (prefill.accelerators, decode.accelerators) == (1, 2)
    assert (read.role_index("decode"), read.role_index("encode")) == (1, None)
    assert not decode.takes_over
    assert not decode.elastic


def test_a_count_that_was_not_observed_is_none_not_zero():
    status = deployment().role_status("decode")
    assert (status.desired, status.ready) == (1, 2)
    assert status.quota_reserved is None
    assert status.endpoints is None


def test_defaults_of_a_role():
    line = b'{"spec":{"roles":[{"name":"server"}]}}'
    (role,) = decode_view(ModelDeployment, line).roles
    assert (role.known_kind, role.replicas, role.size, role.serving_port) == (RoleKind.SERVER, 1, 1, 8000)
    assert role.accelerators == 1


def test_a_kind_of_the_future_is_kept_and_known_to_be_unknown():
    (role,) = decode_view(ModelDeployment, b'{"spec":{"roles":[{"name":"r","kind":"Rerank"}]}}').roles
    assert role.kind == "Rerank"
    assert role.known_kind is None


def test_the_writers_of_a_count_come_from_managed_fields_the_latest_first():
    read = deployment()
    assert read.replica_writers("decode") == (
        ReplicaWriter("model-deployment-scaler", "Update", parse_time("2026-10-20T09:00:00Z")),
        ReplicaWriter("argocd-controller", "Apply", parse_time("2026-10-20T08:00:00Z")),
    )
    assert [writer.manager for writer in read.replica_writers("prefill")] == ["model-deployment-scaler"]
    assert read.replica_writers("encode") == ()


def test_the_writers_of_the_status_are_known():
    assert deployment().status_writers() == {"gpustack-operator"}


def test_a_retirement_runs_until_it_is_aborted():
    retirement = deployment().status.retirement
    assert retirement.running
    assert not retirement.aborted
    assert retirement.target_member_uids == ("7c1e",)
    aborted = decode_view(ModelDeployment, b'{"status":{"retirement":{"state":"Aborted"}}}').status.retirement
    assert aborted.aborted
    assert not aborted.running


def test_the_retirement_of_the_first_replica_is_written_with_its_zero():
    written = render(Retirement(role_name="server", state="Admitted"))
    assert written == {
        "roleName": "server",
        "replicaOrdinal": 0,
        "observedGeneration": 0,
        "targetWorkloadUID": "",
        "state": "Admitted",
    }


def test_a_deployment_status_survives_being_written():
    status = deployment().status
    line = json.dumps({"status": render(status)}).encode()
    assert decode_view(ModelDeployment, line).status == status


def test_conditions_of_a_deployment():
    read = deployment()
    assert read.condition("QuotaReserved").since == parse_time("2026-10-20T08:59:00Z")
    assert read.condition("WeightsReady") is None


def test_the_value_of_a_variable_is_never_printed():
    read = deployment()
    assert read.role("decode").env[0].value == "hf_secret"
    assert "hf_secret" not in repr(read)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        pytest.param(
            {"spec": {"roles": [{"name": "a", "replicas": "3"}]}},
            "spec.roles[0].replicas: must be a whole number, found a string",
            id="a string for a count",
        ),
        pytest.param(
            {"spec": {"roles": {"a": 1}}}, "spec.roles: must be a list, found an object", id="a map for a list"
        ),
        pytest.param(
            {"spec": {"roles": [{"name": "a", "env": [{"name": "K", "value": 12345}]}]}},
            "spec.roles[0].env[0].value: must be a string, found a whole number",
            id="a number for a secret: its value is not told",
        ),
        pytest.param(
            {"status": {"roles": [{"name": "a", "ready": 1.5}]}},
            "status.roles[0].ready: must be a whole number, found a float",
            id="half a replica",
        ),
        pytest.param({"status": 7}, "status: must be an object, found a whole number", id="a status that is none"),
    ],
)
def test_a_wrong_type_costs_its_own_member_and_is_named(change, note):
    read = decode_view(ModelDeployment, json.dumps({"metadata": {"name": "q", "uid": "u"}} | change).encode())
    assert (read.metadata.name, read.metadata.uid) == ("q", "u")
    assert [str(finding) for finding in read.malformed] == [note]
    assert "12345" not in repr(read.malformed)


@pytest.mark.parametrize(
    ("change", "unreadable"),
    [
        pytest.param({"metadata": {"generation": "x"}}, True, id="the generation"),
        pytest.param({"metadata": {"managedFields": [{"manager": 1}]}}, False, id="a field manager"),
        pytest.param({"spec": []}, True, id="the spec"),
        pytest.param({"spec": {"roles": {}}}, True, id="the roles"),
        pytest.param({"spec": {"roles": [3]}}, True, id="a role"),
        pytest.param({"spec": {"roles": [{"replicas": 1.5}]}}, True, id="a count"),
        pytest.param({"spec": {"roles": [{"elasticEp": {"width": "2"}}]}}, True, id="elasticity"),
        pytest.param({"spec": {"roles": [{"image": {"name": "x"}}]}}, False, id="an image"),
        pytest.param({"spec": {"router": "llm-d"}}, False, id="the router"),
        pytest.param({"status": {"roles": [{"ready": "2"}]}}, True, id="a ready count"),
        pytest.param({"status": {"retirement": True}}, True, id="the retirement"),
        pytest.param({"status": {"phase": 7}}, False, id="the phase"),
    ],
)
def test_damage_matters_where_counts_rest_on_it(change, unreadable):
    read = decode_view(ModelDeployment, json.dumps(change).encode())
    assert read.malformed != ()
    assert bool(read.unreadable) is unreadable


def test_damage_beyond_counting_is_damage_to_the_whole():
    env = [{"name": "a", "value": 1}] * 100
    read = decode_view(ModelDeployment, json.dumps({"spec": {"roles": [{"name": "a", "env": env}]}}).encode())
    assert len(read.malformed) == 65
    assert read.unreadable == "and 36 more findings"


def test_the_tolerant_reading_keeps_what_the_strict_one_would():
    damaged = copy.deepcopy(PD_DEPLOYMENT)
    damaged["status"]["phase"] = ["Degraded"]
    read = decode_view(ModelDeployment, json.dumps(damaged).encode())
    whole = deployment()
    assert [str(finding) for finding in read.malformed] == ["status.phase: must be a string, found a list"]
    assert read.spec == whole.spec
    assert read.metadata == whole.metadata
    assert read.status.roles == whole.status.roles
    assert read.replica_writers("decode") == whole.replica_writers("decode")


def test_a_foreign_count_of_zero_is_a_fact_in_both_readings():
    roles = [{"name": "a", "replicas": 0}]
    for phase in ("Ready", 1):
        line = json.dumps({"spec": {"roles": roles}, "status": {"phase": phase}}).encode()
        assert decode_view(ModelDeployment, line).roles[0].replicas == 0


def test_the_pool_of_an_instance_type():
    line = json.dumps(
        {
            "metadata": {"name": "h200"},
            "spec": {"acceleratorGroup": "nvidia-h200", "acceleratable": True},
            "status": {
                "phase": "Active",
                "detail": {"manufacturer": "nvidia", "product": "NVIDIA H200", "memory": "143771Mi"},
                "accelerator": {"onceMaxRequest": "1", "remaining": 2, "capacity": "many"},
            },
        }
    ).encode()
    read = decode_view(InstanceType, line)
    assert read.malformed == ()
    assert read.admits
    usage = read.status.accelerator
    assert (usage.free, usage.largest_request) == (Decimal(2), Decimal(1))
    assert usage.total is None  # unreadable is unknown, not zero
    assert read.status.detail.memory == "143771Mi"


@pytest.mark.parametrize(
    ("source", "model"),
    [
        ({"huggingFace": {"repository": "a/b", "revision": "r"}}, HubModel(Hub.HUGGING_FACE, "a/b", "r")),
        ({"huggingFace": {"repo": "a/b"}}, HubModel(Hub.HUGGING_FACE, "a/b", "")),
        ({"modelScope": {"repository": "a/b"}}, HubModel(Hub.MODEL_SCOPE, "a/b", "")),
        ({"persistentVolumeClaim": {"claimName": "c", "path": "/models/a/b"}}, None),
        ({"huggingFace": {}}, None),
        ({}, None),
    ],
)
def test_the_origin_of_a_model_is_its_hub_never_a_path(source, model):
    line = json.dumps({"spec": {"source": source}}).encode()
    assert decode_view(ModelArtifact, line).hub_model == model


def test_config_maps_and_nodes():
    assert decode_view(ConfigMap, b'{"data":{"catalog.yaml":"x"},"binaryData":{"a":"AA=="}}').data == {
        "catalog.yaml": "x"
    }
    assert decode_view(ConfigMap, b'{"data":null}').data is None
    node = decode_view(Node, b'{"metadata":{"name":"n","labels":{"gpustack.ai/managed":"true"}},"status":{}}')
    assert node.metadata.label("gpustack.ai/managed") == "true"
