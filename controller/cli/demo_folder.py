"""The folder of a demo: made where it is missing, cleared of the last run, and one demo's at a time.

What is wrong with it is said before anything starts, because a demo takes minutes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from controller.foundation import OperationFailed, UsageError, check_replaceable

RECORDS = "records"
KUBECONFIG = "kubeconfig"
LOG = "controller.log"
_OTHERS = (RECORDS, KUBECONFIG, LOG)


def check_report(directory: Path, name: str) -> None:
    """Raises UsageError for a report that could not be written into the folder, or would be written over something
    else there."""
    if Path(name).name != name or name == "..":
        raise UsageError(f"--report: {name!r} is a name within --directory ({directory}), not a path")
    if name in _OTHERS:
        raise UsageError(f"--report: the demo itself writes {name!r} into --directory ({directory}); give another name")
    path = directory / name
    try:
        if path.exists():
            check_replaceable(path)
    except OSError as error:
        raise UsageError(f"--report: {path}: {error.strerror}") from None


@contextlib.contextmanager
def demo_folder(directory: Path) -> Iterator[None]:
    """Keep the folder for one run. Raises OperationFailed where it cannot be used, or another demo uses it."""
    records = directory / RECORDS
    try:
        records.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise OperationFailed(f"--directory {directory}: {error.strerror}") from None
    try:
        _lock(descriptor, directory)
        # A run that fails leaves no report of another one.
        for old in (*records.glob("*.jsonl"), *directory.glob("*.html"), directory / LOG):
            _remove(old, directory)
        for name in (KUBECONFIG, LOG):
            try:
                check_replaceable(directory / name)
            except OSError as error:
                raise OperationFailed(f"--directory {directory}: {name}: {error.strerror}") from None
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OperationFailed(
            f"--directory {directory}: another demo is running there, and each needs a folder of its own"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF):
            raise OperationFailed(f"--directory {directory}: {error.strerror}") from None
        # A file system without locks.


def _remove(path: Path, directory: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OperationFailed(f"--directory {directory}: {path.relative_to(directory)}: {error.strerror}") from None
