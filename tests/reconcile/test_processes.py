"""Real processes with leader election: stopped, woken, killed, and told to end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.api import EVENTS, MODEL_DEPLOYMENTS
from controller.embedded.apiserver.faults import Stall
from tests.reconcile.harness import FACTOR, World

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 180.0  # only a process that hangs exceeds it
# Lease duration and renew deadline. No machine is too slow for the first; the other one runs out while a test waits.
LONG_LEASE = (600, 500)
SHORT_LEASE = (6, 5)


@asynccontextmanager
async def _controller(
    team: World, *, lease: tuple[int, int] = LONG_LEASE, grace_seconds: int = 12
) -> AsyncIterator[Process]:
    """`mdscaler controller`, which competes for its lease twice a second and waits for engines for longer than for
    anything else."""
    options = {
        "kubeconfig": team.directory / "kubeconfig",
        "namespace": "team",
        "metrics-bind-address": 0,
        "health-bind-address": 0,
        "clock-epoch": team.epoch,
        "clock-factor": FACTOR,
        "lease-namespace": "team",
        "lease-duration": lease[0],
        "renew-deadline": lease[1],
        "retry-period": 0.5,
        "grace-period": grace_seconds,
        "scrape-timeout": 600,
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controller.cli", "controller", *arguments, env=environment, stdout=DEVNULL, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _ended(process: Process) -> tuple[int | None, str]:
    """The exit status and the last line of the log."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        _, errors = await process.communicate()
    return process.returncode, errors.decode().strip().splitlines()[-1]


async def test_a_leader_that_was_stopped_and_wakes_up_after_its_successor_took_over_writes_nothing(team: World):
    """A15: and each of them left an event when it became the leader."""
    engine = await team.loaded()
    async with _controller(team, lease=SHORT_LEASE) as old:
        await team.until(lambda: f"_{old.pid}_" in team.lease_holder(), "the first one leads")
        async with _controller(team) as young:
            await team.until(lambda: team.count() > 1, "the leader grows it")
            old.send_signal(signal.SIGSTOP)
            engine.load(36_000, 12_000)
            await team.until(lambda: team.annotations()["term"] == "2" and team.count() == 5, "the other one goes on")
            versions = len(team.server.history(MODEL_DEPLOYMENTS, "chat", "team"))
            old.send_signal(signal.SIGCONT)
            status, last = await _ended(old)
            assert status == 1
            assert "leadership lost" in last
            assert len(team.server.history(MODEL_DEPLOYMENTS, "chat", "team")) == versions
            young.terminate()
            assert (await _ended(young))[0] == 0
        told = [event["note"] for event in team.server.list(EVENTS, "team") if event["reason"] == "LeaderElection"]
        assert len(told) == 2
        assert all(any(f"_{process.pid}_" in note for note in told) for process in (old, young))
    assert team.counts() == sorted(team.counts()), "every count is higher than the one before"
    team.audit()


@pytest.mark.parametrize("trouble", ["the engines hang", "the server is silent"])
async def test_sigterm_ends_a_leader_within_its_grace_though(team: World, trouble: str):
    engine = await team.loaded()
    # Of a server that is silent a leader learns only when the lease runs out.
    async with _controller(team, lease=SHORT_LEASE if trouble == "the server is silent" else LONG_LEASE) as process:
        await team.until(lambda: team.count() > 1, "it works")
        if trouble == "the engines hang":
            engine.hang()
            await team.until(lambda: engine.hanging, "one is being read")
        else:
            team.faults.add(Stall(), times=None)
        process.terminate()
        status, last = await _ended(process)
    # Without a server the lease runs out, too: on a slow machine before the work has ended, and then the process ends at once.
    assert status == 0 or (trouble == "the server is silent" and "leadership lost" in last), last


async def test_a_second_signal_ends_a_process_at_once(team: World):
    engine = await team.loaded()
    async with _controller(team, grace_seconds=600) as process:
        await team.until(lambda: team.count() > 1, "it works")
        engine.hang()
        await team.until(lambda: engine.hanging, "an engine is being read")
        process.terminate()
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b'"event":"stopping"' not in (line := (await process.stderr.readline()).replace(b": ", b":")):
                assert line, "it ended without a second signal"
            process.terminate()
            assert await process.wait() == 1, "long before its grace"
