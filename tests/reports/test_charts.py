"""A chart shows what the data say: gaps as gaps, spikes as spikes, nothing where nothing is known."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.reports import Band, Mark, Panel, Series, SeriesKind, TargetLine, Tone, gap_bands
from controller.reports.charts import _spread, render_panel, shared_time_axis

_HOUR = [float(second) for second in range(3601)]


def _svg(panel: Panel, origin: float | None = None) -> ET.Element:
    root = ET.fromstring(render_panel(panel, shared_time_axis([panel], origin)).text)
    svg = root.find("./div/svg")
    assert svg is not None
    return svg


def _texts(svg: ET.Element, kind: str) -> list[str]:
    return ["".join(text.itertext()) for text in svg.iter("text") if kind in (text.get("class") or "").split()]


def _lines(svg: ET.Element) -> list[str]:
    """The paths of the series, without the keys of their labels."""
    return [path.get("d") or "" for path in svg.findall("path") if path.get("class") == "line"]


def _tooltips(svg: ET.Element) -> list[str]:
    strips = next(group for group in svg.iter("g") if group.get("class") == "strips")
    return [title.text or "" for title in strips.iter("title")]


def test_an_unknown_stretch_breaks_the_line_and_is_not_drawn_as_zero() -> None:
    values = [None if 1000 <= t < 1100 else 5.0 + math.sin(t / 60) for t in _HOUR]
    svg = _svg(Panel("P", "", [Series("x", "", _HOUR, values)]))
    (path,) = _lines(svg)
    assert path.count("M") == 2
    heights = [float(point.split(" ")[1]) for point in path.replace("M", "L").split("L")[1:]]
    assert max(heights) < 190.0, "no point lies on the zero line"
    assert any(tip.endswith("x: –") for tip in _tooltips(svg))


def test_a_spike_of_one_second_survives_and_its_tooltip_names_it() -> None:
    values = [9000.0 if t == 1801 else 100.0 for t in _HOUR]
    svg = _svg(Panel("P", "", [Series("x", "", _HOUR, values)]))
    assert " 37" in _lines(svg)[0] or "38" in _lines(svg)[0]
    assert [tip for tip in _tooltips(svg) if "9,000" in tip] == ["30:18\nx: 100 to 9,000"]


def test_an_hour_of_seconds_stays_small() -> None:
    noisy = [50.0 + 40 * math.sin(t * 12.9898) for t in _HOUR]
    text = render_panel(panel := Panel("P", "", [Series("x", "", _HOUR, noisy)]), shared_time_axis([panel])).text
    assert len(text) < 40_000
    week = [float(second) for second in range(0, 604_800, 15)]
    panel = Panel("P", "", [Series("x", "", week, [50.0 + 40 * math.sin(t) for t in week])])
    assert len(render_panel(panel, shared_time_axis([panel])).text) < 40_000


def test_every_series_is_named_at_its_end_with_its_last_known_value() -> None:
    svg = _svg(
        Panel(
            "P",
            "ms",
            [
                Series("p50", "ms", [0, 60], [100, 212]),
                Series("p99", "ms", [0, 60], [5094, None]),
                Series("silent", "ms", [0, 60], [None, None]),
                Series("a name that is much too long for the margin", "ms", [0], [1]),
            ],
        )
    )
    assert _texts(svg, "label") == ["p50 212", "p99 5.09k", "silent no data", "a name that is much… 1"]


def test_axis_labels_count_the_shared_time() -> None:
    panels = [
        Panel("A", "", [Series("x", "", [0, 3000], [0, 1])]),
        Panel("B", "", [Series("y", "", [600, 3600], [0, 9])]),
    ]
    axis = shared_time_axis(panels)
    assert (axis.start_seconds, axis.end_seconds) == (0, 3600)
    root = ET.fromstring(render_panel(panels[1], axis).text)
    labels = [text.text for text in root.iter("text") if text.get("class") == "tick mid"]
    assert labels == ["00:00", "10:00", "20:00", "30:00", "40:00", "50:00", "60:00"]
    assert "12:10" in _texts(_svg(panels[0], 1_795_953_600.0), "tick")


def test_a_band_of_hidden_series_stays_on_the_axis() -> None:
    p05, p95 = (Series(name, "", [0, 7200], [low, low + 1]) for name, low in (("p05", 1), ("p95", 2)))
    panel = Panel("P", "", [Series("p50", "", [600, 3600], [1, 2])], bands=[Band("p05 to p95", p05, p95)])
    axis = shared_time_axis([panel])
    assert (axis.start_seconds, axis.end_seconds) == (0, 7200)
    (band,) = (path for path in _svg(panel).findall("path") if path.get("class") == "band neutral")
    assert band.findtext("title") == "p05 to p95"


def test_counts_have_no_half_ticks() -> None:
    svg = _svg(Panel("Replicas", "", [Series("ready", "", [0, 60], [1, 2], SeriesKind.STEP)]))
    assert _texts(svg, "end") == ["0", "1", "2"]


def test_marks_on_the_axis_are_drawn_and_named() -> None:
    marks = [
        Mark(30, "restart", tone=Tone.ALERT),
        Mark(31, "hidden beside it"),
        Mark(60, "panic", until_seconds=90),
        Mark(-5, "before the start"),
        Mark(500, "after the end"),
        Mark(-50, "reaches in", until_seconds=10),
        Mark(119, "flips to the left at the right edge"),
    ]
    svg = _svg(Panel("P", "", [Series("x", "", [0, 120], [1, 2])], marks))
    titles = [group.findtext("title") for group in svg.iter("g") if (group.get("class") or "").startswith("event")]
    assert titles == [
        "-00:50 to 00:10: reaches in",
        "00:30: restart",
        "00:31: hidden beside it",
        "01:00 to 01:30: panic",
        "01:59: flips to the left at the right edge",
    ]
    assert _texts(svg, "marklabel") == ["reaches in", "restart", "panic", "flips to the left at the righ…"]
    assert [rect.get("class") for rect in svg.iter("rect")].count("span") == 2


def test_target_lines_widen_the_axis_and_are_named() -> None:
    svg = _svg(Panel("P", "ms", [Series("x", "ms", [0, 60], [1, 2])], target_lines=[TargetLine(2000, "p95 target")]))
    assert _texts(svg, "targetlabel") == ["p95 target 2k"]
    assert _texts(svg, "end")[-1] == "2.0k"


def test_bands_have_a_key_and_say_which_is_which() -> None:
    needed = Series("needed", "", [0, 60, 120], [1, 3, 3], SeriesKind.STEP)
    ready = Series("ready", "", [0, 60, 120], [2, 2, 2], SeriesKind.STEP)
    panel = Panel("Replicas", "", [needed, ready], bands=gap_bands(needed, ready))
    root = ET.fromstring(render_panel(panel, shared_time_axis([panel])).text)
    assert [span.find("svg/rect").get("class") for span in root.iter("span")] == ["band shortage", "band surplus"]  # type: ignore[union-attr]
    bands = {p.findtext("title"): p.get("d") for p in root.iter("path") if (p.get("class") or "").startswith("band")}
    assert set(bands) == {"ready below needed", "ready above needed"}


def test_the_label_for_screen_readers_tells_the_course() -> None:
    panel = Panel(
        "TTFT",
        "ms",
        [Series("p50", "ms", [0, 3600], [100, 212]), Series("p99", "ms", [], [])],
        [Mark(600, "restart")],
        [TargetLine(2000, "p95")],
    )
    assert _svg(panel).get("aria-label") == (
        "Chart of TTFT, 00:00 to 60:00. p50: from 100 to 212 ms, at the end 212. p99: no data. "
        "Target p95: 2,000 ms. restart at 10:00."
    )


@pytest.mark.parametrize(
    "series",
    [[], [Series("x", "", [], [])], [Series("x", "", [5], [None])], [Series("x", "", [5], [0])]],
    ids=["no series", "no points", "nothing known", "one zero"],
)
def test_a_chart_without_data_is_still_a_chart(series: list[Series]) -> None:
    svg = _svg(Panel("P", "", series))
    assert "NaN" not in ET.tostring(svg, encoding="unicode")
    assert svg.get("role") == "img"


def test_a_tooltip_in_a_long_gap_of_a_line_is_unknown_but_a_step_holds() -> None:
    line = Series("line", "", [0, 1000], [1, 3])
    broken = Series("broken", "", [0, 1000], [1, None])
    step = Series("step", "", [0, 1000], [1, 3], SeriesKind.STEP)
    early = Series("early", "", [0, 10], [7, 7], SeriesKind.STEP)
    tip = _tooltips(_svg(Panel("P", "", [line, broken, step, early])))[50]
    assert tip.split("\n")[1:] == ["line: 1.00", "broken: –", "step: 1.00", "early: –"]


@given(st.lists(st.floats(24, 190), max_size=12))
def test_labels_keep_their_order_their_distance_and_the_plot(wanted: list[float]) -> None:
    placed = _spread(wanted)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    spacing = min(15.0, 166.0 / max(1, len(wanted) - 1))
    for before, after in pairwise(order):
        assert placed[after] - placed[before] >= spacing - 1e-6
    assert all(24 - 1e-6 <= y <= 190 + 1e-6 for y in placed)


_VALUES = st.none() | st.floats(-1e100, 1e100) | st.just(math.nan) | st.just(math.inf)
_SERIES = st.builds(
    lambda steps, kind: Series(
        "s", "", [sum(s for s, _ in steps[: n + 1]) for n in range(len(steps))], [v for _, v in steps], kind
    ),
    st.lists(st.tuples(st.floats(0, 1e6), _VALUES), max_size=8),
    st.sampled_from(list(SeriesKind)),
)


@given(st.lists(_SERIES, max_size=3), st.none() | st.floats(0, 4e9))
def test_any_data_give_a_chart_whose_coordinates_are_finite(series: list[Series], origin: float | None) -> None:
    bands = gap_bands(series[0], series[1]) if len(series) > 1 else ()
    text = ET.tostring(_svg(Panel("P", "", series, bands=bands), origin), encoding="unicode")
    assert "nan" not in text.lower()
    assert "inf" not in text.lower()
