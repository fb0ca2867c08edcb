"""An asyncio event loop whose time jumps when everything waits.

    loop = VirtualTimeLoop()
    loop.run_until_complete(scenario())      # half an hour of back-offs takes milliseconds

`loop.time()` starts at zero and stands still while anything can run. When nothing can, it jumps to the next timer. So
`asyncio.sleep`, `asyncio.timeout`, `call_later`, and every time-out of an HTTP library that uses the loop's clock
take no real time, and run in exactly the order of their deadlines: a test with them is fast and repeats itself.

Sockets on loopback work. Before it jumps, the loop gives real input and output a moment (`grace_seconds`), because
bytes that one end has sent may need a few microseconds to reach the other. Functions in the executor are waited for:
no time passes while one runs. A wait that nothing will ever end raises `Deadlock` instead of hanging.

    def test_backoff():
        run_virtual(scenario())              # asyncio.run on such a loop

`stall(seconds)` moves the clock while nobody runs, as a garbage collection or a suspended machine does.

Not promised: anything about `time.monotonic` or `time.time`; code under test takes its time from the loop or from an
injected clock. Foreign threads are not waited for.
"""

from __future__ import annotations

import asyncio
import selectors
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# Loopback delivers within microseconds; a loaded machine may need longer to run the kernel's half of it.
GRACE_SECONDS = 0.001
# Real seconds in which a thread or a peer outside the loop may still wake it (closing the executor does).
DEADLOCK_SECONDS = 0.5


class Deadlock(RuntimeError):
    """Every task waits for something that no timer and no socket can bring about."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module's contract."""

    def __init__(self, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._virtual_now = 0.0
        self._jobs = 0
        self._children: weakref.WeakSet[asyncio.SubprocessTransport] = weakref.WeakSet()
        self._patient = _PatientSelector(self, grace_seconds)
        super().__init__(self._patient)
        self._patient.own_sockets = len(self._patient.get_map())

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_now

    def stall(self, seconds: float) -> None:
        """The world moves on for so long while this process does not run. Timers that are due then run late."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds!r}")
        self._virtual_now += seconds

    @property
    def jobs(self) -> int:
        """Functions that are running in the executor, and child processes that have not ended."""
        return self._jobs + sum(child.get_returncode() is None for child in self._children)

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        """As usual; virtual time stands still until the process has ended."""
        self._jobs += 1
        try:
            transport, protocol = await super().subprocess_exec(*args, **options)
        finally:
            self._jobs -= 1
        self._children.add(transport)
        return transport, protocol

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """As usual; virtual time stands still until the function has returned."""
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """As usual; a thread that has to be joined is waited for like any function in the executor."""
        self._jobs += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._jobs -= 1

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._jobs -= 1


class _PatientSelector(selectors.DefaultSelector):
    """Answers the loop's "wait for so long" by looking at the sockets once and moving the clock."""

    def __init__(self, loop: VirtualTimeLoop, grace_seconds: float) -> None:
        super().__init__()
        self._loop = loop
        self._grace_seconds = grace_seconds
        self.own_sockets = 0  # the loop's own waking socket is always registered

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        foreign = len(self.get_map()) > self.own_sockets
        if self._loop.jobs:
            return super().select(None)
        ready = super().select(self._grace_seconds if foreign else 0)
        if ready:
            return ready
        if timeout is None:
            ready = super().select(DEADLOCK_SECONDS)
            if ready:
                return ready
            raise Deadlock("every task waits, and no timer is set")
        self._loop.stall(timeout)
        return []


def run_virtual(main: Coroutine[Any, Any, T], *, grace_seconds: float = GRACE_SECONDS) -> T:
    """`asyncio.run` on a virtual-time loop."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(grace_seconds=grace_seconds)) as runner:
        return runner.run(main)
