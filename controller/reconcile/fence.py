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

from controller.api import BoundBy, format_written
from controller.api.contract import BOUND_BY_ANNOTATION, TERM_ANNOTATION, WRITTEN_ANNOTATION


@dataclass(frozen=True, slots=True)
class DeclaredCount:
    """A role as the target declares it: its place in `spec.roles`, and its count, None where the object states none."""

    index: int
    name: str
    replicas: int | None


@dataclass(frozen=True, slots=True)
class Holding:
    """The binding a write relies on."""

    scaler_name: str
    scaler_uid: str
    term: int


def fence_patch(
    target_uid: str,
    holding: Holding,
    declared: Sequence[DeclaredCount],
    wanted: Mapping[str, int],
    written: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Operations that set `wanted` (role → count) if, and only if, nothing they rely on has moved.

    `written` are the counts the annotation will hold: every role of the scaler, changed or not. Raises KeyError when a
    wanted role is not declared.
    """
    places = {role.name: role for role in declared}
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": target_uid},
        {
            "op": "test",
            "path": _annotation(BOUND_BY_ANNOTATION),
            "value": str(BoundBy(holding.scaler_name, holding.scaler_uid)),
        },
        {"op": "test", "path": _annotation(TERM_ANNOTATION), "value": str(holding.term)},
    ]
    for name in sorted(wanted):
        role = places[name]
        operations.append({"op": "test", "path": f"/spec/roles/{role.index}/name", "value": name})
        operations.append({"op": "test", "path": f"/spec/roles/{role.index}/replicas", "value": role.replicas})
    operations.extend(
        # A count that the object does not state cannot be replaced by every server; `add` sets a member either way.
        {
            "op": "add" if places[name].replicas is None else "replace",
            "path": f"/spec/roles/{places[name].index}/replicas",
            "value": wanted[name],
        }
        for name in sorted(wanted)
    )
    operations.append({"op": "add", "path": _annotation(WRITTEN_ANNOTATION), "value": format_written(written)})
    return operations


def claim_patch(resource_version: str, holding: Holding, *, acquired: bool) -> dict[str, Any]:
    """Raise our own binding, or acquire or take over (`acquired`): then the counts that an earlier holder wrote are no
    baseline for telling foreign writes, and are dropped."""
    annotations: dict[str, str | None] = {
        BOUND_BY_ANNOTATION: str(BoundBy(holding.scaler_name, holding.scaler_uid)),
        TERM_ANNOTATION: str(holding.term),
    }
    if acquired:
        annotations[WRITTEN_ANNOTATION] = None
    return {"metadata": {"resourceVersion": resource_version, "annotations": annotations}}


def release_patch(resource_version: str) -> dict[str, Any]:
    """Give the target back. The term stays, so that an old write in flight can never fit again."""
    return {"metadata": {"resourceVersion": resource_version, "annotations": {BOUND_BY_ANNOTATION: None}}}


def _annotation(name: str) -> str:
    return "/metadata/annotations/" + name.replace("~", "~0").replace("/", "~1")
