"""The Pod of one member, as the contract shapes it: labels, annotations, ports, probes, the end of its life. Pure.

A Pod starts without the eligibility label: it is offered requests only once the whole replica is Ready. Not carried
over from the operator's contract, because the CRD of this project does not have them: privileged containers, additional
volumes, image pull secrets (the namespace's default ServiceAccount may carry them), topology, fabric interfaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller.api import (
    COMPONENT_LABEL,
    DEFAULT_GRACE_SECONDS,
    INSTANCE_LABEL,
    MAIN_CONTAINER,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    MEMBER_INDEX_LABEL,
    MODEL_DEPLOYMENT_APP,
    MODEL_DEPLOYMENTS,
    NAME_LABEL,
    ORDINAL_LABEL,
    ROLE_KIND_LABEL,
    SCRAPE_ANNOTATION,
    SCRAPE_PATH_ANNOTATION,
    SCRAPE_PORT_ANNOTATION,
    SCRAPE_SCHEME_ANNOTATION,
    SERVING_PORT_NAME,
    InstanceType,
    ModelDeployment,
    Role,
)
from controller.deployment.command_line import CommandLine, answers, command_line, in_flight_terms
from controller.deployment.fingerprint import fingerprint
from controller.deployment.flags import Flags
from controller.deployment.images import image_of
from controller.deployment.names import (
    FINGERPRINT_ANNOTATION,
    REPLICA_SIZE_ANNOTATION,
    group_service,
    leader_host,
    pod_name,
)
from controller.deployment.pools import demand_of
from controller.deployment.weights import MOUNT_PATH, VOLUME, Weights

Object = dict[str, Any]

# The contract's probes: half an hour to load weights, then restarted.
_PERIOD_SECONDS: Final = 10
_PROBE_SECONDS: Final = 3
_STARTUP_FAILURES: Final = 180
_READINESS_FAILURES: Final = 3
_LIVENESS_FAILURES: Final = 6
_HEALTH_PATH: Final = "/health"
_METRICS_PATH: Final = "/metrics"
_SHM_SIZE: Final = "16Gi"  # tensor-parallel workers exchange activations through shared memory
# Of a Pod's grace: what is left for the engine after the hook, and the least a hook can do anything with.
_EXIT_SECONDS: Final = 5
# A follower that goes before its leader takes the leader's requests with it.
_FOLLOWER_SLEEP_SECONDS: Final = 5
_DRAIN_HOOK: Final = Path(__file__).with_name("drain_hook.py").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Seat:
    """Which member of which replica."""

    ordinal: int
    member: int


def pod_body(
    deployment: ModelDeployment, role: Role, seat: Seat, weights: Weights, pool: InstanceType | None
) -> Object:
    """The Pod to create. The role must not be one that is refused (`refusals`); raises ValueError for it."""
    line = command_line(deployment, role, weights, seat.ordinal, seat.member)
    image = image_of(deployment, role)
    if line is None or not image:
        raise ValueError(f"role {role.name} of {deployment.metadata.key} cannot be carried out")
    meta = deployment.metadata
    spec: Object = {
        # A Service that happens to be called `vllm` would set VLLM_PORT in every container and break the engine.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": _grace(role),
        "containers": [_container(deployment, role, seat, weights, pool, line, image)],
        "volumes": _volumes(role, weights),
    }
    node_selector = demand_of(role, pool).node_selector
    if node_selector:
        spec["nodeSelector"] = node_selector
    if role.size > 1:
        spec["hostname"] = pod_name(meta.name, role.name, seat.ordinal, seat.member, role.size)
        spec["subdomain"] = group_service(meta.name, role.name, seat.ordinal)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(meta.name, role.name, seat.ordinal, seat.member, role.size),
            "namespace": meta.namespace,
            "labels": {
                **own_labels(meta.name),
                COMPONENT_LABEL: role.name,
                ROLE_KIND_LABEL: role.kind.lower(),
                ORDINAL_LABEL: str(seat.ordinal),
                MEMBER_INDEX_LABEL: str(seat.member),
            },
            "annotations": {
                FINGERPRINT_ANNOTATION: fingerprint(deployment, role),
                REPLICA_SIZE_ANNOTATION: str(role.size),
                **_scrape_annotations(deployment, role, seat.member),
            },
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": spec,
    }


def own_labels(deployment: str) -> dict[str, str]:
    """The labels of every object that is made for a deployment."""
    return {NAME_LABEL: MODEL_DEPLOYMENT_APP, INSTANCE_LABEL: deployment, MANAGED_BY_LABEL: MANAGED_BY}


def owner_reference(deployment: ModelDeployment) -> Object:
    """What makes an object the deployment's."""
    return {
        "apiVersion": MODEL_DEPLOYMENTS.api_version,
        "kind": MODEL_DEPLOYMENTS.kind,
        "name": deployment.metadata.name,
        "uid": deployment.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def scheme_of(deployment: ModelDeployment, role: Role) -> str:
    """How the role's server speaks."""
    engine = deployment.spec.engine.known
    tls = engine is not None and not role.takes_over and Flags.of(engine, role.extra_args).serves_tls
    return "https" if tls else "http"


def _container(
    deployment: ModelDeployment,
    role: Role,
    seat: Seat,
    weights: Weights,
    pool: InstanceType | None,
    line: CommandLine,
    image: str,
) -> Object:
    demand = demand_of(role, pool)
    mounts: list[Object] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 - the engine's shared memory
    if weights.volume is not None:
        mounts.append({"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": True})
    container: Object = {
        "name": MAIN_CONTAINER,
        "image": image,
        "command": list(line.command),
        "args": list(line.arguments),
        "env": _environment(deployment, role, seat, line),
        "ports": _ports(role),
        "resources": {
            name: value for name, value in (("requests", demand.requests), ("limits", demand.limits)) if value
        },
        "volumeMounts": mounts,
    }
    if role.image_pull_policy:
        container["imagePullPolicy"] = role.image_pull_policy
    container |= _probes(deployment, role, seat.member)
    container |= _lifecycle(deployment, role, seat.member)
    return container


def _environment(deployment: ModelDeployment, role: Role, seat: Seat, line: CommandLine) -> list[Object]:
    """References to a variable (`$(NAME)`) work only for those named before: what a person may refer to comes first,
    what refers to something last."""
    meta = deployment.metadata
    given = {variable.name for variable in role.env or ()}
    leader = leader_host(meta.name, role, seat.ordinal, meta.namespace) or "127.0.0.1"
    first: list[Object] = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "GPUSTACK_REPLICA_LEADER_ADDRESS", "value": leader},
        {"name": "GPUSTACK_REPLICA_SIZE", "value": str(role.size)},
        {"name": "GPUSTACK_MEMBER_INDEX", "value": str(seat.member)},
    ]
    rendered: list[Object] = [{"name": name, "value": value} for name, value in line.environment]
    return [
        *(variable for variable in first if variable["name"] not in given),
        *({"name": variable.name, "value": variable.value} for variable in role.env or ()),
        *(variable for variable in rendered if variable["name"] not in given),
    ]


def _ports(role: Role) -> list[Object]:
    ports: list[Object] = [{"name": SERVING_PORT_NAME, "containerPort": role.serving_port, "protocol": _protocol(role)}]
    ports += [
        {"name": f"p{port.port}-{port.protocol.lower()}", "containerPort": port.port, "protocol": port.protocol}
        for port in (role.ports or ())[1:]
    ]
    return ports


def _protocol(role: Role) -> str:
    return role.ports[0].protocol if role.ports else "TCP"


def _probed(deployment: ModelDeployment, role: Role, member: int) -> bool:
    """Whether the kubelet can ask this member for its health; otherwise it is Ready once its process runs."""
    engine = deployment.spec.engine.known
    if engine is None or role.takes_over or not answers(role, engine, member):
        return False
    flags = Flags.of(engine, role.extra_args)
    return _protocol(role) == "TCP" and not flags.moves_server and not flags.demands_client_certificate


def _probes(deployment: ModelDeployment, role: Role, member: int) -> Object:
    if not _probed(deployment, role, member):
        return {}

    def probe(failures: int) -> Object:
        return {
            "httpGet": {
                "path": _HEALTH_PATH,
                "port": role.serving_port,
                "scheme": scheme_of(deployment, role).upper(),
            },
            "periodSeconds": _PERIOD_SECONDS,
            "timeoutSeconds": _PROBE_SECONDS,
            "failureThreshold": failures,
        }

    return {
        "startupProbe": probe(_STARTUP_FAILURES),
        "readinessProbe": probe(_READINESS_FAILURES),
        "livenessProbe": probe(_LIVENESS_FAILURES),
    }


def _lifecycle(deployment: ModelDeployment, role: Role, member: int) -> Object:
    engine = deployment.spec.engine.known
    if engine is None or role.takes_over:
        return {}
    if not answers(role, engine, member):
        return {"lifecycle": {"preStop": {"sleep": {"seconds": _FOLLOWER_SLEEP_SECONDS}}}}
    url = f"{scheme_of(deployment, role)}://127.0.0.1:{role.serving_port}{_METRICS_PATH}"
    seconds = max(0, _grace(role) - _EXIT_SECONDS)
    command = ["python3", "-c", _DRAIN_HOOK, url, str(seconds), *in_flight_terms(engine, role.known_kind)]
    return {"lifecycle": {"preStop": {"exec": {"command": command}}}}


def _grace(role: Role) -> int:
    given = role.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if given is None else given


def _scrape_annotations(deployment: ModelDeployment, role: Role, member: int) -> dict[str, str]:
    """On members whose metrics can be read, and on no others: they are the ones that answer for the replica."""
    engine = deployment.spec.engine.known
    if engine is None or role.takes_over or not answers(role, engine, member):
        return {}
    return {
        SCRAPE_ANNOTATION: "true",
        SCRAPE_PATH_ANNOTATION: _METRICS_PATH,
        SCRAPE_PORT_ANNOTATION: str(role.serving_port),
        SCRAPE_SCHEME_ANNOTATION: scheme_of(deployment, role),
    }


def _volumes(role: Role, weights: Weights) -> list[Object]:
    size = role.shm_size if role.shm_size is not None else _SHM_SIZE
    volumes: list[Object] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}]
    if weights.volume is not None:
        volumes.append({"name": VOLUME, **weights.volume})
    return volumes
