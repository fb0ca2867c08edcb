"""KEDA: what its metrics adapter reports while a trigger fails.

Source: kedacore/keda `pkg/fallback/fallback.go`. Between failures it is the HPA on an external metric.
"""

from __future__ import annotations

from enum import StrEnum


class FallbackBehavior(StrEnum):
    """Which count a failing trigger stands for."""

    STATIC = "static"
    CURRENT = "currentReplicas"
    IF_HIGHER = "currentReplicasIfHigher"
    IF_LOWER = "currentReplicasIfLower"


def fallback_replicas(behavior: FallbackBehavior, replicas: int, current: int) -> int:
    """The count to hold: the fixed one, the current one, or whichever of the two the behavior names."""
    match behavior:
        case FallbackBehavior.STATIC:
            return replicas
        case FallbackBehavior.CURRENT:
            return current
        case FallbackBehavior.IF_HIGHER:
            return max(replicas, current)
        case FallbackBehavior.IF_LOWER:
            return min(replicas, current)


def fallback_value(behavior: FallbackBehavior, replicas: int, current: int, target: float) -> float:
    """The value reported for an AverageValue target, so that the HPA arrives at that count."""
    return fallback_replicas(behavior, replicas, current) * target
