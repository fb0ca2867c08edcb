"""The Services of a ModelDeployment, and what is left to do about them. Pure.

`<deployment>` fronts the first role and `<deployment>-<role>` each role: their selectors ask for the eligibility label,
so taking the label away withdraws a replica. The headless Service of a replica above size 1 lets its members meet
before they are Ready; no request goes through it.

A Service of one of these names that somebody else made is left alone, and reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from controller.api import (
    COMPONENT_LABEL,
    ELIGIBLE_LABEL,
    INSTANCE_LABEL,
    MEMBER_INDEX_LABEL,
    MODEL_DEPLOYMENT_APP,
    NAME_LABEL,
    ORDINAL_LABEL,
    SERVICES,
    SERVING_PORT_NAME,
    ModelDeployment,
    Role,
)
from controller.deployment.flags import Flags
from controller.deployment.kinds import Service
from controller.deployment.names import group_service, role_service
from controller.deployment.pods import own_labels, owner_reference
from controller.deployment.replicas import Replica

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServiceChanges:
    """What to create, to patch (name → merge patch), to delete, and what cannot be done."""

    create: tuple[Object, ...]
    patch: tuple[tuple[str, Object], ...]
    delete: tuple[Service, ...]
    problems: tuple[str, ...]


def desired_services(
    deployment: ModelDeployment, roles: Iterable[Role], replicas: Iterable[Replica] = ()
) -> list[Object]:
    """The Services of these roles, which are those that can be carried out. A replica of several Pods keeps its
    headless Service as long as it is there, whatever the spec says by now."""
    name = deployment.metadata.name
    carried = list(roles)
    services: list[Object] = []
    if carried and carried[0].name == deployment.roles[0].name:
        services.append(_serving(deployment, carried[0], name))
    groups = {(replica.role, replica.ordinal) for replica in replicas if replica.size > 1}
    for role in carried:
        services.append(_serving(deployment, role, role_service(name, role.name)))
        groups |= {(role.name, ordinal) for ordinal in range(role.replicas) if role.size > 1}
    return services + [_group(deployment, role, ordinal) for role, ordinal in sorted(groups)]


def service_changes(
    deployment: ModelDeployment,
    desired: Iterable[Object],
    present: Iterable[Service],
    *,
    keep: bool,
    serving: Collection[str] = (),
) -> ServiceChanges:
    """What leads from the present Services of this namespace and label to the desired ones. `keep`: delete nothing,
    because not every role could be carried out. `serving`: roles that have replicas; the Service of one that was
    dropped stays until they are drained, for their answers come through it."""
    by_name = {service.metadata.name: service for service in present}
    create: list[Object] = []
    patch: list[tuple[str, Object]] = []
    problems: list[str] = []
    names = set()
    for body in desired:
        name = body["metadata"]["name"]
        names.add(name)
        service = by_name.get(name)
        if service is None:
            create.append(body)
        elif not service.owned_by(deployment.metadata.uid):
            problems.append(f"Service {name} belongs to somebody else: rename it or the deployment")
        elif change := _difference(service, body):
            patch.append((name, change))
    names |= {role_service(deployment.metadata.name, role) for role in serving}
    delete = [
        service
        for service in by_name.values()
        if not keep and service.metadata.name not in names and service.owned_by(deployment.metadata.uid)
    ]
    return ServiceChanges(tuple(create), tuple(patch), tuple(delete), tuple(problems))


def _serving(deployment: ModelDeployment, role: Role, name: str) -> Object:
    selector = {
        NAME_LABEL: MODEL_DEPLOYMENT_APP,
        INSTANCE_LABEL: deployment.metadata.name,
        COMPONENT_LABEL: role.name,
        ELIGIBLE_LABEL: "true",
    }
    engine = deployment.spec.engine.known
    if role.size > 1 and not (engine is not None and Flags.of(engine, role.extra_args).every_member_answers):
        selector[MEMBER_INDEX_LABEL] = "0"  # followers are part of the replica and answer nobody
    protocol = role.ports[0].protocol if role.ports else "TCP"
    port = {
        "name": SERVING_PORT_NAME,
        "port": role.serving_port,
        "targetPort": role.serving_port,
        "protocol": protocol,
    }
    return _body(deployment, role.name, name, {"selector": selector, "ports": [port]})


def _group(deployment: ModelDeployment, role: str, ordinal: int) -> Object:
    selector = {
        NAME_LABEL: MODEL_DEPLOYMENT_APP,
        INSTANCE_LABEL: deployment.metadata.name,
        COMPONENT_LABEL: role,
        ORDINAL_LABEL: str(ordinal),
    }
    spec = {"selector": selector, "clusterIP": "None", "publishNotReadyAddresses": True}
    return _body(deployment, role, group_service(deployment.metadata.name, role, ordinal), spec)


def _body(deployment: ModelDeployment, role: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {
            "name": name,
            "namespace": deployment.metadata.namespace,
            # EndpointSlices inherit the labels of their Service.
            "labels": {**own_labels(deployment.metadata.name), COMPONENT_LABEL: role},
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": spec,
    }


def _difference(service: Service, body: Object) -> Object:
    """The merge patch that makes selector and ports right again; empty where they are."""
    spec: Object = {}
    wanted: dict[str, str] = body["spec"]["selector"]
    found = service.selector
    if found != wanted:
        spec["selector"] = {**dict.fromkeys(found), **wanted}
    ports = body["spec"].get("ports")
    if ports is not None and [port.shown() for port in service.ports] != ports:
        spec["ports"] = ports
    if not spec:
        return {}
    return {"metadata": {"resourceVersion": service.metadata.resource_version}, "spec": spec}
