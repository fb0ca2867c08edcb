"""The palette holds what it promises: readable on its background, apart for every kind of sight."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from controller.reports.palette import (
    DARK,
    DASHES,
    LIGHT,
    SERIES_DARK,
    SERIES_LIGHT,
    series_colour,
    series_dash,
    step_dash,
    variables,
)

_Vector = npt.NDArray[np.float64]


def _matrix(rows: str) -> _Vector:
    return np.array(rows.split(), dtype=np.float64).reshape(3, 3)


# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
_SIGHTS = {
    "normal": np.eye(3),
    "protanopia": _matrix("0.152286 1.052583 -0.204868 0.114503 0.786281 0.099216 -0.003882 -0.048116 1.051998"),
    "deuteranopia": _matrix("0.367322 0.860646 -0.227968 0.280085 0.672501 0.047413 -0.011820 0.042940 0.968881"),
    "tritanopia": _matrix("1.255528 -0.076749 -0.178779 -0.078411 0.930809 0.147602 0.004733 0.691367 0.303900"),
}
# Ottosson 2020, linear sRGB to OKLab.
_TO_LMS = _matrix(
    "0.4122214708 0.5363325363 0.0514459929"
    " 0.2119034982 0.6806995451 0.1073969566 0.0883024619 0.2817188376 0.6299787005"
)
_TO_LAB = _matrix(
    "0.2104542553 0.7936177850 -0.0040720468"
    " 1.9779984951 -2.4285922050 0.4505937099 0.0259040371 0.7827717662 -0.8086757660"
)


def _linear(colour: str) -> _Vector:
    srgb = np.array([int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def _contrast(one: str, other: str) -> float:
    dark, light = sorted(float(_linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _lab(linear: _Vector) -> _Vector:
    return _TO_LAB @ np.cbrt(_TO_LMS @ np.clip(linear, 0, 1))


_MODES = [pytest.param(SERIES_LIGHT, LIGHT, id="light"), pytest.param(SERIES_DARK, DARK, id="dark")]


@pytest.mark.parametrize(("series", "colours"), _MODES)
@pytest.mark.parametrize("sight", sorted(_SIGHTS))
def test_any_two_series_stay_apart(series: tuple[str, ...], colours: dict[str, str], sight: str) -> None:
    seen = [_lab(_SIGHTS[sight] @ _linear(colour)) for colour in series]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) >= 0.12


@pytest.mark.parametrize(("series", "colours"), _MODES)
def test_lines_and_text_stand_out_from_their_background(series: tuple[str, ...], colours: dict[str, str]) -> None:
    assert min(_contrast(colour, colours["card"]) for colour in series) >= 2.99
    assert min(_contrast(colours[name], colours["card"]) for name in ("shortage", "alert")) >= 3
    for background in (colours["card"], colours["page"]):
        assert min(_contrast(colours[name], background) for name in ("ink", "muted", "alert")) >= 4.5


def test_both_modes_define_the_same_variables() -> None:
    names = [{entry.split(":")[0] for entry in variables(dark).split(";")} for dark in (False, True)]
    assert names[0] == names[1]
    assert set(LIGHT) == set(DARK)


def test_more_series_than_colours_differ_by_their_dashes() -> None:
    looks = {(series_colour(index), series_dash(index)) for index in range(len(SERIES_LIGHT) * len(DASHES))}
    assert len(looks) == len(SERIES_LIGHT) * len(DASHES)
    assert len({step_dash(position) for position in range(3)}) == 3
