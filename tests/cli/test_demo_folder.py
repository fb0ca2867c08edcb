"""The folder of a demo: what is wrong with it is said at once, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli import run
from controller.cli.demo_controller import ControllerProcess
from controller.cli.demo_folder import check_report, demo_folder
from controller.foundation import OperationFailed, UsageError


@pytest.mark.parametrize(
    ("in_the_way", "said"),
    [
        pytest.param("controller.log/", "controller.log: Is a directory", id="a folder in the place of the log"),
        pytest.param("kubeconfig/", "kubeconfig: Is a directory", id="a folder in the place of the kubeconfig"),
        pytest.param("records/old.jsonl/", "records/old.jsonl: Is a directory", id="a folder in the place of a record"),
        pytest.param("report.html/", "report.html: Is a directory", id="a folder in the place of a report"),
        pytest.param("records", "File exists", id="a file in the place of the records"),
    ],
)
def test_what_is_in_the_way_is_named(tmp_path: Path, in_the_way: str, said: str) -> None:
    path = tmp_path / in_the_way
    if in_the_way.endswith("/"):
        path.mkdir(parents=True)
    else:
        path.touch()
    with pytest.raises(OperationFailed) as failure, demo_folder(tmp_path):
        pass
    assert str(failure.value).startswith(f"--directory {tmp_path}: ")
    assert str(failure.value).endswith(said)


def test_a_folder_is_made_and_cleared_of_the_last_run(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    for _ in range(2):
        with demo_folder(folder):
            assert [path.name for path in folder.rglob("*")] == ["records"]
            for name in ("controller.log", "report.html", "records/demo_chat.jsonl"):
                (folder / name).touch()


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    with demo_folder(tmp_path):
        (tmp_path / "records" / "demo_chat.jsonl").touch()
        with pytest.raises(OperationFailed, match="another demo is running there"), demo_folder(tmp_path):
            pass
        assert (tmp_path / "records" / "demo_chat.jsonl").exists()
    with demo_folder(tmp_path):
        pass


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("a/b", "not a path", id="a path"),
        pytest.param("..", "not a path", id="the folder above"),
        pytest.param("kubeconfig", "give another name", id="the kubeconfig"),
        pytest.param("controller.log", "give another name", id="the log"),
        pytest.param("records", "give another name", id="the folder of records"),
        pytest.param("taken", "Is a directory", id="a folder"),
        pytest.param("x" * 300, "name too long", id="a name that is too long"),
    ],
)
def test_a_report_that_could_not_be_written_is_refused_before_the_demo(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(UsageError, match=f"--report: .*{said}"):
        check_report(tmp_path, name)


def test_the_command_asks_before_it_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--directory", str(tmp_path), "--report", "..", "--trace", "/nonexistent"]) == 2
    assert capsys.readouterr().err.startswith("mdscaler: --report")


async def test_a_log_that_is_gone_hides_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = ControllerProcess(
        kubeconfig=tmp_path / "none", log=tmp_path / "gone" / "log", records=tmp_path, epoch=0.0, factor=1.0
    )
    with pytest.raises(OperationFailed, match="log: No such file or directory"):
        await controller.start()
    controller.log.parent.mkdir()
    monkeypatch.setattr("sys.executable", "/bin/false")
    await controller.start()
    controller.log.unlink()
    ended = await controller.died()
    assert "ended with status 1: its log cannot be read: No such file" in str(ended)
