"""One role at one tick: read its members, and extend its memory of them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.scaling.arrivals import Interval, extended
from controller.scaling.samples import MemberSample, MemberState, SampleState, sample, unambiguous
from controller.scaling.state import RoleState
from controller.scaling.ticks import PrefillLoad, RoleTick, in_flight, summed
from controller.scaling.types import Member, RoleCapacity, RoleObservation, RoleSpec

# A tick that is this many intervals late with nothing new is a tick without samples, not a decision made twice.
_LATE_INTERVALS = 1.5
# A process that takes over at the next tick has missed nothing: its first rate is one interval late.
_UNSEEN_INTERVALS = 2.5


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How a role is sampled: the interval, the window after which a hole is a new beginning, how long ticks are kept,
    and the window of a peak."""

    interval_seconds: float
    stable_seconds: float
    retention_seconds: float
    peak_seconds: float


def observe_role(
    role: RoleSpec,
    capacity: RoleCapacity | None,
    before: RoleState,
    observation: RoleObservation,
    *,
    now: float,
    sampling: Sampling,
    prefill: PrefillLoad | None,
) -> tuple[RoleState, RoleTick]:
    """Read the members of one role, and extend its memory of arrivals and latencies by this tick."""
    members = unambiguous(observation.members)
    states: dict[str, MemberState] = {}
    samples: list[tuple[Member, MemberSample]] = []
    # Sorted, so that sums of floats do not depend on the order of the observation.
    for key in sorted(members):
        member = members[key]
        known = before.members.get(key)
        state, seen = sample(known, member, now, sampling.interval_seconds)
        if state is not None:
            states[key] = state
        if member.ready or (state is not None and state.was_ready):
            samples.append((member, seen))
        # Else it still starts. What it reports is a baseline, so that its first interval as Ready has a rate.

    weight = capacity.prompt_token_weight if capacity is not None else 1.0
    tick = summed(role.kind, samples, prompt_weight=weight, prefill=prefill)
    fields: dict[str, Any] = {
        "members": states,
        "current_replicas": observation.current_replicas,
        "requests_in_flight": in_flight(tick),
    }
    if tick.answered_members:
        fields["sampled_at"] = now
        silence = None if before.sampled_at is None else now - before.sampled_at
        if before.sampling_since is None or silence is None or silence >= sampling.stable_seconds:
            # A hole as long as the window: whatever is sampled from here on is a beginning.
            fields["sampling_since"] = now
            fields["unseen_floor"] = _unseen_floor(before, observation, now, sampling)
    if _is_tick(before, samples, now, sampling.interval_seconds):
        fields["ticked_at"] = now
        seconds = now - before.ticked_at if before.ticked_at is not None else 0.0
        if seconds > 0.0:
            tick = msgspec.structs.replace(tick, seconds=seconds)
            interval = Interval(now, seconds, sampling.retention_seconds, sampling.peak_seconds)
            fields |= extended(role.kind, capacity, before, tick, interval, prefill)
    return msgspec.structs.replace(before, **fields), tick


def _unseen_floor(before: RoleState, observation: RoleObservation, now: float, sampling: Sampling) -> int | None:
    """What a new process must not remember less than, while its first window fills.

    Between the last recommendation that it knows of and its first sample something may have arrived that an unbroken
    run would have seen, in its window until this one is whole again. It is unknown, so the count stays a
    recommendation until then, and the down window begins there.
    """
    last = before.history.last
    if before.sampled_at is not None or last is None:
        return None
    missed = now - last > _UNSEEN_INTERVALS * sampling.interval_seconds
    return observation.current_replicas if missed else None


def _is_tick(before: RoleState, samples: list[tuple[Member, MemberSample]], now: float, interval: float) -> bool:
    repeated = all(seen.state is SampleState.FRESH and not seen.elapsed_seconds for _, seen in samples)
    if not samples or not repeated:
        return True
    return before.ticked_at is None or now - before.ticked_at >= _LATE_INTERVALS * interval
