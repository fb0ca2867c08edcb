"""Cancellation at every await there is: nothing is left open, held, or half done."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.kube import (
    Connection,
    Elector,
    Expired,
    KubeClient,
    LeaseSpec,
    NotLeader,
    StreamingSupport,
    TimeBudget,
    WorkQueue,
    merge_patch,
)
from controller.kube.cache import Cache
from controller.kube.reflector import Reflector, Target
from controller.kube.scopes import Scope
from tests.kube.interrupted import Interrupted
from tests.kube.lease_record import Record, RecordLock
from tests.kube.scripted_client import THING, ScriptedClient, Thing, bookmark, error, event, thing, thing_list
from tests.kube.scripted_server import ScriptedServer, answer, status, stream

HANG = 1e6
FINAL = {"ns/a": "30", "ns/z": "31"}
# Every state that the scripts below send.
SENT = {("ns/a", "1"), ("ns/a", "12"), ("ns/a", "30"), ("ns/b", "2"), ("ns/c", "3"), ("ns/z", "31"), ("ns/old", "1")}


@pytest.fixture(autouse=True)
def _rest_at_every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real time decides whether long work rests; here it always does, so that each run has the same awaits."""
    monkeypatch.setattr(TimeBudget, "spent", lambda _: True)


class SlowClient(ScriptedClient):
    """One in which everything takes a moment, so that there is something to cancel."""

    @asynccontextmanager
    async def open_list(self, *arguments: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        async with super().open_list(*arguments) as body:
            read = body.next_chunk

            async def next_chunk() -> bytes:
                await asyncio.sleep(0.01)
                return await read()

            body.next_chunk = next_chunk  # type: ignore[method-assign]
            yield body

    @asynccontextmanager
    async def watch(self, *arguments: Any, **more: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        async with super().watch(*arguments, **more) as opened:
            yield opened


def in_pages() -> ScriptedClient:
    client = SlowClient(streaming=StreamingSupport(refused=True))
    client.lists.extend(
        [
            thing_list(10, thing("old", 1), continue_="c1"),
            Expired("compacted", status=410),
            thing_list(10, thing("a", 1), thing("b", 2), thing("c", 3)),
            thing_list(31, thing("a", 30), thing("z", 31)),
        ]
    )
    client.watches.append(
        [event("MODIFIED", thing("a", 12)), 1.0, event("DELETED", thing("c", 13)), error(410, "Gone")]
    )
    client.watches.append([bookmark(40), HANG])
    return client


def streamed() -> ScriptedClient:
    client = SlowClient(streaming=StreamingSupport())
    client.watches.extend(
        [
            [event("ADDED", thing("old", 1)), 0.5],
            [
                *(event("ADDED", thing(name, n + 1)) for n, name in enumerate("abc")),
                1.0,
                bookmark(10, "true"),
                event("MODIFIED", thing("a", 12)),
                1.0,
                error(410, "Gone"),
            ],
            [event("ADDED", thing("a", 30)), event("ADDED", thing("z", 31)), bookmark(40, "true"), HANG],
        ]
    )
    return client


def reflector_of(client: ScriptedClient | KubeClient) -> tuple[Reflector[Thing], Cache[Thing]]:
    cache: Cache[Thing] = Cache()
    scope = Scope(cache, None, lambda: None)
    return Reflector(client, Target(THING, "/things"), Thing, scope, rng=random.Random(1)), cache


def states(cache: Cache[Thing]) -> dict[str, str]:
    return {obj.metadata.key: obj.metadata.resource_version for obj in cache.store.list()}


@pytest.mark.parametrize("script", [in_pages, streamed], ids=["pages and watches", "streamed lists"])
async def test_a_reflector_can_be_cancelled_anywhere(script: Callable[[], ScriptedClient]) -> None:
    whole, cache = reflector_of(script())
    counted = Interrupted(whole.run())
    await asyncio.sleep(100)
    assert states(cache) == FINAL
    counted.task.cancel()
    assert counted.suspensions > 5
    for at in range(1, counted.suspensions + 1):
        client = script()
        reflector, cache = reflector_of(client)
        interrupted = Interrupted(reflector.run(), at)
        await asyncio.wait((interrupted.task,), timeout=1000)
        assert interrupted.task.cancelled(), f"at await {at}"
        assert client.opened == client.closed
        assert set(states(cache).items()) <= SENT


async def test_a_cancelled_watch_leaves_no_connection_behind(server: ScriptedServer) -> None:
    def script() -> None:
        server.steps.clear()
        server.script(
            status(422, "Invalid", "sendInitialEvents is forbidden"),
            answer({"kind": "ThingList", "metadata": {"resourceVersion": "5"}, "items": [thing("a", 1)]}),
            stream(event("ADDED", thing("z", 31)) + b"\n", 1.0, event("MODIFIED", thing("a", 30)) + b"\n", HANG),
        )

    async def run(at: int) -> int:
        script()
        client = KubeClient(Connection(server.url), user_agent="test/1")
        reflector, cache = reflector_of(client)
        interrupted = Interrupted(reflector.run(), at)
        await asyncio.wait((interrupted.task,), timeout=30)
        if interrupted.suspensions >= at > 0:
            assert interrupted.task.cancelled(), f"at await {at}"
        else:  # how often sockets make it wait differs a little from run to run
            assert states(cache) == FINAL
            interrupted.task.cancel()
            await asyncio.wait((interrupted.task,))
        await asyncio.sleep(1)
        session = client._wire._streams
        assert session is None or not session.connector._acquired  # type: ignore[union-attr]
        await client.close()
        return interrupted.suspensions

    count = await run(0)
    assert count > 8
    for at in range(1, count + 1):
        await run(at)


async def test_a_cancelled_write_gives_its_slot_back(server: ScriptedServer) -> None:
    busy = answer({}, 429, {"Retry-After": "1"})

    async def run(at: int) -> int:
        server.steps.clear()
        server.script(busy, busy, answer({}))
        client = KubeClient(Connection(server.url), user_agent="test/1", max_concurrent_requests=1)
        interrupted = Interrupted(client.patch(THING, "a", merge_patch({"a": 1}), "ns"), at)
        await asyncio.wait((interrupted.task,), timeout=30)
        assert interrupted.task.done()
        # How often sockets make it wait differs a little from run to run.
        assert interrupted.task.cancelled() is (interrupted.suspensions >= at > 0), f"at await {at}"
        await asyncio.sleep(1)
        server.steps.clear()
        server.script(answer({"fine": True}))
        assert (await client.get(THING, "a", "ns"))["fine"]
        await client.close()
        return interrupted.suspensions

    count = await run(0)
    assert count > 5
    for at in range(1, count + 1):
        await run(at)


async def test_an_elector_that_is_cancelled_anywhere_closes_its_gate_and_holds_no_lease() -> None:
    """At most until it runs out: when the cancellation hits the request that takes it."""

    async def run(at: int) -> tuple[int, Record]:
        record = Record()
        record.write("before", "create", LeaseSpec(holder_identity="before", lease_duration_seconds=3), None)
        lock = RecordLock(record, "me", slow, slow)
        elector = Elector(lock, identity="me", now=asyncio.get_running_loop().time, rng=random.Random(1))

        async def lead() -> None:
            await asyncio.sleep(5)

        interrupted = Interrupted(elector.run(lead), at)
        await asyncio.wait((interrupted.task,), timeout=100)
        assert interrupted.task.done()
        assert interrupted.task.cancelled() is bool(at), f"at await {at}"
        with pytest.raises(NotLeader):
            elector.check_write()
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) == 1
        return interrupted.suspensions, record

    async def slow() -> None:
        await asyncio.sleep(0.01)

    count, record = await run(0)
    assert record.lease is not None
    assert record.lease.holder == ""
    held = []
    for at in range(1, count + 1):
        _, record = await run(at)
        assert record.lease is not None
        if record.lease.holder == "me":
            held.append(at)
    assert len(held) <= 2  # cancelled while the answer to its own write was on the way


async def test_a_cancelled_worker_leaves_the_queue_whole() -> None:
    async def work(queue: WorkQueue) -> None:
        while (key := await queue.get()) is not None:
            try:
                await asyncio.sleep(0.3)
            finally:
                queue.done(key)

    async def run(at: int) -> int:
        queue = WorkQueue()
        for key in "abc":
            queue.add_after(key, 1.0)
        first: Coroutine[Any, Any, None] = work(queue)
        interrupted = Interrupted(first, at)
        second = asyncio.ensure_future(work(queue))
        await asyncio.sleep(0.5)
        queue.add("d")
        await asyncio.sleep(30)
        assert len(queue) == 0
        assert queue.unfinished_seconds() == 0.0
        queue.shut_down()
        await second
        await asyncio.wait((interrupted.task,))
        return interrupted.suspensions

    for at in range(1, await run(0) + 1):
        await run(at)
