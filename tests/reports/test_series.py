"""A mistake in the data of a chart is reported where it is made, by name."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from controller.reports import Mark, Panel, Series, SeriesKind, TargetLine, Tone, gap_bands

_MISTAKES: list[tuple[str, Callable[[], object], str]] = [
    ("lengths differ", lambda: Series("ttft", "ms", [0, 1], [1]), "'ttft' has 2 times but 1 values"),
    ("time runs backwards", lambda: Series("ttft", "ms", [1, 0], [1, 1]), "'ttft' needs finite times in rising order"),
    ("a time is unknown", lambda: Series("ttft", "ms", [0, math.nan], [1, 1]), "'ttft' needs finite times"),
    ("a time is infinite", lambda: Series("ttft", "ms", [0, math.inf], [1, 1]), "'ttft' needs finite times"),
    ("a value no axis can show", lambda: Series("ttft", "ms", [0], [1e200]), "'ttft' has a value that no chart"),
    ("a kind that does not exist", lambda: Series("t", "", [0], [1], "bar"), "'bar' is not a valid SeriesKind"),  # type: ignore[arg-type]
    ("two units on one axis", lambda: Panel("P", "ms", [Series("x", "s", [0], [1])]), "'x' is in 's' but panel 'P'"),
    ("a mark without a time", lambda: Mark(math.nan, "restart"), "'restart' needs a finite time"),
    ("a mark that ends before it began", lambda: Mark(5, "panic", 4), "'panic' ends at 4, before it began at 5"),
    ("a target that is no number", lambda: TargetLine(math.nan, "p95"), "'p95' needs a finite value"),
]


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in _MISTAKES], ids=[row[0] for row in _MISTAKES])
def test_mistakes_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_not_a_finite_number_is_unknown() -> None:
    series = Series("x", "", np.arange(5.0), np.array([1.0, math.nan, math.inf, -math.inf, 2.0]), SeriesKind("step"))  # type: ignore[arg-type]
    assert series.values == (1.0, None, None, None, 2.0)
    assert series.known == (1.0, 2.0)
    assert series.kind is SeriesKind.STEP


def test_the_bands_of_a_need_are_what_was_short_and_what_was_spare() -> None:
    needed, ready = Series("needed", "", [0], [2]), Series("ready", "", [0], [1])
    short, spare = gap_bands(needed, ready)
    assert (short.name, short.lower, short.upper, short.tone) == ("ready below needed", ready, needed, Tone.SHORTAGE)
    assert (spare.name, spare.lower, spare.upper, spare.tone) == ("ready above needed", needed, ready, Tone.SURPLUS)
