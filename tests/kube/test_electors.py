"""Several electors, one Lease, and everything that can go wrong between them.

Each seed is a schedule: processes with clocks of different rate and offset, requests and answers that are delayed or
lost, stalls of a whole process (a garbage collection, a suspended machine), deaths without a word, orderly stops, and
restarts. Then the world heals.

Safety is checked exactly where it can break: when the record changes hands, no other process may pass the write gate; a
gate opens by a write of its own process only. It is also sampled in between.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from controller.kube import ConnectionLost, Elector, KubeError, LeaseSpec, LeaseTimes, NotLeader
from controller.kube.lease import Lease
from tests.kube.lease_record import Record, RecordLock
from tests.kube.paced import Process, install

TIMES = LeaseTimes(15.0, 10.0, 2.0)
TROUBLE_SECONDS = 150.0
# Clocks may differ by a tenth in rate: 10 s at 0.95 end before 15 s at 1.05 do.
SLOWEST, FASTEST = 0.95, 1.05
# A leader exists again within the lease and two retries, on the slowest clock.
HEALING_SECONDS = (TIMES.lease_seconds + 2 * TIMES.retry_seconds) / SLOWEST


@dataclass
class Weather:
    """What the network does to the requests of one process."""

    rng: random.Random
    stormy: bool = True
    cut: bool = False  # nothing comes through, and nobody says so

    async def there(self) -> None:
        await self._travel()

    async def back(self) -> None:
        await self._travel()

    async def _travel(self) -> None:
        if self.stormy and self.cut:
            await asyncio.Event().wait()
        if not self.stormy:
            await asyncio.sleep(0.005)
            return
        dice = self.rng.random()
        if dice < 0.04:
            raise ConnectionLost("lost on the way")
        if dice < 0.06:
            await asyncio.Event().wait()
        await asyncio.sleep(self.rng.choice((0.001, 0.001, 0.02, 0.2, 4.0)) * self.rng.random())


class WatchedRecord(Record):
    """A record that knows all candidates, and looks at their gates whenever it changes hands."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.changes = 0

    def write(self, who: str, verb: str, spec: LeaseSpec, expected: str | None) -> Lease:
        written = super().write(who, verb, spec, expected)
        if spec.holder_identity:
            self.changes += 1
            open_gates = [node.identity for node in self.nodes if node.may_write() and node.identity != who]
            assert open_gates == [], f"{who} took the lease while {open_gates} may write"
        return written


@dataclass
class Node:
    """One process start."""

    record: WatchedRecord
    identity: str
    weather: Weather
    rng: random.Random
    process: Process = field(init=False)
    task: asyncio.Task[None] = field(init=False)
    dead: bool = False
    led: int = 0

    def __post_init__(self) -> None:
        self.process = Process(self.rng.uniform(SLOWEST, FASTEST), self.rng.uniform(-1e6, 1e6))
        lock = RecordLock(self.record, self.identity, self.weather.there, self.weather.back)
        self.elector = Elector(lock, identity=self.identity, times=TIMES, now=self.process.now, rng=self.rng)
        self.task = self.process.start(self._main())
        self.record.nodes.append(self)

    async def _main(self) -> None:
        await self.elector.run(self._lead)

    async def _lead(self) -> None:
        self.led += 1
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.rng.random())  # orderly work takes a moment to stop

    def may_write(self) -> bool:
        """What this process would find if it asked its gate at this very moment, running or not."""
        if self.dead:
            return False
        try:
            self.elector.check_write()
        except NotLeader:
            return False
        return True

    def kill(self) -> None:
        """No more steps, no release."""
        self.dead = True
        self.process.stall()


class World:
    """Three slots, each with a process that is started again when it has ended."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.record = WatchedRecord()
        self.started = 0
        self.storming = True
        self.slots = [self.new_node() for _ in range(3)]

    def new_node(self) -> Node:
        self.started += 1
        rng = random.Random(self.rng.random())
        return Node(self.record, f"n{self.started}", Weather(rng, self.storming), rng)

    async def slot(self, number: int) -> None:
        """Keep one process running; disturb it while the storm lasts, a leader rather sooner than later."""
        while True:
            node = self.slots[number]
            await asyncio.sleep(self.rng.uniform(0.5, 8.0 if node.may_write() else 40.0))
            if node.task.done() or node.dead:
                self.slots[number] = self.new_node()
            elif self.storming:
                await self.disturb(node)

    async def disturb(self, node: Node) -> None:
        dice = self.rng.random()
        if dice < 0.5:
            node.process.stall()
            await asyncio.sleep(self.rng.choice((3.0, 12.0, 16.0, 25.0)) * self.rng.uniform(0.5, 1.0))
            node.process.resume()
        elif dice < 0.8:
            node.weather.cut = True
            await asyncio.sleep(self.rng.uniform(3.0, 30.0))
            node.weather.cut = False
        elif dice < 0.9:
            node.kill()
        else:
            node.task.cancel()

    def heal(self) -> None:
        """No more trouble, and a process in every slot. Requests that were swallowed stay so until their time-out."""
        self.storming = False
        for number, node in enumerate(self.slots):
            node.weather.stormy = False
            if node.dead or node.task.done():
                self.slots[number] = self.new_node()
            else:
                node.process.resume()

    def leaders(self) -> list[str]:
        return [node.identity for node in self.record.nodes if node.may_write()]

    async def watch(self) -> None:
        while True:
            assert len(self.leaders()) <= 1
            await asyncio.sleep(0.1)

    async def end(self) -> None:
        for node in self.record.nodes:
            node.process.resume()
            node.task.cancel()
        await asyncio.gather(*(node.task for node in self.record.nodes), return_exceptions=True)


async def test_electors_never_write_together_and_soon_lead_again(model_seed: int) -> None:
    """A28, A35."""
    install(asyncio.get_running_loop())
    world = World(model_seed)
    tasks = [asyncio.ensure_future(world.slot(number)) for number in range(3)]
    tasks.append(asyncio.ensure_future(world.watch()))
    await asyncio.sleep(TROUBLE_SECONDS)
    world.heal()
    healed_at = asyncio.get_running_loop().time()
    while not world.leaders():
        await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() - healed_at < HEALING_SECONDS
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result for result in results if not isinstance(result, asyncio.CancelledError)] == []
    for node in world.record.nodes:
        if node.task.done() and not node.task.cancelled():
            assert isinstance(node.task.exception(), KubeError)
    assert world.record.changes > 3
    await world.end()


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_failover_takes_as_long_as_it_should(how: str) -> None:
    """T7: crash within lease + 3 s, orderly within 3 s, over many starting points."""
    install(asyncio.get_running_loop())
    for seed in range(20):
        record = WatchedRecord()
        weather = Weather(random.Random(seed), stormy=False)
        leader = Node(record, "a", weather, random.Random(seed))
        await asyncio.sleep(1)
        follower = Node(record, "b", weather, random.Random(seed + 1))
        await asyncio.sleep(20 + random.Random(seed).random() * 4)
        assert leader.may_write()
        stopped_at = asyncio.get_running_loop().time()
        if how == "killed":
            leader.kill()
        else:
            leader.task.cancel()
        while not follower.may_write():
            await asyncio.sleep(0.01)
        took = asyncio.get_running_loop().time() - stopped_at
        slack = 1.0 if how == "stopped" else 0.0  # the leader's own work takes up to a second to stop
        limit = 3.0 + slack if how == "stopped" else TIMES.lease_seconds / SLOWEST + 3.0
        assert took <= limit
        world_end = [leader, follower]
        for node in world_end:
            node.process.resume()
            node.task.cancel()
        await asyncio.gather(*(node.task for node in world_end), return_exceptions=True)
