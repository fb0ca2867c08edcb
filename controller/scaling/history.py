"""Past recommendations, kept as what their windows need: a running maximum and a running minimum.

`highs` holds the recommendations that could still become the maximum of a window ending in the future (times
ascending, counts falling), `lows` those that could become the minimum. Everything else can never matter again, so a
day of ticks is a few entries and fits into status.

`known_since` says how far back the memory is complete. A window that reaches further back is unknown, not empty:
asking for its maximum is answered by "unknown", and the planner does not shrink on that. Times are model seconds,
counts replicas.
"""

from __future__ import annotations

from math import ceil

import msgspec

# Entries of one list in status; 16 distinct falling counts within one window are a rare storm, and beyond it neighbours
# are merged to the safe side.
LARGEST_HISTORY = 16


class Recommendation(msgspec.Struct, gc=False, frozen=True, array_like=True, order=True):
    """`replicas` were recommended at `time`."""

    time: float
    replicas: int


class History(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The recommendations that windows up to the longest one used so far can still need."""

    highs: tuple[Recommendation, ...] = ()
    lows: tuple[Recommendation, ...] = ()
    known_since: float | None = None
    last: float | None = None  # the newest recommendation


def recorded(
    history: History,
    now: float,
    replicas: int,
    *,
    up_window_seconds: float,
    down_window_seconds: float,
    longest_gap: float,
) -> History:
    """The history with one more recommendation, without what no window can need any more.

    After a silence of more than `longest_gap` seconds the memory begins anew (what would have been recommended in
    between is unknown); a recommendation from the future means that the clock was set back, and the memory begins
    anew too.
    """
    if history.last is not None and not 0.0 <= now - history.last <= longest_gap:
        history = History()
    newest = Recommendation(now, replicas)
    highs = [item for item in history.highs if now - item.time < down_window_seconds and item.replicas > replicas]
    lows = [item for item in history.lows if now - item.time < up_window_seconds and item.replicas < replicas]
    known = now if history.known_since is None else history.known_since
    return History(
        highs=(*highs, newest),
        lows=(*lows, newest),
        # Older entries were forgotten just now; a window that grows later must not believe it knows them.
        known_since=max(known, now - down_window_seconds),
        last=now,
    )


def highest(history: History, now: float, window_seconds: float) -> Recommendation | None:
    """The largest recommendation younger than the window; of several equal ones the newest. None if there is none."""
    return next((item for item in history.highs if now - item.time < window_seconds), None)


def lowest(history: History, now: float, window_seconds: float) -> Recommendation | None:
    """The smallest recommendation younger than the window; of several equal ones the newest. None if there is none."""
    return next((item for item in history.lows if now - item.time < window_seconds), None)


def complete(history: History, now: float, window_seconds: float) -> bool:
    """Whether every recommendation of the window is known."""
    return history.known_since is not None and history.known_since <= now - window_seconds


def compacted(history: History) -> History:
    """At most `LARGEST_HISTORY` entries a list, merged so that a maximum never becomes smaller nor expires earlier, and
    times in milliseconds, rounded to the later one."""
    return History(
        highs=tuple(Recommendation(rounded_up(item.time), item.replicas) for item in _merged(history.highs)),
        lows=tuple(Recommendation(rounded_up(item.time), item.replicas) for item in _merged(history.lows)),
        known_since=None if history.known_since is None else rounded_up(history.known_since),
        last=history.last,
    )


def rounded_up(time: float) -> float:
    """The next whole millisecond: what is persisted may last a little longer, and never shorter."""
    return ceil(time * 1e3) / 1e3


def _merged(items: tuple[Recommendation, ...]) -> tuple[Recommendation, ...]:
    while len(items) > LARGEST_HISTORY:
        # The older of a pair is the extreme of the two, the newer lasts longer: together they err on the safe side.
        pairs = zip(items[::2], items[1::2], strict=False)
        merged = [Recommendation(newer.time, older.replicas) for older, newer in pairs]
        items = (*merged, *items[len(merged) * 2 :])
    return items
