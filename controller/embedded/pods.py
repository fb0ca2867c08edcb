"""Pods as a kubelet and a router see them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.embedded import contract
from controller.embedded.engine import EngineDialect, EngineKind
from controller.embedded.pre_stop import PreStop, read_pre_stop
from controller.embedded.router import Member
from controller.foundation import format_time

Object = dict[str, Any]

# Kinds of roles as the label has them.
ENGINE_KINDS = {kind.value.lower(): kind for kind in EngineKind}
# What the API server fills in where a Pod does not say.
_DEFAULT_GRACE_SECONDS = 30
_DEFAULT_PERIOD_SECONDS = 10
_DEFAULT_FAILURES = 3


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """What of a Pod its kubelet goes by. The first container is the engine's; others are not looked at."""

    namespace: str
    name: str
    uid: str
    role: str
    kind: str  # of the role, in lower case as the label has it
    container: str
    image: str
    command_line: tuple[str, ...]  # command and args
    port: int | None  # where its server answers; None: it has none (a follower, a command of somebody's own)
    pre_stop: PreStop | None
    # How long a container that stopped answering is still called Ready, and is left running; None: not probed.
    unready_after_seconds: float | None
    restart_after_seconds: float | None
    grace_seconds: float
    deleting: bool

    @property
    def dialect(self) -> EngineDialect:
        """Whose engine the command line starts."""
        sglang = any("sglang" in word for word in self.command_line[:3])
        return EngineDialect.SGLANG if sglang else EngineDialect.VLLM

    @property
    def flags(self) -> Mapping[str, str]:
        """The long flags of the command line."""
        return contract.read_flags(self.command_line)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the kubelet knows of a Pod's container. Times are model time; None: not yet."""

    created_seconds: float
    address: str  # empty until the container was started
    started_seconds: float | None
    ready: bool
    ready_changed_seconds: float
    restart_count: int
    down: bool = False  # the container has died and waits for its restart
    message: str = field(default="", compare=False)


def read_pod(pod: Mapping[str, Any]) -> AssignedPod:
    """The kubelet's view of a Pod object. Read tolerantly: the API server has validated it."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    container = (spec.get("containers") or [{}])[0]
    grace = metadata.get("deletionGracePeriodSeconds")
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)
    return AssignedPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        role=labels.get(contract.APP_COMPONENT, ""),
        kind=labels.get(contract.ROLE_KIND, ""),
        container=container.get("name", ""),
        image=container.get("image", ""),
        command_line=(*(container.get("command") or ()), *(container.get("args") or ())),
        port=_port(annotations, container),
        pre_stop=read_pre_stop(container.get("lifecycle") or {}),
        unready_after_seconds=_patience(container.get("readinessProbe")),
        restart_after_seconds=_patience(container.get("livenessProbe")),
        grace_seconds=float(grace),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def pod_status(pod: AssignedPod, facts: PodFacts) -> Object:
    """The status of a Pod that has its node; a merge patch of it replaces whatever was there."""
    started = facts.started_seconds
    running = started is not None and not facts.down
    ready_since = facts.ready_changed_seconds
    if running:
        state: Object = {"running": {"startedAt": format_time(started or 0.0)}}
    else:
        reason = "CrashLoopBackOff" if facts.down else "ContainerCreating"
        state = {"waiting": {"reason": reason, **({"message": facts.message} if facts.message else {})}}
    unready = {} if facts.ready else {"reason": "ContainersNotReady"}
    status: Object = {
        "phase": "Running" if started is not None else "Pending",
        "conditions": [
            _condition("PodScheduled", True, facts.created_seconds),
            _condition("Initialized", True, facts.created_seconds),
            _condition("ContainersReady", facts.ready, ready_since) | unready,
            _condition("Ready", facts.ready, ready_since) | unready,
        ],
        "containerStatuses": [
            {
                "name": pod.container,
                "image": pod.image,
                "imageID": pod.image,
                "containerID": f"embedded://{pod.uid}-{facts.restart_count}",
                "ready": facts.ready,
                "started": running,
                "restartCount": facts.restart_count,
                "state": state,
            }
        ],
        "startTime": format_time(facts.created_seconds),
    }
    if facts.address:
        status |= {"podIP": facts.address, "podIPs": [{"ip": facts.address}], "hostIP": "127.0.0.1"}
    return status


def unschedulable_status(now: float, message: str) -> Object:
    """The status of a Pod that no node takes."""
    condition = _condition("PodScheduled", False, now) | {"reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def router_pod(namespace: str, deployment: str, name: str, port: int) -> Object:
    """A router as the contract shows it: a Pod of the deployment that is no member of a role."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{deployment}-router",
            "namespace": namespace,
            "labels": {contract.APP_NAME: contract.APP, contract.APP_INSTANCE: deployment, contract.ROUTER: name},
        },
        "spec": {
            # Taken already, so that no kubelet starts anything for it.
            "nodeName": "router",
            "containers": [
                {
                    "name": "router",
                    "image": f"embedded/{name}",
                    "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
                }
            ],
        },
    }


def router_status(pod: Mapping[str, Any], address: str, now: float) -> Object:
    """The status of a router's Pod that answers."""
    container = pod["spec"]["containers"][0]
    names = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "conditions": [_condition(name, True, now) for name in names],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "containerID": f"embedded://{pod['metadata']['name']}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": format_time(now)}},
            }
        ],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": format_time(now),
    }


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a Pod is Ready and stays."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def router_members(pods: Iterable[Mapping[str, Any]]) -> list[Member]:
    """The Pods that a router may send requests to: eligible by label, Ready, addressed, not being deleted."""
    members = []
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        address, port = status.get("podIP"), annotations.get(contract.SCRAPE_PORT)
        if labels.get(contract.ENDPOINT_ELIGIBLE) == "true" and is_ready(pod) and address and port:
            view = read_pod(pod)
            kind = ENGINE_KINDS.get(view.kind, EngineKind.SERVER)
            members.append(Member(view.uid, view.name, f"http://{address}:{port}", kind, view.dialect))
    return members


def _port(annotations: Mapping[str, str], container: Mapping[str, Any]) -> int | None:
    if annotations.get(contract.SCRAPE) != "true":
        return None
    annotated = annotations.get(contract.SCRAPE_PORT, "")
    if annotated.isdecimal():
        return int(annotated)
    ports = container.get("ports") or []
    return int(ports[0]["containerPort"]) if ports else contract.DEFAULT_SERVING_PORT


def _patience(probe: Mapping[str, Any] | None) -> float | None:
    if not probe:
        return None
    return float(
        (probe.get("periodSeconds") or _DEFAULT_PERIOD_SECONDS) * (probe.get("failureThreshold") or _DEFAULT_FAILURES)
    )


def _condition(kind: str, holds: bool, since_seconds: float) -> Object:
    return {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": format_time(since_seconds)}
