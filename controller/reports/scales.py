"""Axes: from data to pixels, with ticks at numbers that people would choose.

A `Scale` maps an interval of data linearly onto an interval of pixels. Value ticks are multiples of 1, 2 or 5 times a
power of ten, time ticks whole seconds, minutes, hours or days, aligned to the clock where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from controller.reports.formatting import LONGEST_IN_MINUTES_SECONDS, format_elapsed

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_TIME_STEPS_SECONDS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY),
)
# Below it, values are zero but for noise, and the powers of ten run out of digits.
_SMALLEST_SPAN = 1e-290


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map of [low, high] in data onto [start, end] in pixels; high is above low."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class TimeTick:
    """A tick of the time axis."""

    seconds: float
    label: str


def value_ticks(values: Iterable[float], most: int = 5, whole: bool = False) -> tuple[float, ...]:
    """At most `most` + 1 evenly spaced ticks that enclose all values and zero, lowest first, never fewer than two.

    With `whole`, the ticks are whole numbers: half a replica does not exist.
    """
    known = [0.0, *values]
    low, high = min(known), max(known)
    if high - low < _SMALLEST_SPAN:
        high = low + 1.0
    step = _nice_step((high - low) / most)
    if whole:
        step = max(1.0, step)
    while math.ceil(high / step - 1e-9) - math.floor(low / step + 1e-9) > most:
        step = _nice_step(step * 1.5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(index * step for index in range(first, max(last, first + 1) + 1))


def _nice_step(at_least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `at_least`; the smallest normal float at least."""
    power = 10.0 ** math.floor(math.log10(max(at_least, 1e-300)))
    return next((m * power for m in (1.0, 2.0, 5.0) if m * power >= at_least * (1 - 1e-9)), 10.0 * power)


def time_ticks(
    start_seconds: float, end_seconds: float, most: int = 8, clock_origin_seconds: float | None = None
) -> tuple[TimeTick, ...]:
    """At most about `most` ticks from start to end, both inclusive.

    Without a clock origin they count from zero: `05:00` is five minutes, beyond an hour and a half `1:40` is an hour
    and forty minutes. With one (the Unix time at which the run's clock stood at zero) they are times of day, UTC.
    """
    span = end_seconds - start_seconds
    step = next((s for s in _TIME_STEPS_SECONDS if span / s <= most), 0.0)
    if not step:
        step = _DAY * _nice_step(span / _DAY / most)
    origin = clock_origin_seconds or 0.0
    first = math.ceil((start_seconds + origin) / step - 1e-9)
    last = math.floor((end_seconds + origin) / step + 1e-9)
    moments = [index * step - origin for index in range(first, last + 1)]
    if clock_origin_seconds is None:
        return tuple(TimeTick(m, _elapsed_label(m, step, end_seconds)) for m in moments)
    return tuple(TimeTick(m, _clock_label(m + origin, step)) for m in moments)


def time_axis_caption(end_seconds: float, clock_origin_seconds: float | None) -> str:
    """What the labels of the time axis count."""
    if clock_origin_seconds is not None:
        return "model time, UTC"
    if end_seconds < LONGEST_IN_MINUTES_SECONDS:
        return "model time, minutes:seconds"
    return "model time, hours:minutes" if end_seconds < 2 * _DAY else "model time, days hours:minutes"


def moment_label(seconds: float, clock_origin_seconds: float | None) -> str:
    """A time on the axis to the second, for tooltips and marks."""
    if clock_origin_seconds is None:
        return format_elapsed(seconds)
    return _utc(seconds + clock_origin_seconds, "%H:%M:%S")


def _elapsed_label(seconds: float, step: float, end_seconds: float) -> str:
    if end_seconds < LONGEST_IN_MINUTES_SECONDS or step < _MINUTE:
        return format_elapsed(seconds)
    minutes = round(seconds / _MINUTE)
    sign, minutes = ("-" if minutes < 0 else ""), abs(minutes)
    if end_seconds < 2 * _DAY:
        return f"{sign}{minutes // 60}:{minutes % 60:02d}"
    days, minutes = divmod(minutes, 24 * 60)
    return f"{sign}{days}d" if step >= _DAY else f"{sign}{days}d {minutes // 60:02d}:{minutes % 60:02d}"


def _clock_label(unix_seconds: float, step: float) -> str:
    if step >= _DAY or unix_seconds % _DAY == 0:
        return _utc(unix_seconds, "%d %b")
    return _utc(unix_seconds, "%H:%M" if step >= _MINUTE else "%H:%M:%S")


def _utc(unix_seconds: float, pattern: str) -> str:
    try:
        return datetime.fromtimestamp(round(unix_seconds), UTC).strftime(pattern)
    except (ValueError, OverflowError, OSError):  # before the year 1 or after 9999
        return format_elapsed(unix_seconds)
