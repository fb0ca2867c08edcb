"""The panic state machine: fast growth on a sudden load, and no shrinking until it has been quiet for a stable
window.

Panic begins when the unclamped panic count reaches `threshold` × (Ready + pending) replicas: pending ones are supply,
or slow starts would panic again and again (aibrix#2670). While the threshold stays crossed the clock restarts; it
ends one whole stable window after the last crossing (knative PR #8125). While it lasts the count never falls below
the highest reached in it.
"""

from __future__ import annotations

import msgspec

from controller.scaling.state import Panic


def advanced(
    panic: Panic | None,
    count: int,
    possible: int,
    *,
    threshold: float,
    supply: int,
    current: int,
    stable_seconds: float,
    now: float,
) -> Panic | None:
    """The panic after this tick: begun, renewed, kept, or over (None).

    It begins with what was seen, `count`; it is renewed by what may have been, `possible`, silent members at target and
    unseen time like its neighbours: quiet must be seen to end it.
    """
    line = threshold * max(1, supply)
    if panic is None:
        return Panic(since=now, last_crossing=now, floor=current) if count >= line else None
    if max(count, possible) >= line:
        return msgspec.structs.replace(panic, last_crossing=now)
    if now - panic.last_crossing >= stable_seconds:
        return None
    return panic


def reached(panic: Panic | None, desired: int, ceiling: int) -> Panic | None:
    """The panic with its floor raised to what this tick decided, or lowered to what may not be exceeded any more."""
    if panic is None:
        return None
    return msgspec.structs.replace(panic, floor=min(max(panic.floor, desired), ceiling))
