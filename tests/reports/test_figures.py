"""Figures are files for documents; without matplotlib there is a clear line and the HTML report still works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controller.foundation import UsageError
from controller.reports import Mark, Panel, Series, SeriesKind, TargetLine, Tone, gap_bands, write_figure

_NEEDED = Series("needed $1$", "replicas", [0, 60, 120], [1, 3, 3], SeriesKind.STEP)
_READY = Series("ready", "replicas", [0, 60, 120], [2, 2, 2], SeriesKind.STEP)
_LONE_POINT = Series("x", "", [0, 1, 2], [None, 5, None], SeriesKind.AREA)
_RESTART = Mark(30, "restart", 40, Tone.ALERT)
_PANELS = [
    Panel("Replicas $x", "replicas", [_NEEDED, _READY], [_RESTART], bands=gap_bands(_NEEDED, _READY)),
    Panel("Load", "", [_LONE_POINT], target_lines=[TargetLine(7, "limit")]),
    Panel("Empty", "", []),
]
_MAGIC = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@pytest.mark.parametrize("suffix", sorted(_MAGIC))
def test_a_figure_is_written_in_the_format_of_its_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"figure{suffix}"
    write_figure(_PANELS, path)
    assert path.read_bytes().startswith(_MAGIC[suffix])


def test_an_unknown_suffix_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"figure\.jpg: the name must end in \.pdf, \.png, \.svg"):
        write_figure(_PANELS, tmp_path / "figure.jpg")


def test_no_panels_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        write_figure([], tmp_path / "figure.png")


def test_without_matplotlib_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="extra `report`"):
        write_figure(_PANELS, tmp_path / "figure.png")


def test_the_room_does_not_import_matplotlib() -> None:
    program = "import sys, controller.reports; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
