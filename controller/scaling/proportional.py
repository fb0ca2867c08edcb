"""Proportional: the arithmetic of the Kubernetes HPA for a per-replica average, with its rules for silent members.

Ten years of HPA issues are behind the asymmetry (kubernetes#30471, #99394, #127193): members without a reading count
as exactly at target when the others ask to shrink, and as idle when they ask to grow; if that turns the direction, or
lands within the tolerance, the count stays.
"""

from __future__ import annotations

import msgspec

from controller.scaling.counts import replicas_for
from controller.scaling.recommendation import Recommended, silent
from controller.scaling.situation import Situation
from controller.scaling.ticks import RoleTick
from controller.scaling.types import MemberReading, Metric, Proportional

_NAMES = {
    Metric.RUNNING_REQUESTS: "running requests",
    Metric.WAITING_REQUESTS: "waiting requests",
    Metric.QUEUE_DEPTH: "running and waiting requests",
}


class Reading(msgspec.Struct, frozen=True):
    """A metric over a role: the sum of what was reported, and how many replicas reported, were silent, or are
    pending."""

    total: float
    reporting: float
    silent: float = 0.0
    pending: float = 0.0


class Tolerance(msgspec.Struct, frozen=True):
    """A usage ratio within [1 − down, 1 + up] is no reason to move."""

    up: float
    down: float

    def contains(self, ratio: float) -> bool:
        """Whether the ratio is close enough to one."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def average_value_replicas(current: int, reading: Reading, target: float, tolerance: Tolerance) -> int:
    """Replicas for a metric with a target per replica; `current` where the reading does not justify a move.

    Pending replicas count as idle when growing and not at all when shrinking.
    """
    if not reading.reporting > 0.0 or not target > 0.0:
        return current
    ratio = reading.total / (reading.reporting * target)
    if not reading.silent and not (reading.pending and ratio > 1.0):
        return current if tolerance.contains(ratio) else replicas_for(ratio * reading.reporting)
    total, counted = reading.total, reading.reporting
    if ratio < 1.0:
        total += reading.silent * target
        counted += reading.silent
    elif ratio > 1.0:
        counted += reading.silent + reading.pending
    filled = total / (counted * target)
    if tolerance.contains(filled) or (ratio < 1.0) != (filled < 1.0):
        return current
    replicas = replicas_for(filled * counted)
    wrong_way = replicas > current if filled < 1.0 else replicas < current
    return current if wrong_way else replicas


def metric_of(metric: Metric, gauges: MemberReading) -> float | None:
    """One member's value of the metric; None when a gauge it needs is unknown."""
    running, waiting = gauges.running_requests, gauges.waiting_requests
    match metric:
        case Metric.RUNNING_REQUESTS:
            return running
        case Metric.WAITING_REQUESTS:
            return waiting
        case Metric.QUEUE_DEPTH:
            return None if running is None or waiting is None else running + waiting


def read(metric: Metric, tick: RoleTick, pending: int) -> Reading:
    """Add a metric up over a role's Ready and serving members."""
    total = reporting = quiet = 0.0
    for item in tick.samples:
        if not item.member.ready or not item.member.serving:
            continue
        value = metric_of(metric, item.seen.gauges)
        if value is None:
            quiet += item.share
        else:
            total += value
            reporting += item.share
    return Reading(total=total, reporting=reporting, silent=quiet, pending=float(pending))


def proportional(algorithm: Proportional, situation: Situation) -> Recommended:
    """One role's recommendation under `Proportional`."""
    name, target = _NAMES[algorithm.metric], algorithm.role_targets.get(situation.role.name)
    if target is None or not target > 0.0:
        return silent(f"the role has no target for {name}")
    reading = read(algorithm.metric, situation.tick, situation.supply.pending)
    if not reading.reporting:
        return silent(f"no Ready member reported its {name}")
    tolerance = Tolerance(algorithm.tolerance, algorithm.tolerance)
    replicas = average_value_replicas(situation.current, reading, target, tolerance)
    reason = f"{reading.total / reading.reporting:.3g} {name} per replica, target {target:.3g}"
    if reading.silent:
        reason += f"; {reading.silent:.3g} replicas silent"
    return Recommended(raw=replicas, high=replicas, load=reading.total / target + reading.silent, reason=reason)
