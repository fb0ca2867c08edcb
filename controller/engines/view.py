"""One engine's samples of one model, and the arithmetic over them.

Rules
* The newest name that is present wins, whatever its value; two names of one quantity are never added.
* Requests, tokens and histograms are summed over data-parallel ranks and over every label that splits them (reason,
  source, streaming or not); ranks that work on the same requests and processes repeat a number: their maximum counts.
* With priority scheduling SGLang prints the total under `priority=""` and again per priority: the total counts.
* Shares (0…1) are never summed: the maximum over everything.
* NaN, infinities and negative numbers make the one quantity missing. So does a line that cannot be read, and one series
  printed twice with different values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from controller.engines.histograms import RankHistogram, Unobserved, complete, merge
from controller.engines.names import SUFFIXES, Family
from controller.engines.places import Key, Place
from controller.engines.reading import Histogram, MissingReason

# A share printed as 1.0000001 is a full cache; 73 is a percentage, which no engine here prints.
_HIGHEST_SHARE = 1.001

Row = tuple[Place, float]


class View:
    """The rows that count, by printed name. A method that returns a number raises Unobserved instead of guessing."""

    def __init__(self, rows: Iterable[Row], damaged: Iterable[str], prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes
        self._damaged = frozenset(damaged)
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row[0].name, []).append(row)

    def has(self, family: Family) -> bool:
        """Whether any line of the family was printed, readable or not."""
        return self._stem(family) is not None

    def total(self, family: Family, **labels: str) -> float:
        """The sum over ranks of a gauge or counter, of the series with these label values."""
        return math.fsum(self._by_replica(family, labels).values())

    def optional_total(self, family: Family, **labels: str) -> float | None:
        """As `total`, None where no such series is printed. A series that cannot be read still raises."""
        try:
            return self.total(family, **labels)
        except Unobserved as unobserved:
            if unobserved.reason is MissingReason.ABSENT:
                return None
            raise

    def share(self, family: Family) -> float:
        """The highest value of a gauge between 0 and 1."""
        highest = max(_counted(row) for row in self._selected(family, {}))
        if highest > _HIGHEST_SHARE:
            raise Unobserved(MissingReason.OUT_OF_RANGE, f"{highest:g} where a share between 0 and 1 is expected")
        return min(highest, 1.0)

    def single(self, family: Family) -> float:
        """The value of a series that exists once."""
        values = {_counted(row) for row in self._selected(family, {})}
        if len(values) > 1:
            raise Unobserved(MissingReason.AMBIGUOUS, "printed more than once, with different values")
        return values.pop()

    def by_label(self, family: Family, label: str) -> dict[str, float]:
        """Sums per value of `label`."""
        totals: dict[str, float] = {}
        for key, value in self._by_replica(family, {}).items():
            name = dict(key).get(label, "")
            totals[name] = totals.get(name, 0.0) + value
        return totals

    def label_values(self, label: str) -> set[str]:
        """The values of a label over all rows."""
        return {place.labels[label] for rows in self._rows.values() for place, _ in rows if label in place.labels}

    def ranks(self, family: Family) -> set[str]:
        """The data-parallel ranks that print the family."""
        stem = self._stem(family)
        names = [] if stem is None else [stem + suffix for suffix in SUFFIXES[family.kind]]
        return {rank for name in names for place, _ in self._rows.get(name, ()) for rank in place.data_ranks}

    def histogram(self, family: Family) -> tuple[Histogram, bool]:
        """The histogram summed over ranks, and whether buckets had to be left out because not every rank has them."""
        stem = self._readable_stem(family)
        ranks: dict[Key, tuple[Place, RankHistogram]] = {}
        for row in _totals(self._rows.get(f"{stem}_bucket", ())):
            place, value = row[0], _counted(row)
            if place.bound is None:
                raise Unobserved(MissingReason.MALFORMED, f"a bucket of {stem} without a bound")
            _, rank = ranks.setdefault(place.rank, (place, RankHistogram()))
            if rank.buckets.setdefault(place.bound, value) != value:
                raise _ambiguous(place)
        for place, value in self._rows.get(f"{stem}_sum", ()):
            if place.rank in ranks:
                ranks[place.rank][1].sum = value
        for place, value in self._rows.get(f"{stem}_count", ()):
            if place.rank in ranks:
                ranks[place.rank][1].count = value
        if not ranks:
            raise Unobserved(MissingReason.INCOMPLETE, "a sum or count without buckets")
        replicas: dict[Key, Histogram] = {}
        for place, rank in ranks.values():
            histogram = complete(rank)
            if place.replica not in replicas or replicas[place.replica].count < histogram.count:
                replicas[place.replica] = histogram
        return merge(list(replicas.values()))

    def _by_replica(self, family: Family, labels: dict[str, str]) -> dict[Key, float]:
        """The values to be summed."""
        ranks: dict[Key, float] = {}
        replicas: dict[Key, float] = {}
        for row in _totals(self._selected(family, labels)):
            place, value = row[0], _counted(row)
            if ranks.setdefault(place.rank, value) != value:
                raise _ambiguous(place)
            replicas[place.replica] = max(value, replicas.get(place.replica, value))
        return replicas

    def _selected(self, family: Family, labels: dict[str, str]) -> Sequence[Row]:
        stem = self._readable_stem(family)
        name = next(stem + suffix for suffix in SUFFIXES[family.kind] if stem + suffix in self._rows)
        rows = self._rows[name]
        if labels:
            rows = [row for row in rows if labels.items() <= row[0].labels.items()]
            if not rows:
                wanted = ",".join(f'{label}="{value}"' for label, value in labels.items())
                raise Unobserved(MissingReason.ABSENT, f"{name} has no series with {wanted} (yet)")
        return rows

    def _readable_stem(self, family: Family) -> str:
        stem = self._stem(family)
        if stem is None:
            raise Unobserved(MissingReason.ABSENT, f"no {' or '.join(family.names)}")
        if self._damaged and any(stem + suffix in self._damaged for suffix in SUFFIXES[family.kind]):
            raise Unobserved(MissingReason.MALFORMED, f"a line of {stem} cannot be read")
        return stem

    def _stem(self, family: Family) -> str | None:
        for stem in family.stems(self._prefixes):
            for suffix in SUFFIXES[family.kind]:
                if stem + suffix in self._rows or stem + suffix in self._damaged:
                    return stem
        return None


def every_rank(view: View, family: Family, gauges: tuple[Family, ...]) -> float:
    """The sum of a gauge that every data-parallel rank prints.

    Raises Unobserved(INCOMPLETE) where a rank that prints any of `gauges` does not print this one: a sum over some
    ranks looks like load that went away.
    """
    total = view.total(family)
    ranks = view.ranks(family)
    silent = set().union(*(view.ranks(other) for other in gauges)) - ranks if ranks else set()
    if silent:
        raise Unobserved(MissingReason.INCOMPLETE, f"no {family.names[0]} of rank {', '.join(sorted(silent))}")
    return total


def _totals(rows: Sequence[Row]) -> Sequence[Row]:
    """Only the totals, where a family prints totals beside their parts."""
    if any(place.priority == "" for place, _ in rows):
        return [row for row in rows if not row[0].priority]
    return rows


def _counted(row: Row) -> float:
    place, value = row
    if not math.isfinite(value):
        raise Unobserved(MissingReason.NOT_FINITE, f"{place.name} is {value}")
    if value < 0:
        raise Unobserved(MissingReason.NEGATIVE, f"{place.name} is {value:g}")
    return value


def _ambiguous(place: Place) -> Unobserved:
    return Unobserved(MissingReason.AMBIGUOUS, f"{place.name} prints one series twice, with different values")
