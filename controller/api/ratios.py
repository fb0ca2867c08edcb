"""Can the hard bands of a scaler hold at all?

Two questions, both exact (no floats):

* One band with the bounds of its two roles: is there a pair of whole numbers that satisfies it? Tried outright; at most
  1,024 candidates.
* Several bands together: each says that one count is at most w times another. Such claims contradict each other exactly
  when the factors around some cycle multiply to less than 1 (Bellman–Ford on products; a virtual role "one" carries the
  bounds). Whole numbers may still fail where real ones exist; the planner then keeps the current counts and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from controller.foundation import format_quantity

_ONE = ""  # no role has an empty name


@dataclass(frozen=True, slots=True)
class Band:
    """A hard band: minimum ≤ numerator ÷ denominator ≤ maximum."""

    index: int  # in spec.ratios
    numerator: str
    denominator: str
    minimum: Fraction | None
    maximum: Fraction | None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Claims that cannot hold together, in words, and the bands they come from."""

    indices: tuple[int, ...]
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Claim:
    """upper ≤ factor × lower."""

    upper: str
    lower: str
    factor: Fraction
    text: str
    index: int | None


def fits(band: Band, numerator: range, denominator: range) -> bool:
    """Some pair of counts within the bounds satisfies the band."""
    for count in denominator:
        lowest = numerator.start
        highest = numerator.stop - 1
        if band.minimum is not None:
            lowest = max(lowest, -((-band.minimum.numerator * count) // band.minimum.denominator))
        if band.maximum is not None:
            highest = min(highest, (band.maximum.numerator * count) // band.maximum.denominator)
        if lowest <= highest:
            return True
    return False


def contradiction(bands: Sequence[Band], bounds: Mapping[str, range]) -> Contradiction | None:
    """Bands that cannot hold together, None where they can. First without, then with the bounds of the roles."""
    claims = [claim for band in bands for claim in _claims_of(band)]
    return _cycle(claims) or _cycle([*claims, *_bound_claims(bounds)])


def _claims_of(band: Band) -> Iterable[_Claim]:
    top, bottom = band.numerator, band.denominator
    if band.maximum is not None:
        text = f"{top} ≤ {_factor(band.maximum)} × {bottom}"
        yield _Claim(top, bottom, band.maximum, text, band.index)
    if band.minimum is not None:
        text = f"{top} ≥ {_factor(band.minimum)} × {bottom}"
        yield _Claim(bottom, top, 1 / band.minimum, text, band.index)


def _bound_claims(bounds: Mapping[str, range]) -> Iterable[_Claim]:
    for role in sorted(bounds):
        most, fewest = bounds[role].stop - 1, bounds[role].start
        yield _Claim(role, _ONE, Fraction(most), f"{role} ≤ {most}", None)
        yield _Claim(_ONE, role, Fraction(1, fewest), f"{role} ≥ {fewest}", None)


def _cycle(claims: Sequence[_Claim]) -> Contradiction | None:
    """A cycle of claims whose factors multiply to less than 1 and that involves at least two bands."""
    roles = {claim.upper for claim in claims} | {claim.lower for claim in claims}
    reach = dict.fromkeys(roles, Fraction(1))
    cause: dict[str, _Claim] = {}
    last = None
    for _ in range(len(roles)):
        last = None
        for claim in claims:
            candidate = reach[claim.lower] * claim.factor
            if candidate < reach[claim.upper]:
                reach[claim.upper], cause[claim.upper] = candidate, claim
                last = claim.upper
        if last is None:
            return None
    if last is None:
        return None
    role = last
    for _ in range(len(roles)):  # after so many steps back the walk is on the cycle
        role = cause[role].lower
    around: list[_Claim] = []
    start = role
    while True:
        around.append(cause[role])
        role = cause[role].lower
        if role == start:
            break
    indices = tuple(sorted({claim.index for claim in around if claim.index is not None}))
    return Contradiction(indices, tuple(sorted(claim.text for claim in around)))


def _factor(value: Fraction) -> str:
    return format_quantity(value.numerator / value.denominator)
