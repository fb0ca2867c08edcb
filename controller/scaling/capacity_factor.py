"""κ, the measured capacity factor: what replicas serve ÷ what the prior says they serve at the same concurrency.

Nothing else in the control study mattered more: with a prior a third too high, fixed headroom kept 0.85 of the
latency promises and an HPA 0.07, with κ 0.997. It is a ratio of sums over Ready members past their warm-up that run
at least three requests, against the prior's throughput at *their* concurrency, so it is known long before anything
saturates.

A prior with one point, or an explicit number, has no curve. Then only saturated replicas say anything: while work
waits, what they serve is what they can serve. That estimate only lowers, and forgets.
"""

from __future__ import annotations

from bisect import bisect_right
from math import exp, log

from controller.scaling.state import Factor
from controller.scaling.ticks import RoleTick, Sampled
from controller.scaling.types import Correction, RoleCapacity

MEMORY_SECONDS = 900.0
# The prior is believed as if it had been measured for half a minute.
PRIOR_SECONDS = 30.0
SMALLEST, LARGEST = 0.25, 3.0
# With one or two requests a step is mostly overhead, and a gauge of 1 may be a gauge of 0.
FEWEST_RUNNING = 3.0
# A young replica compiles, fills its caches and serves short of itself: cold starts poisoned a planner (dynamo#12430).
WARM_UP_SECONDS = 60.0

# Saturated: more than so many requests waiting for each replica, two ticks in a row.
_WAITING_PER_REPLICA = 2.0
_SATURATED_TICKS = 2
_GAIN_PER_TEN_SECONDS = 0.1
_FORGETTING_SECONDS = 1800.0

Curve = tuple[tuple[float, float], ...]


def on_curve(curve: Curve, running: float) -> float | None:
    """Tokens per second that the prior gives a replica with `running` requests: linear between measured points, flat
    beyond the largest; None below the smallest, where nothing was measured."""
    if not curve or running < curve[0][0]:
        return None
    if running >= curve[-1][0]:
        return curve[-1][1]
    above = bisect_right(curve, running, key=lambda point: point[0])
    (low, at_low), (high, at_high) = curve[above - 1], curve[above]
    return at_low + (at_high - at_low) * (running - low) / (high - low)


def measured(factor: Factor, capacity: RoleCapacity, tick: RoleTick, now: float) -> Factor:
    """The factor after this tick."""
    if len(capacity.curve) < 2:
        return _saturated(factor, capacity, tick)
    faded = exp(-tick.seconds / MEMORY_SECONDS)
    served, should, seconds = factor.served * faded, factor.expected * faded, factor.seconds * faded
    seen = False
    for item in tick.samples:
        running = _running(item, now)
        rate = None if running is None else on_curve(capacity.curve, running)
        if item.demand_tokens is None or rate is None or not rate > 0.0:
            continue
        served += item.demand_tokens / item.seen.elapsed_seconds * tick.seconds
        should += rate * tick.seconds
        seen = True
    return Factor(served, should, seconds + tick.seconds if seen else seconds, factor.saturated, factor.saturated_ticks)


def value(factor: Factor, capacity: RoleCapacity) -> float | None:
    """κ: the clipped ratio, drawn to 1 as long as little was measured; None before any measurement."""
    if len(capacity.curve) < 2:
        return factor.saturated if factor.seconds > 0.0 else None
    if not factor.expected > 0.0 or not factor.served > 0.0:
        return None
    weight = factor.seconds / (factor.seconds + PRIOR_SECONDS)
    return exp(weight * log(min(LARGEST, max(SMALLEST, factor.served / factor.expected))))


def applied(kappa: float | None, correction: Correction) -> float:
    """What a correction makes of κ: 1 where it may not correct."""
    if kappa is None or correction is Correction.OFF:
        return 1.0
    return min(kappa, 1.0) if correction is Correction.LOWER else kappa


def _running(item: Sampled, now: float) -> float | None:
    """The mean concurrency of a member's interval, if it says something about its capacity."""
    member, seen = item.member, item.seen
    running = seen.gauges.running_requests
    if not member.ready or member.ready_since is None or running is None:
        return None
    if now - member.ready_since < WARM_UP_SECONDS + seen.elapsed_seconds:
        return None
    before = seen.before.running_requests
    mean = running if before is None else (running + before) / 2.0
    return mean if mean >= FEWEST_RUNNING else None


def _saturated(factor: Factor, capacity: RoleCapacity, tick: RoleTick) -> Factor:
    replicas = tick.serving_replicas
    full = replicas > 0 and (tick.waiting or 0.0) > _WAITING_PER_REPLICA * replicas
    ticks = min(_SATURATED_TICKS, factor.saturated_ticks + 1) if full else 0
    estimate, seconds = factor.saturated, factor.seconds
    if ticks >= _SATURATED_TICKS and tick.fresh_members == tick.ready_members:
        seed = capacity.seed_tokens_per_second or capacity.effective_tokens_per_second
        rates = [
            item.demand_tokens / item.seen.elapsed_seconds for item in tick.samples if item.demand_tokens is not None
        ]
        gain = 1.0 - (1.0 - _GAIN_PER_TEN_SECONDS) ** (tick.seconds / 10.0)
        reached = max(SMALLEST, sum(rates) / replicas / seed)
        estimate = min(1.0, estimate + gain * (reached - estimate))
        seconds += tick.seconds
    else:
        estimate = 1.0 + (estimate - 1.0) * exp(-tick.seconds / _FORGETTING_SECONDS)
    return Factor(0.0, 0.0, seconds, estimate, ticks)
