"""Kubernetes HPA v2: metrics of all kinds, missing and unready pods, several metrics, legacy limits.

Source: kubernetes/kubernetes `pkg/controller/podautoscaler/replica_calculator.go`, `horizontal.go`. What our own core
does in the HPA's way (per-replica averages, behavior, stabilization) is not repeated here: see `controller.scaling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.simulation.baselines.arithmetic import LARGEST_COUNT, above, below, up


class PodState(StrEnum):
    """How the HPA groups pods before it computes."""

    READY = "ready"
    UNREADY = "unready"  # for CPU: counts 0 when growing, not at all when shrinking
    MISSING = "missing"  # no sample: 0 when growing, fully used when shrinking
    IGNORED = "ignored"  # deleting, failed or succeeded


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod's resource use and request, in one unit."""

    state: PodState
    use: float
    request: float


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A ratio within [1 − down, 1 + up] keeps the count."""

    up: float = 0.1
    down: float = 0.1

    def keeps(self, ratio: float) -> bool:
        """Whether the ratio is near enough to one."""
        return not above(ratio, 1.0 + self.up) and not below(ratio, 1.0 - self.down)


def resource_replicas(current: int, target_percent: int, pods: Sequence[Pod], tolerance: Tolerance) -> int:
    """Replicas for a utilization target in percent of requests. Utilization is truncated to whole percent."""
    ready = [pod for pod in pods if pod.state is PodState.READY]
    unready = [pod for pod in pods if pod.state is PodState.UNREADY]
    missing = [pod for pod in pods if pod.state is PodState.MISSING]
    if not ready:
        return current

    def ratio_of(uses: Sequence[tuple[float, float]]) -> float:
        return int(100.0 * sum(use for use, _ in uses) / sum(request for _, request in uses)) / target_percent

    known = [(pod.use, pod.request) for pod in ready]
    ratio = ratio_of(known)
    growing = ratio > 1.0
    if not missing and not (unready and growing):
        return current if tolerance.keeps(ratio) else up(ratio * len(ready))
    if missing and ratio != 1.0:
        share = 0.0 if growing else max(100, target_percent) / 100.0
        known += [(pod.request * share, pod.request) for pod in missing]
    if growing:
        known += [(0.0, pod.request) for pod in unready]
    filled = ratio_of(known)
    if tolerance.keeps(filled) or (ratio < 1.0 < filled) or (filled < 1.0 < ratio):
        return current
    replicas = up(filled * len(known))
    wrong_way = (filled < 1.0 and replicas > current) or (filled > 1.0 and replicas < current)
    return current if wrong_way else replicas


def total_value_replicas(current: int, ready: int, value: float, target: float, tolerance: Tolerance) -> int:
    """Replicas for one total ÷ target, per ready pod (Object and External metrics of type Value)."""
    ratio = value / target
    if current == 0:
        return up(ratio)
    if tolerance.keeps(ratio):
        return current
    return min(LARGEST_COUNT, up(ratio * ready))


def average_value_replicas(replicas: int, value: float, target: float, tolerance: Tolerance) -> int:
    """Replicas for one total spread over all of them (Object and External metrics of type AverageValue)."""
    if replicas and tolerance.keeps(value / (target * replicas)):
        return replicas
    return up(value / target)


def combined(current: int, proposals: Sequence[int | None]) -> int:
    """The maximum over metrics; None is a metric that failed: then the count may rise and not fall."""
    valid = [proposal for proposal in proposals if proposal is not None]
    if not valid:
        return current
    best = max(valid)
    return max(best, current) if len(valid) < len(proposals) else best


def legacy_limited(current: int, desired: int, low: int, high: int) -> int:
    """Without `behavior`: at most twice the current count or four, then the bounds."""
    return max(low, min(desired, high, max(2 * current, 4)))
