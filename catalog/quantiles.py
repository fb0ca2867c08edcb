"""Latency quantiles: how they are spelt in a catalog and how a wanted one is read from the measured ones.

A latency is measured at a few quantiles only (p50 and p99 in most public results). A quantile that is present is taken
as it is; one between two measured quantiles is the straight line between the two nearest; one beyond the largest or
below the smallest is unknown. Which two quantiles were used is part of the answer, because it changes the number: the
p95 from (p50, p99) is 0.94 to 1.56 times the one from (p90, p99) over the rows that have both.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# Ascending pairs of (quantile in percent, milliseconds).
Quantiles = tuple[tuple[float, float], ...]

_DECIMALS: Final = 6
_KEY: Final = re.compile(r"p([0-9]{1,3}(?:\.[0-9]{1,6})?)")


class Reading(NamedTuple):
    """A latency at a wanted quantile: its value and the measured quantiles it was read from (`p95`, `p50..p99`)."""

    milliseconds: float
    basis: str


def parse_quantile_key(key: str) -> float:
    """`p50` → 50.0, `p99.9` → 99.9. Raises ValueError for anything else; tools' spellings (`median`, `p999`) are
    translated by their importers, because guidellm's p999 means 99.9 and its p01 means 1."""
    match = _KEY.fullmatch(key)
    value = float(match.group(1)) if match else 0.0
    if not 0 < value <= 100:
        raise ValueError(f"{key!r} is not a quantile: write p<N> with N above 0 and at most 100, such as p50 or p99.9")
    return value


def quantile_key(quantile: float) -> str:
    """50.0 → `p50`, 99.9 → `p99.9`."""
    return f"p{quantile:.{_DECIMALS}f}".rstrip("0").rstrip(".")


def percent(digits: str) -> float | None:
    """The quantile that `99.9` means in a tool's `p99.9`, to as many decimals as a catalog writes; None for what is no
    quantile (guidellm's and others' `p999` is their own business)."""
    value = round(float(digits), _DECIMALS)
    return value if 0 < value <= 100 else None


def read_quantile(measured: Quantiles, wanted: float) -> Reading | None:
    """The latency at `wanted` percent by the rule of the module, None where it lies outside what was measured."""
    below: tuple[float, float] | None = None
    for quantile, milliseconds in measured:
        if quantile == wanted:
            return Reading(milliseconds, quantile_key(quantile))
        if quantile > wanted:
            if below is None:
                return None
            share = (wanted - below[0]) / (quantile - below[0])
            value = below[1] + share * (milliseconds - below[1])
            return Reading(value, f"{quantile_key(below[0])}..{quantile_key(quantile)}")
        below = (quantile, milliseconds)
    return None


def value_at(measured: Quantiles, quantile: float) -> float | None:
    """The measured value at exactly this quantile, None where it is absent."""
    for q, milliseconds in measured:
        if q == quantile:
            return milliseconds
    return None
