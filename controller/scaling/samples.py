"""From one reading of a member to what happened since its last one. Unknown is not zero.

Each member is compared only with its own earlier reading, over its own elapsed time. Five outcomes:

- `fresh`: a rate. The member's process is the one seen before and its counters did not fall.
- `warming`: the first reading of this process: a baseline, no rate. Its gauges count.
- `reset`: the container restarted or a counter fell: the interval is dropped, never negative, never zero. Gauges
  count.
- `stale`: the newest reading is too old.
- `missing`: no reading, or one without a single value.

A reading seen before is fresh without a rate (`elapsed_seconds` 0): deciding twice on one sample changes nothing.

Single values that are no measurement (NaN, infinities, negatives, impossible magnitudes) are dropped one by one; the
rest of the reading stands. Gauges that stay above zero while every token counter is flat are distrusted: engines have
been seen to report the requests of clients long gone (vllm#49538, vllm#29928).
"""

from __future__ import annotations

from enum import StrEnum
from operator import attrgetter, sub

import msgspec

from controller.scaling.counts import LARGEST_READING, observed
from controller.scaling.histograms import continues, well_formed
from controller.scaling.types import Histogram, Member, MemberReading

# A gauge above zero with flat counters is believed for two samples (a long prompt moves no counter until its first
# token) and distrusted from the third on.
FLAT_SAMPLES_DISTRUSTED = 3

# A reading older than this many intervals says nothing about now.
STALE_INTERVALS = 3.0

# Two readings closer than this share of the interval are one: their difference would be noise divided by nearly
# nothing.
SHORTEST_ELAPSED_INTERVALS = 0.05

_COUNTERS = (
    "computed_prompt_tokens",
    "cached_prompt_tokens",
    "generation_tokens",
    "finished_requests",
    "started_requests",
)
_GAUGES = ("running_requests", "waiting_requests", "waiting_for_kv_requests")
_counters = attrgetter(*_COUNTERS)
_values = attrgetter(*_COUNTERS, *_GAUGES)


class SampleState(StrEnum):
    """What one member's reading is good for at this tick."""

    FRESH = "fresh"
    WARMING = "warming"
    RESET = "reset"
    STALE = "stale"
    MISSING = "missing"


class MemberState(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """What is remembered of one member: the last good reading is the baseline of the next rate."""

    incarnation: str
    sampled_at: float
    reading: MemberReading
    flat_samples: int = 0
    was_ready: bool = False  # it has been Ready; one that still starts is supply to come, not a silent member


class Increase(msgspec.Struct, gc=False, frozen=True):
    """By how much the counters of one process grew between two readings; None where one of the two is unknown."""

    computed_prompt_tokens: float | None = None
    cached_prompt_tokens: float | None = None
    generation_tokens: float | None = None
    finished_requests: float | None = None
    started_requests: float | None = None

    @property
    def any(self) -> bool:
        """Whether anything was done."""
        return bool(
            self.computed_prompt_tokens
            or self.cached_prompt_tokens
            or self.generation_tokens
            or self.finished_requests
            or self.started_requests
        )


_UNKNOWN = Increase()
_NOTHING = MemberReading()


class MemberSample(msgspec.Struct, gc=False, frozen=True):
    """What one member contributes to this tick: counters over `elapsed_seconds`, the reading now, and the baseline."""

    state: SampleState
    elapsed_seconds: float = 0.0
    increase: Increase = _UNKNOWN
    gauges: MemberReading = _NOTHING  # empty where they are distrusted
    before: MemberReading = _NOTHING

    @property
    def answered(self) -> bool:
        """Whether the member was read at this tick."""
        return self.state in _ANSWERED

    @property
    def running(self) -> float | None:
        """Running requests; None where unknown or distrusted."""
        return self.gauges.running_requests

    @property
    def waiting(self) -> float | None:
        """Waiting requests; None where unknown or distrusted."""
        return self.gauges.waiting_requests

    @property
    def waiting_for_kv(self) -> float | None:
        """Of those, the ones that wait for KV blocks; None where unknown or distrusted."""
        return self.gauges.waiting_for_kv_requests


_ANSWERED = frozenset({SampleState.FRESH, SampleState.WARMING, SampleState.RESET})
_MISSING = MemberSample(SampleState.MISSING)
_STALE = MemberSample(SampleState.STALE)


def unambiguous(members: tuple[Member, ...]) -> dict[str, Member]:
    """Members by key. Of several with one key the newest attempt counts; if several are newest, none has a reading."""
    chosen = {member.key: member for member in members}
    if len(chosen) == len(members):
        return chosen
    for key in chosen:
        rivals = [member for member in members if member.key == key]
        newest = max(map(_attempt, rivals))
        latest = sorted({repr(member): member for member in rivals if _attempt(member) == newest}.items())
        _, first = latest[0]
        chosen[key] = first if len(latest) == 1 else msgspec.structs.replace(first, reading=None)
    return chosen


def _attempt(member: Member) -> tuple[float, str]:
    at = member.sampled_at
    return (at if at == at else float("-inf"), member.incarnation)  # noqa: PLR0124 (NaN has no order)


def sample(
    before: MemberState | None, member: Member, now: float, interval_seconds: float
) -> tuple[MemberState | None, MemberSample]:
    """Compare a member's reading with its baseline. Returns the next baseline and what happened in between."""
    if member.reading is None:
        return before, _MISSING
    if not now - STALE_INTERVALS * interval_seconds <= member.sampled_at <= now + interval_seconds:
        return before, _STALE
    reading = _measured(member.reading)
    if reading == _NOTHING:
        return before, _MISSING  # an engine that answers and says nothing (vLLM with --disable-log-stats)
    if before is None or before.incarnation != member.incarnation:
        state = SampleState.WARMING if before is None else SampleState.RESET
        was_ready = before is not None and before.was_ready
        return _baseline(member, reading, was_ready=was_ready), _gauges_only(state, reading)
    elapsed = member.sampled_at - before.sampled_at
    if elapsed < SHORTEST_ELAPSED_INTERVALS * interval_seconds:
        return before, _gauges_only(SampleState.FRESH, before.reading)
    return _compared(before, member, reading, elapsed)


def _compared(
    before: MemberState, member: Member, reading: MemberReading, elapsed: float
) -> tuple[MemberState, MemberSample]:
    old = before.reading
    grown = _increase(reading, old)
    if not (continues(reading.ttft, old.ttft) and continues(reading.itl, old.itl)):
        if _fell(reading.ttft, old.ttft) or _fell(reading.itl, old.itl):
            grown = None
        reading, old = _with_usable_histograms(reading), _without_histograms(old)
    if grown is None:
        return _baseline(member, reading, was_ready=before.was_ready), _gauges_only(SampleState.RESET, reading)
    flat = 0
    if not grown.any and (reading.running_requests or reading.waiting_requests):
        flat = before.flat_samples + 1
    gauges = reading if flat < FLAT_SAMPLES_DISTRUSTED else _NOTHING
    return (
        MemberState(member.incarnation, member.sampled_at, reading, flat, before.was_ready or member.ready),
        MemberSample(SampleState.FRESH, elapsed, grown, gauges, old),
    )


def _increase(now: MemberReading, before: MemberReading) -> Increase | None:
    """The growth of every counter; None if one fell."""
    new, old = _counters(now), _counters(before)
    if None in new or None in old:
        grown = [None if a is None or b is None else a - b for a, b in zip(new, old, strict=True)]
        if any(value is not None and value < 0.0 for value in grown):
            return None
        return Increase(*grown)
    known = tuple(map(sub, new, old))
    return Increase(*known) if min(known) >= 0.0 else None


def _baseline(member: Member, reading: MemberReading, *, was_ready: bool) -> MemberState:
    return MemberState(
        member.incarnation, member.sampled_at, _with_usable_histograms(reading), was_ready=was_ready or member.ready
    )


def _gauges_only(state: SampleState, reading: MemberReading) -> MemberSample:
    return MemberSample(state, gauges=reading)


def _fell(now: Histogram | None, before: Histogram | None) -> bool:
    """Whether a histogram has fewer observations than before: another process made it."""
    return bool(now and before and now.cumulative and now.cumulative[-1] < before.cumulative[-1])


def _measured(reading: MemberReading) -> MemberReading:
    """The reading without gauges and counters that are no measurement; the very same object when there are none."""
    values = _values(reading)
    if None in values:
        values = tuple([value for value in values if value is not None])
    # NaN fails the comparison of the sum, wherever it hides from min().
    if not values or (min(values) >= 0.0 and sum(values) < LARGEST_READING):
        return reading
    kept = {name: observed(getattr(reading, name)) for name in (*_COUNTERS, *_GAUGES)}
    return msgspec.structs.replace(reading, **kept)


def _without_histograms(reading: MemberReading) -> MemberReading:
    return msgspec.structs.replace(reading, ttft=None, itl=None)


def _with_usable_histograms(reading: MemberReading) -> MemberReading:
    """A reading fit to be a baseline: without a histogram that is none."""
    if reading.ttft is not None and not well_formed(reading.ttft):
        reading = msgspec.structs.replace(reading, ttft=None)
    if reading.itl is not None and not well_formed(reading.itl):
        reading = msgspec.structs.replace(reading, itl=None)
    return reading
