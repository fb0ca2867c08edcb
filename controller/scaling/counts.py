"""Arithmetic that every part of a decision shares: what counts as a number, and how a load becomes a replica count."""

from __future__ import annotations

from math import ceil, isfinite

# Counters are IEEE doubles in the exposition format: above 2**53 a counter can no longer be incremented by one, so such
# a value was not counted by anybody and is treated like NaN. It also keeps every sum below finite.
LARGEST_READING = float(2**53)

# Kubernetes stores replica counts in an int32, and the HPA saturates at its largest value too.
LARGEST_COUNT = 2**31 - 1

# A load of 3.0000000001 replicas is three replicas and the rounding of a few divisions.
_ROUNDING = 1e-9


def observed(value: float | None) -> float | None:
    """The value if it can be a gauge or a counter; None for NaN, infinities, negatives and impossible magnitudes."""
    if value is not None and 0.0 <= value < LARGEST_READING:
        return value
    return None


def replicas_for(load: float) -> int:
    """The smallest whole number of replicas that carries `load`, itself given in replicas; a negative load needs
    none."""
    if not load > 0.0:
        return 0
    if not isfinite(load) or load >= LARGEST_COUNT:
        return LARGEST_COUNT
    return ceil(load * (1.0 - _ROUNDING))


def clamp(value: int, low: int, high: int) -> int:
    """`value` brought into [low, high]; `low` wins where the two cross."""
    return max(low, min(value, high))
