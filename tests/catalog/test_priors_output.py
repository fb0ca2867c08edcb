"""What `mdscaler priors` writes, and what it does not write over."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.cli import priors as priors_module
from controller.foundation import OperationFailed, UsageError
from tests.catalog.builders import catalog_document, profile_document
from tests.catalog.command import run as _run
from tests.catalog.command import run_json as _json
from tests.catalog.official import GPT_OSS, SWEEP, official
from tests.catalog.tools import IDENTITY

_RETIRE = ("--identity", GPT_OSS, "--reason", "incorrect recipe", "--date", "2026-02-01")


@pytest.mark.parametrize("verb", ["import", "merge", "retire"])
def test_no_command_writes_over_a_tombstone(verb: str, tmp_path: Path) -> None:
    out, other = tmp_path / "out.yaml", tmp_path / "other.yaml"
    files = official("20218553330", "20667906037")
    for path in (out, other):
        assert _run("import", "--from", "inferencex", *files, "--out", path) == 0
    assert _run("retire", out, "--workload", "8192/1024", *_RETIRE) == 0
    kept = len(yaml.safe_load(out.read_text())["retired"])
    assert kept > 0
    if verb == "import":
        _run("import", "--from", "inferencex", *files, "--out", out)
    elif verb == "merge":
        _run("merge", other, "--out", out)
    else:
        _run("retire", other, "--workload", "1024/1024", *_RETIRE, "--out", out)
    after = yaml.safe_load(out.read_text())
    assert len(after["retired"]) >= kept
    assert not any(profile["workload"]["inputTokens"] == 8192 for profile in after["profiles"])


@pytest.mark.parametrize("verb", ["import", "merge", "retire"])
def test_a_file_that_is_no_catalog_is_not_written_over(verb: str, tmp_path: Path) -> None:
    out, catalog = tmp_path / "results.json", tmp_path / "catalog.yaml"
    out.write_text('{"results": "of a week"}')
    files = official("20667906037")
    assert _run("import", "--from", "inferencex", *files, "--out", catalog) == 0
    arguments = {
        "import": ("--from", "inferencex", *files),
        "merge": (catalog,),
        "retire": (catalog, *_RETIRE),
    }[verb]
    with pytest.raises(UsageError, match=r"results\.json has .* errors"):
        _run(verb, *arguments, "--out", out)
    assert out.read_text() == '{"results": "of a week"}'


def test_a_tombstone_that_is_written_during_an_import_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "catalog.yaml"
    files = official("20218553330", "20667906037")
    assert _run("import", "--from", "inferencex", *files, "--out", out) == 0
    real = priors_module.import_files

    def slow(*arguments: Any, **options: Any) -> Any:
        report = real(*arguments, **options)
        _run("retire", out, *_RETIRE)
        return report

    monkeypatch.setattr(priors_module, "import_files", slow)
    with pytest.raises(OperationFailed, match="changed by another command meanwhile; nothing was written"):
        _run("import", "--from", "inferencex", *files, "--out", out)
    assert yaml.safe_load(out.read_text())["profiles"] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalog.yaml"]


def test_an_output_that_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priors_module, "import_files", lambda *_, **__: pytest.fail("the work was done in vain"))
    with pytest.raises(UsageError, match="Is a directory"):
        _run("import", "--from", "inferencex", *official("20667906037"), "--out", tmp_path)
    with pytest.raises(UsageError, match=r"nope/a\.yaml: there is no folder .*nope: make it first"):
        _run("import", "--from", "inferencex", *official("20667906037"), "--out", tmp_path / "nope" / "a.yaml")


@pytest.mark.parametrize("arguments", [("merge", SWEEP), ("retire", SWEEP, "--identity", IDENTITY, "--reason", "x")])
def test_no_command_makes_a_folder(arguments: tuple[object, ...], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        _run(*arguments, "--out", tmp_path / "nope" / "a.yaml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("h200.yaml", "h200", id="a catalog is called like its file"),
        pytest.param(f"{'x' * 250}.json", "x" * 250, id="a long name that a catalog may have"),
        pytest.param("x" * 255, "imported", id="a name longer than a catalog's"),
        pytest.param(" .yaml", "imported", id="a blank name"),
        pytest.param("a\x1b[2Jb.yaml", "imported", id="a name that moves the cursor"),
    ],
)
def test_the_name_of_a_new_catalog(name: str, expected: str, tmp_path: Path) -> None:
    out = tmp_path / name
    assert _run("import", "--from", "inferencex", *official("20667906037"), "--out", out) == 0
    assert yaml.safe_load(out.read_text())["metadata"]["name"] == expected


@pytest.mark.parametrize("output", ["text", "json"])
def test_nothing_in_a_file_or_its_name_moves_the_cursor_or_breaks_the_printing(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad\udcff\x1b[2J.json"
    path.write_text('{"\\ud800": 1, "a\\u001b[2J": 2, "kind": "\\u202e"}')
    assert _run("validate", path, "--output", output) == 2
    text = capsys.readouterr().out
    text.encode()
    assert all(line.isprintable() for line in text.splitlines())
    assert "bad\\udcff\\u001b[2J.json" in text
    if output == "json":
        assert json.loads(text)["files"][0]["file"] == str(path)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _run("import", "--from", "vllm", tmp_path / "pipe", "--identity", IDENTITY) == 1
    assert _run("validate", tmp_path / "pipe") == 2


def test_a_device_that_never_ends_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("validate", "/dev/zero") == 2
    assert capsys.readouterr().out.endswith("  cannot be read: more than 8,388,608 bytes\n")
    with pytest.raises(UsageError, match="/dev/zero: more than"):
        _run("show", "/dev/zero")


def _heads(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith("  ")]


def test_every_file_is_validated_whatever_is_wrong_with_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, empty = tmp_path / "bad.yaml", tmp_path / "empty.yaml"
    bad.write_text(json.dumps(catalog_document(profile_document(role="X", hardware="y"))))
    empty.touch()
    files = [SWEEP, tmp_path / "nofile.yaml", bad, tmp_path, empty, SWEEP]
    assert _run("validate", *files) == 2
    lines = capsys.readouterr().out.splitlines()
    counts = [line.removeprefix(f"{path}: ") for path, line in zip(files, _heads(lines), strict=True)]
    assert [count.split(",")[0] for count in counts] == ["valid", "INVALID", "INVALID", "INVALID", "INVALID", "valid"]
    assert "  cannot be read: No such file or directory" in lines
    assert f"  cannot be read: it is a folder; give the files in it, such as {tmp_path}/*.yaml" in lines
    assert "  the document is empty" in lines
    status, answer = _json(capsys, "validate", *files)
    assert (status, [entry["valid"] for entry in answer["files"]]) == (2, [True, False, False, False, False, True])
