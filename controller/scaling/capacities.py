"""Which capacities a decision can divide by. A number that is none is no capacity: the role is held, not guessed."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from controller.scaling.counts import LARGEST_READING
from controller.scaling.types import Capacity, RoleCapacity

# Fewer than one token in a quarter of an hour is a mistyped field, and loads divided by it are no numbers any more.
SMALLEST_TOKENS_PER_SECOND = 1e-3


def usable_capacities(capacity: Capacity) -> Capacity:
    """The capacities that can be used, and of those the parts that can be."""
    return {name: _cleaned(given) for name, given in capacity.items() if _divides(given.effective_tokens_per_second)}


def _divides(number: float | None) -> bool:
    return number is not None and SMALLEST_TOKENS_PER_SECOND <= number < LARGEST_READING


def _cleaned(given: RoleCapacity) -> RoleCapacity:
    seed, forecast, headroom = given.seed_tokens_per_second, given.forecast_tokens_per_second, given.headroom
    sane = (
        (seed is None or _divides(seed))
        and (forecast is None or _divides(forecast))
        and (headroom is None or 0.0 < headroom <= 1.0)
        and 0.0 < given.prompt_token_weight < LARGEST_READING
        and _ascends(given.curve)
    )
    if sane:
        return given
    return msgspec.structs.replace(
        given,
        seed_tokens_per_second=seed if _divides(seed) else None,
        forecast_tokens_per_second=forecast if _divides(forecast) else None,
        headroom=headroom if headroom is not None and 0.0 < headroom <= 1.0 else None,
        prompt_token_weight=given.prompt_token_weight if 0.0 < given.prompt_token_weight < LARGEST_READING else 1.0,
        curve=given.curve if _ascends(given.curve) else (),
    )


def _ascends(curve: tuple[tuple[float, float], ...]) -> bool:
    """Whether a curve has numbers only, at concurrencies that rise."""
    return all(0.0 < at < LARGEST_READING and _divides(rate) for at, rate in curve) and all(
        low < high for (low, _), (high, _) in pairwise(curve)
    )
