"""Adaptive: no headroom to guess and no slope. What is asked for is the level of arrivals, times the headroom that
was learnt, capped by what was ever seen, raised for missed latencies, divided by the capacity that was measured.

    target = min(level × Q, max(m × peak, level ÷ h)) × b ÷ κ        raw = ceil(target)

in replicas of the seed capacity, and while work waits at least the backlog floor ÷ κ. The parts have modules of their
own: `arrivals` and `windows` (level), `headroom` (Q, started from h), `known_peak` (peak, m), `misses` (b),
`capacity_factor` (κ).
"""

from __future__ import annotations

import msgspec

from controller.scaling import capacity_factor, headroom, misses
from controller.scaling.counts import replicas_for
from controller.scaling.known_peak import capped
from controller.scaling.recommendation import Recommended, silent
from controller.scaling.situation import Situation
from controller.scaling.startup import typical_startup
from controller.scaling.state import RoleState
from controller.scaling.throughput import backlog_floor, in_words, window_seconds
from controller.scaling.types import Adaptive, Learned, Posture, RoleKind
from controller.scaling.windows import mean

LEVEL_SECONDS = 60.0
DEFAULT_HEADROOM = 0.75

# A level below a fifth of a replica divides nothing: an idle night must not teach ratios of a hundred.
SMALLEST_LEVEL = 0.2

# A level taught from less than this part of its window is another level.
SMALLEST_COVER = 0.7


class PostureSettings(msgspec.Struct, frozen=True):
    """What a posture stands for: the window of peaks, the margin over the known peak, the quantile of headroom."""

    peak_seconds: float
    peak_margin: float
    quantile: float


POSTURES = {
    Posture.ECONOMY: PostureSettings(peak_seconds=30.0, peak_margin=1.05, quantile=0.95),
    Posture.STANDARD: PostureSettings(peak_seconds=10.0, peak_margin=1.25, quantile=0.95),
    Posture.STRICT: PostureSettings(peak_seconds=10.0, peak_margin=1.5, quantile=0.98),
}


def adaptive(algorithm: Adaptive, situation: Situation) -> tuple[Recommended, RoleState]:
    """One role's recommendation under `Adaptive`, and its memory with what this tick taught."""
    capacity, state, now = situation.capacity, situation.state, situation.now
    if capacity is None:
        return silent("the role has no capacity: give a number, or a prior that resolves"), state
    seed = capacity.seed_tokens_per_second or capacity.effective_tokens_per_second
    h = capacity.headroom or DEFAULT_HEADROOM
    posture = POSTURES[algorithm.posture]
    state = _learnt(algorithm, situation, seed, h)
    level_window = window_seconds(LEVEL_SECONDS, situation.interval_seconds)
    level = mean(state.flows, now, level_window)
    if level.low is None:
        return silent("no member has given two readings within a minute: no rate yet"), state

    q = posture.quantile if algorithm.quantile is None else algorithm.quantile
    ratio = headroom.quantile(state.headroom or headroom.prior(h), q)
    kappa = capacity_factor.applied(capacity_factor.value(state.factor, capacity), algorithm.correction)
    peak = state.peak_tokens_per_second / seed
    floor = backlog_floor(situation, seed * kappa) / seed

    def target(load: float) -> float:
        wanted = capped(load * ratio, peak, load, margin=posture.peak_margin, headroom=h)
        return max(wanted * state.miss_factor, floor) / kappa

    low = level.low / seed
    high = max(low, (level.high or 0.0) / seed)
    raw = replicas_for(target(low))
    reason = (
        f"{level.low:,.0f} tokens/s over {level_window:.0f} s are {low:.2f} of {seed:,.0f}; headroom {ratio:.2f},"
        f" peak {peak:.2f}, missed targets {state.miss_factor:.2f}, capacity {kappa:.2f}"
    )
    if floor / kappa >= target(low) > 0.0 and situation.tick.waiting:
        reason = f"{in_words(situation.tick.waiting)} waiting to be drained; " + reason
    recommended = Recommended(
        raw=raw,
        high=max(raw, replicas_for(target(high))),
        load=high / kappa,
        reason=reason,
        learned=Learned(headroom=ratio, peak_replicas=peak, miss_factor=state.miss_factor, capacity_factor=kappa),
    )
    return recommended, state


def learning_lag_seconds(startups: tuple[float, ...], interval_seconds: float) -> float:
    """How much later a replica asked for now serves: half of all starts are quicker, and one tick is lost on the
    way."""
    return typical_startup(startups) + interval_seconds


def _learnt(algorithm: Adaptive, situation: Situation, seed: float, h: float) -> RoleState:
    """The memory after a tick: the histogram of headroom, and the misses."""
    state, tick = situation.state, situation.tick
    if not tick.seconds:
        return state
    weights = state.headroom or headroom.prior(h)
    seen = _ratio_seen(algorithm, situation, seed)
    if seen is not None:
        weights = headroom.learnt(weights, seen, tick.seconds)
    return msgspec.structs.replace(
        state, headroom=weights, miss_factor=_misses(algorithm, situation, state.miss_factor)
    )


def _ratio_seen(algorithm: Adaptive, situation: Situation, seed: float) -> float | None:
    """Demand now ÷ the level one start-up ago; None while a window fills or has a hole: those teach nonsense."""
    state, now, interval = situation.state, situation.now, situation.interval_seconds
    lag = learning_lag_seconds(state.startups_seconds, interval)
    level_window = window_seconds(LEVEL_SECONDS, interval)
    flows = state.flows
    if not flows or flows[0].end - flows[0].seconds > now - lag - 2.0 * level_window:
        return None
    peak_window = max(POSTURES[algorithm.posture].peak_seconds, interval)
    demand, level = mean(flows, now, peak_window), mean(flows, now - lag, level_window)
    if demand.low is None or level.low is None or demand.low != demand.high:
        return None
    if level.covered_seconds < SMALLEST_COVER * level_window:
        return None
    return demand.low / seed / max(level.low / seed, SMALLEST_LEVEL)


def _misses(algorithm: Adaptive, situation: Situation, factor: float) -> float:
    coverage = situation.tick.coverage
    if coverage is None or coverage < 0.5:
        return factor
    ticks = situation.state.latencies
    if not ticks or ticks[-1].end != situation.now:
        return factor
    if situation.role.kind is RoleKind.DECODE:
        latencies, target = ticks[-1].itl, algorithm.itl_target_milliseconds
    else:
        latencies, target = ticks[-1].ttft, algorithm.ttft_target_milliseconds
    late, observations = misses.late_share(latencies, None if target is None else target / 1e3)
    return misses.after(factor, late, observations, situation.tick.seconds)
