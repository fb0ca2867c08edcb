"""How fast watch events become cached projections, and what that costs, as ratios within one run.

    python -m hack.bench.watch --output json

Measured on the same bytes, best of three. A rate is events for each second of CPU time of the measuring process, so
that neighbours on the machine do not count; both ends of a network have a process, and a core, of their own.

* `orjson.loads` of each line alone: what any client that makes dictionaries cannot beat;
* our pipeline in memory: line, projection, store, two indices, one handler that fills the work queue;
* our informer over HTTP on loopback, the server in a process of its own;
* `kubernetes_asyncio.watch.Watch` over the same HTTP, typed and as dictionaries (fewer events: it needs 2 ms each);
* memory for each cached Pod, and the lag of the event loop while they arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from controller.kube import (
    Connection,
    HandlerFunctions,
    Informer,
    KubeClient,
    StreamingSupport,
    WorkQueue,
    calm_collector,
    lean,
)
from controller.kube.pages import PageRequest
from hack.bench.pods import POD, Pod, by_node, by_owner, watch_lines

BEST_OF = 3
EMPTY_LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'
# As many lines as one read of a socket brings (256 KiB of 12 KB events).
LINES_PER_READ = 20


# ---- the server ------------------------------------------------------------------------------------------------------


async def serve(count: int) -> None:
    """Answer a list with nothing and a watch with all events, one HTTP chunk each, as an API server flushes them."""
    body = b"".join(b"%x\r\n%s\n\r\n" % (len(line) + 1, line) for line in watch_lines(count))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                if b"watch=" in request.split(b"\r\n", 1)[0].lower():
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                    )
                    writer.write(body)
                    await writer.drain()
                    await asyncio.sleep(3600)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(EMPTY_LIST), EMPTY_LIST)
                )
                await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def server_process(count: int) -> Iterator[str]:
    """A server in a process of its own; its URL."""
    command = [sys.executable, "-m", "hack.bench.watch", "--serve", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


# ---- what is measured ------------------------------------------------------------------------------------------------


class MemoryClient:
    """The events without a network."""

    def __init__(self, lines: list[bytes]) -> None:
        self.streaming = StreamingSupport(refused=True)
        self._lines = lines
        self._position = 0
        self._list: bytes = EMPTY_LIST

    async def next_chunk(self) -> bytes:
        chunk, self._list = self._list, b""
        return chunk

    async def next_lines(self) -> list[bytes]:
        if self._position >= len(self._lines):
            await asyncio.Event().wait()
        lines = self._lines[self._position : self._position + LINES_PER_READ]
        self._position += LINES_PER_READ
        return lines

    @contextlib.asynccontextmanager
    async def open_list(
        self, path: str, request: PageRequest, selectors: Iterable[tuple[str, str]]
    ) -> AsyncIterator[MemoryClient]:
        yield self

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, query: Iterable[tuple[str, str]], *, total_seconds: float, inactivity_seconds: float
    ) -> AsyncIterator[MemoryClient]:
        yield self


async def fill(client: Any, count: int) -> tuple[float, Informer[Pod], list[float]]:
    """(CPU seconds until all Pods are cached and queued, the informer, the lags of the loop meanwhile)."""
    queue = WorkQueue()
    informer = Informer(
        client,
        POD,
        Pod,
        indexers={"node": by_node, "owner": by_owner},
        transform=lean(annotations=("scaling.",)),
    )
    full = asyncio.Event()

    def enqueue(pod: Pod, initial: bool) -> None:
        queue.add(pod.metadata.key)
        if len(queue) == count:
            full.set()

    informer.add_handler(HandlerFunctions(added=enqueue))
    lags: list[float] = []

    async def probe() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            lags.append(time.perf_counter() - before - 0.005)

    started = time.process_time()
    tasks = [asyncio.create_task(informer.run()), asyncio.create_task(probe())]
    await full.wait()
    seconds = time.process_time() - started
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(queue) == count
    return seconds, informer, lags


def rate_of_orjson(lines: list[bytes]) -> float:
    """Lines per second."""
    started = time.process_time()
    for line in lines:
        orjson.loads(line)
    return len(lines) / (time.process_time() - started)


def rate_in_memory(lines: list[bytes]) -> float:
    """Events per second of the whole pipeline without a network."""
    seconds, _, _ = asyncio.run(fill(MemoryClient(lines), len(lines)))
    return len(lines) / seconds


def rate_over_http(url: str, count: int) -> tuple[float, list[float]]:
    """(events per second, lags)."""

    async def measure() -> tuple[float, list[float]]:
        client = KubeClient(Connection(url), user_agent="bench/1")
        client.streaming.refuse()
        seconds, _, lags = await fill(client, count)
        await client.close()
        return seconds, lags

    seconds, lags = asyncio.run(measure())
    return count / seconds, lags


def rate_of_kubernetes_asyncio(url: str, count: int, *, typed: bool) -> float:
    """Events per second of its Watch."""
    from kubernetes_asyncio import client as ka_client  # noqa: PLC0415 - heavy, and only measured here
    from kubernetes_asyncio import watch as ka_watch  # noqa: PLC0415

    async def measure() -> float:
        configuration = ka_client.Configuration(host=url)
        async with ka_client.ApiClient(configuration) as api:
            core = ka_client.CoreV1Api(api)
            call = core.list_pod_for_all_namespaces
            if not typed:

                async def raw(**options: Any) -> Any:
                    return await core.list_pod_for_all_namespaces(**options)

                call = raw
            started = time.process_time()
            seen = 0
            async with ka_watch.Watch(return_type=None if typed else object).stream(
                call, resource_version="1"
            ) as stream:
                async for _ in stream:
                    seen += 1
                    if seen == count:
                        break
            return count / (time.process_time() - started)

    return asyncio.run(measure())


def memory_per_pod(lines: list[bytes]) -> float:
    """KiB of resident memory for each cached Pod, keys, store and indices included."""
    gc.collect()
    before = resident_kib()
    _, informer, _ = asyncio.run(fill(MemoryClient(lines), len(lines)))
    gc.collect()
    used = resident_kib() - before
    assert len(informer.store) == len(lines)
    return used / len(lines)


def resident_kib() -> int:
    """What the kernel says about this process."""
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Rss:"))


def percentile(values: list[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def run(count: int, peer_count: int) -> dict[str, Any]:
    """All measurements."""
    calm_collector()  # as the controller does
    lines = list(watch_lines(count))
    kib = memory_per_pod(lines)
    alone = max(rate_of_orjson(lines) for _ in range(BEST_OF))
    memory = max(rate_in_memory(lines) for _ in range(BEST_OF))
    bytes_per_event = sum(map(len, lines)) / count
    del lines
    with server_process(count) as url:
        over_http, lags = max(rate_over_http(url, count) for _ in range(BEST_OF))
    with server_process(peer_count) as url:
        typed = rate_of_kubernetes_asyncio(url, peer_count, typed=True)
        raw = rate_of_kubernetes_asyncio(url, peer_count, typed=False)
    return {
        "events": count,
        "bytesPerEvent": round(bytes_per_event),
        "orjsonPerSecond": round(alone),
        "pipelinePerSecond": round(memory),
        "httpPerSecond": round(over_http),
        "kubernetesAsyncioPerSecond": round(typed),
        "kubernetesAsyncioRawPerSecond": round(raw),
        "ratioToOrjson": round(memory / alone, 2),
        "ratioToKubernetesAsyncio": round(over_http / typed, 1),
        "ratioToKubernetesAsyncioRaw": round(over_http / raw, 1),
        "kibPerPod": round(kib, 2),
        "lagP99Milliseconds": round(percentile(lags, 0.99) * 1000, 1),
        "lagMaxMilliseconds": round(max(lags, default=0.0) * 1000, 1),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the watch pipeline against its parts and its peers.")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--peer-events", type=int, default=2_000, help="events for kubernetes_asyncio")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
        return
    results = run(options.events, options.peer_events)
    if options.output == "json":
        print(json.dumps(results))
        return
    for name, value in results.items():
        print(f"{name:32} {value}")


if __name__ == "__main__":
    main()
