"""A server process that cannot outlive its parent, with its output in a log file.

Every process leads a group of its own and is ended as a group. A lifeline (a pipe whose other end only the parent
holds) ends it as well when the parent dies without a word, so that a killed test run leaves no servers behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.foundation import OperationFailed

_STOP_SECONDS = 10.0
_TAIL_LINES = 15
# A reader of the lifeline waits in the background and ends the group once the pipe closes; the shell itself becomes
# the server, so that its exit is seen at once.
_LIFELINE = 'exec 3<&0 0</dev/null; (read -r _ <&3; kill -TERM 0) & exec "$@" 3<&-'


class ServerProcess:
    """One running program."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _LIFELINE, "sh", *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is the id of its group as well."""
        return self._process.pid

    def check(self) -> None:
        """Raises OperationFailed, with the end of the log, when it has ended by itself."""
        status = self._process.poll()
        if status is not None:
            raise OperationFailed(f"{self.name} ended with status {status}; the end of {self._log}:\n{self.tail()}")

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])

    def stop(self, patience_seconds: float = _STOP_SECONDS) -> None:
        """End the group, at first politely unless there is no patience. May be called twice."""
        if patience_seconds:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_seconds)
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            os.killpg(self._process.pid, number)
