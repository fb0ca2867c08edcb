"""Pods as a real cluster has them, for measurements: 12.8 KB of JSON each, 54 % of it managedFields.

Also the projection that a controller of engine Pods would keep of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import orjson

from controller.foundation import ObjectMeta, Resource

POD = Resource("", "v1", "pods", "Pod")


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One condition; the names are few, so they are shared constants."""

    type: str = ""
    status: Literal["True", "False", "Unknown"] = "Unknown"


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where the Pod runs."""

    node_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename={"pod_ip": "podIP"}):
    """What a scraper needs to know."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Unknown"
    pod_ip: str = ""


class Pod(msgspec.Struct, frozen=True, gc=False):
    """The view of a Pod that the measurements cache."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def by_node(pod: Pod) -> list[str]:
    """Index: the node."""
    return [pod.spec.node_name]


def by_owner(pod: Pod) -> list[str]:
    """Index: the uid of the controlling owner."""
    return [owner.uid for owner in pod.metadata.owner_references or () if owner.controller]


def make_pod(number: int, version: int) -> dict[str, Any]:
    """Pod `number` at a resourceVersion. What is the same in all Pods is one object in memory: do not change it."""
    owner = number % 500
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"engine-{owner}-{number:06d}",
            "namespace": f"team-{number % 40}",
            "uid": f"8a6e0804-2bd0-4672-b79d-{number:012d}",
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "app.kubernetes.io/name": f"engine-{owner}",
                "app.kubernetes.io/component": "decode",
                "pod-template-hash": f"{owner:08x}",
                "replica": str(number % 50),
            },
            "annotations": _ANNOTATIONS,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"engine-{owner}",
                    "uid": f"1b0c2f9e-0000-4000-8000-{owner:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": _MANAGED_FIELDS,
        },
        "spec": {
            "nodeName": f"node-{number % 100}",
            "serviceAccountName": "default",
            "tolerations": _TOLERATIONS,
            "containers": _CONTAINERS,
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            "conditions": _CONDITIONS,
        },
    }


def _managed_fields(manager: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {f"f:label-{index}": {} for index in range(12)}},
            "f:spec": {f"f:field-{index}": {"f:name": {}, "f:value": {}} for index in range(40)},
            "f:status": {f"f:condition-{index}": {".": {}, "f:type": {}} for index in range(10)},
        },
    }


_ANNOTATIONS = {f"example.org/annotation-{index}": "value " * 8 for index in range(10)}
_MANAGED_FIELDS = [_managed_fields(manager) for manager in ("kubelet", "kube-controller-manager", "engine")]
_TOLERATIONS = [{"key": f"key-{index}", "operator": "Exists", "effect": "NoExecute"} for index in range(4)]
_CONTAINERS = [
    {
        "name": "engine",
        "image": "registry.example.org/engine:v0.11.0",
        "args": [f"--argument-number-{index}=value" for index in range(30)],
        "env": [{"name": f"VARIABLE_{index}", "value": f"value-{index}"} for index in range(60)],
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "8", "memory": "64Gi"}},
        "volumeMounts": [{"name": f"volume-{index}", "mountPath": f"/mnt/{index}"} for index in range(6)],
    }
]
_CONDITIONS = [
    {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
]


def encode(obj: dict[str, Any]) -> bytes:
    """As an API server writes it."""
    return orjson.dumps(obj)


def watch_lines(count: int, first_version: int = 2) -> Iterator[bytes]:
    """ADDED events of `count` Pods, without their newlines."""
    for number in range(count):
        yield encode({"type": "ADDED", "object": make_pod(number, first_version + number)})
