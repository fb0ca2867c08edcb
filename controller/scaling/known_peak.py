"""The highest demand remembered. Headroom that was learnt in a trough is never multiplied onto the crest beyond it."""

from __future__ import annotations

from math import exp

# A crest stays known for a working day's half; tomorrow's is learnt anew.
PEAK_MEMORY_SECONDS = 6 * 3600.0


def with_demand(peak: float, demand: float, seconds: float) -> float:
    """The peak after `seconds` more, with the demand now; any unit."""
    return max(peak * exp(-seconds / PEAK_MEMORY_SECONDS), demand)


def capped(wanted: float, peak: float, level: float, *, margin: float, headroom: float) -> float:
    """`wanted`, but no more than `margin` × the known peak, or than the level with the prior's headroom if that is
    more."""
    return min(wanted, max(margin * peak, level / headroom))
