"""Which of many similar events are written: the first, then a count. Pure; the caller passes the time.

The rules are those of client-go's events.k8s.io recorder:

* an event is created; the same one within six minutes makes a series (a patch with count 2), further ones only count;
* a running series is written again every thirty minutes;
* six minutes after its last occurrence a series is written for the last time and forgotten.

Two things differ. The note is part of what "the same" means: "scaled from 2 to 3" and "from 3 to 4" are two facts,
and a note cannot be changed later. In return each reason of an object has a budget, so that a note with a changing
number in it cannot flood anybody. It is the reason that has one, not the object as with the legacy recorder: a removal
of a replica is told in eight events, and a day with many of them must neither hide the warning that comes in between
nor keep the beginning of a story and lose its end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

SERIES_SECONDS = 360.0
REFRESH_SECONDS = 1800.0
# The legacy recorder's. Events live for an hour, so an object has at most 25 + 12 of one reason; what happens more
# often is read from metrics.
BURST = 25
REFILL_SECONDS = 300.0
# client-go's cache size; the least recently seen goes first.
MAX_SERIES = 4096
# A budget that goes too early is full again. Objects have some ten reasons at a time.
MAX_BUDGETS = 8 * MAX_SERIES


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that an event is about. Give the preferred apiVersion: `kubectl events --for` matches on it."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class EventKey:
    """What makes two events the same."""

    regarding: ObjectRef
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class Series:
    """One event and its repetitions. `name` is that of the Event object, in `namespace`."""

    key: EventKey
    namespace: str
    name: str
    first_at: float
    last_at: float
    written_at: float
    count: int = 1
    written_count: int = 1
    on_server: bool = False


@dataclass(slots=True)
class _Budget:
    tokens: float
    at: float


class Correlator:
    """The series that are running. Times are seconds of one clock (monotonic for the rules)."""

    def __init__(self) -> None:
        self._series: OrderedDict[EventKey, Series] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str, str, str, str], _Budget] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def repeated(self, key: EventKey, now: float) -> Series | None:
        """Count a repetition: its series, None when this is the first one."""
        series = self._series.get(key)
        if series is None:
            return None
        if now - series.last_at > SERIES_SECONDS:
            del self._series[key]
            return None
        series.count += 1
        series.last_at = now
        self._series.move_to_end(key)
        return series

    def begin(self, key: EventKey, namespace: str, name: str, now: float) -> Series | None:
        """A new event; None when its object has used up the budget of the reason."""
        if not self._spend(key.regarding, key.reason, now):
            return None
        series = self._series[key] = Series(key, namespace, name, now, now, now)
        while len(self._series) > MAX_SERIES:
            self._series.popitem(last=False)
        return series

    def forget(self, series: Series) -> None:
        """The event could not be written, or is gone from the server."""
        if self._series.get(series.key) is series:
            del self._series[series.key]

    def due(self, now: float) -> list[Series]:
        """Series to write now, because they ended or have been silent for long; ended ones are forgotten."""
        found = []
        for series in list(self._series.values()):
            ended = now - series.last_at > SERIES_SECONDS
            if ended:
                del self._series[series.key]
            if series.count > series.written_count and (ended or now - series.written_at >= REFRESH_SECONDS):
                found.append(series)
        return found

    def _spend(self, regarding: ObjectRef, reason: str, now: float) -> bool:
        owner = (regarding.kind, regarding.namespace, regarding.name, regarding.uid, reason)
        budget = self._budgets.get(owner)
        if budget is None:
            budget = self._budgets[owner] = _Budget(BURST, now)
            if len(self._budgets) > MAX_BUDGETS:
                self._budgets.popitem(last=False)
        budget.tokens = min(BURST, budget.tokens + (now - budget.at) / REFILL_SECONDS)
        budget.at = now
        self._budgets.move_to_end(owner)
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True
