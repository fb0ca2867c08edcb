"""NVIDIA Dynamo's GPU budget: a band of GPUs that a prefill/decode pair has to stay in.

Source: ai-dynamo/dynamo `components/src/dynamo/planner/core/budget.py` and `throughput_scaling.py`, from their
descriptions and test tables. The ceiling is never exceeded; the floor is relaxed by the larger replica, because whole
replicas cannot meet every total. A negative bound is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple

HOLD = "hold"
RECONCILE = "reconcile"


class Pair(NamedTuple):
    """Prefill and decode replicas."""

    prefill: int
    decode: int


ONE_OF_EACH = Pair(1, 1)


@dataclass(frozen=True, slots=True)
class Band:
    """A GPU band over two roles, what a replica of each costs, and the fewest of each."""

    least: int
    most: int
    prefill_gpus: int = 1
    decode_gpus: int = 1
    fewest: Pair = ONE_OF_EACH

    @property
    def known(self) -> bool:
        """Whether the cost of a replica is known of both roles."""
        return self.prefill_gpus > 0 and self.decode_gpus > 0

    @property
    def tolerance(self) -> int:
        """By how much the floor gives way; nothing without a ceiling beside it."""
        return max(self.prefill_gpus, self.decode_gpus) if self.least >= 0 and self.most >= 0 else 0

    def cost(self, pair: Pair) -> int:
        """GPUs of a pair."""
        return pair.prefill * self.prefill_gpus + pair.decode * self.decode_gpus

    def holds(self, pair: Pair) -> bool:
        """Whether a pair is in the band."""
        return in_band(self.cost(pair), self.least, self.most, self.tolerance)

    def enough(self, pair: Pair) -> bool:
        """Whether a pair has the fewest replicas of both roles."""
        return pair.prefill >= self.fewest.prefill and pair.decode >= self.fewest.decode


def in_band(total: int, least: int, most: int, tolerance: int) -> bool:
    """Whether a total is within [least − tolerance, most]."""
    return (most < 0 or total <= most) and (least < 0 or total >= least - tolerance)


def clamped(pair: Pair, band: Band) -> Pair:
    """A pair brought into the band in proportion. (0, 0) when not even the fewest replicas fit under the ceiling."""
    if not band.known or band.holds(pair):
        return pair
    total, fewest = band.cost(pair), band.fewest
    if 0 <= band.most < total:
        if band.cost(fewest) > band.most:
            return Pair(0, 0)
        room = floor((band.most - fewest.decode * band.decode_gpus) / band.prefill_gpus)
        prefill = max(fewest.prefill, min(room, floor(pair.prefill * band.most / total)))
        left = floor((band.most - prefill * band.prefill_gpus) / band.decode_gpus)
        # What is left over is not given to a role that did not ask for it.
        return Pair(prefill, max(fewest.decode, min(left, pair.decode)))
    share = pair.prefill * band.least / total if total else band.least / 2 / band.prefill_gpus
    prefill = max(fewest.prefill, ceil(share))
    decode = max(fewest.decode, ceil(max(0, band.least - prefill * band.prefill_gpus) / band.decode_gpus))
    grown = Pair(prefill, decode)
    return pair if 0 <= band.most < band.cost(grown) else grown


def fitted(current: Pair, proposed: Pair, band: Band) -> Pair:
    """The part of a move that the band allows, in its own directions. Opposing moves happen together or not at all."""
    if not band.known:
        return proposed
    opposing = (proposed.prefill - current.prefill) * (proposed.decode - current.decode) < 0

    def between(now: int, then: int, fewest: int) -> range:
        return range(max(min(now, then), fewest), max(now, then) + 1)

    candidates = [
        Pair(prefill, decode)
        for prefill in between(current.prefill, proposed.prefill, band.fewest.prefill)
        for decode in between(current.decode, proposed.decode, band.fewest.decode)
        if not opposing or (prefill == current.prefill) == (decode == current.decode)
    ]
    asked = Pair(abs(proposed.prefill - current.prefill), abs(proposed.decode - current.decode))

    def merit(pair: Pair) -> tuple[int, int, int, int, int]:
        made = Pair(abs(pair.prefill - current.prefill), abs(pair.decode - current.decode))
        left = abs(proposed.prefill - pair.prefill) + abs(proposed.decode - pair.decode)
        skew = abs(made.prefill * asked.decode - made.decode * asked.prefill)
        return left, skew, -(made.prefill + made.decode), pair.prefill, pair.decode

    return min((pair for pair in candidates if band.holds(pair)), key=merit, default=current)


def guarded(current: Pair, proposed: Pair, band: Band) -> tuple[Pair, str | None]:
    """A load proposal under the band, and why it was held or replaced.

    At the floor nothing only shrinks, at the ceiling nothing only grows; an opposing swap passes as far as it is
    funded; an allocation already outside the band is brought back instead.
    """
    if not band.known:
        return clamped(proposed, band), None
    if not band.holds(current):
        return clamped(current, band), RECONCILE
    falls = proposed.prefill < current.prefill or proposed.decode < current.decode
    rises = proposed.prefill > current.prefill or proposed.decode > current.decode
    total = band.cost(current)
    at_floor = band.least >= 0 and total <= band.least
    at_ceiling = 0 <= band.most <= total
    if (at_floor and falls and not rises) or (at_ceiling and rises and not falls):
        return current, HOLD
    if (at_floor or at_ceiling) and rises and falls:
        swap = fitted(current, proposed, band)
        return (current, HOLD) if swap == current else (swap, None)
    final = clamped(proposed, band)
    steady = all(min(a, b) <= c <= max(a, b) for a, b, c in zip(current, proposed, final, strict=True))
    return (final, None) if steady and band.holds(final) else (current, HOLD)


def guarded_single(
    current: int, proposed: int, gpus: int, least: int, most: int, fewest: int
) -> tuple[int, str | None]:
    """The same for one role."""
    if gpus <= 0:
        return proposed, None
    tolerance = gpus if least >= 0 and most >= 0 else 0

    def held(count: int) -> int:
        if in_band(count * gpus, least, most, tolerance):
            return count
        if 0 <= most < count * gpus:
            return max(fewest, most // gpus) if fewest * gpus <= most else 0
        grown = max(fewest, ceil(least / gpus))
        return grown if most < 0 or grown * gpus <= most else most // gpus

    if not in_band(current * gpus, least, most, tolerance):
        return held(current), RECONCILE
    if (least >= 0 and current * gpus <= least and proposed < current) or (
        0 <= most <= current * gpus and proposed > current
    ):
        return current, HOLD
    final = held(proposed)
    return (final, None) if min(current, proposed) <= final <= max(current, proposed) else (current, HOLD)


@dataclass(frozen=True, slots=True)
class ThroughputDecision:
    """What the throughput path does: scale to a pair, set a floor for the load path, or hold for a reason."""

    pair: Pair
    scales: bool = False
    floors: bool = False
    reason: str = ""


def throughput(
    current: Pair, raw: tuple[int | None, int | None], band: Band, *, cap: int, load_scaling: bool
) -> ThroughputDecision:
    """Raw counts limited to ± `cap` a tick and raised to the fewest, then fitted to the band.

    With load scaling the result is a floor, which the band's own floor must not inflate. Too few endpoints are repaired
    first, at the expense of the other role if need be. A raw count of None is a model that is not ready.
    """
    recovering = not band.enough(current)
    if raw[0] is None or raw[1] is None:
        repaired = Pair(max(current.prefill, band.fewest.prefill), max(current.decode, band.fewest.decode))
        if repaired == current:
            return ThroughputDecision(current, reason="model_not_ready")
        return ThroughputDecision(clamped(repaired, band), scales=True, reason="model_not_ready")
    wanted = Pair(
        max(band.fewest.prefill, current.prefill - cap, min(raw[0], current.prefill + cap)),
        max(band.fewest.decode, current.decode - cap, min(raw[1], current.decode + cap)),
    )
    if recovering:
        final = clamped(wanted, band)
    elif load_scaling:
        final = fitted(current, wanted, Band(-1, band.most, band.prefill_gpus, band.decode_gpus, band.fewest))
    elif not band.holds(current):
        final = clamped(current, band)
    elif _only_shrinks_at_floor(current, wanted, band):
        final = current
    else:
        final = fitted(current, wanted, band)
    if load_scaling:
        return ThroughputDecision(final, floors=True, reason="" if final == wanted else "gpu_budget")
    if final == current:
        return ThroughputDecision(current, reason="no_change" if wanted == current else "gpu_budget")
    return ThroughputDecision(final, scales=True)


def _only_shrinks_at_floor(current: Pair, wanted: Pair, band: Band) -> bool:
    falls = wanted.prefill < current.prefill or wanted.decode < current.decode
    rises = wanted.prefill > current.prefill or wanted.decode > current.decode
    return band.least >= 0 and band.cost(current) <= band.least and falls and not rises
