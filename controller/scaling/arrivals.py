"""Arrivals of a role by flow conservation, and the other memory that grows by one tick.

Served tokens saturate at capacity, so arrivals are what was served plus what the queues grew by (change of waiting
requests × mean tokens of a finished request), per second of each member's own elapsed time. Which tokens count
depends on the role's kind, because that is what its capacity was measured in.

Arrivals are an interval. `low` counts every Ready member that gave no rate as idle, `high` as exactly at target, so
that a silent member can neither make a role grow nor let it shrink.
"""

from __future__ import annotations

from collections import Counter
from math import exp
from typing import Any

import msgspec

from controller.scaling.capacity_factor import measured
from controller.scaling.histograms import Buckets, add
from controller.scaling.known_peak import with_demand
from controller.scaling.state import LatencyTick, RoleState, TokensPerRequest
from controller.scaling.ticks import PrefillLoad, RoleTick, decode_waiting
from controller.scaling.tokens import demand_tokens
from controller.scaling.types import RoleCapacity, RoleKind
from controller.scaling.windows import Flow, mean, remember

# Memory of the mean tokens per request: long enough for a few dozen requests, short enough for a mix that shifts.
TOKENS_PER_REQUEST_MEMORY_SECONDS = 60.0

# Fewer finished requests than this (decayed) give no ratio: a denominator near zero made another autoscaler believe in
# tens of thousands of tokens per request when the load stopped (llm-d#149).
FEWEST_FINISHED_REQUESTS = 3.0


# A peak is never below the level that headroom is applied to.
PEAK_LEVEL_SECONDS = 60.0


class Interval(msgspec.Struct, frozen=True):
    """The time between two ticks of a role, and how long ticks are kept."""

    end: float
    seconds: float
    retention_seconds: float
    peak_seconds: float  # the window of a known peak


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What the members of a role served, per second; `silent` is the share of replicas that gave no rate."""

    demand: float
    prompt: float
    generation: float
    measured: int
    silent: float
    # Sums over the members that also count finished requests, for the mean tokens per request.
    counted_tokens: float
    finished: float


def extended(
    kind: RoleKind,
    capacity: RoleCapacity | None,
    before: RoleState,
    tick: RoleTick,
    interval: Interval,
    *,
    prefill: PrefillLoad | None,
) -> dict[str, Any]:
    """The fields of a role's memory that grow by one tick."""
    served = _served(kind, capacity, tick)
    per_request = _tokens_per_request(before.tokens_per_request, served, interval.seconds)
    fields: dict[str, Any] = {"tokens_per_request": per_request, "latencies": _latencies(before, tick, interval)}
    if kind is RoleKind.ENCODE or not (served.measured or served.silent):
        return fields
    low: float | None = None
    if served.measured:
        low = served.demand + _queue_growth(kind, tick, interval.seconds, prefill) * (per_request.ratio or 0.0)
    at_target = served.silent * capacity.effective_tokens_per_second if capacity is not None else 0.0
    flow = Flow(
        end=interval.end,
        seconds=interval.seconds,
        low=low,
        high=(low or 0.0) + at_target,
        served=served.demand if served.measured else None,
        prompt=served.prompt if served.measured else None,
        generation=served.generation if served.measured else None,
    )
    flows = remember(_bridged(before.flows, flow), flow, interval.retention_seconds)
    fields["flows"] = flows
    fields["peak_tokens_per_second"] = _peak(before.peak_tokens_per_second, flows, interval)
    if capacity is not None:
        fields["factor"] = measured(before.factor, kind, capacity, tick, interval.end)
    return fields


def _peak(peak: float, flows: tuple[Flow, ...], interval: Interval) -> float:
    demand = mean(flows, interval.end, max(interval.peak_seconds, interval.seconds)).low or 0.0
    level = mean(flows, interval.end, PEAK_LEVEL_SECONDS).low or 0.0
    return with_demand(peak, max(demand, level), interval.seconds)


def _served(kind: RoleKind, capacity: RoleCapacity | None, tick: RoleTick) -> Served:
    members_of = Counter(member.replica for member, _ in tick.samples if member.ready)
    weight = capacity.prompt_token_weight if capacity is not None else 1.0
    served = prompt = generation = counted = finished = silent = 0.0
    measured = 0
    for member, seen in tick.samples:
        demand = demand_tokens(kind, weight, seen)
        if demand is None:
            silent += 1.0 / max(1, members_of[member.replica])
            continue
        measured += 1
        elapsed = seen.elapsed_seconds
        served += demand / elapsed
        prompt += (seen.computed_prompt_tokens or 0.0) / elapsed
        generation += (seen.generation_tokens or 0.0) / elapsed
        if seen.finished_requests is not None:
            counted += demand
            finished += seen.finished_requests
    return Served(
        demand=served,
        prompt=prompt,
        generation=generation,
        measured=measured,
        silent=silent,
        counted_tokens=counted,
        finished=finished,
    )


def _latencies(before: RoleState, tick: RoleTick, interval: Interval) -> tuple[LatencyTick, ...]:
    ttft: list[Buckets] = [seen.ttft for _, seen in tick.samples if seen.ttft is not None]
    itl: list[Buckets] = [seen.itl for _, seen in tick.samples if seen.itl is not None]
    oldest = interval.end - interval.retention_seconds
    kept = tuple(old for old in before.latencies if old.end > oldest)
    return (*kept, LatencyTick(interval.end, add(ttft), add(itl))) if ttft or itl else kept


def _queue_growth(kind: RoleKind, tick: RoleTick, seconds: float, prefill: PrefillLoad | None) -> float:
    """Requests per second by which the queues of members seen both times grew; negative when they drain.

    A member that enters brings its queue as a baseline, one that leaves takes its queue along: neither is an arrival.
    """
    both = [seen for _, seen in tick.samples if seen.waiting is not None and seen.waiting_before is not None]
    if kind is not RoleKind.DECODE or prefill is None:
        return sum(((seen.waiting or 0.0) - (seen.waiting_before or 0.0)) / seen.elapsed_seconds for seen in both)
    if all(seen.waiting_for_kv is not None and seen.waiting_for_kv_before is not None for seen in both):
        kv_now: float | None = sum(seen.waiting_for_kv or 0.0 for seen in both)
        kv_before: float | None = sum(seen.waiting_for_kv_before or 0.0 for seen in both)
    else:
        kv_now = kv_before = None
        if prefill.now is None or prefill.before is None:
            return 0.0
    after = decode_waiting(sum(seen.waiting or 0.0 for seen in both), kv_now, prefill.now)
    earlier = decode_waiting(sum(seen.waiting_before or 0.0 for seen in both), kv_before, prefill.before)
    return (after - earlier) / seconds


def _tokens_per_request(kept: TokensPerRequest, served: Served, seconds: float) -> TokensPerRequest:
    faded = exp(-seconds / TOKENS_PER_REQUEST_MEMORY_SECONDS)
    tokens = served.counted_tokens + kept.tokens * faded
    finished = served.finished + kept.finished * faded
    ratio = tokens / finished if finished >= FEWEST_FINISHED_REQUESTS else kept.ratio
    return TokensPerRequest(tokens, finished, ratio)


def _bridged(flows: tuple[Flow, ...], flow: Flow) -> tuple[Flow, ...]:
    """The flows with the time between the last of them and this tick filled in.

    Nobody decided in that time (a restart, no Ready member). It is unseen for `low`; for `high` it is taken to have
    been like the busier of its two ends.
    """
    if not flows:
        return flows
    last = flows[-1]
    gap = flow.end - flow.seconds - last.end
    if gap <= 0.0:
        return flows
    ends = [high for high in (last.high, flow.high) if high is not None]
    return (*flows, Flow(end=last.end + gap, seconds=gap, low=None, high=max(ends, default=None)))
