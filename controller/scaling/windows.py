"""Sliding windows over the arrivals of a role: means that divide by what was seen, never by what should have been.

A window is a read-only view of a bounded tuple of `Flow`s, oldest first. Each flow is the interval between two
sampling ticks with the rate of arrivals in it, as an interval of its own: `low` counts members that did not answer as
idle, `high` counts them as exactly at target. `low` is None where nobody answered: such a tick is a hole, it adds
neither to the sum nor to the divisor, so a hole as long as the window leaves an empty window and not a zero. Rates
are constant within a flow, which makes a mean independent of how the time was cut into ticks.
"""

from __future__ import annotations

import msgspec

# A window of an hour at the shortest interval (5 s) has 720 ticks; older pairs are merged beyond this many.
LARGEST_RING = 512


class Flow(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """The tick that ended at `end` and lasted `seconds`: tokens per second in the role's demand unit."""

    end: float
    seconds: float
    low: float | None
    high: float | None
    served: float | None = None
    prompt: float | None = None
    generation: float | None = None


class WindowMean(msgspec.Struct, gc=False, frozen=True):
    """Means over a window; None where no part of the window was seen. `covered_seconds` is what `low` divides by."""

    low: float | None
    high: float | None
    covered_seconds: float


def remember(flows: tuple[Flow, ...], flow: Flow, retention_seconds: float) -> tuple[Flow, ...]:
    """The ring with one more tick, without those that ended more than `retention_seconds` before it."""
    oldest = flow.end - retention_seconds
    first = 0
    while first < len(flows) and flows[first].end <= oldest:
        first += 1
    kept = (*flows[first:], flow)
    return kept if len(kept) <= LARGEST_RING else coarse(kept, LARGEST_RING * 3 // 4)


def mean(flows: tuple[Flow, ...], end: float, window_seconds: float) -> WindowMean:
    """Time-weighted means of `low` and `high` over the `window_seconds` before `end`; a filling window divides by its
    cover."""
    start = end - window_seconds
    low_sum = low_seconds = high_sum = high_seconds = 0.0
    for flow in reversed(flows):
        if flow.end <= start:
            break
        seconds = min(flow.end, end) - max(flow.end - flow.seconds, start)
        if seconds <= 0.0:
            continue  # younger than the window
        if flow.low is not None:
            low_sum += flow.low * seconds
            low_seconds += seconds
        if flow.high is not None:
            high_sum += flow.high * seconds
            high_seconds += seconds
    return WindowMean(
        low=max(0.0, low_sum / low_seconds) if low_seconds > 0.0 else None,
        high=max(0.0, high_sum / high_seconds) if high_seconds > 0.0 else None,
        covered_seconds=low_seconds,
    )


def coarse(flows: tuple[Flow, ...], largest: int) -> tuple[Flow, ...]:
    """At most `largest` flows with the same sums: neighbours are merged, the oldest first, as evenly as needed."""
    while len(flows) > largest:
        excess = len(flows) - largest
        pairs = min(excess, len(flows) // 2)
        merged = [merged_pair(flows[2 * index], flows[2 * index + 1]) for index in range(pairs)]
        flows = (*merged, *flows[2 * pairs :])
    return flows


def merged_pair(first: Flow, second: Flow) -> Flow:
    """Two neighbouring flows as one: the time-weighted mean, or the side that was seen."""
    total = first.seconds + second.seconds

    def weighted(a: float | None, b: float | None) -> float | None:
        if a is None or b is None:
            return a if b is None else b
        return (a * first.seconds + b * second.seconds) / total

    return Flow(
        end=second.end,
        seconds=total,
        low=weighted(first.low, second.low),
        high=weighted(first.high, second.high),
        served=weighted(first.served, second.served),
        prompt=weighted(first.prompt, second.prompt),
        generation=weighted(first.generation, second.generation),
    )
