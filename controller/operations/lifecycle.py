"""Orderly start and stop: the order is data.

Components start from first to last and stop from last to first. A component that fails to start ends the run; a
background task that ends in any way but cancellation ends the run (a watch that died in silence is worse than a
restart). SIGTERM or SIGINT begins the stop; it has `grace_seconds` in all, and whoever exceeds it is abandoned and
named. A second signal ends the process at once. SIGUSR1 prints all stacks (`stack_dump`).

Exit status: 0 after a signal, 1 after a failure or when the grace ran out.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from controller.foundation import MdscalerError, monotonic
from controller.operations.logging import get_logger
from controller.operations.stack_dump import install_stack_dump


async def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Component:
    """Something with a start that returns once it serves, and a stop that returns once it is gone."""

    name: str
    start: Callable[[], Awaitable[None]] = _nothing
    stop: Callable[[], Awaitable[None]] = _nothing


class Lifecycle:
    """Runs components and watches over background tasks. One run per object."""

    def __init__(self, *, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._stopping = asyncio.Event()
        self._failure: str | None = None
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._log = get_logger("lifecycle")

    def request_stop(self) -> None:
        """Begin an orderly stop."""
        self._stopping.set()

    def fail(self, reason: str) -> None:
        """Begin an orderly stop that ends with status 1. The first reason is kept."""
        if self._failure is None:
            self._failure = reason
            self._log.error("giving up", reason=reason)
        self._stopping.set()

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a background task that may only end by cancellation; any other end is a failure of the process."""
        task = asyncio.create_task(coroutine, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        name = self._tasks.pop(task)
        if task.cancelled() or self._stopping.is_set():
            if not task.cancelled() and (error := task.exception()) is not None:
                self._log.warning("task failed while stopping", task=name, error=repr(error))
            return
        error = task.exception()
        self.fail(f"{name} ended: {error!r}" if error else f"{name} ended without a reason")

    async def run(self, components: Sequence[Component], *, handle_signals: bool = True) -> int:
        """Start everything, wait for a signal or a failure, stop everything. Returns the exit status.

        Raises the MdscalerError of a component that could not start, after the others have been stopped.
        """
        if handle_signals:
            self._install_signal_handlers()
        started: list[Component] = []
        error: MdscalerError | None = None
        try:
            for component in components:
                if self._stopping.is_set():
                    break
                started.append(component)
                await self._start(component)
            await self._stopping.wait()
        except MdscalerError as failure:
            error = failure
            self._stopping.set()
        clean = await self._stop(started)
        if error is not None:
            raise error
        return 0 if clean and self._failure is None else 1

    async def _start(self, component: Component) -> None:
        """Start one component, but give up waiting when a stop is requested meanwhile."""
        starting = asyncio.ensure_future(component.start())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
                return
            await starting
            self._log.debug("started", what=component.name)
        finally:
            stopping.cancel()

    async def _stop(self, started: Sequence[Component]) -> bool:
        deadline = monotonic() + self._grace_seconds
        clean = True
        for component in reversed(started):
            try:
                async with asyncio.timeout(max(0.0, deadline - monotonic())):
                    await component.stop()
            except TimeoutError:
                clean = False
                self._log.error("did not stop within the grace", what=component.name, grace_seconds=self._grace_seconds)
            except Exception as error:  # noqa: BLE001 - the rest must still be stopped
                clean = False
                self._log.error("failed to stop", what=component.name, error=repr(error))
        leftovers = list(self._tasks)
        for task in leftovers:
            task.cancel()
        if leftovers:
            _, pending = await asyncio.wait(leftovers, timeout=max(0.1, deadline - monotonic()))
            for task in pending:
                clean = False
                self._log.error("did not stop within the grace", what=self._tasks.get(task, task.get_name()))
        return clean

    def _install_signal_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        install_stack_dump(loop)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            os._exit(1)  # a second signal means now; nothing that could hang may run
        self._log.info("stopping", signal=number.name, grace_seconds=self._grace_seconds)
        self._stopping.set()
