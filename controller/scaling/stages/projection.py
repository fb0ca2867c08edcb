"""The nearest counts that keep floors, ceilings and hard ratio bands together.

Every hard band is a pair of rules "role a has at least c times as many as role b". Under such rules the vectors that
keep them are closed under taking the smaller, and the larger, of each component: so there is a greatest one under the
ceilings, and a least one above any start below it. That gives the projection: cap what is wanted by the greatest
feasible vector, raise it to the floors, and raise on until every rule is kept. Raising comes first, lowering only
where a ceiling forces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor

import msgspec

from controller.scaling.types import RatioSpec

_ROUNDING = 1e-9

Counts = dict[str, int]


class AtLeast(msgspec.Struct, frozen=True):
    """`role` needs at least `factor` × the count of `other`."""

    role: str
    factor: float
    other: str

    def needed(self, other: int) -> int:
        """The least count of `role` beside that many of `other`."""
        return ceil(self.factor * other * (1.0 - _ROUNDING))

    def allowed(self, role: int) -> int:
        """The largest count of `other` beside that many of `role`."""
        return floor(role / self.factor * (1.0 + _ROUNDING))


def rules_of(ratios: Iterable[RatioSpec], roles: Iterable[str]) -> tuple[AtLeast, ...]:
    """The hard bands between roles that are there."""
    known = set(roles)
    rules = []
    for item in ratios:
        if item.numerator_role not in known or item.denominator_role not in known:
            continue
        if item.min is not None and item.min > 0.0:
            rules.append(AtLeast(item.numerator_role, item.min, item.denominator_role))
        if item.max is not None and item.max > 0.0:
            rules.append(AtLeast(item.denominator_role, 1.0 / item.max, item.numerator_role))
    return tuple(rules)


def project(wanted: Counts, floors: Counts, ceilings: Counts, rules: tuple[AtLeast, ...]) -> Counts | None:
    """The counts nearest to `wanted` within floors, ceilings and rules; None if there are none."""
    greatest = _lowered(dict(ceilings), rules, floors)
    if greatest is None:
        return None
    start = {name: max(floors[name], min(count, greatest[name])) for name, count in wanted.items()}
    return _raised(start, rules)


def broken(counts: Counts, rules: tuple[AtLeast, ...]) -> list[AtLeast]:
    """The rules that these counts do not keep."""
    return [rule for rule in rules if counts[rule.role] < rule.needed(counts[rule.other])]


def connected(name: str, rules: tuple[AtLeast, ...]) -> set[str]:
    """The role and all that it is tied to by rules, however far."""
    reached = {name}
    while True:
        more = {end for rule in rules for end in (rule.role, rule.other) if {rule.role, rule.other} & reached}
        if more <= reached:
            return reached
        reached |= more


def _lowered(counts: Counts, rules: tuple[AtLeast, ...], floors: Counts) -> Counts | None:
    """The greatest counts at or below these that keep the rules; None once one would fall below its floor."""
    if any(counts[name] < least for name, least in floors.items()):
        return None
    settled = False
    while not settled:
        settled = True
        for rule in rules:
            allowed = rule.allowed(counts[rule.role])
            if counts[rule.other] > allowed:
                counts[rule.other], settled = allowed, False
                if allowed < floors[rule.other]:
                    return None
    return counts


def _raised(counts: Counts, rules: tuple[AtLeast, ...]) -> Counts:
    """The least counts at or above these that keep the rules; the caller knows that they exist."""
    settled = False
    while not settled:
        settled = True
        for rule in rules:
            needed = rule.needed(counts[rule.other])
            if counts[rule.role] < needed:
                counts[rule.role], settled = needed, False
    return counts
