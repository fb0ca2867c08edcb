"""What a chart shows: series, bands between them, marks on the time axis, target lines, gathered in panels.

Times are seconds of model time since the start of the run, never decreasing. A value that is None, NaN or infinite is
unknown: the line breaks there, it is never drawn as zero. Everything is checked when it is made, so that a mistake is
reported where it was made and not when the page is written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

# Beyond any physical quantity; keeps the arithmetic of axes away from overflow.
_LARGEST_VALUE = 1e100
# Ten thousand years: what is beyond is a mistake of units.
_LONGEST_SECONDS = 3.2e11


class SeriesKind(StrEnum):
    """How the points of a series are joined."""

    LINE = "line"  # straight between neighbours
    STEP = "step"  # holds until the next point: replica counts
    AREA = "area"  # a line with the space down to zero shaded


class Tone(Enum):
    """What a band or a mark means; decides its colour and pattern."""

    NEUTRAL = "neutral"
    SHORTAGE = "shortage"  # less than was needed
    SURPLUS = "surplus"  # more than was needed
    ALERT = "alert"  # something happened to the controller or the engines


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart. `unit` is empty or the unit of its panel.

    Raises ValueError, naming the series, when times and values differ in length, a time is not finite or lies before
    its predecessor, or a value is beyond what a chart can draw (1e100).
    """

    name: str
    unit: str
    times_seconds: Sequence[float]
    values: Sequence[float | None]
    kind: SeriesKind = SeriesKind.LINE

    def __post_init__(self) -> None:
        times = tuple(float(time) for time in self.times_seconds)
        values = tuple(_known(value) for value in self.values)
        if len(times) != len(values):
            raise ValueError(f"series {self.name!r} has {len(times)} times but {len(values)} values")
        for before, time in zip((-math.inf, *times), times, strict=False):
            if not (abs(time) <= _LONGEST_SECONDS and time >= before):
                raise ValueError(
                    f"series {self.name!r} needs finite times in rising order, found {time} after {before}"
                )
        for value in values:
            if value is not None and abs(value) > _LARGEST_VALUE:
                raise ValueError(f"series {self.name!r} has a value that no chart can draw: {value}")
        object.__setattr__(self, "times_seconds", times)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "kind", SeriesKind(self.kind))

    @property
    def known(self) -> tuple[float, ...]:
        """The values that are known."""
        return tuple(value for value in self.values if value is not None)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one time (a restart), or lasted until another (a panic window)."""

    time_seconds: float
    label: str
    until_seconds: float | None = None
    tone: Tone = Tone.NEUTRAL

    def __post_init__(self) -> None:
        if not math.isfinite(self.time_seconds):
            raise ValueError(f"mark {self.label!r} needs a finite time, found {self.time_seconds}")
        if self.until_seconds is not None and not self.time_seconds <= self.until_seconds < math.inf:
            raise ValueError(
                f"mark {self.label!r} ends at {self.until_seconds}, before it began at {self.time_seconds}"
            )


@dataclass(frozen=True, slots=True)
class TargetLine:
    """A horizontal line at a value that something is compared with."""

    value: float
    label: str

    def __post_init__(self) -> None:
        if not abs(self.value) <= _LARGEST_VALUE:
            raise ValueError(f"target line {self.label!r} needs a finite value, found {self.value}")


@dataclass(frozen=True, slots=True)
class Band:
    """The space where `upper` lies above `lower`; where either is unknown, or the order is the other way round, nothing
    is shaded."""

    name: str
    lower: Series
    upper: Series
    tone: Tone = Tone.NEUTRAL


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: its own value axis, the time axis shared with the other panels of the report.

    Raises ValueError when a series has another unit than the panel: two units on one axis mislead.
    """

    title: str
    unit: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    target_lines: Sequence[TargetLine] = ()
    bands: Sequence[Band] = ()
    note: str = ""

    def __post_init__(self) -> None:
        for series in self.series:
            if series.unit not in ("", self.unit):
                raise ValueError(
                    f"series {series.name!r} is in {series.unit!r} but panel {self.title!r} is in {self.unit!r}"
                )


def gap_bands(needed: Series, supplied: Series) -> tuple[Band, Band]:
    """The two bands between a need and its supply: what was short and what was spare."""
    return (
        Band(f"{supplied.name} below {needed.name}", supplied, needed, Tone.SHORTAGE),
        Band(f"{supplied.name} above {needed.name}", needed, supplied, Tone.SURPLUS),
    )


def _known(value: float | None) -> float | None:
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None
