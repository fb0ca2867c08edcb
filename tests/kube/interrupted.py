"""Cancelling a coroutine at each of its awaits in turn."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


class Interrupted:
    """A task that is cancelled at its nth suspension (from 1); with 0 it is left alone and only counted."""

    def __init__(self, main: Coroutine[Any, Any, Any], at: int = 0) -> None:
        self.suspensions = 0
        self._at = at
        self.task: asyncio.Task[Any] = asyncio.ensure_future(self._run(main))

    async def _run(self, main: Coroutine[Any, Any, Any]) -> Any:
        return await self._steps(main)

    @types.coroutine
    def _steps(self, main: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        thrown: BaseException | None = None
        while True:
            try:
                awaited = main.throw(thrown) if thrown is not None else main.send(None)
            except StopIteration as stop:
                return stop.value
            thrown = None
            self.suspensions += 1
            if self.suspensions == self._at:
                # Here, as if from outside: the task is about to wait for `awaited`.
                self.task.cancel()
            try:
                yield awaited
            except BaseException as raised:
                thrown = raised
