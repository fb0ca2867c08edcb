"""What the API server has, looked at once at the start: that it answers, and whose definitions it serves.

Raises OperationFailed, with the way out, where nothing can be begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from controller.api import CUSTOM_RESOURCE_DEFINITIONS, MANAGED_BY, MANAGED_BY_LABEL
from controller.foundation import OperationFailed
from controller.kube import ApiError, Forbidden, KubeClient, NotFound
from controller.operations import get_logger

# A server that cannot be reached at the start is tried for this long; then a restart with back-off is the better retry.
REACH_SECONDS: Final = 10.0

_SCALER_CRD: Final = "modeldeploymentscalers.worker.gpustack.ai"
_TARGET_CRD: Final = "modeldeployments.worker.gpustack.ai"
# What to do where one of them is missing.
_INSTALL: Final = {
    _SCALER_CRD: "mdscaler crd | kubectl apply --server-side -f -",
    _TARGET_CRD: (
        "an operator of ModelDeployments brings it. Without one this controller runs the replicas itself, with the "
        "definitions of `mdscaler crd --kind all | kubectl apply --server-side -f -`, or `kubectl apply --server-side "
        "-k manifests/crds`"
    ),
}


@dataclass(frozen=True, slots=True)
class Installed:
    """Whose the definitions are. `target_labels`: of the ModelDeployment's, None where it may not be read.
    `foreign_scalers`: why nothing may be written for scalers, empty where it may."""

    target_labels: Mapping[str, str] | None
    foreign_scalers: str


async def look_at_server(client: KubeClient) -> Installed:
    """Reach the server and read both definitions. Both kinds must be served; a scaler CRD that is not ours belongs to
    another controller of the same objects, and a target CRD that is not ours to another operator."""
    await _reach(client)
    foreign = ""
    if ((await _labels(client, _SCALER_CRD)) or {}).get(MANAGED_BY_LABEL) != MANAGED_BY:
        foreign = (
            f"the CustomResourceDefinition {_SCALER_CRD} does not carry {MANAGED_BY_LABEL}={MANAGED_BY}: another "
            "controller may act on these scalers, so nothing is written"
        )
        get_logger("controller").warning(
            "staying in Shadow", crd=_SCALER_CRD, reason="it is not ours, or cannot be read"
        )
    return Installed(await _labels(client, _TARGET_CRD), foreign)


async def _reach(client: KubeClient) -> None:
    try:
        async with asyncio.timeout(REACH_SECONDS):
            answer = orjson.loads(await client.request_raw("GET", "/version"))
    except (ApiError, TimeoutError, orjson.JSONDecodeError) as failure:
        what = str(failure) or f"no answer within {REACH_SECONDS:g} s"
        raise OperationFailed(f"cannot reach the Kubernetes API at {client.connection.server}: {what}") from None
    version = answer.get("gitVersion") if isinstance(answer, dict) else None
    get_logger("controller").info("connected", server=client.connection.server, kubernetes=version)


async def _labels(client: KubeClient, name: str) -> Mapping[str, str] | None:
    """The labels of a definition, None where it may not be read."""
    try:
        crd = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        raise OperationFailed(f"the CustomResourceDefinition {name} is not installed: {_INSTALL[name]}") from None
    except Forbidden:
        return None
    except ApiError as failure:
        raise OperationFailed(f"cannot read the CustomResourceDefinition {name}: {failure}") from None
    labels: Mapping[str, str] = (crd.get("metadata") or {}).get("labels") or {}
    return labels
