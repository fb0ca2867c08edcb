"""The length mix that a role sees: prompt to output tokens, mean lengths, share of cached prompt. Pure.

From counter sums over the last five to ten minutes, never from a single interval: a mix is what a capacity is converted
to, so it must not follow every long prompt. Only differences of one member's own counters count; a member that began
anew gives a new baseline and nothing else. Prompt tokens are all of them, cached ones included, as the engines' own
totals are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog import ObservedMix
from controller.scaling import Member, Observation, RoleObservation

# workload-mix.md §4: at least five minutes; twice that rides out a burst of one kind of request.
WINDOW_SECONDS = 600.0
SHORTEST_SECONDS = 300.0
# A published mix is replaced only by one that differs by more than this share, so that capacity does not breathe.
_REPUBLISH_SHARE = 0.1
# The hit ratio of a few minutes on replicas of different age is not known better than this.
_HIT_RATIO_SIGMA = 0.05


@dataclass(frozen=True, slots=True)
class _Counters:
    incarnation: str
    computed: float
    cached: float
    generated: float
    finished: float


@dataclass(frozen=True, slots=True)
class _Slice:
    start: float
    time: float
    computed: float
    cached: float
    generated: float
    finished: float


@dataclass(frozen=True, slots=True)
class RoleMix:
    """What is remembered of one role's mix; `published` is what consumers see. `time` is when it was last looked at."""

    baselines: Mapping[str, _Counters]
    slices: tuple[_Slice, ...] = ()
    published: ObservedMix | None = None
    time: float | None = None


def with_mixes(known: Mapping[str, RoleMix], observation: Observation) -> dict[str, RoleMix]:
    """The mixes of all roles after one more observation; roles that are gone are forgotten."""
    return {role.name: _updated(known.get(role.name, RoleMix({})), role, observation.now) for role in observation.roles}


def _updated(known: RoleMix, role: RoleObservation, now: float) -> RoleMix:
    baselines: dict[str, _Counters] = {}
    grown = _Slice(now if known.time is None else known.time, now, 0.0, 0.0, 0.0, 0.0)
    for member in role.members:
        counters = _counters(member)
        before = known.baselines.get(member.key)
        if counters is None:
            if before is not None:
                baselines[member.key] = before
            continue
        baselines[member.key] = counters
        grown = _plus(grown, before, counters)
    slices = tuple(each for each in known.slices if 0.0 <= now - each.time < WINDOW_SECONDS)
    if grown.computed or grown.cached or grown.generated:
        slices = (*slices, grown)
    published = known.published
    # A few seconds after a start are one client's requests, and no mix.
    if slices and now - slices[0].start >= SHORTEST_SECONDS:
        mix = _mix(slices)
        published = mix if _differs(published, mix) else published
    return RoleMix(baselines, slices, published, now)


def _counters(member: Member) -> _Counters | None:
    reading = member.reading
    if reading is None:
        return None
    values = (reading.computed_prompt_tokens, reading.generation_tokens, reading.finished_requests)
    if any(value is None or not 0.0 <= value < float("inf") for value in values):
        return None
    computed, generated, finished = (float(value) for value in values if value is not None)
    return _Counters(member.incarnation, computed, max(0.0, reading.cached_prompt_tokens or 0.0), generated, finished)


def _plus(total: _Slice, before: _Counters | None, now: _Counters) -> _Slice:
    if before is None or before.incarnation != now.incarnation:
        return total
    steps = (
        now.computed - before.computed,
        now.cached - before.cached,
        now.generated - before.generated,
        now.finished - before.finished,
    )
    if min(steps) < 0.0:  # a reset that the incarnation did not tell
        return total
    return _Slice(
        total.start,
        total.time,
        total.computed + steps[0],
        total.cached + steps[1],
        total.generated + steps[2],
        total.finished + steps[3],
    )


def _mix(slices: tuple[_Slice, ...]) -> ObservedMix | None:
    cached = sum(each.cached for each in slices)
    prompt = cached + sum(each.computed for each in slices)
    generated = sum(each.generated for each in slices)
    finished = sum(each.finished for each in slices)
    if prompt <= 0.0 or generated <= 0.0 or finished < 1.0:
        return None
    return ObservedMix(
        input_per_output=prompt / generated,
        mean_input_tokens=prompt / finished,
        mean_output_tokens=generated / finished,
        requests=int(finished),
        hit_ratio=cached / prompt,
        hit_ratio_sigma=_HIT_RATIO_SIGMA if cached else 0.0,
    )


def _differs(published: ObservedMix | None, mix: ObservedMix | None) -> bool:
    """A silent role keeps its last mix: no traffic says nothing about the mix of the next."""
    if mix is None or not mix.is_known:
        return False
    if published is None:
        return True
    ratio = mix.input_per_output / published.input_per_output
    return not 1 - _REPUBLISH_SHARE <= ratio <= 1 + _REPUBLISH_SHARE or (
        abs(mix.hit_ratio - published.hit_ratio) > _REPUBLISH_SHARE
    )
