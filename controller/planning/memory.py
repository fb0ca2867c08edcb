"""What survives a restart: the memory of decisions, to and from `status.roles[]`.

A role's status holds it twice: in fields for people (`stabilizationHistory`, `panic`, `settling`, `startupSeconds`),
and in `memory`, one compact string that is complete. `restored` prefers the string; where it is missing or cannot be
read it makes do with the fields, and what is then unknown only makes the next decisions more careful.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence

import msgspec

from controller import scaling
from controller.api import HistoryEntry, PanicState, RoleStatus, SettlingState, StartupSeconds, status_number
from controller.scaling import PersistedRole, State
from controller.scaling.history import History, Recommendation
from controller.scaling.state import Panic

# The last second of the year 9999, the last that RFC 3339 can write, and the largest count of the status' schema.
_LAST_SECOND = 253_402_300_799.0
_LARGEST_COUNT = 2**31 - 1

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(PersistedRole)


def restored(roles: Iterable[RoleStatus], now: float) -> State:
    """The state of a process that begins at `now` with what the status of an earlier one tells."""
    return scaling.restore({role.name: _lasting(_persisted(role), now) for role in roles}, now)


def remembered(status: RoleStatus, state: State) -> RoleStatus:
    """`status` with the memory of its role in it."""
    kept = scaling.persist(state, status.name)
    return msgspec.structs.replace(
        status,
        memory=_encoder.encode(kept).decode(),
        stabilization_history=tuple(
            HistoryEntry(time=entry.time, replicas=entry.replicas) for entry in kept.history.highs
        ),
        panic=None if kept.panic is None else PanicState(since=kept.panic.since, floor=kept.panic.floor),
        settling=_settling(kept),
        startup_seconds=_startups(kept.startups_seconds),
    )


def _persisted(role: RoleStatus) -> PersistedRole:
    if role.memory:
        with contextlib.suppress(msgspec.DecodeError):
            kept = _decoder.decode(role.memory)
            if _plausible(kept):
                return kept
        # Edited, cut, or of another version: the fields below remain.
    history = sorted(role.stabilization_history, key=lambda entry: (entry.time, entry.replicas))
    entries = [Recommendation(entry.time, entry.replicas) for entry in history]
    return PersistedRole(
        history=History(
            highs=_falling(entries),
            known_since=entries[0].time if entries else None,
            last=entries[-1].time if entries else None,
        ),
        panic=None
        if role.panic is None
        else Panic(since=role.panic.since, last_crossing=role.panic.since, floor=role.panic.floor),
        current_replicas=role.current_replicas,
        fingerprint=role.capacity.fingerprint or None if role.capacity is not None else None,
        decided_at=entries[-1].time if entries else None,
    )


def _plausible(kept: PersistedRole) -> bool:
    """Whether every number is one that a process of ours can have written. One that is none would come back into the
    status, which the API server then refuses for ever, or be divided by."""
    history, settling, panic = kept.history, kept.settling, kept.panic
    entries = (*history.highs, *history.lows)
    times: list[float | None] = [entry.time for entry in entries]
    times += [event.time for event in kept.events]
    times += [history.known_since, history.last, kept.decided_at, kept.trend_at]
    times += [settling.unadmitted_since, settling.raise_not_before, settling.starting_since]
    counts: list[int | None] = [entry.replicas for entry in entries]
    counts += [settling.pauses, kept.current_replicas, kept.desired_replicas]
    if panic is not None:
        times += [panic.since, panic.last_crossing]
        counts.append(panic.floor)
    durations = [*kept.startups_seconds, *(flow.seconds for flow in kept.flows)]
    return (
        all(time is None or 0.0 <= time <= _LAST_SECOND for time in times)
        and all(count is None or 0 <= count <= _LARGEST_COUNT for count in counts)
        and all(0.0 <= seconds <= _LAST_SECOND for seconds in durations)
        and kept.factor.saturated > 0.0
    )


def _falling(entries: Sequence[Recommendation]) -> tuple[Recommendation, ...]:
    """Times ascending, counts falling: only those can still become a maximum."""
    kept: list[Recommendation] = []
    for entry in entries:
        while kept and kept[-1].replicas <= entry.replicas:
            kept.pop()
        kept.append(entry)
    return tuple(kept)


def _lasting(kept: PersistedRole, now: float) -> PersistedRole:
    """The status is written when the counts in the history change, not when the last one is repeated. So the newest
    entry may have been repeated until the other process ended: take it as made now, or it would expire too early."""
    highs = kept.history.highs
    if not highs or highs[-1].time >= now:
        return kept
    renewed = (*highs[:-1], Recommendation(now, highs[-1].replicas))
    return msgspec.structs.replace(kept, history=msgspec.structs.replace(kept.history, highs=renewed))


def _settling(kept: PersistedRole) -> SettlingState | None:
    if kept.settling == type(kept.settling)():
        return None
    return SettlingState(
        unadmitted_since=kept.settling.unadmitted_since,
        pauses=kept.settling.pauses,
        raise_not_before=kept.settling.raise_not_before,
    )


def _startups(seconds: Sequence[float]) -> StartupSeconds | None:
    if not seconds:
        return None
    return StartupSeconds(p50=status_number(_quantile(seconds, 0.5)), p90=status_number(_quantile(seconds, 0.9)))


def _quantile(values: Sequence[float], share: float) -> float:
    """Nearest rank: a value that was measured, never one in between."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
