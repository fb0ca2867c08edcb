"""What cases are made of: steps, bodies and paths.

In paths and bodies `$N` stands for the namespace of the case, and `${i:a.b}` for the member `a.b` of the i-th answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

WIDGETS = "/apis/example.com/v1/namespaces/$N/widgets"
WIDGETS_ALPHA = "/apis/example.com/v1alpha1/namespaces/$N/widgets"
MAPS = "/api/v1/namespaces/$N/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$N/leases"
PODS = "/api/v1/namespaces/$N/pods"
EVENTS = "/api/v1/namespaces/$N/events"
NEWER_EVENTS = "/apis/events.k8s.io/v1/namespaces/$N/events"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Step:
    """One request. `events` > 0 makes it a watch that is read until so many events have come."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    query: dict[str, str] = field(default_factory=dict)
    accept: str = "application/json"
    events: int = 0
    only: tuple[str, ...] = ()  # dotted paths of the answer that are compared; empty: everything


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[Step, ...]


def widget(
    name: str = "one", /, *, version: str = "v1", metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"mode": "Shadow", **spec},
    }


def config_map(name: str = "one", metadata: dict[str, Any] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})}, "data": data}


def lease(name: str = "one", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **(metadata or {})},
        "spec": spec,
    }


def pod(name: str = "one", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def newer_event(name: str = "one", **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2026-11-29T15:49:15.250000Z",
        "reportingController": "c",
        "reportingInstance": "c-1",
        "action": "Scale",
        "reason": "Scaled",
        "type": "Normal",
        "note": "raised",
        "regarding": {"apiVersion": "example.com/v1", "kind": "Widget", "name": "one", "namespace": "$N"},
        **changes,
    }


def get(path: str, **options: Any) -> Step:
    return Step("GET", path, **options)


def post(path: str, body: Any, **options: Any) -> Step:
    return Step("POST", path, body, **options)


def put(path: str, body: Any, **options: Any) -> Step:
    return Step("PUT", path, body, **options)


def delete(path: str, body: Any = None, **options: Any) -> Step:
    return Step("DELETE", path, body, **options)


def patch(path: str, body: Any, content_type: str = MERGE_PATCH, **options: Any) -> Step:
    return Step("PATCH", path, body, content_type, **options)


def watch(path: str, events: int, **query: str) -> Step:
    return Step("GET", path, query={"watch": "1", "timeoutSeconds": "3", **query}, events=events)


def apply(path: str, body: Any, manager: str | None = "a", only: tuple[str, ...] = (), **query: str) -> Step:
    return Step(
        "PATCH", path, body, APPLY_PATCH, {**({"fieldManager": manager} if manager else {}), **query}, only=only
    )


def case(name: str, *steps: Step) -> Case:
    return Case(name, steps)


ONE = f"{WIDGETS}/one"
MAP = f"{MAPS}/one"
HOLD = {"finalizers": ["example.com/hold"]}

# What a refusal says, whole or in short.
SAID = ("code", "reason", "message", "details.causes")
CAUSE = ("code", "reason", "details.causes.0.field", "details.causes.0.reason")
DELETION = (
    "kind",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.generation",
    "metadata.resourceVersion",
)
