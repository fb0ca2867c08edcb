"""Random operations against random faults; when the world has calmed down, everybody knows the truth.

For each seed: the store equals the server; replaying what each handler was told gives the store; no handler was told
anything impossible (an update or a delete of what it did not know, an add of what it knew, a step back in versions).
"""

from __future__ import annotations

import asyncio
import random

from controller.kube import Informer, Tombstone
from tests.kube.model_server import ModelServer
from tests.kube.scripted_client import THING, Thing
from tests.kube.support import ReflectorLog, running

TROUBLE_SECONDS = 400.0
# The longest back-off is a minute; after that nothing goes wrong any more.
CALM_SECONDS = 400.0


class Replay:
    """A handler that believes every word, and protests when the words do not fit together."""

    def __init__(self) -> None:
        self.known: dict[str, Thing] = {}
        self.told = 0

    def on_add(self, obj: Thing, initial: bool) -> None:
        self.told += 1
        assert obj.metadata.key not in self.known, "added twice"
        self.known[obj.metadata.key] = obj

    def on_update(self, old: Thing, new: Thing) -> None:
        self.told += 1
        before = self.known[new.metadata.key]
        assert before == old, "updated from a state that was never told"
        assert before.metadata.uid == new.metadata.uid, "an update changed the uid"
        assert int(before.metadata.resource_version) < int(new.metadata.resource_version), "a step back"
        self.known[new.metadata.key] = new

    def on_delete(self, tombstone: Tombstone[Thing]) -> None:
        self.told += 1
        del self.known[tombstone.key]


async def test_model(model_seed: int) -> None:
    rng = random.Random(model_seed)
    server = ModelServer(rng, faults=rng.choice((0.02, 0.1, 0.3)), can_stream=rng.random() < 0.6)
    for _ in range(rng.randrange(20)):
        server.random_operation()
    log = ReflectorLog()
    informer: Informer[Thing] = Informer(
        server,
        THING,
        Thing,
        rng=random.Random(model_seed),
        observer=log,
        indexers={"size": lambda obj: [str(obj.spec.size)] if obj.spec else None},
    )
    replays = [Replay()]
    informer.add_handler(replays[0])

    async def users() -> None:
        while True:
            await asyncio.sleep(rng.expovariate(1.0))
            for _ in range(rng.randrange(4)):
                server.random_operation()
            if rng.random() < 0.05:
                server.compact()
            if rng.random() < 0.02:
                replays.append(Replay())
                informer.add_handler(replays[-1])

    async with running(informer.run(), users()) as (run, using):
        await asyncio.sleep(TROUBLE_SECONDS)
        using.cancel()
        server.faults = 0.0
        await asyncio.sleep(CALM_SECONDS)
        assert not run.done()
        assert informer.has_synced
        stored = {obj.metadata.name: obj for obj in informer.store.list()}
        assert {name: obj.metadata.resource_version for name, obj in stored.items()} == {
            name: obj["metadata"]["resourceVersion"] for name, obj in server.objects.items()
        }
        assert int(informer.resource_version()) == server.version
        by_size = {
            size: {o.metadata.name for o in informer.store.by_index("size", size)}
            for size in informer.store.index_values("size")
        }
        assert sum(map(len, by_size.values())) == len(stored)
        for replay in replays:
            assert list(replay.known.values()) or not stored
            assert {obj.metadata.key: obj for obj in stored.values()} == replay.known
    assert log.handler_failures == 0  # a Replay protests by an exception
    assert replays[0].told > 20
    # Never hot: with back-off and pacing there is no more than about one request a second.
    assert server.requests < TROUBLE_SECONDS + CALM_SECONDS
