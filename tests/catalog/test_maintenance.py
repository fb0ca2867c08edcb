"""The scripts that maintain the embedded catalog: `hack.priors.extract` and `hack.priors.build`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from hack.priors import build, extract


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sources"
    monkeypatch.setattr(extract, "SOURCES", folder)
    return folder


def _run(folder: Path, name: str, content: str) -> None:
    path = folder / "official" / name / "agg_bmk.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)


def test_an_extract_keeps_single_node_rows_without_what_nobody_reads(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"conc": 4, "tput_per_gpu": 1.25}
    _run(tmp_path, "run_1", json.dumps([row | {"std_ttft": 1, "p50_intvty": 2}, row | {"disagg": True}]))
    _run(tmp_path, "run_2", "[]")
    assert extract.main([str(tmp_path)]) == 0
    assert json.loads((sources / "inferencex" / "run_1.json").read_text()) == [row]
    assert not (sources / "inferencex" / "run_2.json").exists()
    assert capsys.readouterr().out == "run_1: 1 rows\nrun_2: 0 rows of a single node, nothing written\n"


WRONG: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "no folder": (lambda _: [], "required: FOLDER"),
    "a folder that is not there": (lambda tmp_path: [str(tmp_path / "absent")], "absent is no folder"),
    "a folder of something else": (lambda tmp_path: [str(tmp_path)], "official/run_*/agg_bmk.json"),
    "an option that is none": (lambda tmp_path: [str(tmp_path), "--force"], "unrecognized arguments: --force"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG.keys())
def test_an_extract_of_nothing_is_told(
    arguments: Callable[[Path], list[str]], said: str, sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        extract.main(arguments(tmp_path))
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not sources.exists()


@pytest.mark.parametrize(("content", "said"), [("[{", "run_2/agg_bmk.json is not JSON"), ("{}", "is no list of rows")])
def test_a_broken_run_keeps_all_others_from_being_written(
    content: str, said: str, sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(tmp_path, "run_1", '[{"conc": 4}]')
    _run(tmp_path, "run_2", content)
    with pytest.raises(SystemExit) as stopped:
        extract.main([str(tmp_path)])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not sources.exists()


@pytest.mark.parametrize("script", [extract, build], ids=["extract", "build"])
def test_asking_for_help_does_nothing_else(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "build", lambda: pytest.fail("the catalog was built"))
    with pytest.raises(SystemExit) as stopped:
        script.main(["--help"])
    assert stopped.value.code == 0
    assert "usage: python -m hack.priors." in capsys.readouterr().out


def test_a_misspelt_check_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "build", lambda: pytest.fail("the catalog was built"))
    with pytest.raises(SystemExit):
        build.main(["--chekc"])
