"""`pods/binding`, as a scheduler uses it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.conftest import PODS, Client

BINDING = PODS.path("default", "p", "binding")
NODE = {"apiVersion": "v1", "kind": "Node", "name": "n"}


def pod(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def binding(**target: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {**NODE, **target}}


async def test_a_bound_pod_has_its_node_and_is_scheduled(api: Client) -> None:
    await api.create(PODS, pod())
    answer = await api("POST", BINDING, binding())
    assert (answer.status, answer.json["status"]) == (201, "Success")
    found = (await api.read(PODS, "p")).json
    assert found["spec"]["nodeName"] == "n"
    conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
    assert conditions == {"PodScheduled": "True"}


async def test_a_dry_run_binds_nothing(api: Client) -> None:
    await api.create(PODS, pod())
    assert (await api("POST", BINDING, binding(), dryRun="All")).status == 201
    assert "nodeName" not in (await api.read(PODS, "p")).json["spec"]


async def test_a_pod_keeps_its_node(api: Client) -> None:
    await api.create(PODS, pod())
    await api("POST", BINDING, binding())
    answer = await api("POST", BINDING, binding(name="m"))
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert 'is already assigned to node "n"' in answer.json["message"]


async def test_a_pod_that_is_leaving_is_not_bound(api: Client) -> None:
    await api.create(PODS, pod(finalizers=["example.com/hold"]))
    await api("DELETE", PODS.path("default", "p"))
    answer = await api("POST", BINDING, binding())
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "is being deleted" in answer.json["message"]


@pytest.mark.parametrize(
    ("target", "field"),
    [
        pytest.param({"name": ""}, "target.name", id="no node is named"),
        pytest.param({"kind": "Pod"}, "target.kind", id="the target is no node"),
    ],
)
async def test_a_binding_must_name_a_node(api: Client, target: dict[str, str], field: str) -> None:
    await api.create(PODS, pod())
    answer = await api("POST", BINDING, binding(**target))
    assert (answer.status, set(answer.causes)) == (422, {field})


async def test_a_pod_that_is_not_there_cannot_be_bound(api: Client) -> None:
    assert (await api("POST", BINDING, binding())).status == 404
