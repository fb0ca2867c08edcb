"""Reading a file that a person names, and replacing one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from controller.foundation import FileChangedError, FileTooLargeError, check_replaceable, read_file, replace_file
from controller.foundation import files as module


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(FileTooLargeError, match="more than 4 bytes"):
        read_file(path, 4)


def test_a_device_that_never_ends_is_read_up_to_its_bound() -> None:
    with pytest.raises(FileTooLargeError):
        read_file(Path("/dev/zero"), 1000)


def test_a_pipe_without_a_writer_is_empty_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_file(tmp_path / "pipe", 10) == b""


def test_what_a_writer_put_into_a_pipe_is_read_to_its_end() -> None:
    receiver, sender = os.pipe()
    os.write(sender, b"from another process")
    os.close(sender)
    try:
        assert read_file(Path(f"/dev/fd/{receiver}"), 100) == b"from another process"
    finally:
        os.close(receiver)


def test_a_replaced_file_keeps_its_mode_and_leaves_no_remains(tmp_path: Path) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_bytes(b"old")
    path.chmod(0o640)
    replace_file(path, b"new", before=b"old")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert _names(tmp_path) == ["catalog.yaml"]


def test_a_new_folder_is_made_in_the_working_directory_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    replace_file(Path("build/catalog.yaml"), b"new", before=None)
    assert (tmp_path / "build" / "catalog.yaml").read_bytes() == b"new"
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        replace_file(Path("bulid/priors/catalog.yaml"), b"new", before=None)
    assert _names(tmp_path) == ["build"]


def test_a_folder_that_is_not_there_is_a_spelling_mistake_and_is_not_made(tmp_path: Path) -> None:
    for attempt in (check_replaceable, lambda path: replace_file(path, b"new", before=None)):
        with pytest.raises(FileNotFoundError, match=r"there is no folder .*/a/b: make it first"):
            attempt(tmp_path / "a" / "b" / "c")
    assert _names(tmp_path) == []


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, b"new", before=b"old")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(b"old", b"other", id="another writer changed the file"),
        pytest.param(None, b"other", id="another writer created the file"),
        pytest.param(b"old", None, id="somebody removed the file"),
    ],
)
def test_what_another_writer_did_is_not_undone(before: bytes | None, now: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "catalog.yaml"
    if now is not None:
        path.write_bytes(now)
    with pytest.raises(FileChangedError):
        replace_file(path, b"new", before=before)
    assert _names(tmp_path) == ([] if now is None else ["catalog.yaml"])
    assert now is None or path.read_bytes() == now


def test_an_interrupted_write_leaves_the_old_file_and_no_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_bytes(b"old")

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, b"new", before=b"old")
    assert path.read_bytes() == b"old"
    assert _names(tmp_path) == ["catalog.yaml"]


def test_what_cannot_be_replaced_is_said_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, pipe, file = tmp_path / "loop", tmp_path / "pipe", tmp_path / "file"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    file.write_bytes(b"")
    for path, number in ((loop, errno.ELOOP), (pipe, errno.EINVAL), (tmp_path, errno.EISDIR), (file / "x", None)):
        with pytest.raises(OSError, match=r".") as raised:
            check_replaceable(path)
        assert number is None or raised.value.errno == number
    # As root every file can be written; the system says what a plain user would be told.
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="read-only"):
        check_replaceable(file)
    with pytest.raises(PermissionError, match=r"folder .* is read-only"):
        check_replaceable(tmp_path / "new")
