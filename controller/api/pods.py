"""Pods of a ModelDeployment: who they are, whether they serve, where their metrics are.

Foreign objects: nothing is required, and what cannot be read is None. `malformed` holds what was present with a wrong
type; such a Pod is not used.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import msgspec

from controller.api.contract import (
    COMPONENT_LABEL,
    ELIGIBLE_LABEL,
    INSTANCE_LABEL,
    MAIN_CONTAINER,
    MEMBER_INDEX_LABEL,
    MODEL_DEPLOYMENT_APP,
    NAME_LABEL,
    ORDINAL_LABEL,
    PODS,
    ROLE_KIND_LABEL,
    ROUTER_LABEL,
    SCRAPE_ANNOTATION,
    SCRAPE_PATH_ANNOTATION,
    SCRAPE_PORT_ANNOTATION,
    SCRAPE_SCHEME_ANNOTATION,
)
from controller.api.decoding import Recoverable
from controller.api.foreign import seconds_of
from controller.api.members import ApiStruct
from controller.foundation import FieldError, ObjectMeta, OwnerReference


class ContainerPort(ApiStruct, frozen=True, kw_only=True):
    """A declared port."""

    container_port: int = 0
    name: str = ""


class Container(ApiStruct, frozen=True, kw_only=True):
    """A container, as far as its ports go."""

    name: str = ""
    ports: tuple[ContainerPort, ...] | None = None


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """The part of a Pod's spec that is read."""

    node_name: str = ""
    containers: tuple[Container, ...] | None = None


class PodCondition(ApiStruct, frozen=True, kw_only=True):
    """A condition of a Pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    """Which incarnation of a container runs."""

    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    restart_count: int = 0
    ready: bool = False


class PodAddress(ApiStruct, frozen=True, kw_only=True):
    """One of a Pod's addresses."""

    ip: str = ""


class PodStatus(ApiStruct, frozen=True, kw_only=True):
    """The part of a Pod's status that is read. `pod_ips`: one of each family in a cluster that has both."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodAddress, ...] | None = msgspec.field(default=None, name="podIPs")
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class EndpointProblem(StrEnum):
    """Why a Pod has no metrics to read."""

    NOT_ANNOTATED = "NotAnnotated"  # prometheus.io/scrape is not "true"
    NO_ADDRESS = "NoAddress"
    BAD_PORT = "BadPort"
    PORT_NOT_DECLARED = "PortNotDeclared"
    BAD_SCHEME = "BadScheme"
    BAD_PATH = "BadPath"


@dataclass(frozen=True, slots=True)
class MetricsEndpoint:
    """Where a Pod's metrics are read: no redirects, no proxy."""

    scheme: str
    address: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """The URL; an IPv6 address in brackets."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{host}:{self.port}{self.path}"


class Pod(ApiStruct, Recoverable, frozen=True, kw_only=True):
    """One member of a replica."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)
    malformed: tuple[FieldError, ...] = msgspec.field(default=(), name="-malformed")

    RESOURCE: ClassVar = PODS

    @property
    def belongs(self) -> bool:
        """The Pod carries the application label of the contract (which says nothing about its owner)."""
        return self.metadata.label(NAME_LABEL) == MODEL_DEPLOYMENT_APP

    @property
    def deployment(self) -> str | None:
        """Name of the ModelDeployment that the labels claim."""
        return self.metadata.label(INSTANCE_LABEL)

    @property
    def role(self) -> str | None:
        """Name of the role; None for a router Pod."""
        return self.metadata.label(COMPONENT_LABEL)

    @property
    def role_kind(self) -> str | None:
        """The role's kind in the router's spelling, lower case."""
        return self.metadata.label(ROLE_KIND_LABEL)

    @property
    def router(self) -> str | None:
        """Name of the router that this Pod is, None for an engine Pod."""
        return self.metadata.label(ROUTER_LABEL)

    @property
    def ordinal(self) -> int | None:
        """Ordinal of the replica, None where the label is absent or no number."""
        return _small_number(self.metadata.label(ORDINAL_LABEL))

    @property
    def member_index(self) -> int | None:
        """Index within the replica: 0 where the label is absent, None where it is no number."""
        label = self.metadata.label(MEMBER_INDEX_LABEL)
        return 0 if label is None else _small_number(label)

    @property
    def eligible(self) -> bool:
        """The Pod may receive new requests."""
        return self.metadata.label(ELIGIBLE_LABEL) == "true"

    @property
    def deleting(self) -> bool:
        """The Pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the Pod, None where there is none."""
        return next((owner for owner in self.metadata.owner_references or () if owner.controller), None)

    def owned_by(self, uid: str) -> bool:
        """The Pod is controlled by the ModelDeployment of this UID: labels alone prove nothing."""
        owner = self.controller
        return owner is not None and owner.kind == "ModelDeployment" and owner.uid == uid

    def condition(self, type_: str) -> PodCondition | None:
        """A condition, None where it is absent."""
        return next((condition for condition in self.status.conditions or () if condition.type == type_), None)

    @property
    def ready(self) -> bool:
        """The Pod is Ready and stays."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True" and not self.deleting

    @property
    def ready_since(self) -> float | None:
        """Since when the Pod has been Ready, seconds since the epoch."""
        return self._true_since("Ready")

    @property
    def scheduled(self) -> bool:
        """The Pod has a node."""
        condition = self.condition("PodScheduled")
        return bool(self.spec.node_name) or (condition is not None and condition.status == "True")

    @property
    def scheduled_since(self) -> float | None:
        """Since when the Pod has had a node, seconds since the epoch."""
        return self._true_since("PodScheduled")

    @property
    def created_at(self) -> float | None:
        """When the Pod was created, seconds since the epoch."""
        return seconds_of(self.metadata.creation_timestamp)

    @property
    def finished(self) -> bool:
        """All containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def engine_container(self) -> ContainerStatus | None:
        """Status of the engine's container: `main`, or the only one."""
        statuses = self.status.container_statuses or ()
        if len(statuses) == 1:
            return statuses[0]
        return next((status for status in statuses if status.name == MAIN_CONTAINER), None)

    @property
    def incarnation(self) -> tuple[str, str, int]:
        """(Pod UID, container id, restarts) of the engine: when it changes, its counters start anew."""
        container = self.engine_container
        if container is None:
            return (self.metadata.uid, "", 0)
        return (self.metadata.uid, container.container_id, container.restart_count)

    def declares_port(self, port: int) -> bool:
        """A container declares this port."""
        return any(
            declared.container_port == port
            for container in self.spec.containers or ()
            for declared in container.ports or ()
        )

    def metrics_endpoint(self) -> MetricsEndpoint | EndpointProblem:
        """Where the Pod's metrics are, by its `prometheus.io/*` annotations."""
        meta = self.metadata
        if meta.annotation(SCRAPE_ANNOTATION) != "true":
            return EndpointProblem.NOT_ANNOTATED
        scheme = meta.annotation(SCRAPE_SCHEME_ANNOTATION) or "http"
        if scheme not in ("http", "https"):
            return EndpointProblem.BAD_SCHEME
        path = meta.annotation(SCRAPE_PATH_ANNOTATION) or "/metrics"
        if not path.startswith("/") or not path.isprintable() or " " in path:
            return EndpointProblem.BAD_PATH
        port = _small_number(meta.annotation(SCRAPE_PORT_ANNOTATION))
        if port is None or not 1 <= port <= 65535:
            return EndpointProblem.BAD_PORT
        if not self.declares_port(port):
            return EndpointProblem.PORT_NOT_DECLARED
        try:
            address = str(ipaddress.ip_address(self.status.pod_ip))
        except ValueError:
            return EndpointProblem.NO_ADDRESS
        return MetricsEndpoint(scheme, address, port, path)

    def _true_since(self, type_: str) -> float | None:
        condition = self.condition(type_)
        if condition is None or condition.status != "True":
            return None
        return seconds_of(condition.last_transition_time)


def _small_number(text: str | None) -> int | None:
    """A decimal number of at most six digits, None for anything else (`int` also takes "+1", "1_0" and "٣")."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 6:
        return None
    return int(text)
