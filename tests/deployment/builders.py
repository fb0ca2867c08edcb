"""Builders of the objects that this room reads, in the JSON that the API server sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from controller.api import InstanceType, ModelArtifact, ModelDeployment, Pod, RetirementState, decode_view
from controller.deployment.replicas import Replica
from controller.deployment.retirement import Evidence, Load, Look, Operation, Presence

UID = "md-1"


def deployment_body(roles: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """A ModelDeployment `team/chat`, as a person writes it."""
    given = [{"name": "server", "kind": "Server"}] if roles is None else roles
    return {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "chat", "namespace": "team"},
        "spec": {
            "model": {"name": "Qwen/Qwen3-8B"},
            "engine": {"name": "vLLM", "version": "0.32.0"},
            "roles": [{"instanceType": "h200", **role} for role in given],
            **spec,
        },
    }


def deployment(
    roles: list[dict[str, Any]] | None = None,
    *,
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> ModelDeployment:
    """The view of one, with UID and generation."""
    body = deployment_body(roles, **spec)
    body["metadata"] |= {"uid": UID, "generation": 3, "resourceVersion": "7", **(metadata or {})}
    body["status"] = status or {}
    return decode_view(ModelDeployment, orjson.dumps(body))


def pod(
    name: str = "chat-server-0",
    *,
    role: str = "server",
    kind: str = "server",
    ordinal: int | str = 0,
    member: int = 0,
    size: int = 1,
    uid: str = "",
    ready: bool = True,
    eligible: bool = True,
    offered: bool | None = None,
    made_from: str | None = "0" * 16,
    scraped: bool = True,
    deleting: bool = False,
    phase: str = "Running",
    address: str = "10.0.0.1",
    container: str = "c1",
    restarts: int = 0,
    ours: bool = True,
    owner: str = UID,
    router: str = "",
    port: int = 8000,
) -> Pod:
    """One member; `offered`: it has been eligible before (default: when it is now); `made_from`: its fingerprint, by
    default one of another spec."""
    labels = {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": role,
        "modeldeployment.gpustack.ai/role-kind": kind,
        "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal),
        "modeldeployment.gpustack.ai/member-index": str(member),
        **({"app.kubernetes.io/managed-by": "model-deployment-scaler"} if ours else {}),
        **({"modeldeployment.gpustack.ai/endpoint-eligible": "true"} if eligible else {}),
        **({"modeldeployment.gpustack.ai/router": router} if router else {}),
    }
    annotations = {
        **({} if made_from is None else {"modeldeployment.gpustack.ai/pod-spec-hash": made_from}),
        "scaling.worker.gpustack.ai/replica-size": str(size),
        **({"prometheus.io/scrape": "true", "prometheus.io/port": str(port)} if scraped else {}),
    }
    if eligible if offered is None else offered:
        annotations["scaling.worker.gpustack.ai/first-eligible"] = "2026-11-29T15:00:00Z"
    body = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid or f"uid-{name}",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{"kind": "ModelDeployment", "name": "chat", "uid": owner, "controller": True}],
            **({"deletionTimestamp": "2026-11-29T15:49:15Z"} if deleting else {}),
        },
        "spec": {"containers": [{"name": "main", "ports": [{"containerPort": port}]}]},
        "status": {
            "phase": phase,
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"name": "main", "containerID": container, "restartCount": restarts}],
        },
    }
    return decode_view(Pod, orjson.dumps(body))


def replica(*members: Pod, role: str = "server", ordinal: int = 0) -> Replica:
    """The replica that these Pods make up."""
    return Replica("chat", role, ordinal, members)


def single(ordinal: int, *, role: str = "server", **how: Any) -> Replica:
    """A replica of size 1."""
    return replica(pod(f"chat-{role}-{ordinal}", role=role, ordinal=ordinal, **how), role=role, ordinal=ordinal)


def group(ordinal: int, *members: dict[str, Any], size: int = 2, **how: Any) -> Replica:
    """A replica of several Pods, of which the first answers."""
    pods = [
        pod(
            f"chat-server-{ordinal}-m{index}",
            ordinal=ordinal,
            member=index,
            size=size,
            **{"scraped": index == 0, **how, **each},
        )
        for index, each in enumerate(members)
    ]
    return replica(*pods, ordinal=ordinal)


def operation(state: RetirementState = RetirementState.ADMITTED, **how: Any) -> Operation:
    """An operation on replica 2 of role server that began at 1000."""
    made = Operation(
        role="server",
        ordinal=2,
        member_uids=("u2",),
        observed_generation=3,
        state=state,
        reason="",
        started_at=1000.0,
        deadline=1300.0,
        phase_started_at=1000.0,
    )
    return replace(made, **how)


def evidence(**how: Any) -> Evidence:
    """A replica that is there, has served, is withdrawn and not declared."""
    return Evidence(**{"presence": Presence.THERE, "declared": False, "labelled": False, "served": True, **how})


def look(load: Load = Load.IDLE, incarnation: str = "c1", note: str = "", detail: str = "") -> Look:
    """One read of the answering members."""
    return Look(load, incarnation, note or f"it is {load.lower()}", detail)


def pool(**spec: Any) -> InstanceType:
    """A pool of H200s."""
    given = {
        "acceleratorGroup": "nvidia-h200",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": "12", "ram": "192Gi"},
        "localStorage": "100Gi",
        **spec,
    }
    return decode_view(InstanceType, orjson.dumps({"metadata": {"name": "h200"}, "spec": given}))


def artifact(source: dict[str, Any], **status: Any) -> ModelArtifact:
    """An artifact with this source."""
    body = {"metadata": {"name": "qwen", "namespace": "team"}, "spec": {"source": source}, "status": status}
    return decode_view(ModelArtifact, orjson.dumps(body))
