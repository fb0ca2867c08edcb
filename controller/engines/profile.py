"""What an engine profile is: the families it reads and the function that turns them into a reading.

A new engine is one module in `profiles/` that defines a `Profile`, and its name in `profiles.PROFILES`. Nothing else in
this room knows an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from controller.engines.histograms import Unobserved
from controller.engines.names import Family, Kind, PrintedName, printed_names
from controller.engines.reading import EngineReading, Histogram, Missing, MissingReason, Quality, Role
from controller.engines.view import View

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Printed by single-process Python engines only, by none with a prefix, and no sign of an engine.
PROCESS_START = Family(Kind.GAUGE, ("process_start_time_seconds",), prefixes=("",))


class Draft:
    """A reading in the making: takes what the view has and notes why it has the rest not."""

    def __init__(self, view: View, role: Role | None) -> None:
        self.view = view
        self.role = role
        self.quality: set[Quality] = set()
        self._missing: list[Missing] = []

    def take(self, field: str, read: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """What `read` returns, or None with the reason noted under `field`."""
        try:
            return read(*args, **kwargs)
        except Unobserved as unobserved:
            self.skip(field, unobserved.reason, unobserved.detail)
            return None

    def histogram(self, field: str, family: Family) -> Histogram | None:
        """The histogram, or None with the reason noted."""
        found = self.take(field, self.view.histogram, family)
        if found is None:
            return None
        histogram, intersected = found
        if intersected:
            self.quality.add(Quality.BUCKETS_INTERSECTED)
        return histogram

    def queues(self, name: str, family: Family, label: str | None = None) -> tuple[tuple[str, float], ...]:
        """The family for `EngineReading.queues`, one entry per value of `label`; nothing where it cannot be read (the
        sums that use it say why)."""
        try:
            if label is None:
                return ((name, self.view.total(family)),)
            return tuple(
                (f"{name}.{value}", total) for value, total in sorted(self.view.by_label(family, label).items())
            )
        except Unobserved:
            return ()

    def skip(self, field: str, reason: MissingReason, detail: str) -> None:
        """Note why `field` is not read."""
        self._missing.append(Missing(field, reason, detail))

    @property
    def missing(self) -> tuple[Missing, ...]:
        """What was noted, in the order of reading."""
        return tuple(self._missing)


@dataclass(frozen=True, slots=True)
class Profile:
    """One engine.

    `prefixes`: in the order of preference. `model_labels`: labels that hold the served model's name, newest first.
    `router_labels`: labels that only a router puts on series of this engine's names. `filters_by_name`: whether
    `<path>/?name[]=…` is worth a try. `read`: fills a reading from a view (engine, models and missing are set for it).
    """

    engine: str
    prefixes: tuple[str, ...]
    families: tuple[Family, ...]
    model_labels: tuple[str, ...]
    read: Callable[[Draft], EngineReading]
    router_labels: frozenset[str] = frozenset()
    filters_by_name: bool = False

    def printed_names(self) -> tuple[PrintedName, ...]:
        """Every name that the scanner must look for."""
        return tuple(printed_names((*self.families, PROCESS_START), self.prefixes))

    def filter_names(self) -> tuple[str, ...]:
        """The names for `name[]`: with the engine's own prefix, histograms also by their base name."""
        own = self.prefixes[:1]
        names = [name.printed for name in printed_names((*self.families, PROCESS_START), own)]
        bases = [stem for family in self.families if family.kind is Kind.HISTOGRAM for stem in family.stems(own)]
        return tuple(dict.fromkeys((*names, *bases)))
