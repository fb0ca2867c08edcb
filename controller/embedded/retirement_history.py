"""How the retirements of a ModelDeployment went: read from the API server's own history of the object. Pure.

Every operation in `status.retirement` is followed to its end: completed when it is cleared from Deleting or Settling,
aborted when it reaches Aborted, adopted when it is cleared from a state before (its replica went back into service).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_BEYOND_RETURN = ("Deleting", "Settling")
_ABORTED = "Aborted"


@dataclass(frozen=True, slots=True)
class Retirements:
    """How many operations there were and how they ended; what is neither is under way."""

    admitted: int = 0
    completed: int = 0
    aborted: int = 0
    adopted: int = 0


def retirements(history: Iterable[Mapping[str, Any]]) -> Retirements:
    """How the retirements of one object went; every stored state of it, oldest first."""
    admitted = completed = aborted = adopted = 0
    state, members = "", ""
    for version in history:
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
