"""The controller of a demo: the unmodified one, as a process of its own, to be watched and killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from controller.cli.demo_plan import NAMESPACE
from controller.foundation import OperationFailed, monotonic

_STOP_SECONDS = 10.0
_LOG_TAIL_BYTES = 2000


class ControllerProcess:
    """The unmodified controller, as a process of its own."""

    def __init__(
        self,
        *,
        kubeconfig: Path,
        log: Path,
        records: Path,
        epoch: float,
        factor: float,
        lease: tuple[str, ...] = (),
    ) -> None:
        self.kubeconfig = kubeconfig
        self.log = log
        self.restarts: list[float] = []  # model time
        self._arguments = [
            *("controller", "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE, "--lease-namespace", NAMESPACE),
            *lease,
            *("--metrics-bind-address", "127.0.0.1:0", "--health-bind-address", "127.0.0.1:0"),
            *("--record", str(records), "--clock-epoch", repr(epoch), "--clock-factor", repr(factor)),
        ]
        self._process: asyncio.subprocess.Process | None = None
        self._started = 0.0

    @property
    def lived_seconds(self) -> float:
        """Wall time since it was started last."""
        return monotonic() - self._started

    async def start(self) -> None:
        """Start it; its log is appended."""
        self._started = monotonic()
        try:
            log = self.log.open("ab")
        except OSError as error:
            raise OperationFailed(f"{self.log}: {error.strerror}") from None
        with log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "controller.cli",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C reaches the demo alone; it stops the controller in order.
                start_new_session=True,
            )

    async def died(self) -> OperationFailed:
        """Wait for it to end by itself; what to tell about that."""
        assert self._process is not None  # noqa: S101 - started before it is watched
        status = await self._process.wait()
        try:
            tail = self.log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
            last = tail[-1] if tail else "nothing was logged"
        except OSError as error:
            last = f"its log cannot be read: {error.strerror}"
        return OperationFailed(f"the controller ended with status {status}: {last} (log: {self.log})")

    async def watched(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something, unless the controller ends by itself meanwhile. Raises OperationFailed then."""
        watch = asyncio.create_task(self.died(), name="watch the controller")
        working = asyncio.create_task(work, name="wait for the controller")
        try:
            await asyncio.wait({watch, working}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise watch.result()
            await working
        finally:
            watch.cancel()
            working.cancel()
            await asyncio.gather(watch, working, return_exceptions=True)

    async def kill_and_restart(self, now: float) -> None:
        """End it without warning, as a node failure would, and start it again. One that has just ended by itself is
        started again too."""
        assert self._process is not None  # noqa: S101
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self.restarts.append(now)
        await self.start()

    async def stop(self) -> None:
        """End it in order; by force after a while."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
