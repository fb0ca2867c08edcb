"""What the API server's own history of a ModelDeployment proves: who wrote its counts, and how its retirements went.

Pure: reads the stored versions of one object, oldest first, and believes nothing that a controller says of itself.

*Effective writers.* A write of a count is a version whose counts differ from those before it, the creation excepted.
Its writer is the field manager that the server noted for the count, with the scaler and the fencing term that the
object named when the write came through. Terms only rise and the counts that were written stand beside the counts, by
the same patch: a write under a term that is older than one seen before, or without its note, got past the fence and is
a writer of its own. So is one by another manager, under another scaler, or while the object was bound to nobody. One
is what a fence promises, however many processes came and went; none means that nobody wrote.

*Retirements.* Every operation in `status.retirement` is followed to its end: completed when it is cleared from Deleting
or Settling, aborted when it reaches Aborted, adopted when it is cleared from a state before (its replica went back into
service).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.embedded.contract import BOUND_BY, TERM, WRITTEN, read_roles

_BEYOND_RETURN = ("Deleting", "Settling")
_ABORTED = "Aborted"


@dataclass(frozen=True, slots=True)
class CountWriter:
    """Who wrote a count: the field manager, and the scaler that the object was bound to (empty: none). `stale_term`:
    its term, where a newer one had been seen; `noted`: the counts were noted as written by the same write."""

    manager: str
    bound_by: str
    stale_term: int | None = None
    noted: bool = True


@dataclass(frozen=True, slots=True)
class Retirements:
    """How many operations there were and how they ended; what is neither is under way."""

    admitted: int = 0
    completed: int = 0
    aborted: int = 0
    adopted: int = 0


def count_writers(versions: Iterable[Mapping[str, Any]]) -> frozenset[CountWriter]:
    """The effective writers of the replica counts of one object."""
    writers: set[CountWriter] = set()
    before: dict[str, int] | None = None
    highest = -1
    for version in versions:
        counts = {role.name: role.replicas for role in read_roles(version)}
        annotations = version["metadata"].get("annotations") or {}
        given = annotations.get(TERM, "")
        term = int(given) if given.isdecimal() else -1
        changed = [role for role, count in counts.items() if before is not None and before.get(role, count) != count]
        noted = _read_written(annotations.get(WRITTEN, ""))
        for role in changed:
            writers.add(
                CountWriter(
                    _manager_of_count(version, role),
                    annotations.get(BOUND_BY, ""),
                    term if term < highest else None,
                    noted.get(role) == str(counts[role]),
                )
            )
        highest = max(highest, term)
        before = counts
    return frozenset(writers)


def retirements(versions: Iterable[Mapping[str, Any]]) -> Retirements:
    """How the retirements of one object went."""
    admitted = completed = aborted = adopted = 0
    state, members = "", ""
    for version in versions:
        shown = (version.get("status") or {}).get("retirement") or {}
        found, whose = shown.get("state", ""), ",".join(shown.get("targetMemberUIDs") or ())
        if state and (not found or whose != members):
            completed += state in _BEYOND_RETURN
            adopted += state not in (*_BEYOND_RETURN, _ABORTED)
            state = ""
        admitted += bool(found and not state)
        aborted += found == _ABORTED != state
        state, members = found, whose
    return Retirements(admitted, completed, aborted, adopted)


def _manager_of_count(version: Mapping[str, Any], role: str) -> str:
    """The manager that the server holds for the count of a role: whoever wrote it last owns it alone."""
    item = f'k:{{"name":"{role}"}}'
    owners = [
        entry.get("manager", "")
        for entry in version["metadata"].get("managedFields") or ()
        if "f:replicas" in (_fields(entry).get(item) or {})
    ]
    return ",".join(sorted(owners))


def _fields(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get("f:roles") or {}
    return found


def _read_written(text: str) -> dict[str, str]:
    """`decode=3,prefill=2` as a mapping."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)
