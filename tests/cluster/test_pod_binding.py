"""`pods/binding`: how a Pod gets its node, on both servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.api import Answer, Api
from tests.cluster.objects import PODS, pod


def binding(**target: str) -> dict[str, Any]:
    aim = {"apiVersion": "v1", "kind": "Node", "name": "n", **target}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": aim}


async def bind(api: Api, body: dict[str, Any], **query: str) -> Answer:
    return await api("POST", PODS.path(api.namespace, "a", "binding"), body, **query)


async def test_a_bound_pod_has_its_node_and_is_scheduled(api: Api):
    (await api.create(PODS, pod("a"))).ok()
    answer = await bind(api, binding())
    assert (answer.status, answer.json["status"], answer.json["code"]) == (201, "Success", 201)
    found = (await api.read(PODS, "a")).ok()
    assert found["spec"]["nodeName"] == "n"
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert set(condition) - {"observedGeneration"} == {"type", "status", "lastProbeTime", "lastTransitionTime"}


async def test_a_dry_run_binds_nothing(api: Api):
    (await api.create(PODS, pod("a"))).ok()
    assert (await bind(api, binding(), dryRun="All")).status == 201
    assert "nodeName" not in (await api.read(PODS, "a")).ok()["spec"]


async def test_a_pod_keeps_its_node(api: Api):
    (await api.create(PODS, pod("a"))).ok()
    (await bind(api, binding())).ok()
    answer = await bind(api, binding(name="m"))
    assert answer.failure == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"'
    )
    assert answer.details == {"name": "a", "kind": "pods/binding"}


async def test_a_pod_that_is_leaving_is_not_bound(api: Api):
    leaving = pod("a")
    leaving["metadata"]["finalizers"] = ["example.com/hold"]
    (await api.create(PODS, leaving)).ok()
    (await api.delete(PODS, "a")).ok()
    answer = await bind(api, binding())
    assert answer.failure == (409, "Conflict")
    assert answer.message.endswith("pod a is being deleted, cannot be assigned to a host")
    (await api.patch(PODS, "a", {"metadata": {"finalizers": None}})).ok()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param({"name": ""}, "target.name: Required value", id="no node is named"),
        pytest.param(
            {"kind": "Pod"},
            'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
            id="the target is no node",
        ),
        pytest.param(
            {"kind": "Pod", "name": ""},
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]',
            id="neither",
        ),
    ],
)
async def test_a_binding_must_name_a_node(api: Api, target: dict[str, str], message: str):
    (await api.create(PODS, pod("a"))).ok()
    answer = await bind(api, binding(**target))
    assert answer.failure == (500, "")
    assert answer.message == message


async def test_a_binding_names_the_pod_of_its_path(api: Api):
    (await api.create(PODS, pod("a"))).ok()
    answer = await bind(api, {**binding(), "metadata": {"name": "b"}})
    assert answer.failure == (400, "BadRequest")
    assert answer.message == "name in URL does not match name in Binding object"


async def test_a_pod_that_is_not_there_cannot_be_bound(api: Api):
    assert (await bind(api, binding())).failure == (404, "NotFound")
