"""The names of the ModelDeployment contract, as its other side reads them.

Stated here a second time, apart from `controller.api`: the embedded world is the other side of the contract, and a
wrong name on our side must not be able to agree with itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
ROUTER = "modeldeployment.gpustack.ai/router"
SCRAPE = "prometheus.io/scrape"
SCRAPE_PORT = "prometheus.io/port"

ROUTER_PORT = 8081
DEFAULT_SERVING_PORT = 8000


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """What of a role the embedded world looks at."""

    name: str
    kind: str
    replicas: int


def read_roles(deployment: Mapping[str, Any]) -> tuple[RoleSpec, ...]:
    """The roles of a ModelDeployment object. Read tolerantly: the API server has validated it."""
    spec = deployment.get("spec") or {}
    return tuple(
        RoleSpec(
            role["name"], role.get("kind") or "Server", 1 if role.get("replicas") is None else int(role["replicas"])
        )
        for role in spec.get("roles") or []
    )


def read_flags(arguments: Sequence[str]) -> dict[str, str]:
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
