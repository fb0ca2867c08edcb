"""Objects of the conformance cases."""

from __future__ import annotations

from typing import Any

from controller.foundation import Resource

GROUP = "conformance.example.com"
GADGETS = Resource(GROUP, "v1", "gadgets", "Gadget")
GADGETS_ALPHA = Resource(GROUP, "v1alpha1", "gadgets", "Gadget")
PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
CORE_EVENTS = Resource("", "v1", "events", "Event")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)

_SPEC_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["targetRef"],
    "properties": {
        "mode": {"type": "string", "enum": ["Shadow", "Active"], "default": "Shadow"},
        "interval": {"type": "integer", "default": 15, "minimum": 5, "maximum": 300},
        "targetRef": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 63}},
            "x-kubernetes-validations": [
                {"rule": "self.name == oldSelf.name", "message": "targetRef.name is immutable"}
            ],
        },
        "ratio": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "maxItems": 8, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "roles": {
            "type": "array",
            "maxItems": 8,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "min": {"type": "integer", "default": 1},
                    "max": {"type": "integer"},
                },
                "x-kubernetes-validations": [
                    {"rule": "!has(self.max) || self.max >= self.min", "message": "max must not be below min"}
                ],
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": _SPEC_SCHEMA,
        "status": {
            "type": "object",
            "properties": {"phase": {"type": "string"}, "count": {"type": "integer"}},
        },
    },
}


def _version(name: str, *, storage: bool) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": _SCHEMA},
        "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": ".spec.mode"}],
        "additionalPrinterColumns": [
            {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
            {"name": "Interval", "type": "integer", "jsonPath": ".spec.interval", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }


GADGET_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"gadgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "gadgets",
            "singular": "gadget",
            "kind": "Gadget",
            "shortNames": ["gd"],
            "categories": ["toys"],
        },
        "versions": [_version("v1alpha1", storage=True), _version("v1", storage=False)],
    },
}


def gadget(
    name: str = "one", *, api_version: str = GADGETS.api_version, labels: Any = None, **spec: Any
) -> dict[str, Any]:
    """A small valid Gadget."""
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "apiVersion": api_version,
        "kind": "Gadget",
        "metadata": metadata,
        "spec": {"targetRef": {"name": "t"}, **spec},
    }


def config_map(name: str = "one", *, labels: Any = None, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str = "one", *, node: str = "", labels: Any = None, **spec: Any) -> dict[str, Any]:
    """A Pod of one container, on a node or on none."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": {"containers": [{"name": "main", "image": "i"}], **({"nodeName": node} if node else {}), **spec},
    }


def lease(name: str = "one", **spec: Any) -> dict[str, Any]:
    """A Lease."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
