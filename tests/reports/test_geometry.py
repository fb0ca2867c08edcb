"""Shapes never bridge the unknown, and a band covers exactly what lies between its curves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.reports.downsampling import Point
from controller.reports.geometry import Curve, area_path, band_polygons, line_path, polygon_path
from controller.reports.scales import Scale
from controller.reports.series import SeriesKind

_Vector = npt.NDArray[np.float64]
_X = Scale(0, 10, 0, 100)
_Y = Scale(0, 10, 100, 0)

_PATHS = [
    ("a line goes straight from point to point", SeriesKind.LINE, [(0, 0), (5, 5), (10, 0)], "M0 100L50 50L100 100"),
    ("a step holds, then rises", SeriesKind.STEP, [(0, 0), (5, 5), (10, 5)], "M0 100H50V50H100"),
    ("a gap breaks the line", SeriesKind.LINE, [(0, 1), (1, 1), (2, None), (3, 1), (4, 1)], "M0 90L10 90M30 90L40 90"),
    ("a point between gaps is a dot", SeriesKind.LINE, [(0, None), (5, 5), (6, None)], "M50 50h0"),
    ("nothing known, nothing drawn", SeriesKind.STEP, [(0, None), (5, None)], ""),
    ("no points, nothing drawn", SeriesKind.LINE, [], ""),
]


@pytest.mark.parametrize(("kind", "points", "path"), [row[1:] for row in _PATHS], ids=[row[0] for row in _PATHS])
def test_paths(kind: SeriesKind, points: list[Point], path: str) -> None:
    assert line_path(points, kind, _X, _Y) == path


def test_an_area_closes_down_to_zero_for_each_known_stretch() -> None:
    points: list[Point] = [(0, 5), (2, 5), (3, None), (4, 5), (6, 5), (7, None), (8, 5)]
    assert area_path(points, SeriesKind.AREA, _X, _Y) == "M0 50L20 50V100H0ZM40 50L60 50V100H40Z"


def _curve(kind: SeriesKind, *points: Point) -> Curve:
    return Curve(points, kind)


_STEP, _LINE = SeriesKind.STEP, SeriesKind.LINE

_BANDS = [
    (
        "steps give rectangles",
        _curve(_STEP, (0, 1), (10, 1)),
        _curve(_STEP, (0, 3), (10, 3)),
        [[(0, 3), (10, 3), (10, 1), (0, 1)]],
    ),
    (
        "where the order is reversed nothing is shaded",
        _curve(_STEP, (0, 3), (10, 3)),
        _curve(_STEP, (0, 1), (10, 1)),
        [],
    ),
    (
        "lines that cross give a triangle",
        _curve(_LINE, (0, 4), (10, 4)),
        _curve(_LINE, (0, 0), (10, 8)),
        [[(5, 4), (10, 8), (10, 4)]],
    ),
    (
        "a gap of either interrupts the band",
        _curve(_STEP, (0, 1), (4, None), (6, 1), (10, 1)),
        _curve(_STEP, (0, 2), (10, 2)),
        [[(0, 2), (4, 2), (4, 1), (0, 1)], [(6, 2), (10, 2), (10, 1), (6, 1)]],
    ),
    (
        "beyond the end of either nothing is shaded",
        _curve(_STEP, (0, 1), (4, 1)),
        _curve(_STEP, (2, 2), (10, 2)),
        [[(2, 2), (4, 2), (4, 1), (2, 1)]],
    ),
]


@pytest.mark.parametrize(("lower", "upper", "polygons"), [row[1:] for row in _BANDS], ids=[row[0] for row in _BANDS])
def test_bands(lower: Curve, upper: Curve, polygons: list[list[tuple[float, float]]]) -> None:
    assert band_polygons(lower, upper) == polygons


def test_polygons_are_closed_paths() -> None:
    assert polygon_path([[(0, 0), (10, 0), (10, 10)]], _X, _Y) == "M0 100L100 100L100 0Z"


def _area(polygon: list[tuple[float, float]]) -> float:
    pairs = zip(polygon, [*polygon[1:], polygon[0]], strict=True)
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairs)) / 2


def _sampled(curve: Curve, times: _Vector) -> _Vector:
    """The curve at times that are none of its points', NaN where it is unknown, by numpy instead of our own code."""
    if not curve.points:
        return np.full_like(times, np.nan)
    at = np.array([time for time, _ in curve.points])
    values = np.array([np.nan if value is None else value for _, value in curve.points])
    index = np.searchsorted(at, times, side="right") - 1
    inside = (index >= 0) & (index < len(at) - 1)
    index = np.clip(index, 0, max(0, len(at) - 2))
    if curve.kind is SeriesKind.STEP or len(at) == 1:
        return np.where(inside, values[index], np.nan)
    share = (times - at[index]) / (at[index + 1] - at[index])
    return np.where(inside, values[index] + share * (values[index + 1] - values[index]), np.nan)


_CURVES = st.builds(
    lambda kind, steps: Curve([(float(sum(s for s, _ in steps[: n + 1])), v) for n, (_, v) in enumerate(steps)], kind),
    st.sampled_from([SeriesKind.LINE, SeriesKind.STEP]),
    st.lists(st.tuples(st.integers(1, 3), st.none() | st.integers(0, 6).map(float)), max_size=8),
)


@given(_CURVES, _CURVES)
def test_the_area_of_a_band_is_the_integral_of_the_excess(lower: Curve, upper: Curve) -> None:
    grain = 1 / 64
    times = (np.arange(30 / grain) + 0.5) * grain
    expected = float(np.nansum(np.maximum(0.0, _sampled(upper, times) - _sampled(lower, times))) * grain)
    assert sum(map(_area, band_polygons(lower, upper))) == pytest.approx(expected, abs=0.02)
