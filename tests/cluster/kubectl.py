"""Running kubectl beside a test."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import yaml

from hack.controlplane import BinariesMissing, find_binaries

# Of patience: with a command, and of a command that waits for something.
SECONDS = 180.0
WAIT = "--timeout=120s"


def find_kubectl() -> str | None:
    """The one of the control plane, else any."""
    try:
        return str(find_binaries().kubectl)
    except BinariesMissing:
        return shutil.which("kubectl")


class Kubectl:
    """Runs kubectl with a kubeconfig and nothing of the person at this machine; stop it at the end."""

    def __init__(self, program: str, kubeconfig: Path, home: Path) -> None:
        self._program = program
        self._started: list[asyncio.subprocess.Process] = []
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """A command that goes on beside the test."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._started.append(process)
        return process

    async def stop(self) -> None:
        """End what is still running."""
        for process in self._started:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def run(self, *arguments: str, stdin: Any = "") -> tuple[int, str, str]:
        """Exit status, standard output, standard error; a dictionary as input goes in as YAML."""
        text = stdin if isinstance(stdin, str) else yaml.safe_dump(stdin)
        process = await self.start(*arguments)
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(text.encode())
        return process.returncode or 0, out.decode(), err.decode()

    async def __call__(self, *arguments: str, stdin: Any = "") -> str:
        """Standard output of a command that must succeed."""
        status, out, err = await self.run(*arguments, stdin=stdin)
        assert status == 0, f"kubectl {' '.join(arguments)}: {err}"
        return out
