"""Shapes of a chart in pixels: the path of a series, the outline of a shaded area, the polygons of a band.

All take points whose unknown values are None; a shape never bridges one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from controller.reports.downsampling import Point
from controller.reports.markup import coordinate
from controller.reports.scales import Scale
from controller.reports.series import SeriesKind

Known = tuple[float, float]


def runs(points: Sequence[Point]) -> Iterator[list[Known]]:
    """The stretches of known points between gaps."""
    run: list[Known] = []
    for time, value in points:
        if value is not None:
            run.append((time, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def line_path(points: Sequence[Point], kind: SeriesKind, x: Scale, y: Scale) -> str:
    """The `d` of a path. A point between two gaps becomes a dot (a line of no length, drawn with round ends)."""
    return "".join(_open_path(run, kind, x, y) for run in runs(points))


def area_path(points: Sequence[Point], kind: SeriesKind, x: Scale, y: Scale) -> str:
    """The `d` of the closed shape between a series and zero."""
    base = coordinate(y(min(max(0.0, y.low), y.high)))
    return "".join(
        f"{_open_path(run, kind, x, y)}V{base}H{coordinate(x(run[0][0]))}Z" for run in runs(points) if len(run) > 1
    )


def _open_path(run: list[Known], kind: SeriesKind, x: Scale, y: Scale) -> str:
    time, value = run[0]
    parts = [f"M{coordinate(x(time))} {coordinate(y(value))}"]
    if len(run) == 1:
        return parts[0] + "h0"
    for before, (time, value) in pairwise(run):
        if kind is not SeriesKind.STEP:
            parts.append(f"L{coordinate(x(time))} {coordinate(y(value))}")
        elif value != before[1]:
            parts.append(f"H{coordinate(x(time))}V{coordinate(y(value))}")
    if kind is SeriesKind.STEP:
        parts.append(f"H{coordinate(x(run[-1][0]))}")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Curve:
    """A series as a function of time, unknown between and beside its known stretches."""

    points: Sequence[Point]
    kind: SeriesKind

    def over(self, start: float, end: float) -> Known | None:
        """The values just after `start` and just before `end`, between which the curve is straight; None where unknown.

        No point of the curve may lie strictly between the two times.
        """
        index = bisect_right(self.points, start, key=lambda point: point[0]) - 1
        if index < 0 or index + 1 >= len(self.points):
            return None
        (before, low), (after, high) = self.points[index], self.points[index + 1]
        if low is None or (high is None and self.kind is not SeriesKind.STEP):
            return None
        if self.kind is SeriesKind.STEP or high is None or after == before:
            return low, low
        slope = (high - low) / (after - before)
        return low + slope * (start - before), low + slope * (end - before)


def polygon_path(polygons: Sequence[Sequence[Known]], x: Scale, y: Scale) -> str:
    """The `d` of closed polygons given in data coordinates."""
    outlines = ("L".join(f"{coordinate(x(t))} {coordinate(y(v))}" for t, v in polygon) for polygon in polygons)
    return "".join(f"M{outline}Z" for outline in outlines)


def band_polygons(lower: Curve, upper: Curve) -> list[list[Known]]:
    """The outlines, in data coordinates, of the regions in which `upper` lies above `lower`."""
    times = sorted({time for curve in (lower, upper) for time, _ in curve.points})
    shapes: list[list[Known]] = []
    top: list[Known] = []
    bottom: list[Known] = []

    def close() -> None:
        if top:
            shapes.append(_straight(top + bottom[::-1]))
        top.clear()
        bottom.clear()

    for start, end in pairwise(times):
        low, high = lower.over(start, end), upper.over(start, end)
        if low is None or high is None:
            close()
            continue
        first, last = high[0] - low[0], high[1] - low[1]
        if first <= 0 and last <= 0:
            close()
            continue
        # Where the curves cross inside the interval, the polygon begins or ends at the crossing.
        share = first / (first - last) if (first < 0) != (last < 0) else None
        cross = None if share is None else (start + share * (end - start), high[0] + share * (high[1] - high[0]))
        if first < 0 and cross:
            close()
            top += [cross, (end, high[1])]
            bottom += [cross, (end, low[1])]
        else:
            top += [(start, high[0]), cross or (end, high[1])]
            bottom += [(start, low[0]), cross or (end, low[1])]
            if cross:
                close()
    close()
    return shapes


def _straight(outline: list[Known]) -> list[Known]:
    """An outline that repeats no corner, not at its end either, and has none in the middle of a horizontal edge."""
    kept: list[Known] = []
    for corner in outline:
        if kept and kept[-1] == corner:
            continue
        if len(kept) > 1 and kept[-1][1] == kept[-2][1] == corner[1]:
            kept.pop()
        kept.append(corner)
    if kept[0] == kept[-1]:
        kept.pop()
    return kept
