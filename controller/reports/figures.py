"""Panels as a picture file for documents and slides: the only part that needs matplotlib (extra `report`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from controller.foundation import UsageError
from controller.reports.charts import shared_time_axis
from controller.reports.downsampling import Point
from controller.reports.geometry import Curve, band_polygons, runs
from controller.reports.palette import LIGHT, SERIES_LIGHT
from controller.reports.scales import time_axis_caption, time_ticks
from controller.reports.series import Panel, Series, SeriesKind, Tone
from controller.reports.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".pdf", ".png", ".svg")
_INCHES_WIDE, _INCHES_HIGH = 10.0, 2.2
_DOTS_PER_INCH = 150
_HATCHES = {Tone.SHORTAGE: "////"}


def write_figure(panels: Sequence[Panel], path: Path, clock_origin_seconds: float | None = None) -> None:
    """Write the panels below each other, sharing the time axis, in the format that the suffix of `path` names.

    Raises UsageError when the suffix is none of .pdf, .png, .svg, there is no panel, or matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"cannot write a figure to {path.name}: the name must end in {', '.join(SUFFIXES)}")
    if not panels:
        raise UsageError(f"nothing to draw in {path.name}")
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise UsageError(
            "figures need matplotlib: install model-deployment-scaler with the extra `report` (HTML reports do not)"
        ) from None
    figure = Figure(figsize=(_INCHES_WIDE, _INCHES_HIGH * len(panels)), layout="constrained")
    axes: list[Axes] = list(figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0])
    axis = shared_time_axis(panels, clock_origin_seconds)
    for panel, ax in zip(panels, axes, strict=True):
        _draw(panel, ax)
    ticks = time_ticks(axis.start_seconds, axis.end_seconds, clock_origin_seconds=clock_origin_seconds)
    axes[-1].set_xlim(axis.start_seconds, axis.end_seconds)
    axes[-1].set_xticks([tick.seconds for tick in ticks], [tick.label for tick in ticks])
    axes[-1].set_xlabel(time_axis_caption(axis.end_seconds, clock_origin_seconds))
    figure.savefig(path, dpi=_DOTS_PER_INCH)


def _draw(panel: Panel, ax: Axes) -> None:
    ax.set_title(_plain(panel.title), loc="left", fontsize=10, fontweight="bold")
    ax.set_ylabel(_plain(panel.unit))
    ax.grid(color=LIGHT["grid"])
    ax.set_axisbelow(True)
    for band in panel.bands:
        lower, upper = (Curve(_points(series), series.kind) for series in (band.lower, band.upper))
        colour = LIGHT.get(band.tone.value, LIGHT["muted"])
        for number, polygon in enumerate(band_polygons(lower, upper)):
            label = None if number else _plain(band.name)
            ax.fill(
                *zip(*polygon, strict=True), color=colour, alpha=0.2, lw=0, hatch=_HATCHES.get(band.tone), label=label
            )
    for index, series in enumerate(panel.series):
        colour = SERIES_LIGHT[index % len(SERIES_LIGHT)]
        times, values = _arrays(series)
        drawstyle = "steps-post" if series.kind is SeriesKind.STEP else "default"
        ax.plot(times, values, color=colour, lw=1.2, label=_plain(series.name), drawstyle=drawstyle)
        lone = [(run[0][0], run[0][1]) for run in runs(_points(series)) if len(run) == 1]
        ax.plot([time for time, _ in lone], [value for _, value in lone], ".", color=colour, ms=2)
        if series.kind is SeriesKind.AREA:
            ax.fill_between(times, values, color=colour, alpha=0.13)
    for line in panel.target_lines:
        ax.axhline(line.value, color=LIGHT["muted"], linestyle="--", linewidth=1, label=_plain(line.label))
    for mark in panel.marks:
        colour = LIGHT["alert"] if mark.tone in (Tone.ALERT, Tone.SHORTAGE) else LIGHT["muted"]
        ax.axvline(mark.time_seconds, color=colour, linestyle=":", linewidth=1)
        if mark.until_seconds is not None:
            ax.axvspan(mark.time_seconds, mark.until_seconds, color=colour, alpha=0.1)
    ax.set_ylim(bottom=min(0.0, *(v for s in panel.series for v in s.known), 0.0))
    if panel.series:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)


def _points(series: Series) -> tuple[Point, ...]:
    return tuple(zip(series.times_seconds, series.values, strict=True))


def _arrays(series: Series) -> tuple[list[float], list[float]]:
    return list(series.times_seconds), [math.nan if value is None else value for value in series.values]


def _plain(text: str) -> str:
    """Text in one line in which a dollar sign starts no formula."""
    return printable(text).replace("$", r"\$")
