"""`kill -USR1 PID`: where every thread and every task stands, on standard error, while the process goes on.

The threads come from C, so also from a process whose event loop is stuck; the tasks follow when the loop runs again.
"""

from __future__ import annotations

import asyncio
import faulthandler
import io
import signal
import sys


def install_stack_dump(loop: asyncio.AbstractEventLoop) -> None:
    """Listen for SIGUSR1 for the rest of the process. Does nothing where there is no such signal."""
    number = getattr(signal, "SIGUSR1", None)
    if number is None or sys.__stderr__ is None:
        return
    try:
        loop.add_signal_handler(number, _dump_tasks)
        faulthandler.register(number, file=sys.__stderr__, all_threads=True, chain=True)
    except (ValueError, RuntimeError, io.UnsupportedOperation):
        return  # not in the main thread, or standard error is no file: an embedded controller


def _dump_tasks() -> None:
    tasks = asyncio.all_tasks()
    print(f"{len(tasks)} tasks:", file=sys.stderr)
    for task in tasks:
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()
