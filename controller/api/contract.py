"""Names that other programs rely on: group, kinds, labels, annotations, ports.

The ModelDeployment side (labels, annotations, ports of its Pods) is the contract of the operator that owns the kind;
the `scaling.worker.gpustack.ai` keys are ours. None of them may ever change its meaning.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from controller.foundation import Resource

GROUP: Final = "worker.gpustack.ai"
# Requests use this version only: an aggregated `v1` of another operator may shadow ours.
VERSION: Final = "v1alpha1"
PUBLIC_VERSION: Final = "v1"
API_VERSIONS: Final = (f"{GROUP}/{VERSION}", f"{GROUP}/{PUBLIC_VERSION}")  # what a file may carry
CATEGORY: Final = "gpustack"

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "model-deployment-scaler"
FIELD_MANAGER: Final = "model-deployment-scaler"  # fixed for ever: managedFields of old objects carry it

MODEL_DEPLOYMENT_SCALERS: Final = Resource(GROUP, VERSION, "modeldeploymentscalers", "ModelDeploymentScaler")
MODEL_DEPLOYMENTS: Final = Resource(GROUP, VERSION, "modeldeployments", "ModelDeployment")
MODEL_ARTIFACTS: Final = Resource(GROUP, VERSION, "modelartifacts", "ModelArtifact")
INSTANCE_TYPES: Final = Resource(GROUP, VERSION, "instancetypes", "InstanceType", namespaced=False)
# The later name of the same pool kind.
ACCELERATOR_TYPES: Final = Resource(GROUP, VERSION, "acceleratortypes", "AcceleratorType", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
SERVICES: Final = Resource("", "v1", "services", "Service")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)

# On the target ModelDeployment.
SCALING_PREFIX: Final = "scaling.worker.gpustack.ai"
BOUND_BY_ANNOTATION: Final = f"{SCALING_PREFIX}/bound-by"
TERM_ANNOTATION: Final = f"{SCALING_PREFIX}/term"
WRITTEN_ANNOTATION: Final = f"{SCALING_PREFIX}/written"
FOUND_ANNOTATION: Final = f"{SCALING_PREFIX}/found"
IDENTITY_ANNOTATION_PREFIX: Final = f"{SCALING_PREFIX}/identity."  # + role: a person's declared identity
# On the scaler.
RESUME_ANNOTATION: Final = f"{SCALING_PREFIX}/resume"
BINDING_FINALIZER: Final = f"{SCALING_PREFIX}/binding"

# On Pods of a ModelDeployment.
NAME_LABEL: Final = "app.kubernetes.io/name"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"  # the ModelDeployment's name
COMPONENT_LABEL: Final = "app.kubernetes.io/component"  # the role's name
MODEL_DEPLOYMENT_APP: Final = "model-deployment"  # value of NAME_LABEL
DEPLOYMENT_PREFIX: Final = "modeldeployment.gpustack.ai"
ROLE_KIND_LABEL: Final = f"{DEPLOYMENT_PREFIX}/role-kind"  # lower case: server, prefill, decode, encode
ORDINAL_LABEL: Final = f"{DEPLOYMENT_PREFIX}/pod-ordinal"
MEMBER_INDEX_LABEL: Final = f"{DEPLOYMENT_PREFIX}/member-index"  # absent: 0
ELIGIBLE_LABEL: Final = f"{DEPLOYMENT_PREFIX}/endpoint-eligible"  # "true" or absent
ROUTER_LABEL: Final = f"{DEPLOYMENT_PREFIX}/router"  # router Pods only; value: the router's name

SCRAPE_ANNOTATION: Final = "prometheus.io/scrape"
SCRAPE_PATH_ANNOTATION: Final = "prometheus.io/path"
SCRAPE_PORT_ANNOTATION: Final = "prometheus.io/port"
SCRAPE_SCHEME_ANNOTATION: Final = "prometheus.io/scheme"
# What the annotations of a Pod begin with that anybody here reads: a cache keeps no others.
POD_ANNOTATION_PREFIXES: Final = ("prometheus.io/", f"{DEPLOYMENT_PREFIX}/", f"{SCALING_PREFIX}/")

# On a ModelDeployment: `<role>:<ordinal>:<token>`, a person's order to retry an aborted retirement.
RETIREMENT_RETRY_ANNOTATION: Final = f"{DEPLOYMENT_PREFIX}/retirement-retry"

MAIN_CONTAINER: Final = "main"
SERVING_PORT: Final = 8000  # default of a role; named `http`
SERVING_PORT_NAME: Final = "http"
INTERNAL_ENGINE_PORT: Final = 8200  # the engine behind a decode proxy
ROUTER_PORT: Final = 8081
ROUTER_METRICS_PORT: Final = 9090
# What the operator's schema allows; a count beyond it is refused by the API server.
MAX_REPLICAS: Final = 1024
DEFAULT_GRACE_SECONDS: Final = 30

ROLE_NAME_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class RoleKind(StrEnum):
    """What a role does with a request."""

    SERVER = "Server"
    PREFILL = "Prefill"
    DECODE = "Decode"
    ENCODE = "Encode"


class EngineName(StrEnum):
    """The engines of the contract; older objects spell them in lower case."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


def identity_annotation(role: str) -> str:
    """The annotation by which a person declares the identity of a role."""
    return f"{IDENTITY_ANNOTATION_PREFIX}{role}"
