"""The decision log: what was changed when, and what limited it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.reports.formatting import UNKNOWN, Style, format_count
from controller.reports.tables import Column, Table


@dataclass(frozen=True, slots=True)
class DecisionEntry:
    """One change of one role. A count that is not known is None."""

    time_seconds: float
    role: str
    from_replicas: int | None
    to_replicas: int | None
    limited_by: str
    reason: str


def decision_log(entries: Iterable[DecisionEntry], title: str = "Decisions", note: str = "") -> Table:
    """The table of a decision log, in the order given: time, role, change, what limited it, why."""
    return Table(
        title,
        (
            Column("Time", Style.ELAPSED),
            Column("Role"),
            Column("Replicas"),
            Column("Limited by"),
            Column("Reason"),
        ),
        [(e.time_seconds, e.role, _change(e), e.limited_by or UNKNOWN, e.reason) for e in entries],
        note,
    )


def _change(entry: DecisionEntry) -> str:
    before, after = entry.from_replicas, entry.to_replicas
    sign = ""
    if before is not None and after is not None and before != after:
        sign = " ▲" if after > before else " ▼"
    return f"{format_count(before)} → {format_count(after)}{sign}"
