"""What is known about endpoints: whether `<path>/?name[]=…` answers with the same fields as the whole body.

vLLM's `/metrics/` sends 70 lines instead of 600 and renders only those, in the event loop that also serves requests.
It is never trusted blindly: the whole body is read first, and a filtered answer that lacks a field which the whole
body had sends the endpoint back to whole bodies. What was learnt ends after a while, because processes are replaced
behind an address; the number of endpoints is bounded, the longest unused one is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from controller.engines.reading import EngineReading, MissingReason
from controller.engines.targets import Target

# Long enough to pay off at any sensible interval, short enough to drop endpoints that are gone and to notice upgrades.
REMEMBER_SECONDS = 600.0
# More processes than one controller will ever see; an entry is below 1 KiB.
MAX_ENDPOINTS = 4_096

# What a filter can cause. A gauge that is NaN just now is not the filter's fault.
_CAUSED_BY_FILTER = frozenset({MissingReason.ABSENT, MissingReason.INCOMPLETE})


@dataclass(frozen=True, slots=True)
class _Known:
    engine: str
    filtered: bool  # whether the filtered form is worth a try
    lacking: frozenset[str]  # the fields that the whole body did not have
    until: float


class Endpoints:
    """A bounded memory by target. Times are monotonic seconds."""

    def __init__(self, max_endpoints: int = MAX_ENDPOINTS, remember_seconds: float = REMEMBER_SECONDS) -> None:
        self._max = max_endpoints
        self._remember_seconds = remember_seconds
        self._known: OrderedDict[Target, _Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def filtered_engine(self, target: Target, now: float) -> str | None:
        """The engine whose names to filter by; None where the whole body is to be read."""
        known = self._known.get(target)
        if known is None:
            return None
        if now >= known.until:
            del self._known[target]
            return None
        self._known.move_to_end(target)
        return known.engine if known.filtered else None

    def learn(self, target: Target, reading: EngineReading, *, filters_by_name: bool, now: float) -> None:
        """Note what a whole body had, unless that is known."""
        if target not in self._known:
            lacking = frozenset(missing.field for missing in reading.missing)
            until = now + self._remember_seconds
            self._known[target] = _Known(reading.engine, filters_by_name, lacking, until)
        self._known.move_to_end(target)
        while len(self._known) > self._max:
            self._known.popitem(last=False)

    def is_complete(self, target: Target, reading: EngineReading) -> bool:
        """Whether a filtered answer has everything that the whole body had."""
        known = self._known.get(target)
        return known is not None and all(
            missing.field in known.lacking or missing.reason not in _CAUSED_BY_FILTER for missing in reading.missing
        )

    def give_up(self, target: Target) -> None:
        """The filtered form did not work: whole bodies until the memory of this endpoint ends."""
        if known := self._known.get(target):
            self._known[target] = replace(known, filtered=False)
