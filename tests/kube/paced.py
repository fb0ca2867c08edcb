"""Processes that can be stalled or killed, inside one virtual-time loop.

Every task that is made in a process's context belongs to it. While a process is stalled none of its tasks takes a step;
timers go on, so that a time-out that passed meanwhile is delivered at the first step after the stall, as in reality.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


@dataclass
class Process:
    """One simulated process with a clock of its own: `rate` seconds pass on it for each true second."""

    rate: float = 1.0
    offset: float = 0.0
    stalled: bool = False
    _resumed: list[asyncio.Future[None]] = field(default_factory=list)

    def now(self) -> float:
        return self.offset + self.rate * asyncio.get_running_loop().time()

    def start(self, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine, and all the tasks that it makes, in this process."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        return asyncio.get_running_loop().create_task(main, context=context)

    def stall(self) -> None:
        self.stalled = True

    def resume(self) -> None:
        self.stalled = False
        for future in self._resumed:
            if not future.done():
                future.set_result(None)
        self._resumed.clear()

    def wait(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._resumed.append(future)
        return future


def install(loop: asyncio.AbstractEventLoop) -> None:
    """From now on tasks belong to the process in whose context they are made."""

    def factory(loop: asyncio.AbstractEventLoop, main: Any, **options: Any) -> asyncio.Task[Any]:
        context = options.get("context")
        process = context.get(_PROCESS) if context is not None else _PROCESS.get()
        return asyncio.Task(_drive(main, process) if process is not None else main, loop=loop, **options)

    loop.set_task_factory(factory)


async def _drive(main: Coroutine[Any, Any, Any], process: Process) -> Any:
    return await _steps(main, process)


@types.coroutine
def _steps(main: Coroutine[Any, Any, Any], process: Process) -> Generator[Any, Any, Any]:
    thrown: BaseException | None = None
    while True:
        while process.stalled:
            try:
                yield from process.wait()
            except asyncio.CancelledError as cancelled:
                thrown = cancelled  # delivered when the process runs again
        try:
            awaited = main.throw(thrown) if thrown is not None else main.send(None)
        except StopIteration as stop:
            return stop.value
        thrown = None
        try:
            yield awaited
        except BaseException as raised:
            thrown = raised
