"""Latency over a window, and what it may ask for.

Evidence that users wait is a windowed p95 surely above its target (the whole bucket lies above it), from enough
observations, with work waiting behind it, or a p95 of the inter-token latency above its own. It asks for as many more
replicas as the latency exceeds the target, at most twice those that serve, and it is combined with the demand by
maximum. Multiplied with it, the original reached 25 and 75 replicas for a maximum of 2.
"""

from __future__ import annotations

import msgspec

from controller.scaling.counts import replicas_for
from controller.scaling.histograms import Buckets, Quantile, add, quantile
from controller.scaling.state import LatencyTick
from controller.scaling.types import RoleKind

PERCENTILE = 0.95

# A p95 needs twenty observations before one of them can be the slowest twentieth.
FEWEST_OBSERVATIONS = 20.0

LARGEST_GROWTH = 2.0


class Latencies(msgspec.Struct, frozen=True):
    """The p95 of both latencies over a window, in seconds; None with too few observations."""

    ttft: Quantile | None
    itl: Quantile | None


def windowed(ticks: tuple[LatencyTick, ...], now: float, short_seconds: float, long_seconds: float) -> Latencies:
    """p95 over the short window, or, where that holds too few observations, over the long one."""
    recent = [tick for tick in ticks if tick.end > now - short_seconds]
    return Latencies(
        ttft=_percentile([tick.ttft for tick in recent])
        or _percentile([tick.ttft for tick in ticks if tick.end > now - long_seconds]),
        itl=_percentile([tick.itl for tick in recent])
        or _percentile([tick.itl for tick in ticks if tick.end > now - long_seconds]),
    )


def _percentile(parts: list[Buckets | None]) -> Quantile | None:
    return quantile(add([part for part in parts if part is not None]), PERCENTILE, FEWEST_OBSERVATIONS)


class Evidence(msgspec.Struct, frozen=True):
    """Latency asks for `replicas`, because of `reason`."""

    replicas: int
    reason: str


def evidence(
    kind: RoleKind,
    latencies: Latencies,
    *,
    ttft_target_seconds: float | None,
    itl_target_seconds: float | None,
    waiting: float | None,
    serving_replicas: int,
) -> Evidence | None:
    """What the latencies of a role ask for; None while they are met, unknown, or not the role's own.

    A Decode role's time to first token excludes prefill and a Prefill role generates one token: neither is looked at.
    """
    if serving_replicas < 1:
        return None
    asks: list[Evidence] = []
    if kind in (RoleKind.SERVER, RoleKind.PREFILL) and (waiting or 0.0) > 0.0:
        asks += _ask("time to first token", latencies.ttft, ttft_target_seconds, serving_replicas)
    if kind in (RoleKind.SERVER, RoleKind.DECODE):
        asks += _ask("inter-token latency", latencies.itl, itl_target_seconds, serving_replicas)
    return max(asks, key=lambda ask: ask.replicas, default=None)


def _ask(name: str, found: Quantile | None, target: float | None, serving: int) -> list[Evidence]:
    if found is None or target is None or not target > 0.0 or not found.surely_above(target):
        return []
    # The lower bound of the bucket is what is known; the interpolated value is a guess inside it.
    replicas = replicas_for(serving * min(LARGEST_GROWTH, found.lower / target))
    reason = f"p95 {name} is above {found.lower * 1e3:.4g} ms, target {target * 1e3:.4g} ms"
    return [Evidence(replicas=replicas, reason=reason)]
