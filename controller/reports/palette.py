"""Colours of a report, light and dark.

The six series colours were searched so that any two stay apart for people with normal sight, protanopia, deuteranopia
and tritanopia (distance in OKLab of at least 0.12 after simulation by Machado, Oliveira and Fernandes 2009), and so
that each stands out from its background by 3:1 at least (WCAG 1.4.11). The tests measure both. Colour is never the only
channel: lines carry their name, bands of shortage are hatched, step lines after the first are dashed, and so is every
line from the seventh of a panel on.
"""

from __future__ import annotations

SERIES_LIGHT = ("#1850ae", "#ef7007", "#479d91", "#671747", "#705e08", "#9e65eb")
SERIES_DARK = ("#7eabed", "#e88962", "#75facf", "#ba4277", "#fed60c", "#8e5ce4")
DASHES = (None, "7 3", "2 3", "9 3 2 3")
STEP_DASHES = (None, "8 5", "2 5")

LIGHT = {
    "page": "#f5f6f8",
    "card": "#ffffff",
    "ink": "#16191d",
    "muted": "#5b6470",
    "rule": "#d9dde3",
    "grid": "#eceef1",
    "hover": "#16191d14",
    "shortage": "#c62f3b",
    "surplus": "#8b96a5",
    "alert": "#b3261e",
}
DARK = {
    "page": "#0e1013",
    "card": "#15181d",
    "ink": "#e8ebef",
    "muted": "#9aa4b1",
    "rule": "#333a44",
    "grid": "#242a32",
    "hover": "#ffffff1f",
    "shortage": "#ff7a83",
    "surplus": "#7d8896",
    "alert": "#ff8a80",
}


def variables(dark: bool) -> str:
    """The colours as CSS custom properties."""
    series = SERIES_DARK if dark else SERIES_LIGHT
    named = {f"s{slot}": colour for slot, colour in enumerate(series)} | (DARK if dark else LIGHT)
    return "".join(f"--{name}:{colour};" for name, colour in named.items())


def series_colour(index: int) -> str:
    """The colour of a panel's series by its position."""
    return f"var(--s{index % len(SERIES_LIGHT)})"


def series_dash(index: int) -> str | None:
    """The dash pattern of a panel's series: none for as many as there are colours, then one per round."""
    return DASHES[index // len(SERIES_LIGHT) % len(DASHES)]


def step_dash(position: int) -> str | None:
    """The dash pattern of a panel's step series by its position among them; the first is solid."""
    return STEP_DASHES[min(position, len(STEP_DASHES) - 1)]
