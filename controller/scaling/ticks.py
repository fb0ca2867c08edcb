"""One tick of a role: its members' samples added up to what the algorithms look at, before any rate is formed."""

from __future__ import annotations

from collections import Counter

import msgspec

from controller.scaling.samples import MemberSample, SampleState
from controller.scaling.tokens import demand_of
from controller.scaling.types import Member, MetricsStatus, RoleKind


class Sampled(msgspec.Struct, gc=False, frozen=True):
    """One member at this tick: which part of a replica it is, and its tokens that count, None without a rate."""

    member: Member
    seen: MemberSample
    share: float
    demand_tokens: float | None


class RoleTick(msgspec.Struct, frozen=True, kw_only=True):
    """What one tick says about a role. Lives for one decision only."""

    status: MetricsStatus
    ready_members: int
    fresh_members: int
    answered_members: int
    serving_replicas: int
    running: float | None
    waiting: float | None  # the role's own: for Decode without those that wait for prefill
    samples: tuple[Sampled, ...]
    seconds: float = 0.0  # since the last tick; 0 at the first one, and when deciding again on the same readings

    @property
    def coverage(self) -> float | None:
        """Fresh members ÷ Ready members; None with no Ready member."""
        return self.fresh_members / self.ready_members if self.ready_members else None


class PrefillLoad(msgspec.Struct, frozen=True):
    """Requests running and waiting on all Prefill roles, at the last tick and now; None where nobody answered."""

    before: float | None
    now: float | None


def summed(
    kind: RoleKind,
    samples: list[tuple[Member, MemberSample]],
    *,
    prompt_weight: float,
    prefill: PrefillLoad | None,
) -> RoleTick:
    """Add up what the members of a role say. `prefill` is given for Decode roles beside a Prefill role."""
    members_of = Counter([member.replica for member, _ in samples if member.ready])
    count = demand_of(kind, prompt_weight)
    sampled = tuple(
        [
            Sampled(
                member,
                seen,
                1.0 / max(1, members_of[member.replica]),
                count(seen.increase) if seen.elapsed_seconds > 0.0 else None,
            )
            for member, seen in samples
        ]
    )
    ready = [item.seen for item in sampled if item.member.ready]
    running = [value for seen in ready if (value := seen.gauges.running_requests) is not None]
    waiting = [value for seen in ready if (value := seen.gauges.waiting_requests) is not None]
    own_waiting = sum(waiting) if waiting else None
    if kind is RoleKind.DECODE and own_waiting is not None:
        own_waiting = decode_waiting(own_waiting, _waiting_for_kv(ready), prefill.now if prefill else 0.0)
    states = Counter([seen.state for seen in ready])
    answered = states[SampleState.FRESH] + states[SampleState.WARMING] + states[SampleState.RESET]
    not_serving = {item.member.replica for item in sampled if item.member.ready and not item.member.serving}
    return RoleTick(
        status=_status(len(ready), answered, states),
        ready_members=len(ready),
        fresh_members=states[SampleState.FRESH],
        answered_members=answered,
        serving_replicas=len(members_of) - len(not_serving),
        running=sum(running) if running else None,
        waiting=own_waiting,
        samples=sampled,
    )


def _status(ready: int, answered: int, states: Counter[SampleState]) -> MetricsStatus:
    if not ready:
        return MetricsStatus.NO_READY_REPLICAS
    if answered == ready:
        return MetricsStatus.SAMPLED
    if answered:
        return MetricsStatus.PARTIAL_COVERAGE
    if states[SampleState.STALE]:
        return MetricsStatus.STALE_SAMPLES
    return MetricsStatus.ALL_SCRAPES_FAILED


def in_flight(tick: RoleTick) -> float | None:
    """Requests that the role has accepted and not finished; None where no gauge is known."""
    if tick.running is None and tick.waiting is None:
        return None
    return (tick.running or 0.0) + (tick.waiting or 0.0)


def _waiting_for_kv(samples: list[MemberSample]) -> float | None:
    """Requests that wait for KV blocks, if every member that reports a queue also says so."""
    reporting = [seen.waiting_for_kv for seen in samples if seen.waiting is not None]
    if any(value is None for value in reporting):
        return None
    return sum(value for value in reporting if value is not None)


def decode_waiting(waiting: float, waiting_for_kv: float | None, prefill: float | None) -> float:
    """A decode queue without the requests that wait for prefill: those are prefill's pressure.

    Engines that tell them apart are believed; otherwise whatever is under way on Prefill is taken off. If Prefill did
    not answer, nothing is left that is surely Decode's own.
    """
    if waiting_for_kv is not None:
        return max(0.0, waiting - waiting_for_kv)
    return max(0.0, waiting - prefill) if prefill is not None else 0.0
