"""The names of the ModelDeployment contract, as the operator that owns the kind writes them.

Stated here a second time, apart from `controller.api`: the embedded operator is the other side of the contract, and a
wrong name on our side must not be able to agree with itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.foundation import Resource

MODEL_DEPLOYMENTS = Resource("worker.gpustack.ai", "v1alpha1", "modeldeployments", "ModelDeployment")
PODS = Resource("", "v1", "pods", "Pod")

APP_NAME = "app.kubernetes.io/name"
APP_INSTANCE = "app.kubernetes.io/instance"
APP_COMPONENT = "app.kubernetes.io/component"
APP = "model-deployment"
ROLE_KIND = "modeldeployment.gpustack.ai/role-kind"
POD_ORDINAL = "modeldeployment.gpustack.ai/pod-ordinal"
MEMBER_INDEX = "modeldeployment.gpustack.ai/member-index"
ENDPOINT_ELIGIBLE = "modeldeployment.gpustack.ai/endpoint-eligible"
SCRAPE = "prometheus.io/scrape"
SCRAPE_PATH = "prometheus.io/path"
SCRAPE_PORT = "prometheus.io/port"
SCRAPE_SCHEME = "prometheus.io/scheme"

CONTAINER = "main"
DEFAULT_SERVING_PORT = 8000


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """What of a role the embedded operator carries out."""

    name: str
    kind: str
    replicas: int
    port: int
    flags: Mapping[str, str]  # extraArgs, `--max-num-seqs 32` as {"max-num-seqs": "32"}


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    """What of a ModelDeployment the embedded operator carries out. Read tolerantly: the API server has validated it."""

    name: str
    namespace: str
    uid: str
    generation: int
    deleting: bool
    model_name: str
    image: str
    roles: tuple[RoleSpec, ...]


def read_deployment(obj: Mapping[str, Any]) -> DeploymentSpec:
    """The spec of a ModelDeployment object."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    engine = spec.get("engine") or {}
    return DeploymentSpec(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation") or 0,
        deleting=bool(metadata.get("deletionTimestamp")),
        model_name=(spec.get("model") or {}).get("name") or "",
        image=engine.get("image") or f"embedded/{str(engine.get('name', '')).lower()}:{engine.get('version', '')}",
        roles=tuple(_read_role(role) for role in spec.get("roles") or []),
    )


def _read_role(role: Mapping[str, Any]) -> RoleSpec:
    ports = role.get("ports") or []
    replicas = role.get("replicas")
    return RoleSpec(
        name=role["name"],
        kind=role.get("kind") or "Server",
        replicas=1 if replicas is None else replicas,
        port=ports[0]["port"] if ports else DEFAULT_SERVING_PORT,
        flags=_flags(role.get("extraArgs") or []),
    )


def _flags(arguments: list[str]) -> dict[str, str]:
    """Long flags with their value, `--flag value` or `--flag=value`; underscores as dashes; the last one wins."""
    flags: dict[str, str] = {}
    for index, argument in enumerate(arguments):
        if not argument.startswith("--"):
            continue
        name, has_value, value = argument[2:].partition("=")
        following = arguments[index + 1] if index + 1 < len(arguments) else "--"
        if not has_value and not following.startswith("--"):
            value = following
        flags[name.replace("_", "-")] = value
    return flags
