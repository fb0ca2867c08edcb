"""How numbers are written in reports: the same in terminals, tables and charts.

Every function takes a finite float, None, NaN or an infinity. None and NaN are `UNKNOWN`: an unknown number is never
written as zero. Digits before the point are never rounded away (12851.37 with three digits is `12,851`).
"""

from __future__ import annotations

import math
from enum import Enum, auto
from numbers import Integral

UNKNOWN = "–"

# Where plain notation stops being readable.
_LARGEST_PLAIN = 1e15
_SMALLEST_PLAIN = 1e-6
_SECONDS_PER_MINUTE = 60
_SECONDS_PER_HOUR = 3600
_SECONDS_PER_DAY = 86_400
# Up to an hour and a half people count minutes (`75:00`), beyond it hours (`1:40:00`).
LONGEST_IN_MINUTES_SECONDS = 5400
# `1 d 12 h` says less than `36 h 20 min`.
_LONGEST_IN_HOURS_SECONDS = 2 * _SECONDS_PER_DAY
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class Style(Enum):
    """How the cells of a column are written."""

    TEXT = auto()  # as it is
    COUNT = auto()  # 12,851
    NUMBER = auto()  # significant digits: 0.0123, 1.23, 12,851
    PERCENT = auto()  # a ratio: 0.951 is 95.1 %
    DURATION = auto()  # seconds: 850 ms, 12.3 s, 4 min 05 s, 1 h 02 min
    ELAPSED = auto()  # seconds on a clock that began at zero: 12:30, 1:40:00


def format_as(style: Style, value: str | float | bool | None, digits: int = 3) -> str:
    """One value in a column's style. Text is left as it is in every style, so that a cell can say `above 10 s`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    match style:
        case Style.TEXT | Style.NUMBER:
            return format_number(value, digits)
        case Style.COUNT:
            return format_count(value)
        case Style.PERCENT:
            return format_percent(value, digits)
        case Style.DURATION:
            return format_duration(value, digits)
        case Style.ELAPSED:
            return format_elapsed(value)


def format_count(value: float | None) -> str:
    """A whole number with thousands separated; halves go to the even neighbour."""
    return _special(value) or _unsigned_zero(f"{round(_real(value)):,}")


def format_number(value: float | None, digits: int = 3) -> str:
    """At least `digits` significant digits; integers are written whole."""
    special = _special(value)
    if special:
        return special
    counted: object = value
    if isinstance(counted, Integral) and abs(int(counted)) < _LARGEST_PLAIN:
        return f"{int(counted):,}"
    number = _real(value)
    if number == 0:
        return "0"
    mantissa, exponent = _scientific(number, digits)
    if not _SMALLEST_PLAIN <= abs(number) < _LARGEST_PLAIN:
        return f"{mantissa}e{exponent}"
    return f"{number:,.{max(0, digits - 1 - exponent)}f}"


def format_percent(ratio: float | None, digits: int = 3) -> str:
    """A ratio as a percentage with at least `digits` significant digits.

    Only all of it is `100 %`: what falls short gets the digits that show it (0.99962 is `99.96 %`).
    """
    special = _special(ratio)
    if special:
        return f"{special} %" if special != UNKNOWN else special
    percent = 100 * _real(ratio)
    if abs(percent) < _LARGEST_PLAIN and percent == round(percent):
        return f"{round(percent):,} %"
    texts = [format_number(percent, enough) for enough in range(digits, 15)]
    return next((f"{text} %" for text in texts if text.rstrip("0") not in ("1", "100.")), f"{texts[0]} %")


def format_duration(seconds: float | None, digits: int = 3) -> str:
    """A length of time in the units that people would say it in."""
    special = _special(seconds)
    if special:
        return special
    number = _real(seconds)
    sign, length = ("-" if number < 0 else ""), abs(number)
    if length == 0:
        return "0 s"
    if length < 1 and round(length, 4) < 1:
        return f"{sign}{format_number(1000 * length, digits)} ms"
    if round(length, 1) < _SECONDS_PER_MINUTE:
        return f"{sign}{format_number(length, digits)} s"
    if round(length) < _SECONDS_PER_HOUR:
        minutes, rest = divmod(round(length), _SECONDS_PER_MINUTE)
        return f"{sign}{minutes} min {rest:02d} s"
    if length < _LONGEST_IN_HOURS_SECONDS:
        hours, rest = divmod(round(length / _SECONDS_PER_MINUTE), 60)
        return f"{sign}{hours} h {rest:02d} min"
    days, rest = divmod(round(length / _SECONDS_PER_HOUR), 24)
    return f"{sign}{days:,} d {rest:02d} h"


def format_elapsed(seconds: float | None) -> str:
    """The reading of a clock that began at zero: minutes and seconds, beyond an hour and a half with hours."""
    special = _special(seconds)
    if special:
        return special
    whole = round(_real(seconds))
    sign, whole = ("-" if whole < 0 else ""), abs(whole)
    if whole < LONGEST_IN_MINUTES_SECONDS:
        return f"{sign}{whole // 60:02d}:{whole % 60:02d}"
    return f"{sign}{whole // _SECONDS_PER_HOUR}:{whole % _SECONDS_PER_HOUR // 60:02d}:{whole % 60:02d}"


def format_short(value: float | None, step: float | None = None) -> str:
    """A number for the axis or the label of a chart: `1.5k`, `20`, `0.25`.

    With `step`, the distance of the ticks, as many digits as tell neighbours apart; without it three significant ones.
    """
    special = _special(value)
    if special:
        return special
    number = _real(value)
    if number == 0:
        return "0"
    size = max(abs(number), step or 0.0)
    if size >= _LARGEST_PLAIN:
        return format_number(number)
    # 999.6 is written 1k, not 1000
    factor, prefix = next(((f, p) for f, p in _PREFIXES if size >= f * 0.9995), (1.0, ""))
    scaled = number / factor
    if step is None:
        text = format_number(scaled)
        text = text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
    else:
        text = f"{scaled:.{_decimals_of(step / factor)}f}"
    return f"{text}{prefix}"


def _special(value: float | None) -> str:
    """What stands for a value that is no finite number; empty for one that is."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return ""


def _real(value: float | None) -> float:
    assert value is not None  # noqa: S101 - `_special` has answered for None
    return float(value)


def _scientific(number: float, digits: int) -> tuple[str, int]:
    mantissa, _, exponent = f"{number:.{max(0, digits - 1)}e}".partition("e")
    return mantissa, int(exponent)


def _decimals_of(step: float) -> int:
    """The fewest decimals that write `step` exactly enough to tell its multiples apart; at most twelve."""
    return next((n for n in range(12) if math.isclose(round(step, n), step, rel_tol=1e-6)), 12)


def _unsigned_zero(text: str) -> str:
    return text.lstrip("-") if not text.strip("-0.,") else text
