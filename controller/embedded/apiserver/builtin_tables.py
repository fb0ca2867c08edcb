"""The columns that `kubectl get` shows for built-in types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.resources import Column, ServedVersion
from controller.embedded.apiserver.table import age

_MAX_ENDPOINTS_SHOWN = 3
_NO_PORTS: tuple[Object, ...] = ({},)


def _age_of(*paths: str) -> Callable[[Object, float], str]:
    """The age of the first of several timestamps that is set."""

    def compute(obj: Object, now: float) -> str:
        for path in paths:
            value: Any = obj
            for name in path.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            if value:
                return age(value, now)
        return "<unknown>"

    return compute


def _field(path: str, absent: str = "") -> Callable[[Object, float], str]:
    names = path.split(".")

    def compute(obj: Object, now: float) -> str:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return absent if value in (None, "") else str(value)

    return compute


def _count(*paths: str) -> Callable[[Object, float], int]:
    return lambda obj, now: sum(len(obj.get(path) or ()) for path in paths)


_NAME = Column("Name", path=".metadata.name", format="name")
_AGE = Column("Age", compute=_age_of("metadata.creationTimestamp"))
_CREATED = Column(
    "Created At", "date", path=".metadata.creationTimestamp", compute=_field("metadata.creationTimestamp")
)


def _containers(pod: Object) -> list[Object]:
    return [status for status in (pod.get("status") or {}).get("containerStatuses") or () if isinstance(status, dict)]


def _pod_ready(pod: Object, now: float) -> str:
    total = len((pod.get("spec") or {}).get("containers") or ())
    return f"{sum(1 for status in _containers(pod) if status.get('ready'))}/{total}"


def _pod_status(pod: Object, now: float) -> str:
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    for container in _containers(pod):
        state = container.get("state") or {}
        for name in ("waiting", "terminated"):
            if (state.get(name) or {}).get("reason"):
                reason = state[name]["reason"]
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(reason)


def _pod_restarts(pod: Object, now: float) -> str:
    return str(sum(int(status.get("restartCount") or 0) for status in _containers(pod)))


def _node_status(node: Object, now: float) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((c.get("status") for c in conditions if c.get("type") == "Ready"), None)
    text = {"True": "Ready", "False": "NotReady"}.get(str(ready), "Unknown")
    return f"{text},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else text


def _node_roles(node: Object, now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or "<none>"


def _node_address(node: Object, now: float) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((str(a.get("address")) for a in addresses if a.get("type") == "InternalIP"), "<none>")


def _service_ports(service: Object, now: float) -> str:
    ports = (service.get("spec") or {}).get("ports") or ()
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _shorten(items: list[str]) -> str:
    if not items:
        return "<none>"
    more = len(items) - _MAX_ENDPOINTS_SHOWN
    return ",".join(items[:_MAX_ENDPOINTS_SHOWN]) + (f" + {more} more..." if more > 0 else "")


def _endpoints(endpoints: Object, now: float) -> str:
    return _shorten(
        [
            f"{address.get('ip')}:{port.get('port')}"
            for subset in endpoints.get("subsets") or ()
            for address in subset.get("addresses") or ()
            for port in subset.get("ports") or _NO_PORTS
        ]
    )


def _slice_endpoints(slice_: Object, now: float) -> str:
    return _shorten([str(a) for endpoint in slice_.get("endpoints") or () for a in endpoint.get("addresses") or ()])


def _slice_ports(slice_: Object, now: float) -> str:
    return _shorten([str(port.get("port")) for port in slice_.get("ports") or ()])


def _event_object(event: Object, now: float) -> str:
    regarded = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(regarded.get('kind', '')).lower()}/{regarded.get('name', '')}"


def _event_source(event: Object, now: float) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    return f"{component}, {source['host']}" if source.get("host") else str(component)


def _event_message(event: Object, now: float) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _event_count(event: Object, now: float) -> int:
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or event.get("deprecatedCount") or 1)


_LAST_SEEN = _age_of(
    "series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp"
)
_FIRST_SEEN = _age_of("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")


def _ratio(part: str, whole: str) -> Callable[[Object, float], str]:
    part_of, whole_of = _field(part, "0"), _field(whole, "0")
    return lambda obj, now: f"{part_of(obj, now)}/{whole_of(obj, now)}"


_WORKLOAD = (
    _NAME,
    Column("Ready", compute=_ratio("status.readyReplicas", "spec.replicas")),
    Column("Up-to-date", compute=_field("status.updatedReplicas", "0")),
    Column("Available", compute=_field("status.availableReplicas", "0")),
    _AGE,
)
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "configmaps": (_NAME, Column("Data", "integer", compute=_count("data", "binaryData")), _AGE),
    "customresourcedefinitions": (_NAME, _CREATED),
    "deployments": _WORKLOAD,
    "endpoints": (_NAME, Column("Endpoints", compute=_endpoints), _AGE),
    "endpointslices": (
        _NAME,
        Column("AddressType", compute=_field("addressType")),
        Column("Ports", compute=_slice_ports),
        Column("Endpoints", compute=_slice_endpoints),
        _AGE,
    ),
    "events": (
        Column("Last Seen", compute=_LAST_SEEN),
        Column("Type", compute=_field("type")),
        Column("Reason", compute=_field("reason")),
        Column("Object", compute=_event_object),
        Column("Source", compute=_event_source, priority=1),
        Column("Message", compute=_event_message),
        Column("First Seen", compute=_FIRST_SEEN, priority=1),
        Column("Count", "integer", compute=_event_count, priority=1),
        Column("Name", path=".metadata.name", format="name", priority=1),
    ),
    "leases": (_NAME, Column("Holder", compute=_field("spec.holderIdentity")), _AGE),
    "namespaces": (_NAME, Column("Status", compute=_field("status.phase")), _AGE),
    "nodes": (
        _NAME,
        Column("Status", compute=_node_status),
        Column("Roles", compute=_node_roles),
        _AGE,
        Column("Version", compute=_field("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", compute=_node_address, priority=1),
    ),
    "pods": (
        _NAME,
        Column("Ready", compute=_pod_ready),
        Column("Status", compute=_pod_status),
        Column("Restarts", compute=_pod_restarts),
        _AGE,
        Column("IP", compute=_field("status.podIP", "<none>"), priority=1),
        Column("Node", compute=_field("spec.nodeName", "<none>"), priority=1),
    ),
    "replicasets": (
        _NAME,
        Column("Desired", compute=_field("spec.replicas", "0")),
        Column("Current", compute=_field("status.replicas", "0")),
        Column("Ready", compute=_field("status.readyReplicas", "0")),
        _AGE,
    ),
    "roles": (_NAME, _CREATED),
    "clusterroles": (_NAME, _CREATED),
    "rolebindings": (_NAME, Column("Role", compute=lambda o, _: _role(o)), _AGE),
    "clusterrolebindings": (_NAME, Column("Role", compute=lambda o, _: _role(o)), _AGE),
    "secrets": (_NAME, Column("Type", compute=_field("type")), Column("Data", "integer", compute=_count("data")), _AGE),
    "serviceaccounts": (_NAME, Column("Secrets", "integer", compute=_count("secrets")), _AGE),
    "services": (
        _NAME,
        Column("Type", compute=_field("spec.type", "ClusterIP")),
        Column("Cluster-IP", compute=_field("spec.clusterIP", "<none>")),
        Column("External-IP", compute=lambda _, __: "<none>"),
        Column("Port(s)", compute=_service_ports),
        _AGE,
    ),
    "statefulsets": (_NAME, Column("Ready", compute=_ratio("status.readyReplicas", "spec.replicas")), _AGE),
}


def _role(binding: Object) -> str:
    role = binding.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def columns_of(served: ServedVersion) -> tuple[Column, ...]:
    """The columns of a served version: those of its CRD, or of the built-in type."""
    return served.columns if served.type.custom else _COLUMNS.get(served.type.plural, (_NAME, _AGE))
