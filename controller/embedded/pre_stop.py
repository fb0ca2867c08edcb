"""The preStop hook of a container, as far as a kubelet without a container runtime can carry it out.

Two kinds are understood: `sleep`, and the `exec` of a drain: a command that ends with the URL of the engine's metrics,
the seconds that there are, and the series whose sum is what is in flight: `name`, `name?` for one that need not be
printed, a minus before what is taken off, `new|old` for spellings. The command itself is not run: its text comes out of
an API object. What it is there for is done in its place, in model time, against the same series over HTTP: serve on for
a moment, then wait for two idle readings in a row, no longer than the seconds given.

Any other hook counts as one that failed: said in the log, and the container ends without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from controller.foundation import Clock

_LOG = logging.getLogger(__name__)

# Endpoints leave routers only after the deletion has begun.
_SETTLE_SECONDS = 5.0
_PERIOD_SECONDS = 1.0
_IDLE_READS = 2
_READ_SECONDS = 2.0  # wall time for one reading


@dataclass(frozen=True, slots=True)
class PreStop:
    """What a hook waits for. Without terms: `seconds` and no more."""

    seconds: float
    port: int = 0
    path: str = ""
    terms: tuple[str, ...] = ()


def read_pre_stop(lifecycle: Mapping[str, Any]) -> PreStop | None:
    """The hook of a container's `lifecycle`; None without one, or with one that cannot be carried out."""
    hook = lifecycle.get("preStop") or {}
    if hook.get("sleep"):
        return PreStop(float(hook["sleep"].get("seconds") or 0))
    command: Sequence[str] = (hook.get("exec") or {}).get("command") or ()
    drain = _read_drain(command)
    if hook and drain is None:
        _LOG.warning("a preStop hook is not understood and is left out: %s", str(hook)[:200])
    return drain


def _read_drain(command: Sequence[str]) -> PreStop | None:
    for index, word in enumerate(command):
        if not word.startswith(("http://", "https://")) or "\n" in word:
            continue
        rest = command[index + 1 :]
        if len(rest) < 2 or not rest[0].isdecimal():
            return None
        url = urlsplit(word)
        return PreStop(float(rest[0]), url.port or 80, url.path, tuple(rest[1:]))
    return None


async def run_pre_stop(hook: PreStop, address: str, session: aiohttp.ClientSession, clock: Clock) -> None:
    """Return when the hook would: the engine at `address` was idle twice in a row, or its time is up."""
    end = clock.now() + hook.seconds
    await clock.sleep(min(_SETTLE_SECONDS, hook.seconds) if hook.terms else hook.seconds)
    idle = 0
    while hook.terms and clock.now() < end:
        idle = idle + 1 if await _in_flight(hook, address, session) == 0.0 else 0
        if idle >= _IDLE_READS:
            return
        await clock.sleep(_PERIOD_SECONDS)


async def _in_flight(hook: PreStop, address: str, session: aiohttp.ClientSession) -> float | None:
    """The sum of the terms; None where one is missing or the engine does not answer: that is not idleness."""
    try:
        async with asyncio.timeout(_READ_SECONDS):
            async with session.get(f"http://{address}:{hook.port}{hook.path}") as response:
                page = await response.text()
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
    sums: dict[str, float] = {}
    for line in page.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name and not name.startswith("#"):
            sums[name] = sums.get(name, 0.0) + float(line.rpartition(" ")[2])
    total = 0.0
    for term in hook.terms:
        sign = -1.0 if term.startswith("-") else 1.0
        spellings = term.removeprefix("-").removesuffix("?").split("|")
        printed = [sums[name] for name in spellings if name in sums]
        if not printed and not term.endswith("?"):
            return None
        total += sign * (printed[0] if printed else 0.0)
    return total
