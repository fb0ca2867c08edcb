"""Typed access to the fields of a tool's record. Absent is None; present but wrong raises Refused naming the field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from catalog.importers.rules import Refused, Rule
from catalog.quantiles import Quantiles, percent
from controller.foundation import describe

Record = Mapping[str, Any]
# The longest honest text is an image with its digest.
MAX_TEXT: Final = 512
_LONGEST_SHOWN: Final = 64


def section(raw: Record, *path: str) -> Record:
    """The mapping at a path of keys; an empty one where any step is absent or no mapping."""
    value: Any = raw
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def number(raw: Record, key: str) -> float | None:
    """A finite number, None where the field is absent or null. Strings that hold a number are taken as one (CSV,
    metadata flags)."""
    value = raw.get(key)
    if value is None:
        return None
    if type(value) is float and value - value == 0.0:  # finite; this is nearly every call
        return value
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise Refused(Rule.MALFORMED, f"{key} is no number: {show(value)}") from None
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(Rule.MALFORMED, f"{key} is no number: {show(value)}")
    try:
        value = float(value)
    except OverflowError:
        raise Refused(Rule.NOT_FINITE, f"{key} is too large") from None
    if not math.isfinite(value):
        raise Refused(Rule.NOT_FINITE, f"{key} is {value}")
    return value


def required(raw: Record, key: str) -> float:
    """A finite number that must be there."""
    value = number(raw, key)
    if value is None:
        raise Refused(Rule.MISSING_VALUE, f"{key} is absent")
    return value


def whole(raw: Record, key: str) -> int | None:
    """A whole number, None where the field is absent or null."""
    value = number(raw, key)
    if value is None:
        return None
    if not value.is_integer():
        raise Refused(Rule.MALFORMED, f"{key} is no whole number: {value:g}")
    return int(value)


def degree(raw: Record, key: str) -> int:
    """A parallel degree; absent or zero means it was not used."""
    value = whole(raw, key)
    return 1 if value in (None, 0) else int(value or 1)


def boolean(raw: Record, key: str) -> bool | None:
    """A boolean, also written as text ("true", "False"): bool("false") is True in Python, and official rows hold
    text."""
    value = raw.get(key)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise Refused(Rule.MALFORMED, f"{key} is neither true nor false: {show(value)}")


def text(raw: Record, key: str) -> str | None:
    """A string that a catalog can hold, None where the field is absent, null or blank."""
    value = raw.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Refused(Rule.MALFORMED, f"{key} is no text: {show(value)}")
    if len(value) > MAX_TEXT:
        raise Refused(Rule.MALFORMED, f"{key} has {len(value):,} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused(Rule.MALFORMED, f"{key} holds half of a surrogate pair") from None
    return value if value.strip() else None


_STATISTIC: Final = re.compile(r"(p[0-9]{1,3}(?:\.[0-9]{1,20})?|median)_(ttft|tpot|itl)(_ms)?")


class LatencyReader:
    """Reads the quantiles of TTFT, ITL and TPOT, and their means with the end-to-end latency's, out of records with
    one set of keys; absent values are left out. Made once per key set, because a file has thousands of rows and two
    or three key sets."""

    METRICS: Final = ("ttft", "itl", "tpot")

    def __init__(self, keys: tuple[str, ...], suffix: str) -> None:
        found: dict[str, dict[float, str]] = {metric: {} for metric in self.METRICS}
        for key in keys:
            match = _STATISTIC.fullmatch(key) if isinstance(key, str) else None
            if match is None or (match.group(3) or "") != suffix:
                continue
            quantile = 50.0 if match.group(1) == "median" else percent(match.group(1)[1:])
            if quantile is not None:
                found[match.group(2)][quantile] = key
        self._quantiles = tuple(tuple(sorted(found[metric].items())) for metric in self.METRICS)
        self._means = tuple(f"mean_{metric}{suffix}" for metric in (*self.METRICS, "e2el"))

    def quantiles(self, raw: Record, scale: float) -> tuple[Quantiles, Quantiles, Quantiles]:
        """(TTFT, ITL, TPOT), each value times `scale`."""
        result: list[Quantiles] = []
        for plan in self._quantiles:
            measured = []
            for quantile, key in plan:
                value = raw.get(key)
                # `number` again, without the call: this is half of all the values in a file.
                if type(value) is not float or value - value != 0.0:
                    value = number(raw, key)
                    if value is None:
                        continue
                measured.append((quantile, value * scale))
            result.append(tuple(measured))
        return result[0], result[1], result[2]

    def means(self, raw: Record, scale: float) -> list[float | None]:
        """Mean TTFT, ITL, TPOT and end-to-end latency, each times `scale`."""
        result: list[float | None] = []
        for key in self._means:
            value = raw.get(key)
            if type(value) is not float or value - value != 0.0:  # as above
                value = number(raw, key)
            result.append(None if value is None else value * scale)
        return result


@lru_cache(maxsize=256)
def latency_reader(keys: tuple[str, ...], suffix: str) -> LatencyReader:
    """The reader for records with these keys; `suffix` is what follows the metric in a key (`_ms` or nothing)."""
    return LatencyReader(keys, suffix)


def show(value: object) -> str:
    """A value in a refusal: never cut short, because a part of a secret is not found when secrets are blanked."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _LONGEST_SHOWN else f"a text of {len(value):,} characters"
    return describe(value)
