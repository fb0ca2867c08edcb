"""What identity inference reads of a role, its model and its hardware: plain frozen values without any Kubernetes type.

An adapter fills them from ModelDeployment, ModelArtifact, InstanceType and Node objects (`objects` does it for
documents in files). Absent is None or empty, never a stand-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Hub(StrEnum):
    """Where a ModelArtifact's files come from. Only the hubs name a repository."""

    HUGGING_FACE = "huggingFace"
    MODEL_SCOPE = "modelScope"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ArtifactInput:
    """A ModelArtifact's source."""

    name: str
    hub: Hub
    repository: str | None = None


@dataclass(frozen=True, slots=True)
class HardwareInput:
    """An InstanceType's accelerator and the labels of the nodes that it can place Pods on (empty where unknown)."""

    instance_type: str
    accelerator_group: str | None = None
    manufacturer: str | None = None
    product: str | None = None
    memory: str | None = None
    node_labels: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RoleInput:
    """One role of a ModelDeployment.

    `command` is the take-over command (empty for a managed role), `env` the literal variables in order. `declared` is
    the person's annotation for this role. Values of `env` never reach a message.
    """

    name: str
    kind: str
    engine: str
    accelerators_per_pod: int | None = None
    size: int = 1
    command: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    image: str | None = None
    # The most requests that one replica runs at once by its own flags; None where they do not say.
    most_requests: int | None = None
    sliced: bool = False
    partitioned_profile: str = ""
    artifact: ArtifactInput | None = None
    hardware: HardwareInput | None = None
    declared: str | None = None
    # What of the role's object could not be read; nothing may be concluded from the rest.
    damage: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every value that must never be shown."""
        return tuple(value for _, value in self.env)
