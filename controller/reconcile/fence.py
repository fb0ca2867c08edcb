"""The patches that touch a target, and nothing else does.

`fence_patch` is the only way a count is ever written: ONE JSON patch that tests the binding and the counts the decision
was made from, then replaces them. A failed test makes the API server refuse the whole patch (422, indistinguishable
from a malformed one): the caller recognises a lost fence by reading the object again, never by the message.

`claim_patch` and `release_patch` are merge patches that carry `metadata.resourceVersion`; they write no count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.api import (
    BOUND_BY_ANNOTATION,
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
    return patch.add(_ANNOTATIONS, WRITTEN_ANNOTATION, value=format_written(written)).build()


def claim_patch(resource_version: str, holding: Holding, *, acquired: bool) -> dict[str, Any]:
    """Raise our own binding, or acquire or take over (`acquired`): then the counts that an earlier holder wrote are no
    baseline for telling foreign writes, and are dropped."""
    annotations: dict[str, str | None] = {
        BOUND_BY_ANNOTATION: holding.bound_by,
        TERM_ANNOTATION: str(holding.term),
    }
    if acquired:
        annotations[WRITTEN_ANNOTATION] = None
    return {"metadata": {"resourceVersion": resource_version, "annotations": annotations}}


def release_patch(resource_version: str) -> dict[str, Any]:
    """Give the target back. The term stays, so that an old write in flight can never fit again."""
    return {"metadata": {"resourceVersion": resource_version, "annotations": {BOUND_BY_ANNOTATION: None}}}
