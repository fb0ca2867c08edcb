"""The patches that touch a target, and nothing else does.

`fence_patch` is the only way a count is ever written: ONE JSON patch that tests the binding and the counts the decision
was made from, then replaces them. A failed test makes the API server refuse the whole patch (422, indistinguishable
from a malformed one): the caller recognises a lost fence by reading the object again, never by the message.

`claim_patch` and `release_patch` are merge patches that carry `metadata.resourceVersion`; they write no count. A claim
notes the counts that it finds (`found`), so that a count which somebody else changes before our first one is told as
such; what we write is noted as `written`, which takes the place of `found` in the same patch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.api import (
    BOUND_BY_ANNOTATION,
    FOUND_ANNOTATION,
    TERM_ANNOTATION,
    WRITTEN_ANNOTATION,
    BoundBy,
    format_written,
)
from controller.kube import JsonPatch, Patch

_ANNOTATIONS = "/metadata/annotations"
_ROLES = "/spec/roles"


@dataclass(frozen=True, slots=True)
class DeclaredCount:
    """A role as the target declares it: its place in `spec.roles`, and its count."""

    index: int
    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Holding:
    """The binding a write relies on."""

    scaler_name: str
    scaler_uid: str
    term: int

    @property
    def bound_by(self) -> str:
        """The value of the annotation."""
        return str(BoundBy(self.scaler_name, self.scaler_uid))


def fence_patch(
    target_uid: str,
    holding: Holding,
    declared: Sequence[DeclaredCount],
    wanted: Mapping[str, int],
    written: Mapping[str, int],
) -> Patch:
    """A patch that sets `wanted` (role → count) if, and only if, nothing it relies on has moved.

    `written` are the counts the annotation will hold: every role of the scaler, changed or not. Raises KeyError when a
    wanted role is not declared.
    """
    places = {role.name: role for role in declared}
    patch = JsonPatch().test("/metadata/uid", value=target_uid)
    patch.test(_ANNOTATIONS, BOUND_BY_ANNOTATION, value=holding.bound_by)
    patch.test(_ANNOTATIONS, TERM_ANNOTATION, value=str(holding.term))
    for name in sorted(wanted):
        role = places[name]
        patch.test(_ROLES, role.index, "name", value=name).test(_ROLES, role.index, "replicas", value=role.replicas)
    for name in sorted(wanted):
        patch.replace(_ROLES, places[name].index, "replicas", value=wanted[name])
    patch.add(_ANNOTATIONS, WRITTEN_ANNOTATION, value=format_written(written))
    # What is removed must exist, and whether it does is nothing to refuse a count for.
    return patch.add(_ANNOTATIONS, FOUND_ANNOTATION, value="").remove(_ANNOTATIONS, FOUND_ANNOTATION).build()


def claim_patch(resource_version: str, holding: Holding, *, found: Mapping[str, int] | None) -> dict[str, Any]:
    """Acquire, raise or take over. `found` are the counts of the object with this resourceVersion, where what earlier
    holders wrote is no baseline for telling foreign writes; None: what is noted stays, as it does when we raise."""
    annotations: dict[str, str | None] = {
        BOUND_BY_ANNOTATION: holding.bound_by,
        TERM_ANNOTATION: str(holding.term),
    }
    if found is not None:
        annotations |= {WRITTEN_ANNOTATION: None, FOUND_ANNOTATION: format_written(found) or None}
    return {"metadata": {"resourceVersion": resource_version, "annotations": annotations}}


def release_patch(resource_version: str) -> dict[str, Any]:
    """Give the target back. The term stays, so that an old write in flight can never fit again."""
    gone = {BOUND_BY_ANNOTATION: None, FOUND_ANNOTATION: None}
    return {"metadata": {"resourceVersion": resource_version, "annotations": gone}}
