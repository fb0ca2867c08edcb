"""Real processes with leader election and a short lease: stopped, woken, killed, and told to end."""

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
PATIENCE_SECONDS = 60.0


@asynccontextmanager
async def _controller(team: World) -> AsyncIterator[Process]:
    """`mdscaler controller` with a lease of 3/2/0.5 s."""
    options = {
        "kubeconfig": team.directory / "kubeconfig",
        "namespace": "team",
        "metrics-bind-address": 0,
        "health-bind-address": 0,
        "clock-epoch": team.epoch,
        "clock-factor": FACTOR,
        "lease-namespace": "team",
        "lease-duration": 3,
        "renew-deadline": 2,
        "retry-period": 0.5,
        "grace-period": 6,
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
    async with _controller(team) as old, _controller(team) as young:
        await team.until(lambda: team.count() == 3, "the leader grows it")
        leader, other = (old, young) if f"_{old.pid}_" in team.lease_holder() else (young, old)
        leader.send_signal(signal.SIGSTOP)
        engine.load(36_000, 12_000)
        await team.until(lambda: team.annotations()["term"] == "2" and team.count() == 5, "the other one goes on")
        versions = len(team.server.history(MODEL_DEPLOYMENTS, "chat", "team"))
        leader.send_signal(signal.SIGCONT)
        status, last = await _ended(leader)
        assert status == 1
        assert "leadership lost" in last
        assert len(team.server.history(MODEL_DEPLOYMENTS, "chat", "team")) == versions
        other.terminate()
        assert (await _ended(other))[0] == 0
        told = [event["note"] for event in team.server.list(EVENTS, "team") if event["reason"] == "LeaderElection"]
        assert len(told) == 2
        assert all(any(f"_{process.pid}_" in note for note in told) for process in (old, young))
    assert team.counts() == [1, 3, 5]
    team.audit()


@pytest.mark.parametrize("trouble", ["the engines hang", "the server is silent"])
async def test_sigterm_ends_a_leader_within_its_grace_though(team: World, trouble: str):
    engine = await team.loaded()
    async with _controller(team) as process:
        await team.until(lambda: team.count() == 3, "it works")
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
    async with _controller(team) as process:
        await team.until(lambda: team.count() == 3, "it works")
        engine.hang()
        await team.until(lambda: engine.hanging, "an engine is being read")
        process.terminate()
        await asyncio.sleep(0.2)
        asked = asyncio.get_running_loop().time()
        process.terminate()
        assert (await _ended(process))[0] == 1
        assert asyncio.get_running_loop().time() - asked < 2.0
