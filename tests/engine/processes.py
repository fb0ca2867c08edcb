"""A container of the fake kubelet: one process group that cannot outlive the tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

# A reader of the lifeline (a pipe whose other end only the tests hold) ends the group when they die without a word; the
# shell itself becomes the program, so that its exit is seen at once.
_LIFELINE = 'exec 3<&0 0</dev/null; (read -r _ <&3; kill -KILL 0) & exec "$@" 3<&-'


class ContainerProcess:
    """What runs in a container. The group is its cgroup: when the first process ends, the others are killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ended = asyncio.create_task(self._wait())

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> ContainerProcess:
        """Run a command with this environment and no other."""
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _LIFELINE,
                "sh",
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
        return cls(process)

    @property
    def ended(self) -> asyncio.Task[int]:
        """Gives the exit status; negative for a signal."""
        return self._ended

    def signal(self, number: int) -> None:
        """To the first process alone, as a kubelet sends it."""
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def kill(self) -> int:
        """End everything at once. May be called twice."""
        self.signal(signal.SIGKILL)
        return await self._ended

    async def _wait(self) -> int:
        status = await self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return status
