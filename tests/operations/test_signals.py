"""Signals to a process of its own: stop in order, stop now, tell where you are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

# Only a process that hangs exceeds it.
PATIENCE_SECONDS = 120.0

PROGRAM = """
    import asyncio, sys
    from controller.operations import Component, Lifecycle, LogFormat, configure_logging

    async def dig_for_gold() -> None:
        await asyncio.Event().wait()

    async def ready() -> None:
        print("ready", flush=True)

    async def stop() -> None:
        print("stopping", flush=True)
        await asyncio.sleep({stop_seconds})

    async def main() -> int:
        configure_logging(LogFormat.JSON, "info")
        life = Lifecycle(grace_seconds=100)
        life.spawn("digger", dig_for_gold())
        return await life.run([Component("last", ready, stop)])

    sys.exit(asyncio.run(main()))
"""


@contextmanager
def process(stop_seconds: float = 0.0) -> Iterator[subprocess.Popen[str]]:
    program = textwrap.dedent(PROGRAM).format(stop_seconds=stop_seconds)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def test_a_second_signal_ends_the_process_at_once() -> None:
    """O2: whatever hangs in the orderly stop."""
    with process(stop_seconds=1000) as child:
        child.send_signal(signal.SIGTERM)
        assert child.stdout is not None
        assert child.stdout.readline() == "stopping\n"
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=PATIENCE_SECONDS) == 1


def test_a_signal_shows_where_threads_and_tasks_stand_and_the_process_goes_on() -> None:
    with process() as child:
        child.send_signal(signal.SIGUSR1)
        assert child.stderr is not None
        told = ""
        while "dig_for_gold" not in told:
            line = child.stderr.readline()
            assert line, told
            told += line
        assert "Current thread" in told
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=PATIENCE_SECONDS) == 0
