"""The demo itself, for a minute of traffic: everything real but its length."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

# What falls behind begins anew, twice at most; only a demo that hangs takes so long.
PATIENCE_SECONDS = 900.0


async def demo(directory: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run it; exit status, its JSON, and what it told."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controller.cli", "demo", "--output", "json", "--directory", str(directory)),
        *("--seed", "1", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, told = await process.communicate()
    return process.returncode or 0, orjson.loads(out or b"{}"), told.decode()


@pytest.mark.parametrize(
    ("arguments", "roles", "restarts"),
    [
        pytest.param(("--kill-controller-every", "60"), ["server"], 1, id="a server, while the controller is killed"),
        pytest.param(("--roles", "epd"), ["encode", "prefill", "decode"], 0, id="encode, prefill and decode"),
    ],
)
async def test_a_minute_of_traffic(tmp_path: Path, arguments: tuple[str, ...], roles: list[str], restarts: int) -> None:
    status, figures, told = await demo(tmp_path, "--minutes", "2", "--speed", "30", *arguments)
    assert status == 0, told
    assert (figures["lost"], figures["cutRequests"], figures["rejected"]) == (0, 0, 0)
    assert figures["completed"] == figures["requests"] > 50
    assert list(figures["roles"]) == roles
    assert figures["effectiveWriters"] in (0, 1)
    assert figures["effectiveWriters"] == bool(figures["rescales"])
    assert figures["retirements"]["aborted"] == 0
    assert figures["controllerRestarts"] >= restarts
    page = (tmp_path / "report.html").read_text()
    assert all(role in page for role in roles[1:])
    assert "Lost requests" in page


async def test_counts_that_go_up_and_down_lose_nothing(tmp_path: Path) -> None:
    status, figures, told = await demo(tmp_path, "--cycles", "1")
    assert status == 0, told
    assert (figures["lost"], figures["cycles"], figures["retirements"]["completed"]) == (0, 1, 3)
    assert (figures["rescales"], figures["effectiveWriters"]) == (2, 0)


async def test_a_demo_that_is_asked_for_contradictions_says_so(tmp_path: Path) -> None:
    status, figures, told = await demo(tmp_path, "--cycles", "1", "--serve")
    assert (status, figures) == (2, {})
    assert "leave out one of them" in told
