"""ModelDeployment: the target, as far as scaling and serving need it.

Read from another program's objects, so nothing is required: what is missing or null is a default or None, and None
means "not observed", never zero. `malformed` holds what was present with a wrong type (see `decoding`); while
`unreadable` is not empty, something is among it that counts rest upon, and no count may be changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec

from controller.api.contract import MODEL_DEPLOYMENTS, RoleKind
from controller.api.decoding import Recoverable
from controller.api.deployment_spec import ModelDeploymentSpec, Role
from controller.api.deployment_status import DeploymentRoleStatus, ModelDeploymentStatus
from controller.api.foreign import ConditionView, seconds_of
from controller.api.members import ApiStruct, Member
from controller.api.reading import note_of
from controller.foundation import FieldError, ObjectMeta


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


_COUNTS_REST_ON = re.compile(
    r"|metadata(?!\.managedFields).*"
    r"|spec|spec\.roles(\[\d+\](\.(name|kind|replicas|size|command|elasticEp).*)?)?"
    r"|status|status\.(roles|retirement|conditions).*"
)
_ROLE_KEY = re.compile(r'k:\{"name":"([^"\\]+)"\}')


class ModelDeployment(ApiStruct, Recoverable, frozen=True, kw_only=True):
    """A model served by replicas of an inference engine, in one role or several: the target of a scaler."""

    metadata: DeploymentMeta = msgspec.field(default_factory=DeploymentMeta)
    spec: Annotated[ModelDeploymentSpec, Member("What shall be served.")] = msgspec.field(
        default_factory=ModelDeploymentSpec
    )
    status: Annotated[ModelDeploymentStatus, Member("What is served.")] = msgspec.field(
        default_factory=ModelDeploymentStatus
    )
    malformed: tuple[FieldError, ...] = msgspec.field(default=(), name="-malformed")

    RESOURCE: ClassVar = MODEL_DEPLOYMENTS

    @property
    def unreadable(self) -> str:
        """What could not be read of that which replica counts rest upon; empty: nothing. Damage elsewhere (an image, a
        router's argument) is no reason to stop scaling."""
        return note_of([finding for finding in self.malformed if _COUNTS_REST_ON.fullmatch(finding.path)])

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
