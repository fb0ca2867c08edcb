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

import msgspec

from controller.scaling.counts import LARGEST_READING, observed
from controller.scaling.histograms import Buckets, increase, well_formed
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


class SampleState(StrEnum):
    """What one member's reading is good for at this tick."""

    FRESH = "fresh"
    WARMING = "warming"
    RESET = "reset"
    STALE = "stale"
    MISSING = "missing"


class MemberState(msgspec.Struct, frozen=True, array_like=True):
    """What is remembered of one member: the last good reading is the baseline of the next rate."""

    incarnation: str
    sampled_at: float
    reading: MemberReading
    flat_samples: int = 0
    was_ready: bool = False  # it has been Ready; one that still starts is supply to come, not a silent member


class MemberSample(msgspec.Struct, frozen=True, kw_only=True):
    """What one member contributes to this tick. Increases are over `elapsed_seconds`; None means "not observed"."""

    state: SampleState
    elapsed_seconds: float = 0.0
    computed_prompt_tokens: float | None = None
    generation_tokens: float | None = None
    finished_requests: float | None = None
    started_requests: float | None = None
    # Gauges now, None where distrusted; and what they were at the baseline.
    running: float | None = None
    waiting: float | None = None
    waiting_for_kv: float | None = None
    running_before: float | None = None
    waiting_before: float | None = None
    waiting_for_kv_before: float | None = None
    ttft: Buckets | None = None
    itl: Buckets | None = None

    @property
    def answered(self) -> bool:
        """Whether the member's gauges of this tick are known."""
        return self.state in _ANSWERED


_ANSWERED = frozenset({SampleState.FRESH, SampleState.WARMING, SampleState.RESET})
_NOTHING = MemberReading()
_MISSING = MemberSample(state=SampleState.MISSING)
_STALE = MemberSample(state=SampleState.STALE)


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
    prompt = _grown(reading.computed_prompt_tokens, old.computed_prompt_tokens)
    cached = _grown(reading.cached_prompt_tokens, old.cached_prompt_tokens)
    generation = _grown(reading.generation_tokens, old.generation_tokens)
    finished = _grown(reading.finished_requests, old.finished_requests)
    started = _grown(reading.started_requests, old.started_requests)
    if (
        (_fell(prompt) or _fell(cached) or _fell(generation) or _fell(finished) or _fell(started))
        or _count_fell(reading.ttft, old.ttft)
        or _count_fell(reading.itl, old.itl)
    ):
        return _baseline(member, reading, was_ready=before.was_ready), _gauges_only(SampleState.RESET, reading)
    ttft = _observations(reading.ttft, old.ttft)
    itl = _observations(reading.itl, old.itl)
    if (ttft is None and reading.ttft is not None) or (itl is None and reading.itl is not None):
        reading = _with_usable_histograms(reading)
    busy = bool(reading.running_requests) or bool(reading.waiting_requests)
    moved = bool(prompt) or bool(cached) or bool(generation) or bool(finished) or bool(started)
    flat = before.flat_samples + 1 if busy and not moved else 0
    trusted = flat < FLAT_SAMPLES_DISTRUSTED
    return (
        MemberState(member.incarnation, member.sampled_at, reading, flat, before.was_ready or member.ready),
        MemberSample(
            state=SampleState.FRESH,
            elapsed_seconds=elapsed,
            computed_prompt_tokens=prompt,
            generation_tokens=generation,
            finished_requests=finished,
            started_requests=started,
            running=reading.running_requests if trusted else None,
            waiting=reading.waiting_requests if trusted else None,
            waiting_for_kv=reading.waiting_for_kv_requests if trusted else None,
            running_before=old.running_requests,
            waiting_before=old.waiting_requests,
            waiting_for_kv_before=old.waiting_for_kv_requests,
            ttft=ttft,
            itl=itl,
        ),
    )


def _baseline(member: Member, reading: MemberReading, *, was_ready: bool) -> MemberState:
    return MemberState(
        member.incarnation, member.sampled_at, _with_usable_histograms(reading), was_ready=was_ready or member.ready
    )


def _gauges_only(state: SampleState, reading: MemberReading) -> MemberSample:
    return MemberSample(
        state=state,
        running=reading.running_requests,
        waiting=reading.waiting_requests,
        waiting_for_kv=reading.waiting_for_kv_requests,
    )


def _grown(now: float | None, before: float | None) -> float | None:
    return now - before if now is not None and before is not None else None


def _fell(grown: float | None) -> bool:
    return grown is not None and grown < 0.0


def _count_fell(now: Histogram | None, before: Histogram | None) -> bool:
    return bool(now and before and now.cumulative and now.cumulative[-1] < before.cumulative[-1])


def _observations(now: Histogram | None, before: Histogram | None) -> Buckets | None:
    return increase(now, before) if now is not None and before is not None else None


def _measured(reading: MemberReading) -> MemberReading:
    """The reading without gauges and counters that are no measurement; the very same object when there are none."""
    for value in (
        reading.running_requests,
        reading.waiting_requests,
        reading.waiting_for_kv_requests,
        reading.computed_prompt_tokens,
        reading.cached_prompt_tokens,
        reading.generation_tokens,
        reading.finished_requests,
        reading.started_requests,
    ):
        if value is not None and not 0.0 <= value < LARGEST_READING:
            kept = {name: observed(getattr(reading, name)) for name in (*_COUNTERS, *_GAUGES)}
            return msgspec.structs.replace(reading, **kept)
    return reading


def _with_usable_histograms(reading: MemberReading) -> MemberReading:
    """A reading fit to be a baseline: without a histogram that is none."""
    if reading.ttft is not None and not well_formed(reading.ttft):
        reading = msgspec.structs.replace(reading, ttft=None)
    if reading.itl is not None and not well_formed(reading.itl):
        reading = msgspec.structs.replace(reading, itl=None)
    return reading
