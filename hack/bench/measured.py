"""The measurements of `hack.bench.informer` that need a process of their own, so that nothing else is in its memory.

    python -m hack.bench.measured NAME URL COUNT

One line of JSON comes out; each function says what is in it. The process keeps to one core, the server has another. A
rate is events for each second of CPU time (user and system), so that neighbours on the machine do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from controller.kube import (
    Connection,
    Done,
    HandlerFunctions,
    Informer,
    KubeClient,
    Priority,
    WorkQueue,
    calm_collector,
    lean,
    run_workers,
    settle,
)
from hack.bench.pod_server import SENT_ANNOTATION, pin
from hack.bench.pods import POD, Pod, by_node, by_owner, watch_lines
from hack.bench.watch import (
    BEST_OF,
    fill,
    percentile,
    rate_in_memory,
    rate_of_kubernetes_asyncio,
    rate_of_orjson,
    resident_kib,
)

Figures = dict[str, float]

PROBE_SECONDS = 0.005
WAKE_RATE = 1000.0
WAKE_SECONDS = 10.0
_WORKERS = 4  # as `mdscaler controller` has by default


# ---- rates and memory of a stream of changes -------------------------------------------------------------------------


def pipeline(_: str, count: int) -> Figures:
    """In memory, same lines, best of three each: `orjson.loads` alone; our line → projection → store → two indices →
    queue."""
    lines = list(watch_lines(count))
    return {
        "orjson": max(rate_of_orjson(lines) for _ in range(BEST_OF)),
        "ours": max(rate_in_memory(lines) for _ in range(BEST_OF)),
    }


def http(url: str, count: int) -> Figures:
    """Our informer over HTTP, with two indices and a handler that fills the work queue."""

    async def measure() -> Figures:
        client = KubeClient(Connection(url), user_agent="bench/1")
        client.streaming.refuse()  # the events are to come as changes
        await client.request_raw("GET", "/version")  # a connection is there, and what is imported late
        seconds, _, _ = await fill(client, count)
        await client.close()
        return {"perSecond": count / seconds}

    return asyncio.run(measure())


def memory(url: str, count: int) -> Figures:
    """The growth of what is resident while our informer fills over HTTP: objects, keys, store, two indices, and
    whatever of the client's buffers stays. Its handler only counts: a key is in the queue until a worker takes it."""
    return asyncio.run(_memory(url, count))


async def _memory(url: str, count: int) -> Figures:
    client = KubeClient(Connection(url), user_agent="bench/1")
    client.streaming.refuse()
    await client.request_raw("GET", "/version")  # what a client costs before it has any Pod
    informer = _pods_informer(client)
    full = asyncio.Event()
    seen = 0

    def added(_: Pod, __: bool) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            full.set()

    before = resident_kib()
    async with _running(informer, HandlerFunctions(added=added), full.wait):
        await full.wait()
        gc.collect()
        used = resident_kib() - before
        assert len(informer.store) == count
    await client.close()
    return {"kibPerPod": used / count}


def kubernetes_asyncio(url: str, count: int) -> Figures:
    """Its `Watch`, as it is usually used (typed objects) and with plain dictionaries; nothing is cached or indexed."""
    return {
        "typed": rate_of_kubernetes_asyncio(url, count, typed=True),
        "raw": rate_of_kubernetes_asyncio(url, count, typed=False),
    }


# ---- a large collection ----------------------------------------------------------------------------------------------


def sync_streamed(url: str, count: int) -> Figures:
    """All Pods as a streamed list, as API servers since 1.34 send them; then as `_sync` says."""
    return asyncio.run(_sync(url, count, streamed=True))


def sync_listed(url: str, count: int) -> Figures:
    """All Pods in one list body, as the watch cache of an older server answers; then as `_sync` says."""
    return asyncio.run(_sync(url, count, streamed=False))


async def _sync(url: str, count: int, *, streamed: bool) -> Figures:
    """Sync, then a relist in which every 100th Pod has changed.

    syncSeconds: from the start of the informer until its handler has been told everything. relistSeconds: from the end
    of the watch (410), the back-off included. Resident memory after both. Lag: how much a sleep of 5 ms overslept, from
    the start to the end of the relist; `ownLag` is the part of it in which this process had the processor.
    """
    client = KubeClient(Connection(url), user_agent="bench/1")
    if not streamed:
        client.streaming.refuse()
    queue = WorkQueue()
    handler: HandlerFunctions[Pod] = HandlerFunctions(
        added=lambda pod, initial: queue.add(pod.metadata.key, Priority.LOW if initial else Priority.NORMAL),
        updated=lambda _, pod: queue.add(pod.metadata.key),
    )
    lags = Lags()
    async with _running(_pods_informer(client), handler, lags.probe) as informer:
        cpu, wall = time.process_time(), time.perf_counter()
        await informer.wait_synced()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        settle()
        assert (len(informer.store), len(queue)) == (count, count)
        version, started = informer.resource_version(), time.perf_counter()
        await client.request_raw("GET", "/relist")
        await _until(lambda: informer.resource_version() != version)
        relist = time.perf_counter() - started
        assert len(informer.store) == count
    await client.close()
    return {
        "syncSeconds": wall,
        "syncCpuSeconds": cpu,
        "relistSeconds": relist,
        "residentMib": resident_kib() / 1024,
        "peakMib": _peak_kib() / 1024,
        **lags.figures(),
    }


def wake(url: str, count: int) -> Figures:
    """1,000 events a second over `count` keys for 10 s: from the moment when the server wrote an event until the
    reconcile of its key starts (informer → queue → worker). Several events in one reconcile count from the first."""
    return asyncio.run(_wake(url, count))


async def _wake(url: str, count: int) -> Figures:
    client = KubeClient(Connection(url), user_agent="bench/1")
    queue = WorkQueue()
    unanswered: dict[str, int] = {}  # key → when its first unanswered event was written
    seconds: list[float] = []
    seen = 0

    def updated(_: Pod, pod: Pod) -> None:
        nonlocal seen
        seen += 1
        unanswered.setdefault(pod.metadata.key, int(pod.metadata.annotation(SENT_ANNOTATION) or 0))
        queue.add(pod.metadata.key)

    async def reconcile(key: str) -> Done:
        if (sent := unanswered.pop(key, None)) is not None:
            seconds.append((time.monotonic_ns() - sent) / 1e9)
        return Done()

    handler = HandlerFunctions(added=lambda pod, _: queue.add(pod.metadata.key, Priority.LOW), updated=updated)
    async with _running(_pods_informer(client), handler, lambda: run_workers(queue, reconcile, _WORKERS)) as informer:
        await informer.wait_synced()
        settle()
        await _until(lambda: not len(queue))
        cpu = time.process_time()
        await client.request_raw("GET", f"/change?rate={WAKE_RATE}&seconds={WAKE_SECONDS}")
        await _until(lambda: seen >= WAKE_RATE * WAKE_SECONDS and not unanswered)
        cpu = time.process_time() - cpu
    await client.close()
    return {
        "wakeP50": percentile(seconds, 0.5),
        "wakeP99": percentile(seconds, 0.99),
        "wakeMax": max(seconds),
        "wakeCpuShare": cpu / WAKE_SECONDS,
    }


def _pods_informer(client: KubeClient) -> Informer[Pod]:
    return Informer(
        client,
        POD,
        Pod,
        indexers={"node": by_node, "owner": by_owner},
        transform=lean(annotations=("scaling.",)),
    )


@asynccontextmanager
async def _running(
    informer: Informer[Pod], handler: HandlerFunctions[Pod], beside: Callable[[], Any]
) -> AsyncIterator[Informer[Pod]]:
    informer.add_handler(handler)
    tasks = [asyncio.create_task(informer.run()), asyncio.create_task(beside())]
    try:
        yield informer
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until(condition: Callable[[], bool]) -> None:
    """Look every 20 ms, so that nothing is added to what is measured."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


class Lags:
    """How late the event loop is, sampled every 5 ms."""

    def __init__(self) -> None:
        self._overslept: list[float] = []
        self._own: list[float] = []

    async def probe(self) -> None:
        """Sample until cancelled."""
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(PROBE_SECONDS)
            late = time.perf_counter() - wall - PROBE_SECONDS
            self._overslept.append(late)
            self._own.append(min(late, time.process_time() - cpu))

    def figures(self) -> Figures:
        """99th percentile and maximum, in seconds."""
        return {
            "lagP99": percentile(self._overslept, 0.99),
            "lagMax": max(self._overslept),
            "ownLagP99": percentile(self._own, 0.99),
            "ownLagMax": max(self._own),
        }


def _peak_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


# ---- as a process ----------------------------------------------------------------------------------------------------

_ALL = (pipeline, http, memory, kubernetes_asyncio, sync_streamed, sync_listed, wake)
MEASUREMENTS = {each.__name__: each for each in _ALL}


def measure(measurement: Callable[[str, int], Figures], count: int, url: str = "") -> Figures:
    """Run one of the functions above in a fresh process."""
    command = [sys.executable, "-m", "hack.bench.measured", measurement.__name__, url, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(f"the measurement {measurement.__name__} failed; its error is above")
    figures: Figures = json.loads(done.stdout)
    return figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="One measurement in a process of its own.")
    parser.add_argument("name", choices=sorted(MEASUREMENTS))
    parser.add_argument("url")
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    pin(0)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    calm_collector()  # as the controller does
    print(json.dumps(MEASUREMENTS[options.name](options.url, options.count)))


if __name__ == "__main__":
    main()
