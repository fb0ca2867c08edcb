"""Measured start-up: the time from a Pod's creation to Ready, of the last few replicas that became Ready."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from controller.scaling.state import LARGEST_STARTUPS

# What vLLM took on an H200 for an 8B model, image and weights at hand, graphs compiled anew.
UNMEASURED_SECONDS = 76.0

# Longer than a day is a clock that jumped, not a start.
_LONGEST_SECONDS = 86400.0


def with_startups(kept: tuple[float, ...], new: Iterable[float]) -> tuple[float, ...]:
    """The measurements with the new ones (in ascending order: members have none), the oldest dropped."""
    usable = sorted(seconds for seconds in new if 0.0 < seconds <= _LONGEST_SECONDS)
    return (*kept, *usable)[-LARGEST_STARTUPS:] if usable else kept


def startup_quantile(kept: tuple[float, ...], q: float) -> float | None:
    """The nearest-rank quantile in seconds; None before anything was measured."""
    if not kept:
        return None
    return sorted(kept)[max(0, ceil(q * len(kept)) - 1)]


def longest_startup(kept: tuple[float, ...]) -> float | None:
    """The p90: what a new replica may be expected to need at worst."""
    return startup_quantile(kept, 0.9)


def expected_startup(kept: tuple[float, ...]) -> float:
    """The p90, or a guess before anything was measured."""
    return startup_quantile(kept, 0.9) or UNMEASURED_SECONDS


def typical_startup(kept: tuple[float, ...]) -> float:
    """The median, or a guess before anything was measured."""
    return startup_quantile(kept, 0.5) or UNMEASURED_SECONDS
