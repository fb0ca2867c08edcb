"""Which measured point serves: the one of highest throughput that keeps the latency targets at the wanted quantile.

All points are looked at, because a latency may fall and rise again along a sweep (70 of 898 steps of the official
rows do). A quantile that was not measured is read between its two nearest neighbours and never beyond them; a point
at which the wanted quantile cannot be read does not pass. When the highest measured concurrency passes (of those that
the engine's own limit on running requests allows), the sweep ended before the replica did: its throughput is a
conservative bound and the selection says ExplicitSaturation; otherwise Bracketed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from catalog.identity import Role
from catalog.quantiles import Quantiles, Reading, quantile_key, read_quantile
from catalog.schema import Point, Profile
from controller.api import PointSelection

DEFAULT_QUANTILE: Final = 95.0


class LatencyTargets(NamedTuple):
    """Upper bounds in milliseconds at `quantile` percent; None where none is set."""

    ttft_milliseconds: float | None = None
    itl_milliseconds: float | None = None
    quantile: float = DEFAULT_QUANTILE

    def needed_by(self, role: Role) -> tuple[str, ...]:
        """Names of the targets that the role needs and that are not set."""
        missing = []
        if role in (Role.SERVER, Role.PREFILL) and self.ttft_milliseconds is None:
            missing.append("ttftTargetMilliseconds")
        if role in (Role.SERVER, Role.DECODE) and self.itl_milliseconds is None:
            missing.append("itlTargetMilliseconds")
        return tuple(missing)


class OperatingPoint(NamedTuple):
    """The point that serves, with the latencies that were compared (None where the role has no such target)."""

    point: Point
    ttft: Reading | None
    per_token: Reading | None
    per_token_name: str
    selection: PointSelection


class NoPoint(NamedTuple):
    """No point passes; `closest` says what the nearest one misses."""

    closest: str


class _Judged(NamedTuple):
    point: Point
    ttft: Reading | None
    per_token: Reading | None
    # Largest latency ÷ target; 1 or less passes, infinite where a quantile cannot be read.
    excess: float


def choose_point(
    profile: Profile, targets: LatencyTargets, most_requests: int | None = None
) -> OperatingPoint | NoPoint:
    """The operating point of a profile. The targets that the role needs must be set (`LatencyTargets.needed_by`).
    `most_requests` is what the engine runs at once: it queues what is beyond, and never reaches a higher point."""
    reachable = [point for point in profile.points if most_requests is None or point.concurrency <= most_requests]
    if not reachable:
        lowest = profile.points[0].concurrency
        return NoPoint(
            f"the engine runs at most {most_requests} requests at once by its own flags, and the lowest measured "
            f"concurrency is {lowest}"
        )
    judged = [_judge(point, profile.role, targets) for point in reachable]
    passing = [entry for entry in judged if entry.excess <= 1]
    if not passing:
        return NoPoint(
            _explain(min(judged, key=lambda entry: (entry.excess, entry.point.concurrency)), profile, targets)
        )
    best = max(passing, key=lambda entry: (entry.point.total_tokens_per_second, -entry.point.concurrency))
    saturated = judged[-1].excess <= 1
    return OperatingPoint(
        point=best.point,
        ttft=best.ttft,
        per_token=best.per_token,
        per_token_name=best.point.per_token_name,
        selection=PointSelection.EXPLICIT_SATURATION if saturated else PointSelection.BRACKETED,
    )


def _judge(point: Point, role: Role, targets: LatencyTargets) -> _Judged:
    ttft = per_token = None
    excess = 0.0
    if role is not Role.DECODE and targets.ttft_milliseconds is not None:
        ttft = read_quantile(point.ttft, targets.quantile)
        excess = max(excess, _excess(ttft, targets.ttft_milliseconds))
    if role is not Role.PREFILL and targets.itl_milliseconds is not None:
        per_token = read_quantile(point.per_token, targets.quantile)
        excess = max(excess, _excess(per_token, targets.itl_milliseconds))
    return _Judged(point, ttft, per_token, excess)


def _excess(reading: Reading | None, target: float) -> float:
    return float("inf") if reading is None or target <= 0 else reading.milliseconds / target


def _explain(entry: _Judged, profile: Profile, targets: LatencyTargets) -> str:
    wanted = quantile_key(targets.quantile)
    parts = []
    for name, reading, target, measured in (
        ("TTFT", entry.ttft, targets.ttft_milliseconds, entry.point.ttft),
        (entry.point.per_token_name, entry.per_token, targets.itl_milliseconds, entry.point.per_token),
    ):
        skipped = (name == "TTFT" and profile.role is Role.DECODE) or (name != "TTFT" and profile.role is Role.PREFILL)
        if skipped or target is None:
            continue
        if reading is None:
            parts.append(f"{name} {wanted} is not between measured quantiles ({_measured(measured)})")
        else:
            sign = "within" if reading.milliseconds <= target else "over"
            parts.append(f"{name} {wanted} {reading.milliseconds:.0f} ms ({reading.basis}), {sign} {target:g} ms")
    return f"closest is concurrency {entry.point.concurrency}: {'; '.join(parts)}"


def _measured(quantiles: Quantiles) -> str:
    return ", ".join(quantile_key(quantile) for quantile, _ in quantiles) or "none"
