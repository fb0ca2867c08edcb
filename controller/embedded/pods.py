"""Pod objects of the embedded operator and kubelet, as the contract shapes them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.embedded import contract
from controller.embedded.contract import DeploymentSpec, RoleSpec
from controller.embedded.router import Member
from controller.foundation import format_time

Object = dict[str, Any]

NODE_NAME = "embedded"


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the kubelet knows of a Pod's one container. Times are model time; None: not yet."""

    created_seconds: float
    address: str  # empty until the container was started
    started_seconds: float | None
    ready: bool
    ready_changed_seconds: float
    restart_count: int
    down: bool = False  # the container has died and waits for its restart


def pod_object(deployment: DeploymentSpec, role: RoleSpec, ordinal: int) -> Object:
    """A new Pod of a replica, not yet eligible for requests."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{deployment.name}-{role.name}-{ordinal}",
            "namespace": deployment.namespace,
            "labels": {
                contract.APP_NAME: contract.APP,
                contract.APP_INSTANCE: deployment.name,
                contract.APP_COMPONENT: role.name,
                contract.ROLE_KIND: role.kind.lower(),
                contract.POD_ORDINAL: str(ordinal),
                contract.MEMBER_INDEX: "0",
            },
            "annotations": {
                contract.SCRAPE: "true",
                contract.SCRAPE_PATH: "/metrics",
                contract.SCRAPE_PORT: str(role.port),
                contract.SCRAPE_SCHEME: "http",
            },
            "ownerReferences": [
                {
                    "apiVersion": contract.MODEL_DEPLOYMENTS.api_version,
                    "kind": contract.MODEL_DEPLOYMENTS.kind,
                    "name": deployment.name,
                    "uid": deployment.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeName": NODE_NAME,
            "containers": [
                {
                    "name": contract.CONTAINER,
                    "image": deployment.image,
                    "ports": [{"name": "http", "containerPort": role.port, "protocol": "TCP"}],
                    "readinessProbe": {"httpGet": {"path": "/health", "port": role.port}, "periodSeconds": 10},
                }
            ],
            "terminationGracePeriodSeconds": 30,
        },
    }


def pod_status(uid: str, image: str, facts: PodFacts) -> Object:
    """The status of a Pod; a merge patch of it replaces whatever was there."""
    started = facts.started_seconds
    running = started is not None and not facts.down
    ready_since = facts.ready_changed_seconds
    if running:
        state: Object = {"running": {"startedAt": format_time(started or 0.0)}}
    else:
        reason = "CrashLoopBackOff" if facts.down else "ContainerCreating"
        state = {"waiting": {"reason": reason}}
    unready = {} if facts.ready else {"reason": "ContainersNotReady"}
    status: Object = {
        "phase": "Running" if started is not None else "Pending",
        "conditions": [
            _condition("PodScheduled", True, facts.created_seconds),
            _condition("Initialized", True, facts.created_seconds),
            _condition("ContainersReady", facts.ready, ready_since) | unready,
            _condition("Ready", facts.ready, ready_since) | unready,
        ],
        "containerStatuses": [
            {
                "name": contract.CONTAINER,
                "image": image,
                "imageID": image,
                "containerID": f"embedded://{uid}-{facts.restart_count}",
                "ready": facts.ready,
                "started": running,
                "restartCount": facts.restart_count,
                "state": state,
            }
        ],
        "startTime": format_time(facts.created_seconds),
    }
    if facts.address:
        status |= {"podIP": facts.address, "podIPs": [{"ip": facts.address}], "hostIP": "127.0.0.1"}
    return status


def router_members(pods: Iterable[Mapping[str, Any]]) -> list[Member]:
    """The Pods that a router may send requests to: eligible by label, Ready, addressed, not being deleted."""
    members = []
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or []
        )
        address, port = status.get("podIP"), annotations.get(contract.SCRAPE_PORT)
        if labels.get(contract.ENDPOINT_ELIGIBLE) != "true" or metadata.get("deletionTimestamp"):
            continue
        if ready and address and port:
            members.append(Member(metadata["uid"], metadata["name"], f"http://{address}:{port}"))
    return members


def _condition(kind: str, holds: bool, since_seconds: float) -> Object:
    return {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": format_time(since_seconds)}
