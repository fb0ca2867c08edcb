"""ModelDeploymentScaler: the object as it is watched, and as it is understood.

Two steps, so that no object can hide from the controller:

1. A watch line decodes into `MdsView`: typed metadata, spec and status kept as bytes. No spec, however malformed, can
   make this fail, so the controller always sees the object and can report `InvalidSpec` on it.
2. `parse_spec` turns the bytes into a `ScalerSpec` or into every finding, `parse_status` into a `ScalerStatus` and a
   note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec

from controller.api.contract import API_VERSIONS, MODEL_DEPLOYMENT_SCALERS
from controller.api.decoding import Recoverable
from controller.api.members import ApiStruct, Member
from controller.api.reading import read_exact, read_tolerant, render
from controller.api.scaler_spec import ScalerSpec
from controller.api.scaler_status import ScalerStatus
from controller.api.validation import spec_findings
from controller.foundation import FieldError, ObjectMeta, describe

_EMPTY = msgspec.Raw()


class MdsView(msgspec.Struct, Recoverable, frozen=True, gc=False):
    """A ModelDeploymentScaler as the cache holds it."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY
    malformed: tuple[FieldError, ...] = msgspec.field(default=(), name="-malformed")

    RESOURCE: ClassVar = MODEL_DEPLOYMENT_SCALERS

    def __post_init__(self) -> None:
        # A Raw points into the buffer it was decoded from: without the copy a cached view would hold the whole line.
        msgspec.structs.force_setattr(self, "spec", self.spec.copy())
        msgspec.structs.force_setattr(self, "status", self.status.copy())

    @property
    def deleting(self) -> bool:
        """The object is being deleted."""
        return self.metadata.deletion_timestamp is not None

    def parse_spec(self) -> tuple[ScalerSpec | None, list[FieldError]]:
        """The spec, or every finding."""
        return parse_spec(self.spec)

    def parse_status(self) -> tuple[ScalerStatus, str]:
        """The status as far as it can be read, and a note on what could not."""
        return parse_status(self.status)


class ModelDeploymentScaler(ApiStruct, frozen=True, kw_only=True):
    """Plans the replica counts of one ModelDeployment from engine metrics and, in Active mode, writes them."""

    metadata: ObjectMeta
    spec: Annotated[ScalerSpec, Member("What the scaler shall do.")]
    status: Annotated[ScalerStatus, Member("What the scaler does and why.")] = msgspec.field(
        default_factory=ScalerStatus
    )

    RESOURCE: ClassVar = MODEL_DEPLOYMENT_SCALERS


def parse_spec(value: msgspec.Raw | bytes | object) -> tuple[ScalerSpec | None, list[FieldError]]:
    """A spec with its defaults, or None and every finding, sorted by path.

    Takes JSON bytes or a decoded value. Total and deterministic: the same value gives the same findings, whatever the
    order of its members.
    """
    decoded, failure = _decode(value)
    if failure:
        return None, [FieldError("spec", failure)]
    if decoded is None:
        return None, [FieldError("spec", "is required: targetRef, roles and algorithm must be given")]
    partial, findings = read_exact(ScalerSpec, decoded, "spec")
    if partial is not None:
        findings += spec_findings(partial, frozenset(finding.path for finding in findings))
    return (None if findings else partial), sorted(set(findings))


def parse_status(value: msgspec.Raw | bytes | object) -> tuple[ScalerStatus, str]:
    """A status as far as it can be read, and a note on what could not be (empty: all was read).

    A garbage status counts as an empty one. A note means that memory is missing, perhaps the very recommendation that
    holds a shrink back: decide as after a start without memory.
    """
    decoded, failure = _decode(value)
    if failure:
        return ScalerStatus(), f"status: {failure}"
    if decoded is None:
        return ScalerStatus(), ""
    status, note = read_tolerant(ScalerStatus, decoded, "status")
    return status or ScalerStatus(), note


def render_scaler(scaler: ModelDeploymentScaler) -> dict[str, object]:
    """The JSON object of a scaler, as a file or a create request carries it."""
    metadata = msgspec.to_builtins(scaler.metadata)
    return {
        "apiVersion": API_VERSIONS[0],
        "kind": MODEL_DEPLOYMENT_SCALERS.kind,
        "metadata": {key: value for key, value in metadata.items() if value not in (None, "", 0)},
        "spec": render(scaler.spec),
        **({"status": render(scaler.status)} if scaler.status != ScalerStatus() else {}),
    }


def _decode(value: object) -> tuple[object, str]:
    """The decoded value, and why it could not be decoded."""
    if isinstance(value, msgspec.Raw):
        value = bytes(value)
    if not isinstance(value, bytes):
        if value is None or isinstance(value, Mapping):
            return value, ""
        return None, f"must be an object, found {describe(value)}"
    if not value:
        return None, ""
    try:
        return msgspec.json.decode(value), ""
    except (msgspec.DecodeError, RecursionError) as error:
        return None, f"is no readable JSON: {error}"
