"""AIBrix PodAutoscaler: APA (a tolerance band with rate limits) and its variant of the Knative arithmetic.

Source: vllm-project/aibrix `pkg/controller/podautoscaler/algorithm`. Its KPA panics on the ratio of the two windows,
its panic floor exists in tests only, and its cooldown takes the maximum of the window when growing and the minimum
when shrinking, the opposite of the HPA's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from controller.simulation.baselines.arithmetic import above, below, up


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest factors per decision, and tolerances."""

    up_rate: float = 2.0
    down_rate: float = 2.0
    up_tolerance: float = 0.1
    down_tolerance: float = 0.1


def apa_replicas(current: int, use_per_pod: float, target: float, limits: Limits) -> int:
    """Replicas for an average use per pod."""
    if target <= 0.0:
        return current
    ratio = use_per_pod / target
    if above(ratio, 1.0 + limits.up_tolerance):
        return min(up(current * ratio), up(limits.up_rate * current))
    if below(ratio, 1.0 - limits.down_tolerance):
        return max(up(current * ratio), floor(current / limits.down_rate))
    return current


def in_panic(stable: float, panic: float, threshold: float = 2.0) -> bool:
    """Whether the panic window exceeds the stable one by the threshold; nothing latches."""
    return stable <= 0.0 or panic / stable > threshold


def kpa_replicas(
    ready: int,
    target: float,
    windows: tuple[float, float],
    limits: Limits,
    *,
    panicking: bool,
    panic_floor: int = 0,
    activation: int = 0,
) -> int:
    """Replicas for the (stable, panic) averages, totals over all pods."""
    counted = max(1, ready)
    highest, lowest = ceil(limits.up_rate * counted), floor(counted / limits.down_rate)
    stable, panic = (max(lowest, min(up(window / target), highest)) for window in windows)
    wanted = max(stable, panic, panic_floor) if panicking else stable
    return max(wanted, activation) if ready == 0 and wanted > 0 else wanted


def cooled(current: int, wanted: int, window: Sequence[int]) -> int:
    """Its cooldown as written: the largest of the window when growing, the smallest when shrinking."""
    if wanted > current:
        return max(wanted, *window) if window else wanted
    if wanted < current:
        return min(wanted, *window) if window else wanted
    return current
