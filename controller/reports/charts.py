"""One panel as an inline SVG: no script, no font, nothing from the network.

All panels of a report share the time axis and the plot's left and right edge, so that events line up from one to the
next. Names stand at the end of their lines. Tooltips are `<title>` elements on narrow strips across the plot; they say
the range of each series within the strip, so that a spike one sees is a spike one reads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from controller.reports.downsampling import downsample
from controller.reports.formatting import UNKNOWN, format_number, format_short
from controller.reports.geometry import Curve, area_path, band_polygons, line_path, polygon_path
from controller.reports.markup import EMPTY, Markup, element
from controller.reports.palette import series_colour, series_dash, step_dash
from controller.reports.scales import Scale, moment_label, time_axis_caption, time_ticks, value_ticks
from controller.reports.series import Mark, Panel, Series, SeriesKind, Tone

# Of the view box; the page scales it to its own width.
_WIDTH, _HEIGHT = 1000.0, 216.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 832.0, 24.0, 190.0
_MARK_BASELINE = 12.0
_LABEL_SPACING = 15.0
# Two pixels of the plot each: finer detail would not be seen, and an hour of seconds stays below 20 kB.
_BUCKETS = 390
_STRIPS = 100
# The width of an average character of a 12-pixel sans-serif font.
_CHARACTER = 6.4
_LABEL_CHARACTERS = 22


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time axis that all panels of a report share."""

    start_seconds: float
    end_seconds: float
    clock_origin_seconds: float | None = None

    @property
    def caption(self) -> str:
        """What the labels of the axis count."""
        return time_axis_caption(self.end_seconds, self.clock_origin_seconds)

    @property
    def scale(self) -> Scale:
        """Times onto the plot's width."""
        return Scale(self.start_seconds, self.end_seconds, _LEFT, _RIGHT)


def shared_time_axis(panels: Sequence[Panel], clock_origin_seconds: float | None = None) -> TimeAxis:
    """From the first to the last time of any series, those of bands included; a second long at least."""
    everything = [series for panel in panels for series in _all_series(panel) if series.times_seconds]
    start = min((series.times_seconds[0] for series in everything), default=0.0)
    end = max((series.times_seconds[-1] for series in everything), default=0.0)
    return TimeAxis(start, max(end, start + 1.0), clock_origin_seconds)


def render_panel(panel: Panel, axis: TimeAxis) -> Markup:
    """A figure: caption, key of the bands, the SVG, and a note below."""
    chart = _Chart(panel, axis)
    unit = element("span", panel.unit, class_="unit") if panel.unit else EMPTY
    return element(
        "figure",
        element("figcaption", element("h3", panel.title, " ", unit), chart.key()),
        element("div", chart.svg(), class_="plot"),
        element("p", panel.note, class_="note") if panel.note else EMPTY,
    )


class _Chart:
    def __init__(self, panel: Panel, axis: TimeAxis) -> None:
        self.panel = panel
        self.axis = axis
        self.x = axis.scale
        different = {id(series): series for series in _all_series(panel)}
        self.points = {key: downsample(s.times_seconds, s.values, _BUCKETS) for key, s in different.items()}
        known = [value for series in _all_series(panel) for value in series.known]
        ticks = value_ticks(
            [*known, *(line.value for line in panel.target_lines)],
            whole=bool(known) and all(value.is_integer() for value in known),
        )
        self.value_ticks = ticks
        self.y = Scale(ticks[0], ticks[-1], _BOTTOM, _TOP)

    def svg(self) -> Markup:
        return element(
            "svg",
            self._grid(),
            *self._marks(),
            *self._bands(),
            *self._lines(),
            *self._target_lines(),
            *self._labels(),
            *self._tooltips(),
            viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
            role="img",
            aria_label=self._summary(),
        )

    def key(self) -> Markup:
        chips = [
            element(
                "span",
                element("svg", element("rect", width=22, height=12, **_band_paint(b.tone)), viewBox="0 0 22 12"),
                b.name,
                class_="chip",
            )
            for b in self.panel.bands
        ]
        return element("p", *chips, class_="key") if chips else EMPTY

    def _summary(self) -> str:
        span = f"{self._moment(self.axis.start_seconds)} to {self._moment(self.axis.end_seconds)}"
        unit = f" {self.panel.unit}" if self.panel.unit else ""
        parts = [f"Chart of {self.panel.title}, {span}."]
        for series in self.panel.series:
            known = series.known
            if known:
                low, high, last = (format_number(v) for v in (min(known), max(known), known[-1]))
                parts.append(f"{series.name}: from {low} to {high}{unit}, at the end {last}.")
            else:
                parts.append(f"{series.name}: no data.")
        parts += [f"Target {line.label}: {format_number(line.value)}{unit}." for line in self.panel.target_lines]
        parts += [f"{mark.label} at {self._moment(mark.time_seconds)}." for mark in self.panel.marks[:10]]
        return " ".join(parts)

    def _moment(self, seconds: float) -> str:
        return moment_label(seconds, self.axis.clock_origin_seconds)

    def _grid(self) -> Markup:
        parts: list[Markup] = []
        step = self.value_ticks[1] - self.value_ticks[0]
        for value in self.value_ticks:
            y = self.y(value)
            kind = "axis" if value == 0 else "grid"
            parts.append(element("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_=kind))
            parts.append(element("text", format_short(value, step), x=_LEFT - 8, y=y + 4, class_="tick end"))
        for tick in time_ticks(self.x.low, self.x.high, clock_origin_seconds=self.axis.clock_origin_seconds):
            x = self.x(tick.seconds)
            parts.append(element("line", x1=x, x2=x, y1=_TOP, y2=_BOTTOM, class_="grid"))
            parts.append(element("text", tick.label, x=x, y=_BOTTOM + 17, class_="tick mid"))
        return element("g", *parts)

    def _bands(self) -> list[Markup]:
        shapes = []
        for band in self.panel.bands:
            lower, upper = (Curve(self.points[id(s)], s.kind) for s in (band.lower, band.upper))
            path = polygon_path(band_polygons(lower, upper), self.x, self.y)
            if path:
                shapes.append(element("path", element("title", band.name), d=path, **_band_paint(band.tone)))
        return shapes

    def _lines(self) -> list[Markup]:
        shapes: list[Markup] = []
        for index, series in enumerate(self.panel.series):
            points = self.points[id(series)]
            colour = series_colour(index)
            if series.kind is SeriesKind.AREA:
                area = area_path(points, series.kind, self.x, self.y)
                shapes.append(element("path", d=area, fill=colour, class_="area"))
            path = line_path(points, series.kind, self.x, self.y)
            shapes.append(element("path", d=path, stroke=colour, stroke_dasharray=self._dash(index), class_="line"))
        return shapes

    def _dash(self, index: int) -> str | None:
        series = self.panel.series[index]
        if series.kind is not SeriesKind.STEP:
            return series_dash(index)
        # Counts often lie on each other: through the dashes of the upper line the lower one stays visible.
        return step_dash(sum(earlier.kind is SeriesKind.STEP for earlier in self.panel.series[:index]))

    def _target_lines(self) -> list[Markup]:
        shapes = []
        for line in self.panel.target_lines:
            y = self.y(line.value)
            shapes.append(element("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="target"))
            # Below the line where it runs along the top
            baseline = y - 5 if y - 17 > _TOP else y + 14
            label = f"{line.label} {format_short(line.value)}"
            shapes.append(element("text", _shortened(label, 60), x=_LEFT + 6, y=baseline, class_="targetlabel halo"))
        return shapes

    def _marks(self) -> list[Markup]:
        shapes = []
        free_from = 0.0
        for mark in sorted(self.panel.marks, key=lambda m: m.time_seconds):
            until = mark.until_seconds if mark.until_seconds is not None else mark.time_seconds
            if until < self.x.low or mark.time_seconds > self.x.high:
                continue
            left, right = self.x(max(mark.time_seconds, self.x.low)), self.x(min(until, self.x.high))
            parts = [element("title", self._mark_title(mark))]
            if right - left >= 1:
                parts.append(element("rect", x=left, y=_TOP, width=right - left, height=_BOTTOM - _TOP, class_="span"))
            parts.append(element("line", x1=left, x2=left, y1=_MARK_BASELINE - 9, y2=_BOTTOM, class_="mark"))
            label = _shortened(mark.label, 30)
            width = len(label) * _CHARACTER + 6
            flipped = left + width > _WIDTH
            begins = left - width if flipped else left
            # A label without room is left out; its tooltip is still there.
            if begins >= free_from:
                kind, anchor = ("marklabel end", left - 4) if flipped else ("marklabel", left + 4)
                parts.append(element("text", label, x=anchor, y=_MARK_BASELINE, class_=kind))
                free_from = begins + width
            shapes.append(element("g", *parts, class_=f"event {mark.tone.value}"))
        return shapes

    def _mark_title(self, mark: Mark) -> str:
        until = f" to {self._moment(mark.until_seconds)}" if mark.until_seconds is not None else ""
        return f"{self._moment(mark.time_seconds)}{until}: {mark.label}"

    def _labels(self) -> list[Markup]:
        ends = []
        for series in self.panel.series:
            last = next((p for p in reversed(self.points[id(series)]) if p[1] is not None), None)
            ends.append(self.y(last[1]) if last and last[1] is not None else _BOTTOM)
        shapes: list[Markup] = []
        for index, y in enumerate(_spread(ends)):
            series = self.panel.series[index]
            colour = series_colour(index)
            value = format_short(series.known[-1]) if series.known else "no data"
            name = _shortened(series.name, _LABEL_CHARACTERS - len(value) - 1)
            key = f"M{_RIGHT + 4:.0f} {ends[index]:.1f}L{_RIGHT + 12:.0f} {y:.1f}h12"
            text = element(
                "text", name, " ", element("tspan", value, class_="value"), x=_RIGHT + 30, y=y + 4, class_="label"
            )
            shapes.append(
                element(
                    "g",
                    element("title", f"{series.name}: at the end {value}"),
                    element("path", d=key, stroke=colour, stroke_dasharray=self._dash(index), class_="line"),
                    text,
                )
            )
        return shapes

    def _tooltips(self) -> list[Markup]:
        if not any(series.times_seconds for series in self.panel.series):
            return [element("text", "no data", x=(_LEFT + _RIGHT) / 2, y=(_TOP + _BOTTOM) / 2, class_="tick mid")]
        width = (self.x.high - self.x.low) / _STRIPS
        strips = []
        for number in range(_STRIPS):
            start = self.x.low + number * width
            lines = [self._moment(start + width / 2)]
            lines += [f"{s.name}: {_range_text(s, start, start + width)}" for s in self.panel.series]
            left = self.x(start)
            strips.append(
                element(
                    "rect",
                    element("title", "\n".join(lines)),
                    x=left,
                    y=_TOP,
                    width=self.x(start + width) - left,
                    height=_BOTTOM - _TOP,
                )
            )
        return [element("g", *strips, class_="strips")]


def _all_series(panel: Panel) -> list[Series]:
    return [*panel.series, *(series for band in panel.bands for series in (band.lower, band.upper))]


def _range_text(series: Series, start: float, end: float) -> str:
    """The lowest and highest value of a series in a stretch of time; one number where they look the same."""
    first, last = bisect_left(series.times_seconds, start), bisect_right(series.times_seconds, end)
    inside = list(series.values[first:last])
    if not inside and 0 < first < len(series.times_seconds):
        held = series.values[first - 1]
        known_after = series.values[first] is not None
        inside = [held] if series.kind is SeriesKind.STEP or (held is not None and known_after) else []
    known = [value for value in inside if value is not None]
    if not known:
        return UNKNOWN
    low, high = format_number(min(known)), format_number(max(known))
    return low if low == high else f"{low} to {high}"


def _spread(wanted: Sequence[float]) -> list[float]:
    """Label positions as near as possible to the wanted ones, in the same order, that do not cover each other."""
    spacing = min(_LABEL_SPACING, (_BOTTOM - _TOP) / max(1, len(wanted) - 1))
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = list(wanted)
    floor = _TOP
    for index in order:
        placed[index] = max(wanted[index], floor)
        floor = placed[index] + spacing
    ceiling = _BOTTOM
    for index in reversed(order):
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - spacing
    return placed


def _band_paint(tone: Tone) -> dict[str, str]:
    return {"class_": f"band {tone.value}"}


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(1, most - 1)]}…"
