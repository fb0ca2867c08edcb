"""What capacities and identities are inferred from: InstanceType, ModelArtifact, Node, ConfigMap. Tolerant views."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from controller.api.contract import CONFIG_MAPS, INSTANCE_TYPES, MODEL_ARTIFACTS, NODES
from controller.api.decoding import Recoverable
from controller.api.foreign import ConditionView, quantity_of
from controller.api.members import ApiStruct, CelRule, Member, RawQuantity
from controller.foundation import FieldError, ObjectMeta


class UnitResources(ApiStruct, frozen=True, kw_only=True):
    """What goes with one card."""

    cpu: Annotated[RawQuantity | None, Member("CPU per card.")] = None
    ram: Annotated[RawQuantity | None, Member("Memory per card.")] = None


class InstanceTypeSpec(ApiStruct, frozen=True, kw_only=True):
    """A pool of equal machines."""

    display_name: Annotated[str, Member("Name for people.", max_length=64)] = ""
    inactive: Annotated[bool, Member("True: nothing new is admitted.")] = False
    acceleratable: Annotated[bool, Member("The machines have accelerators.")] = False
    accelerator_group: Annotated[str, Member("Key of the accelerator, such as nvidia-h200.", max_length=253)] = ""
    general_group: Annotated[str, Member("Key of the machine.", max_length=253)] = ""
    os: Annotated[str, Member("Operating system.", max_length=64)] = ""
    arch: Annotated[str, Member("Architecture.", max_length=64)] = ""
    unit_resources: Annotated[UnitResources | None, Member("CPU and memory that go with one card.")] = None
    local_storage: Annotated[RawQuantity | None, Member("Ephemeral storage per Pod.")] = None


class InstanceTypeDetail(ApiStruct, frozen=True, kw_only=True):
    """The hardware as observed."""

    manufacturer: Annotated[str, Member("Vendor; empty: not synced yet.", max_length=253)] = ""
    product: Annotated[str, Member("Product name.", max_length=253)] = ""
    family: Annotated[str, Member("Product family.", max_length=253)] = ""
    memory: Annotated[RawQuantity | None, Member("Memory of one card.")] = None
    cores: Annotated[RawQuantity | None, Member("Cores of one card.")] = None
    compute_capability: Annotated[str, Member("Compute capability.", max_length=64)] = ""


class PoolUsage(ApiStruct, frozen=True, kw_only=True):
    """How much of a pool is free."""

    once_max_request: Annotated[RawQuantity | None, Member("Most that one Pod can get.")] = None
    remaining: Annotated[RawQuantity | None, Member("Free now.")] = None
    capacity: Annotated[RawQuantity | None, Member("All of the pool.")] = None

    @property
    def free(self) -> Decimal | None:
        """Whole cards free now, None where that is not known."""
        return quantity_of(self.remaining)

    @property
    def total(self) -> Decimal | None:
        """Whole cards of the pool, None where that is not known."""
        return quantity_of(self.capacity)

    @property
    def largest_request(self) -> Decimal | None:
        """Most cards that one Pod can get, None where that is not known."""
        return quantity_of(self.once_max_request)


class InstanceTypeStatus(ApiStruct, frozen=True, kw_only=True):
    """The pool as observed."""

    phase: Annotated[str, Member("Active, Inactive or Draining.", max_length=32)] = ""
    phase_message: Annotated[str, Member("Why, for people.", max_length=1024)] = ""
    entrance: Annotated[str, Member("Queue of the pool.", max_length=253)] = ""
    detail: Annotated[InstanceTypeDetail | None, Member("The hardware.")] = None
    accelerator: Annotated[PoolUsage | None, Member("Whole cards.")] = None


class InstanceType(ApiStruct, Recoverable, frozen=True, kw_only=True):
    """A pool of machines that roles take their Pods from (later: AcceleratorType)."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Annotated[InstanceTypeSpec, Member("The pool.")] = msgspec.field(default_factory=InstanceTypeSpec)
    status: Annotated[InstanceTypeStatus, Member("The pool as observed.")] = msgspec.field(
        default_factory=InstanceTypeStatus
    )
    malformed: tuple[FieldError, ...] = msgspec.field(default=(), name="-malformed")

    RESOURCE: ClassVar = INSTANCE_TYPES

    @property
    def admits(self) -> bool:
        """Nothing says that the pool takes no new Pods."""
        return not self.spec.inactive and self.status.phase in ("", "Active")


class Hub(StrEnum):
    """Where a model comes from."""

    HUGGING_FACE = "HuggingFace"
    MODEL_SCOPE = "ModelScope"


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of a hub."""

    hub: Hub
    repository: str  # owner/name
    revision: str


class HubSource(ApiStruct, frozen=True, kw_only=True):
    """A repository of a hub; `repo` is the older spelling."""

    RULES: ClassVar = (
        CelRule(rule="has(self.repository) || has(self.repo)", message="repository is required, such as Qwen/Qwen3-8B"),
    )

    repository: Annotated[str, Member("owner/name.", max_length=256)] = ""
    repo: Annotated[str, Member("Older spelling of repository.", max_length=256)] = ""
    revision: Annotated[str, Member("Branch, tag or commit.", max_length=255)] = ""


class ClaimSource(ApiStruct, frozen=True, kw_only=True):
    """Weights on a volume."""

    claim_name: Annotated[str, Member("Name of the PersistentVolumeClaim.", max_length=253, required=True)] = ""
    path: Annotated[str, Member("Path within the volume.", max_length=1024)] = ""


class ImageSource(ApiStruct, frozen=True, kw_only=True):
    """Weights in an image."""

    reference: Annotated[str, Member("Reference pinned by digest.", max_length=512, required=True)] = ""


class ArtifactSource(ApiStruct, frozen=True, kw_only=True):
    """Exactly one source."""

    RULES: ClassVar = (
        CelRule(
            rule=(
                "[has(self.huggingFace), has(self.modelScope), has(self.persistentVolumeClaim), has(self.image)]"
                ".filter(given, given).size() == 1"
            ),
            message="exactly one of huggingFace, modelScope, persistentVolumeClaim and image must be given",
        ),
    )

    hugging_face: Annotated[HubSource | None, Member("Hugging Face.")] = None
    model_scope: Annotated[HubSource | None, Member("ModelScope.")] = None
    persistent_volume_claim: Annotated[ClaimSource | None, Member("A volume.")] = None
    image: Annotated[ImageSource | None, Member("An image.")] = None


class ModelArtifactSpec(ApiStruct, frozen=True, kw_only=True):
    """Where the weights come from."""

    source: Annotated[ArtifactSource, Member("Exactly one source.", required=True)] = msgspec.field(
        default_factory=ArtifactSource
    )


class ResolvedArtifact(ApiStruct, frozen=True, kw_only=True):
    """What the source resolved to."""

    revision: Annotated[str, Member("Commit.", max_length=255)] = ""
    manifest_digest: Annotated[str, Member("Digest of the files.", max_length=128)] = ""


class ModelArtifactStatus(ApiStruct, frozen=True, kw_only=True):
    """The artifact as observed."""

    resolved: Annotated[ResolvedArtifact | None, Member("What the source resolved to.")] = None
    conditions: Annotated[
        tuple[ConditionView, ...] | None, Member("What is true of the artifact.", max_items=16, keys=("type",))
    ] = None


class ModelArtifact(ApiStruct, Recoverable, frozen=True, kw_only=True):
    """The weights of a model."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Annotated[ModelArtifactSpec, Member("Where the weights come from.")] = msgspec.field(
        default_factory=ModelArtifactSpec
    )
    status: Annotated[ModelArtifactStatus, Member("The artifact as observed.")] = msgspec.field(
        default_factory=ModelArtifactStatus
    )
    malformed: tuple[FieldError, ...] = msgspec.field(default=(), name="-malformed")

    RESOURCE: ClassVar = MODEL_ARTIFACTS

    @property
    def hub_model(self) -> HubModel | None:
        """The hub repository, None for weights whose origin cannot be known (a volume, an image)."""
        source = self.spec.source
        for hub, given in ((Hub.HUGGING_FACE, source.hugging_face), (Hub.MODEL_SCOPE, source.model_scope)):
            if given is not None and (given.repository or given.repo):
                return HubModel(hub, given.repository or given.repo, given.revision)
        return None


class ConfigMap(ApiStruct, Recoverable, frozen=True, kw_only=True):
    """A ConfigMap, for catalogs of capacity priors."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None
    malformed: tuple[FieldError, ...] = msgspec.field(default=(), name="-malformed")

    RESOURCE: ClassVar = CONFIG_MAPS


class Node(ApiStruct, Recoverable, frozen=True, kw_only=True):
    """A Node, as far as its labels go."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    malformed: tuple[FieldError, ...] = msgspec.field(default=(), name="-malformed")

    RESOURCE: ClassVar = NODES
