"""What a ModelDeployment shall serve: the part of its spec that scaling and serving need."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from controller.api.contract import MAX_REPLICAS, ROLE_NAME_PATTERN, SERVING_PORT, EngineName, RoleKind
from controller.api.foreign import quantity_of
from controller.api.members import ApiStruct, CelRule, Member, RawQuantity


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
