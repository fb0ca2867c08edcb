"""Counts that somebody else wrote.

The annotation `written` holds the counts of our last write, set by the same patch as the counts; until there is one,
`found` holds those that stood there when the target was bound. A declared count that differs was set by a person, a
GitOps tool or another controller: it is the new baseline. When our counts have been reversed three times within max(ten
intervals, 30 minutes), the scaler stops writing until its spec changes or a person annotates it with `resume`: two
writers that take turns cost more than either. To change a count that was only found reverses nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REVERSALS_BEFORE_HOLD = 3
_WINDOW_INTERVALS = 10
_WINDOW_FLOOR_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Reversal:
    """One foreign write over a count of ours: when, and who as far as the object tells."""

    time: float
    manager: str


@dataclass(frozen=True, slots=True)
class ForeignWrites:
    """`roles`: declared counts that differ from what we wrote or found, role → (ours, declared). `hold`: we stop
    writing."""

    roles: dict[str, tuple[int, int]]
    reversals: tuple[Reversal, ...]
    hold: bool


def assess_foreign_writes(
    written: Mapping[str, int],
    declared: Mapping[str, int],
    known: Sequence[Reversal],
    *,
    interval_seconds: float,
    now: float,
    manager: str,
    write_time: float | None,
    found: Mapping[str, int] | None = None,
) -> ForeignWrites:
    """Compare the declared counts with our last written ones, or with those found where none was written.

    `write_time` is when the foreign manager last wrote (from managedFields), which makes the same write count once,
    also across a restart; where the object does not tell, the reversal is counted once while the difference lasts.
    """
    roles = _differences({**(found or {}), **written}, declared)
    if len(known) >= REVERSALS_BEFORE_HOLD:
        # Only a person ends the hold; that nothing was reversed since we stopped writing proves nothing.
        return ForeignWrites(roles, tuple(known), hold=True)
    window = max(_WINDOW_INTERVALS * interval_seconds, _WINDOW_FLOOR_SECONDS)
    recent = tuple(reversal for reversal in known if now - reversal.time <= window)
    if _differences(written, declared):
        when = now if write_time is None else min(write_time, now)
        seen = any(abs(reversal.time - when) < 1.0 for reversal in recent) if write_time is not None else bool(recent)
        if not seen:
            recent = (*recent, Reversal(when, manager))[-REVERSALS_BEFORE_HOLD:]
    return ForeignWrites(roles, recent, len(recent) >= REVERSALS_BEFORE_HOLD)


def _differences(written: Mapping[str, int], declared: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    return {
        name: (count, declared[name])
        for name, count in sorted(written.items())
        if name in declared and declared[name] != count
    }
