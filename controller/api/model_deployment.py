"""ModelDeployment: the target, as far as scaling and serving need it.

Read from another program's objects, so nothing is required: what is missing or null is a default or None, and None
means "not observed", never zero. `malformed` names what was present with a wrong type (see `decoding`); counts are not
to be changed while it is not empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from controller.api.contract import (
    MAX_REPLICAS,
    MODEL_DEPLOYMENTS,
    ROLE_NAME_PATTERN,
    SERVING_PORT,
    EngineName,
    RoleKind,
)
from controller.api.members import ApiStruct, CelRule, Member, RawQuantity
from controller.foundation import ObjectMeta, parse_quantity, parse_time


class RetirementState(StrEnum):
    """States of `status.retirement`; Completed is never seen stored."""

    ADMITTED = "Admitted"
    DISQUALIFIED = "Disqualified"
    WITHDRAWING = "Withdrawing"
    DRAINING = "Draining"
    DELETING = "Deleting"
    SETTLING = "Settling"
    ABORTED = "Aborted"
    COMPLETED = "Completed"


class Phase(StrEnum):
    """`status.phase`."""

    STARTING = "Starting"
    READY = "Ready"
    DEGRADED = "Degraded"
    DELETING = "Deleting"


class ConditionView(ApiStruct, frozen=True, kw_only=True):
    """A condition of an object that another program writes."""

    type: Annotated[str, Member("Type of the condition.", min_length=1, max_length=316)] = ""
    status: Annotated[str, Member("True, False or Unknown.", max_length=16)] = ""
    reason: Annotated[str, Member("Why, in one CamelCase word.", max_length=1024)] = ""
    message: Annotated[str, Member("Details, for people.", max_length=32768)] = ""
    last_transition_time: Annotated[str | None, Member("When the status last changed.", max_length=64)] = None
    observed_generation: Annotated[int | None, Member("Generation that this was observed for.", at_least=0)] = None

    @property
    def since(self) -> float | None:
        """The transition time in seconds since the epoch, None where it is absent or unreadable."""
        return seconds_of(self.last_transition_time)


def seconds_of(time: str | None) -> float | None:
    """A foreign timestamp in seconds since the epoch, None where it is absent or unreadable."""
    if not time:
        return None
    try:
        return parse_time(time)
    except ValueError:
        return None


def quantity_of(value: str | int | None) -> Decimal | None:
    """A foreign quantity, None where it is absent or unreadable."""
    if value is None:
        return None
    try:
        return parse_quantity(value)
    except ValueError:
        return None


class LocalRef(ApiStruct, frozen=True, kw_only=True):
    """A reference to an object of the same namespace."""

    name: Annotated[str, Member("Name of the object.", max_length=253)] = ""


class Model(ApiStruct, frozen=True, kw_only=True):
    """The model that is served."""

    name: Annotated[str, Member("The served name of the model.", min_length=1, max_length=253, required=True)] = ""
    artifact_ref: Annotated[LocalRef | None, Member("ModelArtifact that holds the weights.")] = None


class Engine(ApiStruct, frozen=True, kw_only=True):
    """The inference engine."""

    name: Annotated[str, Member("vLLM or SGLang.", options=tuple(EngineName), required=True)] = ""
    version: Annotated[str, Member("Version of the engine; builds the image tag.", max_length=64)] = ""
    image: Annotated[str, Member("Image of the engine.", max_length=512)] = ""

    @property
    def known(self) -> EngineName | None:
        """The engine of the contract in any spelling, None for another one."""
        return next((engine for engine in EngineName if engine.lower() == self.name.lower()), None)


class EnvVar(ApiStruct, frozen=True, kw_only=True):
    """A literal environment variable. Its value may be a secret and is never printed."""

    name: Annotated[str, Member("Name of the variable.", min_length=1, max_length=256)] = ""
    value: Annotated[str, Member("Literal value.", max_length=32768)] = ""

    def __repr__(self) -> str:
        return f"EnvVar(name={self.name!r})"


class RolePort(ApiStruct, frozen=True, kw_only=True):
    """A port of a role; the first one serves."""

    port: Annotated[int, Member("Number of the port.", at_least=1, at_most=65535)] = SERVING_PORT
    protocol: Annotated[str, Member("Protocol of the port.", options=("TCP", "UDP", "SCTP"))] = "TCP"


class RoleResources(ApiStruct, frozen=True, kw_only=True):
    """What one Pod of a role asks for."""

    accelerator: Annotated[RawQuantity | None, Member("Whole accelerator cards per Pod.", later="1")] = None
    accelerator_sliced_memory_percentage: Annotated[
        int | None, Member("Share of one card's memory.", at_least=0, at_most=100)
    ] = None
    accelerator_sliced_cores_percentage: Annotated[
        int | None, Member("Share of one card's cores.", at_least=0, at_most=100)
    ] = None
    accelerator_partitioned_profile: Annotated[str, Member("Partition of a card, such as 3g.40gb.", max_length=64)] = ""
    interface: Annotated[RawQuantity | None, Member("Fabric interfaces per Pod.")] = None
    cpu: Annotated[RawQuantity | None, Member("CPU per Pod.")] = None
    ram: Annotated[RawQuantity | None, Member("Memory per Pod.")] = None
    local_storage: Annotated[RawQuantity | None, Member("Ephemeral storage per Pod.")] = None


class ElasticEp(ApiStruct, frozen=True, kw_only=True):
    """Elastic expert parallelism: such a role keeps one replica and is never scaled by us."""

    width: Annotated[int | None, Member("Width of the expert-parallel world.", at_least=2, at_most=64)] = None


class Role(ApiStruct, frozen=True, kw_only=True):
    """One role of a ModelDeployment: replicas of one shape."""

    name: Annotated[str, Member("Name of the role.", min_length=1, max_length=63, pattern=ROLE_NAME_PATTERN)] = ""
    kind: Annotated[str, Member("What the role does with a request.", options=tuple(RoleKind))] = RoleKind.SERVER
    replicas: Annotated[int, Member("Serving instances.", at_least=1, at_most=MAX_REPLICAS)] = 1
    size: Annotated[int, Member("Pods of one replica; they share their fate.", at_least=1, at_most=64)] = 1
    instance_type: Annotated[str, Member("InstanceType of the Pods.", max_length=253)] = ""
    accelerator_type: Annotated[str, Member("The later name of instanceType.", max_length=253)] = ""
    resources: Annotated[RoleResources | None, Member("What one Pod asks for.")] = None
    image: Annotated[str, Member("Image; wins over the engine's.", max_length=512)] = ""
    image_pull_policy: Annotated[
        str, Member("When the image is pulled.", options=("Always", "IfNotPresent", "Never"))
    ] = ""
    ports: Annotated[
        tuple[RolePort, ...] | None,
        Member("Ports; the first one serves.", max_items=16, keys=("port", "protocol")),
    ] = None
    command: Annotated[
        tuple[Annotated[str, Member(max_length=32768)], ...] | None,
        Member("The whole command line; such a role is unmanaged.", max_items=256),
    ] = None
    extra_args: Annotated[
        tuple[Annotated[str, Member(max_length=32768)], ...] | None,
        Member("Arguments appended to the rendered command line.", max_items=256),
    ] = None
    env: Annotated[
        tuple[EnvVar, ...] | None, Member("Literal environment variables.", max_items=256, keys=("name",))
    ] = None
    shm_size: Annotated[RawQuantity | None, Member("Size of /dev/shm.", later="16Gi")] = None
    termination_grace_period_seconds: Annotated[
        int | None, Member("Time that a deleted Pod has to leave.", at_least=15, at_most=3600, later="30")
    ] = None
    elastic_ep: Annotated[ElasticEp | None, Member("Elastic expert parallelism.")] = None

    @property
    def known_kind(self) -> RoleKind | None:
        """The kind, None for one that this version does not know."""
        return next((kind for kind in RoleKind if kind == self.kind), None)

    @property
    def pool(self) -> str:
        """Name of the InstanceType (later: AcceleratorType) that the role's Pods come from."""
        return self.accelerator_type or self.instance_type

    @property
    def takes_over(self) -> bool:
        """The user wrote the whole command line: no probes, no drain hook, no scrape annotations."""
        return bool(self.command)

    @property
    def elastic(self) -> bool:
        """The role resizes by itself and keeps one replica."""
        return self.elastic_ep is not None

    @property
    def accelerators(self) -> Decimal:
        """Whole cards per Pod; the webhook's default where it is unset."""
        given = quantity_of(self.resources.accelerator) if self.resources else None
        return Decimal(1) if given is None else given

    @property
    def serving_port(self) -> int:
        """The port that answers requests."""
        return self.ports[0].port if self.ports else SERVING_PORT


class Router(ApiStruct, frozen=True, kw_only=True):
    """The router in front of the roles."""

    name: Annotated[
        str,
        Member("Which router.", options=("llm-d-router", "vllm-router", "sglang-gateway"), required=True),
    ] = ""
    replicas: Annotated[int | None, Member("Router Pods.", at_least=1, at_most=MAX_REPLICAS, later="1")] = None
    image: Annotated[str, Member("Image of the router.", max_length=512)] = ""
    extra_args: Annotated[
        tuple[Annotated[str, Member(max_length=32768)], ...] | None,
        Member("Arguments appended to the rendered command line.", max_items=256),
    ] = None
    request_timeout_seconds: Annotated[int | None, Member("Time-out of one request.", at_least=1)] = None
    disaggregation_threshold_tokens: Annotated[
        int | None, Member("Shorter prompts are not split; 0 disables splitting.", at_least=0)
    ] = None


class KvTransfer(ApiStruct, frozen=True, kw_only=True):
    """How a prefill replica hands its cache over."""

    protocol: Annotated[str, Member("Transport.", options=("Auto", "TCP", "RDMA", "EFA", "CANN", "ROCM"))] = ""


class ModelDeploymentSpec(ApiStruct, frozen=True, kw_only=True):
    """What shall be served."""

    model: Annotated[Model, Member("The model.", required=True)] = msgspec.field(default_factory=Model)
    engine: Annotated[Engine, Member("The engine.", required=True)] = msgspec.field(default_factory=Engine)
    roles: Annotated[
        tuple[Role, ...] | None,
        Member(
            "Roles; Server roles stand alone.",
            min_items=1,
            max_items=10,
            keys=("name",),
            required=True,
            rules=(
                CelRule(
                    rule="self.all(r, r.kind == 'Server') || !self.exists(r, r.kind == 'Server')",
                    message="Server roles cannot be mixed with roles of another kind",
                ),
                CelRule(
                    rule="['Prefill', 'Decode', 'Encode'].all(k, self.filter(r, r.kind == k).size() <= 1)",
                    message="at most one role each of the kinds Prefill, Decode and Encode",
                ),
            ),
        ),
    ] = None
    router: Annotated[Router | None, Member("Router in front of the roles.")] = None
    kv_transfer: Annotated[KvTransfer | None, Member("Hand-over of caches.")] = None


class ServingEndpoints(ApiStruct, frozen=True, kw_only=True):
    """What the router knows of a role."""

    state: Annotated[str, Member("Confirmed, NotConverged, Unknown or NotConfigured.", max_length=32)] = ""
    value: Annotated[int | None, Member("Endpoints that serve; only with Confirmed.", at_least=0)] = None


class RoleEndpoints(ApiStruct, frozen=True, kw_only=True):
    """Endpoints of a role."""

    eligible: Annotated[int | None, Member("Qualified endpoints; absent: never observed.", at_least=0)] = None
    serving: Annotated[ServingEndpoints | None, Member("What the router knows.")] = None


class DeploymentRoleStatus(ApiStruct, frozen=True, kw_only=True):
    """Observed counts of a role; an absent count was not observed."""

    name: Annotated[str, Member("Name of the role.", min_length=1, max_length=63)] = ""
    kind: Annotated[str, Member("Kind of the role.", max_length=32)] = ""
    desired: Annotated[int | None, Member("Replicas asked for.", at_least=0)] = None
    ready: Annotated[int | None, Member("Ready replicas.", at_least=0)] = None
    quota_reserved: Annotated[int | None, Member("Replicas that hold quota.", at_least=0)] = None
    unmanaged: Annotated[bool, Member("The role took over its command line.")] = False
    assigned_flavors: Annotated[
        tuple[Annotated[str, Member(max_length=253)], ...] | None, Member("ResourceFlavors in use.", max_items=64)
    ] = None
    endpoints: Annotated[RoleEndpoints | None, Member("Endpoints of the role.")] = None


class RouterStatus(ApiStruct, frozen=True, kw_only=True):
    """The router as observed."""

    name: Annotated[str, Member("Name of the router.", max_length=64)] = ""
    endpoint: Annotated[str, Member("Where it answers.", max_length=512)] = ""


class ModelStatus(ApiStruct, frozen=True, kw_only=True):
    """The resolved model."""

    artifact: Annotated[str, Member("Name of the ModelArtifact.", max_length=253)] = ""
    revision: Annotated[str, Member("Resolved revision.", max_length=255)] = ""


class Retirement(ApiStruct, frozen=True, kw_only=True):
    """The one removal of a replica that is in progress, or was aborted."""

    role_name: Annotated[str, Member("Role of the replica.", max_length=63)] = ""
    replica_ordinal: Annotated[int, Member("Ordinal of the replica.", at_least=0)] = 0
    observed_generation: Annotated[int, Member("Generation that asked for it.", at_least=0)] = 0
    target_member_uids: Annotated[
        tuple[Annotated[str, Member(max_length=128)], ...] | None, Member("UIDs of the replica's Pods.", max_items=64)
    ] = msgspec.field(default=None, name="targetMemberUIDs")
    target_workload_uid: Annotated[str, Member("UID of the replica's Workload.", max_length=128)] = msgspec.field(
        default="", name="targetWorkloadUID"
    )
    state: Annotated[
        str,
        Member(
            "Admitted, Disqualified, Withdrawing, Draining, Deleting, Settling, Aborted or Completed.", max_length=32
        ),
    ] = ""
    reason: Annotated[str, Member("What it waits for, for people.", max_length=1024)] = ""
    started_at: Annotated[str | None, Member("When it started.", max_length=64)] = None
    deadline: Annotated[str | None, Member("When its overall budget ends.", max_length=64)] = None
    phase_started_at: Annotated[str | None, Member("When its phase started.", max_length=64)] = None
    last_consumed_retry_token: Annotated[str, Member("Token of the last retry order.", max_length=256)] = ""

    @property
    def aborted(self) -> bool:
        """It failed, and the replica was retained."""
        return self.state == RetirementState.ABORTED

    @property
    def running(self) -> bool:
        """It is under way: no count may be lowered meanwhile."""
        return bool(self.state) and self.state not in (RetirementState.ABORTED, RetirementState.COMPLETED)


class ModelDeploymentStatus(ApiStruct, frozen=True, kw_only=True):
    """What is served."""

    phase: Annotated[str, Member("Starting, Ready, Degraded or Deleting.", max_length=32)] = ""
    phase_message: Annotated[str, Member("Why, for people.", max_length=1024)] = ""
    conditions: Annotated[
        tuple[ConditionView, ...] | None, Member("What is true of the deployment.", max_items=32, keys=("type",))
    ] = None
    endpoint: Annotated[str, Member("Where requests go.", max_length=512)] = ""
    roles: Annotated[
        tuple[DeploymentRoleStatus, ...] | None, Member("Observed roles.", max_items=10, keys=("name",))
    ] = None
    role_summary: Annotated[str, Member("Ready replicas by kind, such as 1R2P2D.", max_length=64)] = ""
    router: Annotated[RouterStatus | None, Member("The router as observed.")] = None
    model: Annotated[ModelStatus | None, Member("The resolved model.")] = None
    retirement: Annotated[Retirement | None, Member("The removal that is in progress, or was aborted.")] = None


class _OwnedRole(msgspec.Struct, frozen=True):
    replicas: dict[str, object] | None = msgspec.field(default=None, name="f:replicas")


class _OwnedSpec(msgspec.Struct, frozen=True):
    roles: dict[str, _OwnedRole] | None = msgspec.field(default=None, name="f:roles")


class _OwnedFields(msgspec.Struct, frozen=True):
    spec: _OwnedSpec | None = msgspec.field(default=None, name="f:spec")


class ManagedFields(ApiStruct, frozen=True, kw_only=True):
    """One entry of `metadata.managedFields`, as far as it is about replica counts."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str | None = None
    fields: _OwnedFields | None = msgspec.field(default=None, name="fieldsV1")


class DeploymentMeta(ObjectMeta, frozen=True, rename="camel"):
    """Metadata with the field managers."""

    managed_fields: tuple[ManagedFields, ...] | None = None


@dataclass(frozen=True, slots=True)
class ReplicaWriter:
    """A field manager that owns the replica count of a role."""

    manager: str
    operation: str  # Apply or Update
    time_seconds: float | None


_ROLE_KEY = re.compile(r'k:\{"name":"([^"\\]+)"\}')


class ModelDeployment(ApiStruct, frozen=True, kw_only=True):
    """A model served by replicas of an inference engine, in one role or several: the target of a scaler."""

    metadata: DeploymentMeta = msgspec.field(default_factory=DeploymentMeta)
    spec: Annotated[ModelDeploymentSpec, Member("What shall be served.")] = msgspec.field(
        default_factory=ModelDeploymentSpec
    )
    status: Annotated[ModelDeploymentStatus, Member("What is served.")] = msgspec.field(
        default_factory=ModelDeploymentStatus
    )
    malformed: str = msgspec.field(default="", name="-malformed")

    RESOURCE: ClassVar = MODEL_DEPLOYMENTS

    @property
    def deleting(self) -> bool:
        """The object is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def roles(self) -> tuple[Role, ...]:
        """The declared roles in spec order."""
        return self.spec.roles or ()

    def role(self, name: str) -> Role | None:
        """A declared role, None where there is none."""
        return next((role for role in self.roles if role.name == name), None)

    def role_index(self, name: str) -> int | None:
        """Index of a role in `spec.roles`, as a JSON patch needs it."""
        return next((index for index, role in enumerate(self.roles) if role.name == name), None)

    def role_status(self, name: str) -> DeploymentRoleStatus | None:
        """The observed counts of a role, None where there are none."""
        return next((role for role in self.status.roles or () if role.name == name), None)

    def condition(self, type_: str) -> ConditionView | None:
        """A condition, None where it is absent."""
        return next((condition for condition in self.status.conditions or () if condition.type == type_), None)

    def disaggregated(self) -> bool:
        """Prefill and decode are separate roles."""
        kinds = {role.kind for role in self.roles}
        return RoleKind.PREFILL in kinds and RoleKind.DECODE in kinds

    def replica_writers(self, role: str) -> tuple[ReplicaWriter, ...]:
        """Who owns the replica count of a role, the latest writer first."""
        writers = [
            ReplicaWriter(entry.manager, entry.operation, seconds_of(entry.time))
            for entry in self.metadata.managed_fields or ()
            if role in _owned_roles(entry)
        ]
        return tuple(sorted(writers, key=lambda writer: (-(writer.time_seconds or 0.0), writer.manager)))

    def status_writers(self) -> frozenset[str]:
        """Field managers that have written the status."""
        return frozenset(entry.manager for entry in self.metadata.managed_fields or () if entry.subresource == "status")


def _owned_roles(entry: ManagedFields) -> Iterable[str]:
    roles = entry.fields.spec.roles if entry.fields and entry.fields.spec else None
    for key, owned in (roles or {}).items():
        match = _ROLE_KEY.fullmatch(key)
        if match is not None and owned.replicas is not None:
            yield match[1]
