"""Arrivals of a role by flow conservation, and the other memory that grows by one tick.

Served tokens saturate at capacity, so arrivals are what was served plus what the queues grew by (change of waiting
requests × mean tokens of a finished request), per second of each member's own elapsed time. Which tokens count
depends on the role's kind, because that is what its capacity was measured in.

Arrivals are an interval. `low` counts every Ready member that gave no rate as idle, `high` as exactly at target, so
that a silent member can neither make a role grow nor let it shrink.
"""

from __future__ import annotations

from math import exp
from typing import Any

import msgspec

from controller.scaling.capacity_factor import measured
from controller.scaling.histograms import total_increase
from controller.scaling.known_peak import with_demand
from controller.scaling.samples import MemberSample
from controller.scaling.state import LatencyTick, RoleState, TokensPerRequest
from controller.scaling.ticks import PrefillLoad, RoleTick, decode_waiting
from controller.scaling.types import Histogram, RoleCapacity, RoleKind
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
    prefill: PrefillLoad | None,
) -> dict[str, Any]:
    """The fields of a role's memory that grow by one tick."""
    served = _served(tick)
    per_request = _tokens_per_request(before.tokens_per_request, served, interval.seconds)
    fields: dict[str, Any] = {"tokens_per_request": per_request, "latencies": _latencies(kind, before, tick, interval)}
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
        fields["factor"] = measured(before.factor, capacity, tick, interval.end)
    return fields


def _peak(peak: float, flows: tuple[Flow, ...], interval: Interval) -> float:
    demand = mean(flows, interval.end, max(interval.peak_seconds, interval.seconds)).low or 0.0
    level = mean(flows, interval.end, PEAK_LEVEL_SECONDS).low or 0.0
    return with_demand(peak, max(demand, level), interval.seconds)


def _served(tick: RoleTick) -> Served:
    served = prompt = generation = counted = finished = silent = 0.0
    measured = 0
    for item in tick.samples:
        demand = item.demand_tokens
        if demand is None:
            silent += item.share
            continue
        increase, elapsed = item.seen.increase, item.seen.elapsed_seconds
        measured += 1
        served += demand / elapsed
        prompt += (increase.computed_prompt_tokens or 0.0) / elapsed
        generation += (increase.generation_tokens or 0.0) / elapsed
        if increase.finished_requests is not None:
            counted += demand
            finished += increase.finished_requests
    return Served(
        demand=served,
        prompt=prompt,
        generation=generation,
        measured=measured,
        silent=silent,
        counted_tokens=counted,
        finished=finished,
    )


def _latencies(kind: RoleKind, before: RoleState, tick: RoleTick, interval: Interval) -> tuple[LatencyTick, ...]:
    """The latencies that are the role's own: a Decode role's first token excludes prefill, and the one token that a
    Prefill role generates has no successor."""
    fresh = [item.seen for item in tick.samples if item.seen.elapsed_seconds > 0.0]
    ttft: list[tuple[Histogram, Histogram]] = []
    itl: list[tuple[Histogram, Histogram]] = []
    if kind in (RoleKind.SERVER, RoleKind.PREFILL):
        ttft = [(now, old) for seen in fresh if (now := seen.gauges.ttft) is not None and (old := seen.before.ttft)]
    if kind in (RoleKind.SERVER, RoleKind.DECODE):
        itl = [(now, old) for seen in fresh if (now := seen.gauges.itl) is not None and (old := seen.before.itl)]
    oldest = interval.end - interval.retention_seconds
    kept = tuple([old for old in before.latencies if old.end > oldest])
    if not ttft and not itl:
        return kept
    return (*kept, LatencyTick(interval.end, total_increase(ttft), total_increase(itl)))


def _queue_growth(kind: RoleKind, tick: RoleTick, seconds: float, prefill: PrefillLoad | None) -> float:
    """Requests per second by which the queues of members seen both times grew; negative when they drain.

    A member that enters brings its queue as a baseline, one that leaves takes its queue along: neither is an arrival.
    """
    queues: list[tuple[MemberSample, float, float]] = []
    for item in tick.samples:
        now, earlier = item.seen.gauges.waiting_requests, item.seen.before.waiting_requests
        if now is not None and earlier is not None:
            queues.append((item.seen, now, earlier))
    if kind is not RoleKind.DECODE or prefill is None:
        return sum([(now - earlier) / seen.elapsed_seconds for seen, now, earlier in queues])
    kv_now = _known_sum([seen.gauges.waiting_for_kv_requests for seen, _, _ in queues])
    kv_earlier = _known_sum([seen.before.waiting_for_kv_requests for seen, _, _ in queues])
    if kv_now is None or kv_earlier is None:
        kv_now = kv_earlier = None
        if prefill.now is None or prefill.before is None:
            return 0.0
    own_now = decode_waiting(sum([now for _, now, _ in queues]), kv_now, prefill.now)
    own_earlier = decode_waiting(sum([earlier for _, _, earlier in queues]), kv_earlier, prefill.before)
    return (own_now - own_earlier) / seconds


def _known_sum(values: list[float | None]) -> float | None:
    """The sum, if every part of it is known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


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
