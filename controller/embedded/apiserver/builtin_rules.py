"""Defaults and checks of built-in types: only those that clients of this project rely on or run into.

Defaults follow the API reference (a Pod's restartPolicy, a Service's type …); checks reproduce refusals that were seen
on the real server, such as no loopback addresses in Endpoints and EndpointSlices.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Callable
from typing import Any

from controller.embedded.apiserver.builtin_data import data_causes
from controller.embedded.apiserver.builtin_events import tidy_event
from controller.embedded.apiserver.errors import Cause, Object
from controller.foundation import format_micro_time, parse_time

_CLUSTER_NETWORK = "10.96."


def normalise(plural: str, group: str, obj: Object) -> None:
    """Bring what the client sent into stored form: micro times as UTC, empty members left out."""
    if group == "coordination.k8s.io":
        spec = obj.setdefault("spec", {})
        for name in ("strategy", "preferredHolder"):  # kept only where coordinated leader election is on
            spec.pop(name, None)
        for name in ("acquireTime", "renewTime"):
            _as_utc(spec, name)
    elif plural == "events":
        tidy_event(obj)
        _as_utc(obj, "eventTime")
        _as_utc(obj.get("series"), "lastObservedTime")


def _as_utc(holder: Any, name: str) -> None:
    if isinstance(holder, dict) and holder.get(name) and not holder[name].endswith("Z"):
        holder[name] = format_micro_time(parse_time(holder[name]))


def _pod_defaults(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    if not isinstance(spec, dict):
        return
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("enableServiceLinks", True),
        ("securityContext", {}),
    ):
        spec.setdefault(name, value)
    for container in spec.get("containers") or ():
        if isinstance(container, dict):
            container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
            container.setdefault("terminationMessagePath", "/dev/termination-log")
            container.setdefault("terminationMessagePolicy", "File")
            container.setdefault("resources", {})
            for port in container.get("ports") or ():
                if isinstance(port, dict):
                    port.setdefault("protocol", "TCP")
    status = pod.setdefault("status", {})
    status.setdefault("phase", "Pending")
    address, listed = status.get("podIP"), status.get("podIPs")
    if address and not (isinstance(listed, list) and listed and listed[0].get("ip") == address):
        status["podIPs"] = [{"ip": address}]
    status.setdefault("qosClass", _quality_of_service(spec.get("containers") or ()))


def _pull_policy(image: str) -> str:
    """An image that is not pinned is pulled each time."""
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "Always" if "@" not in image and tag in ("", "latest") else "IfNotPresent"


def _quality_of_service(containers: Any) -> str:
    resources = [container.get("resources") or {} for container in containers if isinstance(container, dict)]
    if not any(part.get("requests") or part.get("limits") for part in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= set(part.get("limits") or ())
        and (part.get("requests") or part["limits"]) == part["limits"]
        for part in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _namespace_defaults(namespace: Object) -> None:
    labels = namespace["metadata"].get("labels") or {}
    namespace["metadata"]["labels"] = {"kubernetes.io/metadata.name": namespace["metadata"].get("name", ""), **labels}
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _service_defaults(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName" and "clusterIP" not in spec:
        # A stable address of the service network for each name; nothing routes to it.
        seed = hash_of(f"{service['metadata'].get('namespace')}/{service['metadata'].get('name')}")
        spec["clusterIP"] = f"{_CLUSTER_NETWORK}{seed >> 8 & 255}.{seed & 255 or 1}"
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def hash_of(text: str) -> int:
    """A small stable hash (FNV-1a, 32 bits): Python's own differs in each process."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def _deployment_defaults(deployment: Object) -> None:
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    deployment.setdefault("status", {})


def _secret_defaults(secret: Object) -> None:
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", None)
    if isinstance(plain, dict):
        data = secret.setdefault("data", {})
        for name, value in plain.items():
            data[name] = base64.b64encode(str(value).encode()).decode()


def _webhook_defaults(configuration: Object) -> None:
    for hook in configuration.get("webhooks") or ():
        if not isinstance(hook, dict):
            continue
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        if configuration.get("kind") == "MutatingWebhookConfiguration":
            hook.setdefault("reinvocationPolicy", "Never")
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            service.setdefault("port", 443)


def _webhook_causes(configuration: Object) -> list[Cause]:
    causes = []
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        if str(hook.get("name", "")).count(".") < 2:
            shown = f'Invalid value: "{hook.get("name", "")}"'
            text = f"{shown}: should be a domain with at least three segments separated by dots"
            causes.append(Cause(f"{path}.name", "FieldValueInvalid", text))
        if hook.get("sideEffects") is None:
            text = "Required value: must specify one of None, NoneOnDryRun"
            causes.append(Cause(f"{path}.sideEffects", "FieldValueRequired", text))
        if not hook.get("admissionReviewVersions"):
            text = "Required value: must specify one of v1, v1beta1"
            causes.append(Cause(f"{path}.admissionReviewVersions", "FieldValueRequired", text))
        client = hook.get("clientConfig") or {}
        if bool(client.get("url")) is bool(client.get("service")):
            text = "Required value: exactly one of url or service is required"
            causes.append(Cause(f"{path}.clientConfig", "FieldValueRequired", text))
    return causes


_DEFAULTS: dict[str, Callable[[Object], None]] = {
    "pods": _pod_defaults,
    "namespaces": _namespace_defaults,
    "services": _service_defaults,
    "deployments": _deployment_defaults,
    "replicasets": _deployment_defaults,
    "statefulsets": _deployment_defaults,
    "secrets": _secret_defaults,
    "mutatingwebhookconfigurations": _webhook_defaults,
    "validatingwebhookconfigurations": _webhook_defaults,
}


def set_builtin_defaults(plural: str, obj: Object) -> None:
    """Fill in what the server adds to an object of a built-in type, and leave out empty data as typed objects do."""
    for name in ("data", "binaryData"):
        if name in obj and not obj[name]:
            del obj[name]
    defaults = _DEFAULTS.get(plural)
    if defaults is not None:
        defaults(obj)


def _address_causes(field: str, addresses: Any) -> list[Cause]:
    causes = []
    for index, address in enumerate(addresses or ()):
        text = address.get("ip") if isinstance(address, dict) else address
        place = f"{field}[{index}]" + (".ip" if isinstance(address, dict) else "")
        try:
            parsed = ipaddress.ip_address(str(text))
        except ValueError:
            causes.append(Cause(place, "FieldValueInvalid", f'Invalid value: "{text}": must be a valid IP address'))
            continue
        for wrong, network in (
            (parsed.is_loopback, "loopback range (127.0.0.0/8, ::1/128)"),
            (parsed.is_link_local, "link-local range (169.254.0.0/16,fe80::/10)"),
            (parsed.is_unspecified, "unspecified range"),
        ):
            if wrong:
                text = f'Invalid value: "{text}": may not be in the {network}'
                causes.append(Cause(place, "FieldValueInvalid", text))
    return causes


def _pod_causes(pod: Object) -> list[Cause]:
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not containers:
        return [Cause("spec.containers", "FieldValueRequired", "Required value")]
    return [
        Cause(f"spec.containers[{index}].{name}", "FieldValueRequired", "Required value")
        for index, container in enumerate(containers if isinstance(containers, list) else ())
        for name in ("name", "image")
        if not isinstance(container, dict) or not container.get(name)
    ]


def _endpoints_causes(endpoints: Object) -> list[Cause]:
    causes = []
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        for name in ("addresses", "notReadyAddresses"):
            causes += _address_causes(f"subsets[{index}].{name}", subset.get(name))
    return causes


def _slice_causes(slice_: Object) -> list[Cause]:
    kind = slice_.get("addressType")
    if kind not in ("IPv4", "IPv6", "FQDN"):
        supported = '"FQDN", "IPv4", "IPv6"'
        return [Cause("addressType", "FieldValueRequired", f"Required value: supported values: {supported}")]
    causes = []
    for index, endpoint in enumerate(slice_.get("endpoints") or ()):
        if kind != "FQDN":
            causes += _address_causes(f"endpoints[{index}].addresses", endpoint.get("addresses"))
    return causes


def _lease_causes(lease: Object) -> list[Cause]:
    spec = lease.get("spec") or {}
    causes = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and (not isinstance(duration, int) or duration <= 0):
        causes.append(
            Cause(
                "spec.leaseDurationSeconds", "FieldValueInvalid", f"Invalid value: {duration}: must be greater than 0"
            )
        )
    transitions = spec.get("leaseTransitions")
    if transitions is not None and (not isinstance(transitions, int) or transitions < 0):
        text = f"Invalid value: {transitions}: must be greater than or equal to 0"
        causes.append(Cause("spec.leaseTransitions", "FieldValueInvalid", text))
    return causes


_CAUSES: dict[str, Callable[[Object], list[Cause]]] = {
    "pods": _pod_causes,
    "mutatingwebhookconfigurations": _webhook_causes,
    "validatingwebhookconfigurations": _webhook_causes,
    "endpoints": _endpoints_causes,
    "endpointslices": _slice_causes,
    "leases": _lease_causes,
}


def builtin_causes(plural: str, obj: Object, old: Object | None) -> list[Cause]:
    """What is wrong with an object of a built-in type, in stored form."""
    if plural in ("configmaps", "secrets"):
        return data_causes(obj, old)
    check = _CAUSES.get(plural)
    return check(obj) if check else []
