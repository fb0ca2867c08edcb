"""What an algorithm says about one role, before the planner: a count, how sure it is, and why."""

from __future__ import annotations

import msgspec

from controller.scaling.types import Forecast, Learned


class Recommended(msgspec.Struct, frozen=True, kw_only=True):
    """`raw` counts silent members as idle, `high` as exactly at target: growing needs the first, shrinking the
    second.

    `load` is the role's load in replicas at target, silent members at target: what the survivors of a shrink would
    share. `raw` is None when samples or capacity say nothing.
    """

    raw: int | None
    high: int | None = None
    load: float | None = None
    reason: str = ""
    panicking: bool = False
    follows_ratio: bool = False  # a role without a signal of its own, set by a declared ratio
    next_change_time: float | None = None
    learned: Learned | None = None
    forecast: Forecast | None = None


def silent(reason: str) -> Recommended:
    """No recommendation, and why not."""
    return Recommended(raw=None, reason=reason)
