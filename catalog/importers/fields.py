"""Typed access to the fields of a tool's record. Absent is None; present but wrong raises Refused naming the field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from catalog.importers.rules import Refused, Rule
from catalog.quantiles import Quantiles

Record = Mapping[str, Any]


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
            raise Refused(Rule.MALFORMED, f"{key} is no number: {_show(value)}") from None
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(Rule.MALFORMED, f"{key} is no number: {_show(value)}")
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
    raise Refused(Rule.MALFORMED, f"{key} is neither true nor false: {_show(value)}")


def text(raw: Record, key: str) -> str | None:
    """A non-empty string, None where the field is absent, null or empty."""
    value = raw.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Refused(Rule.MALFORMED, f"{key} is no text: {_show(value)}")
    return value


_STATISTIC: Final = re.compile(r"(p[0-9]+(?:\.[0-9]+)?|median)_(ttft|tpot|itl)(_ms)?")


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
            quantile = 50.0 if match.group(1) == "median" else float(match.group(1)[1:])
            if 0 < quantile <= 100:
                found[match.group(2)][quantile] = key
        self._quantiles = tuple(tuple(sorted(found[metric].items())) for metric in self.METRICS)
        self._means = tuple(f"mean_{metric}{suffix}" for metric in (*self.METRICS, "e2el"))

    def quantiles(self, raw: Record, scale: float) -> tuple[Quantiles, Quantiles, Quantiles]:
        """(TTFT, ITL, TPOT), each value times `scale`."""
        result: list[Quantiles] = []
        for plan in self._quantiles:
            measured = []
            for quantile, key in plan:
                value = number(raw, key)
                if value is not None:
                    measured.append((quantile, value * scale))
            result.append(tuple(measured))
        return result[0], result[1], result[2]

    def means(self, raw: Record, scale: float) -> list[float | None]:
        """Mean TTFT, ITL, TPOT and end-to-end latency, each times `scale`."""
        return [None if (value := number(raw, key)) is None else value * scale for key in self._means]


@lru_cache(maxsize=256)
def latency_reader(keys: tuple[str, ...], suffix: str) -> LatencyReader:
    """The reader for records with these keys; `suffix` is what follows the metric in a key (`_ms` or nothing)."""
    return LatencyReader(keys, suffix)


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
