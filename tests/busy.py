"""A busy machine without one: `pytest --busy 4` makes every event loop of the test process four times as slow, and stalls it.

A test must not ask how much happens in a time, because a busy machine does less in it. Loops that are slow in the
process itself show such a test in one run, where other work on the machine would show it in one of a hundred. A loop
takes the factor times the processor time that its step took, and stands still for up to a third of a second now and
then, as it does when others have the processor. Loops with a time of their own (`controller.testing`) are left alone,
and so are the processes that a test starts.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

_STALLS_PER_SECOND = 1.0
_STALL_SECONDS = (0.02, 0.3)


def slow_down(factor: float, seed: int) -> None:
    """Make each step of every ordinary event loop take `factor` times its processor time, from now on."""
    if factor < 1.0:
        raise ValueError(f"--busy must be 1 or more, got {factor}")
    loop_class: Any = asyncio.BaseEventLoop
    loop_class._run_once = _slow_step(loop_class._run_once, factor, random.Random(seed))


def _slow_step(step: Callable[[Any], None], factor: float, draw: random.Random) -> Callable[[Any], None]:
    next_stall = time.monotonic() + draw.expovariate(_STALLS_PER_SECOND)

    def slow(loop: Any) -> None:
        nonlocal next_stall
        used = time.thread_time()
        step(loop)
        if type(loop) not in {asyncio.SelectorEventLoop, getattr(asyncio, "ProactorEventLoop", None)}:
            return
        pause = (factor - 1.0) * (time.thread_time() - used)
        if (now := time.monotonic()) >= next_stall:
            pause += draw.uniform(*_STALL_SECONDS)
            next_stall = now + pause + draw.expovariate(_STALLS_PER_SECOND)
        time.sleep(pause)

    return slow
