"""The Pod of a member, by what a person asked for."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from controller.api import InstanceType, Pod, decode_view
from controller.deployment.fingerprint import fingerprint
from controller.deployment.pods import Seat, pod_body
from controller.deployment.refusals import role_refusal
from controller.deployment.weights import Weights, WeightsReason, weights_of
from tests.deployment.builders import artifact, deployment, pool


def _body(
    role: dict[str, Any] | None = None,
    *,
    ordinal: int = 0,
    member: int = 0,
    weights: Weights | None = None,
    instances: InstanceType | None = None,
    **spec: Any,
) -> dict[str, Any]:
    made = deployment([{"name": "server", **(role or {})}], **spec)
    found = weights or Weights(made.spec.model.name)
    return pod_body(made, made.roles[0], Seat(ordinal, member), found, instances)


def _container(**how: Any) -> dict[str, Any]:
    (container,) = _body(**how)["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def test_a_pod_says_whose_it_is_and_where_it_belongs():
    meta = _body(ordinal=3)["metadata"]
    assert meta["name"] == "chat-server-3"
    assert meta["labels"] == {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": "server",
        "app.kubernetes.io/managed-by": "model-deployment-scaler",
        "modeldeployment.gpustack.ai/role-kind": "server",
        "modeldeployment.gpustack.ai/pod-ordinal": "3",
        "modeldeployment.gpustack.ai/member-index": "0",
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == (
        "worker.gpustack.ai/v1alpha1",
        "ModelDeployment",
        "md-1",
    )
    assert owner["controller"] is True


def test_the_scaler_finds_the_metrics_of_a_pod_where_it_says():
    body = _body({"ports": [{"port": 9000}]})
    body["status"] = {"podIP": "10.0.0.7"}
    view = decode_view(Pod, orjson.dumps(body))
    endpoint = view.metrics_endpoint()
    assert endpoint.url == "http://10.0.0.7:9000/metrics"  # type: ignore[union-attr]
    assert not view.eligible


@pytest.mark.parametrize(
    ("role", "member", "probed", "scraped"),
    [
        pytest.param({}, 0, True, True, id="an engine is probed and scraped"),
        pytest.param({"size": 2}, 1, False, False, id="a follower answers nobody"),
        pytest.param({"size": 2, "extraArgs": ["--data-parallel-external-lb"]}, 1, True, True, id="a data-parallel member does"),
        pytest.param({"command": ["mine"]}, 0, False, False, id="a command of the user's own is left alone"),
        pytest.param({"extraArgs": ["--port", "1"]}, 0, False, True, id="a server that was moved cannot be probed"),
        pytest.param({"extraArgs": ["--ssl-cert-reqs=2"]}, 0, False, True, id="nor one that wants a certificate of the kubelet"),
        pytest.param({"ports": [{"port": 1, "protocol": "UDP"}]}, 0, False, True, id="nor one that speaks UDP"),
    ],
)  # fmt: skip
def test_probes_and_scrapes(role: dict[str, Any], member: int, probed: bool, scraped: bool):
    body = _body(role, member=member)
    assert ("startupProbe" in body["spec"]["containers"][0]) is probed
    assert ("prometheus.io/scrape" in body["metadata"]["annotations"]) is scraped


def test_a_pod_is_restarted_only_after_half_an_hour_of_loading():
    probe = _container()["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 1800
    assert probe["httpGet"] == {"path": "/health", "port": 8000, "scheme": "HTTP"}
    tls = _container(role={"extraArgs": ["--ssl-certfile", "c"]})
    assert tls["startupProbe"]["httpGet"]["scheme"] == "HTTPS"


def test_the_end_of_a_pod_waits_for_its_requests_within_its_grace():
    hook = _container(role={"terminationGracePeriodSeconds": 45})["lifecycle"]["preStop"]["exec"]["command"]
    assert hook[:2] == ["python3", "-c"]
    compile(hook[2], "hook", "exec")
    assert hook[3:] == [
        "http://127.0.0.1:8000/metrics",
        "40",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
    ]
    assert "lifecycle" not in _container(role={"command": ["mine"]})


def test_the_environment_lets_members_find_each_other_and_the_user_have_the_last_word():
    environment = _container(
        role={"size": 2, "env": [{"name": "HF_TOKEN", "value": "hf_x"}, {"name": "POD_IP", "value": "::1"}]},
        ordinal=1,
        member=1,
    )["env"]
    found = {variable["name"]: variable.get("value") for variable in environment}
    assert found["GPUSTACK_REPLICA_LEADER_ADDRESS"] == "chat-server-1-m0.chat-server-r1.team.svc"
    assert (found["GPUSTACK_REPLICA_SIZE"], found["GPUSTACK_MEMBER_INDEX"]) == ("2", "1")
    assert (found["HF_TOKEN"], found["POD_IP"]) == ("hf_x", "::1")
    assert len(environment) == len(found)


def test_the_address_that_a_prefill_replica_hands_on_is_its_pods():
    environment = _container(role={"kind": "Prefill"})["env"]
    own = _container(role={"kind": "Prefill", "env": [{"name": "POD_IP", "value": "10.1.1.1"}]})["env"]
    assert own[-1]["name"] == "VLLM_NIXL_SIDE_CHANNEL_HOST"
    names = [variable["name"] for variable in environment]
    assert names.index("POD_IP") < names.index("VLLM_NIXL_SIDE_CHANNEL_HOST")  # or it could not be referred to
    assert {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "value": "$(POD_IP)"} in environment


def test_members_are_found_by_name_before_they_are_ready():
    spec = _body({"size": 2}, ordinal=1, member=1)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("chat-server-1-m1", "chat-server-r1")


# --- what a Pod asks of the cluster ---


@pytest.mark.parametrize(
    ("role", "instances", "requests", "limits"),
    [
        pytest.param({}, None, {}, {}, id="an unknown pool tells nothing"),
        pytest.param(
            {"resources": {"accelerator": "2"}},
            pool(),
            {"nvidia.com/gpu": "2", "cpu": "24", "memory": str(2 * 192 * 2**30), "ephemeral-storage": str(100 * 2**30)},
            {"nvidia.com/gpu": "2"},
            id="cards bring their share of the machine",
        ),
        pytest.param(
            {"resources": {"accelerator": "0", "cpu": "4", "ram": "8Gi", "localStorage": "1Gi"}},
            pool(),
            {"cpu": "4", "memory": str(8 * 2**30), "ephemeral-storage": str(2**30)},
            {},
            id="what the role says itself wins, and no cards are no cards",
        ),
        pytest.param({}, pool(acceleratorGroup="ascend-910b", unitResources=None, localStorage=None), {"huawei.com/npu": "1"}, {"huawei.com/npu": "1"}, id="each vendor has its own name for cards"),
    ],
)  # fmt: skip
def test_resources(
    role: dict[str, Any], instances: InstanceType | None, requests: dict[str, str], limits: dict[str, str]
):
    resources = _container(role=role, instances=instances)["resources"]
    assert resources.get("requests", {}) == requests
    assert resources.get("limits", {}) == limits


def test_a_pod_goes_where_its_pool_is():
    selector = _body(instances=pool())["spec"]["nodeSelector"]
    assert selector == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "acceleratable.feature.gpustack.ai/nvidia-h200": "true",
    }
    cpu_only = _body({"resources": {"accelerator": "0"}}, instances=pool())["spec"]["nodeSelector"]
    assert set(cpu_only) == {"kubernetes.io/os", "kubernetes.io/arch"}


@pytest.mark.parametrize(
    ("role", "engine", "image"),
    [
        pytest.param({"image": "mine:1"}, {"name": "vLLM", "image": "e:1", "version": "2"}, "mine:1", id="the role's image wins"),
        pytest.param({}, {"name": "vLLM", "image": "e:1", "version": "2"}, "e:1", id="then the engine's"),
        pytest.param({}, {"name": "vLLM", "version": "0.32.0"}, "vllm/vllm-openai:v0.32.0", id="then vLLM's own of that version"),
        pytest.param({}, {"name": "SGLang", "version": "v0.5.23"}, "lmsysorg/sglang:v0.5.23", id="or SGLang's"),
        pytest.param({}, {"name": "vLLM", "version": "nightly"}, "vllm/vllm-openai:nightly", id="a tag that is no number stays as it is"),
    ],
)  # fmt: skip
def test_images(role: dict[str, Any], engine: dict[str, Any], image: str):
    assert _container(role=role, engine=engine)["image"] == image


# --- weights ---

HUB = {"huggingFace": {"repository": "Qwen/Qwen3-8B", "revision": "main"}}


@pytest.mark.parametrize(
    ("source", "status", "model", "revision", "volume"),
    [
        pytest.param(HUB, {}, "Qwen/Qwen3-8B", "main", None, id="a repository of Hugging Face"),
        pytest.param(HUB, {"resolved": {"revision": "b968"}}, "Qwen/Qwen3-8B", "b968", None, id="pinned to what it was resolved to"),
        pytest.param({"modelScope": {"repository": "Qwen/Qwen3-8B"}}, {}, "Qwen/Qwen3-8B", "", None, id="a repository of ModelScope"),
        pytest.param({"persistentVolumeClaim": {"claimName": "w", "path": "/a/"}}, {}, "/models/a", "", {"persistentVolumeClaim": {"claimName": "w", "readOnly": True}}, id="a volume"),
        pytest.param({"image": {"reference": "r@sha256:1"}}, {}, "/models", "", {"image": {"reference": "r@sha256:1"}}, id="an image"),
    ],
)  # fmt: skip
def test_weights(
    source: dict[str, Any], status: dict[str, Any], model: str, revision: str, volume: dict[str, Any] | None
):
    made = deployment(model={"name": "m", "artifactRef": {"name": "qwen"}})
    weights = weights_of(made, artifact(source, **status)).weights
    assert weights is not None
    assert (weights.model, weights.revision, weights.volume) == (model, revision, volume)
    body = pod_body(made, made.roles[0], Seat(0, 0), weights, None)
    names = [each["name"] for each in body["spec"]["volumes"]]
    mounts = [mount["name"] for mount in body["spec"]["containers"][0]["volumeMounts"]]
    assert names == mounts
    assert ("weights" in names) is (volume is not None)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(None, WeightsReason.ARTIFACT_NOT_FOUND, id="an artifact that is missing"),
        pytest.param(artifact(HUB, conditions=[{"type": "Resolved", "status": "False", "message": "404"}]), WeightsReason.ARTIFACT_NOT_RESOLVED, id="one that somebody could not resolve"),
        pytest.param(artifact({}), WeightsReason.SOURCE_UNKNOWN, id="one without a source"),
    ],
)  # fmt: skip
def test_without_weights_nothing_starts(found: Any, reason: WeightsReason):
    verdict = weights_of(deployment(model={"name": "m", "artifactRef": {"name": "qwen"}}), found)
    assert (verdict.weights, verdict.reason) == (None, reason)
    assert "qwen" in verdict.message


# --- refusals ---


@pytest.mark.parametrize(
    ("role", "spec", "says"),
    [
        pytest.param({"elasticEp": {"width": 4}}, {}, "elasticEp", id="elastic expert parallelism"),
        pytest.param({"kind": "Rerank"}, {}, "kind Rerank", id="a kind of a later version"),
        pytest.param({}, {"engine": {"name": "TGI", "version": "1"}}, "TGI", id="another engine"),
        pytest.param({}, {"engine": {"name": "vLLM"}}, "no image", id="no image at all"),
        pytest.param({"resources": {"acceleratorSlicedMemoryPercentage": 50}}, {}, "whole cards", id="half a card"),
        pytest.param({"extraArgs": ["-dpm"]}, {}, "several servers", id="several servers in one Pod"),
        pytest.param({"env": [{"name": "GPUSTACK_MEMBER_INDEX", "value": "7"}]}, {}, "reserved", id="a reserved variable"),
        pytest.param({"name": "a" * 60}, {}, "63", id="a name that no label holds"),
        pytest.param({"replicas": 1000, "name": "a" * 55}, {}, "63", id="a name that the last ordinal makes too long"),
    ],
)  # fmt: skip
def test_refusals_name_the_way_out(role: dict[str, Any], spec: dict[str, Any], says: str):
    made = deployment([{"name": "server", **role}], **spec)
    assert says in role_refusal(made, made.roles[0])


def test_two_services_of_one_name_are_refused():
    made = deployment([{"name": "server", "size": 2}, {"name": "server-r0"}])
    assert "chat-server-r0" in role_refusal(made, made.roles[0])
    assert "chat-server-r0" in role_refusal(made, made.roles[1])


def test_a_name_that_no_service_can_have_is_refused():
    made = deployment(metadata={"name": "7b-chat"})
    assert "starts with a letter" in role_refusal(made, made.roles[0])


def test_an_ordinary_role_is_not_refused():
    made = deployment()
    assert role_refusal(made, made.roles[0]) == ""


# --- what a Pod was made from ---


def _print(role: dict[str, Any] | None = None, **spec: Any) -> str:
    made = deployment([{"name": "server", **(role or {})}], **spec)
    return fingerprint(made, made.roles[0])


@pytest.mark.parametrize(
    ("role", "spec", "same"),
    [
        pytest.param({"replicas": 7}, {}, True, id="a count makes no other Pod"),
        pytest.param({"resources": {"accelerator": 1}}, {}, None, id="quantities are compared as numbers"),
        pytest.param({"extraArgs": ["-x"]}, {}, False, id="an argument does"),
        pytest.param({"env": [{"name": "A", "value": "1"}]}, {}, False, id="a variable does"),
        pytest.param({}, {"engine": {"name": "vLLM", "version": "0.33.0"}}, False, id="a version does"),
        pytest.param({}, {"kvTransfer": {"protocol": "RDMA"}}, False, id="the transport of caches does"),
        pytest.param({}, {"router": {"name": "vllm-router"}}, True, id="a router does not"),
    ],
)  # fmt: skip
def test_a_fingerprint(role: dict[str, Any], spec: dict[str, Any], same: bool | None):
    if same is None:
        assert _print(role, **spec) == _print({"resources": {"accelerator": "1.0"}})
    else:
        assert (_print(role, **spec) == _print()) is same
