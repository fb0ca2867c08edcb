"""TokenThroughput: the demand of a role in tokens per second ÷ what one replica carries, over two windows.

The stable window decides; the panic window takes over when it asks for a multiple of the supply. Both are means of
arrivals, so that a saturated role does not hide what it cannot serve, and a backlog that nobody is coming to drain asks
for the replicas to drain it.
"""

from __future__ import annotations

import msgspec

from controller.scaling.counts import replicas_for
from controller.scaling.latency import evidence
from controller.scaling.panic import advanced
from controller.scaling.recommendation import Recommended, silent
from controller.scaling.situation import Situation
from controller.scaling.state import RoleState
from controller.scaling.types import TokenThroughput
from controller.scaling.windows import mean

# A drop in arrivals during the backlog's own window would hide it, a longer one would hide a burst.
BACKLOG_WINDOW_SECONDS = 30.0

# A backlog is to be gone within this time, or within the time a new replica takes to come: sooner it could not help.
SHORTEST_DRAIN_SECONDS = 60.0


def window_seconds(wanted_seconds: float, interval_seconds: float) -> float:
    """A window as used: never shorter than two intervals, or a single late scrape would empty it."""
    return max(wanted_seconds, 2.0 * interval_seconds)


def backlog_floor(situation: Situation, per_replica: float) -> float:
    """Tokens per second that waiting work asks for: recent arrivals, and the queue drained in time; 0 while none waits.

    Only the arrivals while Ready and starting replicas cover them: the queue is then waiting for replicas that come.
    """
    waiting, per_request = situation.tick.waiting, situation.state.tokens_per_request.ratio
    if not waiting:
        return 0.0
    window = window_seconds(BACKLOG_WINDOW_SECONDS, situation.interval_seconds)
    arrivals = mean(situation.state.flows, situation.now, window).low
    if arrivals is None or per_request is None or situation.supply.coming * per_replica >= arrivals:
        return arrivals or 0.0
    return arrivals + waiting * per_request / max(SHORTEST_DRAIN_SECONDS, situation.startup_p90_seconds or 0.0)


def token_throughput(algorithm: TokenThroughput, situation: Situation) -> tuple[Recommended, RoleState]:
    """One role's recommendation under `TokenThroughput`, and its memory with the panic after this tick."""
    state, now = situation.state, situation.now
    if situation.capacity is None:
        return silent("the role has no capacity: give a number, or a prior that resolves"), state
    per_replica = situation.capacity.effective_tokens_per_second
    stable_seconds = window_seconds(algorithm.stable_window_seconds, situation.interval_seconds)
    panic_seconds = window_seconds(algorithm.panic_window_seconds, situation.interval_seconds)
    stable = mean(state.flows, now, stable_seconds)
    peak = mean(state.flows, now, panic_seconds)
    if stable.low is None:
        return silent("no member has given two readings within the stable window: no rate yet"), state

    peak_load = (peak.low or 0.0) / per_replica
    panic = advanced(
        state.panic,
        replicas_for(peak_load),
        replicas_for((peak.high or 0.0) / per_replica),
        threshold=algorithm.panic_threshold,
        supply=situation.supply.expected,
        current=situation.current,
        stable_seconds=stable_seconds,
        now=now,
    )
    floor = backlog_floor(situation, per_replica)
    load = max(stable.low, floor) / per_replica
    high = max(stable.high or 0.0, stable.low, floor) / per_replica
    reason = _figures(stable.low, f"over {stable_seconds:.0f} s", per_replica)
    if floor > stable.low:
        reason = _figures(floor, f"while {in_words(situation.tick.waiting)} waiting", per_replica)
    if panic is not None:
        if peak_load > load:
            load = peak_load
            reason = "panic: " + _figures(peak.low or 0.0, f"over {panic_seconds:.0f} s", per_replica)
        high = max(high, load, (peak.high or 0.0) / per_replica)
    raw = replicas_for(load)
    if panic is not None and panic.floor > raw:
        raw = panic.floor
        reason = f"panic since {now - panic.since:.0f} s: not below {raw}; {reason}"
    asked = evidence(
        situation.role.kind,
        situation.latencies,
        ttft_target_seconds=_seconds(algorithm.ttft_target_milliseconds),
        itl_target_seconds=_seconds(algorithm.itl_target_milliseconds),
        waiting=situation.tick.waiting,
        serving_replicas=situation.supply.serving,
    )
    if asked is not None and asked.replicas > raw:
        raw, reason = asked.replicas, asked.reason
    recommended = Recommended(
        raw=raw,
        high=max(raw, replicas_for(high)),
        load=high,
        reason=reason,
        panicking=panic is not None,
        next_change_time=panic.last_crossing + stable_seconds if panic is not None else None,
    )
    return recommended, msgspec.structs.replace(state, panic=panic)


def in_words(waiting: float | None) -> str:
    """ "1 request is", "7 requests are"."""
    return "1 request is" if waiting == 1.0 else f"{waiting or 0.0:,.0f} requests are"


def _figures(tokens_per_second: float, where: str, per_replica: float) -> str:
    return f"{tokens_per_second:,.0f} tokens/s {where}, {per_replica:,.0f} per replica"


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
