"""Builders of the objects that reconciliation reads, in the JSON that the API server sends."""

from __future__ import annotations

from typing import Any

import orjson

from controller.api import ModelDeployment, Pod, decode_view

TARGET_UID = "md-1"


def target(roles: list[dict[str, Any]], *, status: dict[str, Any] | None = None, **metadata: Any) -> ModelDeployment:
    """A ModelDeployment `team/chat`."""
    return decode_view(
        ModelDeployment,
        orjson.dumps(
            {
                "metadata": {
                    "name": "chat",
                    "namespace": "team",
                    "uid": TARGET_UID,
                    "resourceVersion": "7",
                    **metadata,
                },
                "spec": {"model": {"name": "m"}, "engine": {"name": "vLLM"}, "roles": roles},
                "status": status or {},
            }
        ),
    )


def role(name: str = "server", kind: str = "Server", replicas: int = 1, **more: Any) -> dict[str, Any]:
    """One entry of spec.roles."""
    return {"name": name, "kind": kind, "replicas": replicas, "instanceType": "h200", **more}


def pod(
    ordinal: int,
    *,
    role: str = "server",
    ready: bool = True,
    eligible: bool = True,
    scheduled: bool = True,
    member: int | None = None,
    owner: str = TARGET_UID,
    deleting: bool = False,
    uid: str | None = None,
    created: str = "2026-01-01T00:00:00Z",
    ready_at: str = "2026-01-01T00:01:16Z",
    **status: Any,
) -> Pod:
    """An engine Pod with the labels and annotations of the contract."""
    name = f"chat-{role}-{ordinal}" + (f"-m{member}" if member is not None else "")
    labels = {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": role,
        "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal),
    }
    if eligible:
        labels["modeldeployment.gpustack.ai/endpoint-eligible"] = "true"
    if member is not None:
        labels["modeldeployment.gpustack.ai/member-index"] = str(member)
    conditions = [
        {"type": "PodScheduled", "status": str(scheduled), "lastTransitionTime": created},
        {"type": "Ready", "status": str(ready), "lastTransitionTime": ready_at},
    ]
    return decode_view(
        Pod,
        orjson.dumps(
            {
                "metadata": {
                    "name": name,
                    "namespace": "team",
                    "uid": uid or f"uid-{name}",
                    "labels": labels,
                    "creationTimestamp": created,
                    "deletionTimestamp": created if deleting else None,
                    "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"},
                    "ownerReferences": [{"kind": "ModelDeployment", "name": "chat", "uid": owner, "controller": True}],
                },
                "spec": {"containers": [{"name": "main", "ports": [{"containerPort": 8000}]}]},
                "status": {
                    "phase": "Running",
                    "podIP": f"127.1.0.{ordinal + 1}",
                    "conditions": conditions,
                    "containerStatuses": [{"name": "main", "containerID": "c1", "restartCount": 0, "ready": ready}],
                    **status,
                },
            }
        ),
    )
