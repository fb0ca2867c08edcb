"""The objects that a demonstration starts from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controller.embedded.contract import MODEL_DEPLOYMENTS

Object = dict[str, Any]


def namespace_manifest(name: str) -> Object:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@dataclass(frozen=True, slots=True)
class RoleManifest:
    """One role as a user declares it."""

    name: str
    replicas: int
    kind: str = "Server"
    arguments: tuple[str, ...] = ()
    grace_seconds: int | None = None  # of its Pods; None: left to the contract


def model_deployment_manifest(
    *,
    name: str,
    namespace: str,
    roles: Sequence[RoleManifest],
    model_name: str,
    engine_version: str,
    port: int,
) -> Object:
    """A ModelDeployment, as a user would write it. All roles serve at `port`, as a router demands."""
    return {
        "apiVersion": MODEL_DEPLOYMENTS.api_version,
        "kind": MODEL_DEPLOYMENTS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "model": {"name": model_name},
            "engine": {"name": "vLLM", "version": engine_version},
            "roles": [_role(role, port) for role in roles],
        },
    }


def _role(role: RoleManifest, port: int) -> Object:
    grace = {} if role.grace_seconds is None else {"terminationGracePeriodSeconds": role.grace_seconds}
    return {
        "name": role.name,
        "kind": role.kind,
        "replicas": role.replicas,
        "size": 1,
        "ports": [{"port": port, "protocol": "TCP"}],
        "extraArgs": list(role.arguments),
        **grace,
    }
