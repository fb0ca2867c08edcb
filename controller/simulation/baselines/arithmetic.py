"""Rounding that the rivals share: their counts are whole, their inputs are floats."""

from __future__ import annotations

from math import ceil, floor, isfinite

LARGEST_COUNT = 2**31 - 1

# A quotient such as 1.1 / 0.1 may miss its whole number by a rounding.
_ROUNDING = 1e-9


def up(value: float) -> int:
    """Rounded up, within an int32."""
    if not isfinite(value):
        return LARGEST_COUNT if value > 0 else 0
    return min(LARGEST_COUNT, ceil(value - abs(value) * _ROUNDING))


def down(value: float) -> int:
    """Rounded down."""
    return floor(value + abs(value) * _ROUNDING)


def above(value: float, limit: float) -> bool:
    """Strictly above, and not by a rounding."""
    return value > limit + abs(limit) * _ROUNDING


def below(value: float, limit: float) -> bool:
    """Strictly below, and not by a rounding."""
    return value < limit - abs(limit) * _ROUNDING
