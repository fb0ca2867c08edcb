"""Reading files that a person names, and replacing one so that nothing is lost.

Reading is bounded and never waits for a pipe that nobody writes to: a glob may hit one, or a device. Replacing is
atomic, follows symbolic links, keeps the mode of what was there, leaves no remains when it is interrupted, and refuses
when the file is no longer what the caller had read: two commands at once must not undo each other. No folder is made
but one in the working directory. Both raise OSError.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

# Of a folder that was named in place of its files.
_NAMES_LOOKED_AT: Final = 1000


class FileTooLargeError(OSError):
    """The file holds more than the caller takes."""


class FileChangedError(OSError):
    """Somebody else wrote the file since the caller read it."""


def read_file(path: Path, most_bytes: int) -> bytes:
    """The content of a file, pipe or device. Raises FileTooLargeError beyond `most_bytes`, OSError otherwise."""
    # Without O_NONBLOCK, opening a pipe waits for a writer; reading one that has none ends at once.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        os.set_blocking(descriptor, True)
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise FileTooLargeError(errno.EFBIG, f"more than {most_bytes:,} bytes")
    return content


def reading_advice(path: Path, error: OSError, suffixes: Sequence[str]) -> str:
    """Why a file that a person named cannot be read, and the way out where there is one. `suffixes`: those of the files
    that were meant, the likeliest first."""
    if isinstance(error, IsADirectoryError):
        return f"it is a folder; give the files in it, such as {_pattern(path, suffixes)}"
    if isinstance(error, FileNotFoundError) and any(sign in str(path) for sign in "*?["):
        return f"{error.strerror}: no name matches this pattern"
    return error.strerror or str(error)


def _pattern(folder: Path, suffixes: Sequence[str]) -> Path:
    """A pattern for the files in a folder, or, where it has none, for those in the folders in it."""
    for names in ("*", "*/*"):
        found = {path.suffix.lower() for path in itertools.islice(folder.glob(names), _NAMES_LOOKED_AT)}
        for suffix in suffixes:
            if suffix in found:
                return folder / f"{names}{suffix}"
    return folder / f"*{suffixes[0]}"


def check_replaceable(path: Path) -> Path:
    """The file that `replace_file` would write, symbolic links followed. Raises OSError where it could not: better
    before a long work than after it."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.exists():
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not target.is_file():
            raise OSError(errno.EINVAL, "is a pipe or device and no file")
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "is read-only")
    folder = target.parent
    # A new folder right where one works (`build/x.yaml`) is meant; anywhere else a missing one is a spelling mistake.
    if not folder.exists():
        if folder.parent == Path.cwd():
            return target
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder}: make it first, or check the spelling")
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"the folder {folder} is read-only")
    return target


def replace_file(path: Path, content: bytes, *, before: bytes | None) -> None:
    """Write `content` in place of `before`, what the caller had read (None where there was no file). Raises
    FileChangedError when it is not that any more; then, and on any other error, the file stays as it was."""
    target = check_replaceable(path)
    target.parent.mkdir(exist_ok=True)
    # A name of its own for each writer, and created afresh: a name that can be guessed can be a link already.
    temporary = target.with_name(f".{secrets.token_hex(8)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with _locked(target.parent):
            if (target.read_bytes() if target.exists() else None) != before:
                raise FileChangedError(errno.EBUSY, "was changed meanwhile")
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time in a folder; without a lock where its file system has none."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
