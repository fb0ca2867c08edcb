"""How long nobody leads when a leader goes: the real electors and the real client against the embedded API server.

In virtual time (`controller.testing.VirtualTimeLoop`): sockets and requests are real, waiting takes no time. So the
figures are what the protocol makes people wait, without the milliseconds of a network and without the time that workers
take to end, and they repeat.

Two candidates with the default times (15 / 10 / 2 s). The leader has led for a random while when it goes: at any
point between two renewals. "Clean" is a cancelled election, which gives the lease back; in a "crash" the leader never
sends another request.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from functools import partial

from structlog.testing import capture_logs

from controller.embedded.apiserver import ApiServer
from controller.foundation import WallClock
from controller.kube import Connection, Elector, KubeClient, Lease, LeaseLock, LeaseSpec
from controller.testing import run_virtual


@dataclass
class _MortalLock:
    """A lock whose process may die: then nothing that it asks leaves it any more."""

    lock: LeaseLock
    dead: bool = False

    @property
    def name(self) -> str:
        return self.lock.name

    async def read(self, timeout_seconds: float) -> Lease | None:
        await self._still_alive()
        return await self.lock.read(timeout_seconds)

    async def create(self, spec: LeaseSpec, timeout_seconds: float) -> Lease:
        await self._still_alive()
        return await self.lock.create(spec, timeout_seconds)

    async def update(self, lease: Lease, spec: LeaseSpec, timeout_seconds: float) -> Lease:
        await self._still_alive()
        return await self.lock.update(lease, spec, timeout_seconds)

    async def _still_alive(self) -> None:
        if self.dead:
            await asyncio.Event().wait()


def failovers(trials: int, *, clean: bool) -> list[float]:
    """Seconds from the end of one leader to the moment when the next one's work begins, of each trial."""
    with capture_logs():  # every trial ends with a lost leadership, which is an error in a log
        return [run_virtual(_trial(random.Random(seed), clean=clean)) for seed in range(trials)]


async def _trial(rng: random.Random, *, clean: bool) -> float:
    now = asyncio.get_running_loop().time
    server = ApiServer(clock=WallClock())
    await server.start()
    clients = [KubeClient(Connection(server.url), user_agent="bench/1") for _ in range(2)]
    locks = [_MortalLock(LeaseLock(client, "default", "leader")) for client in clients]
    begins = [asyncio.Event(), asyncio.Event()]
    elections = [
        Elector(lock, identity=f"candidate-{number}", now=now, rng=rng).run(partial(_lead, begins[number]))
        for number, lock in enumerate(locks)
    ]
    first = asyncio.create_task(elections[0])
    await begins[0].wait()
    second = asyncio.create_task(elections[1])
    await asyncio.sleep(rng.uniform(20.0, 40.0))
    gone = now()
    if clean:
        first.cancel()
    else:
        locks[0].dead = True
    await begins[1].wait()
    seconds = now() - gone
    for election in (first, second):
        election.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    for client in clients:
        await client.close()
    await server.stop()
    return seconds


async def _lead(begun: asyncio.Event) -> None:
    begun.set()
    await asyncio.Event().wait()
