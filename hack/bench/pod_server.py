"""An API server for measurements: it serves Pods that were made before anybody asked, over HTTP on loopback.

    python -m hack.bench.pod_server COUNT [--changes] [--protobuf FILE]

It runs in a process of its own, prints its port when everything is ready, and then does little more than write bytes,
so that what is measured is the client. One HTTP chunk for each event, as an API server flushes them.

Without `--changes` a list answers with all Pods at once (a watch cache ignores `limit` when the version is "0"), a
watch with `sendInitialEvents` streams them and their bookmark, and every watch then waits.
With it a list is empty and a watch brings all Pods as ADDED events; in protobuf, when the client asks for that, from
FILE (length-delimited frames).

Two requests steer it, and are answered when it is under way:

    /relist                     every 100th Pod has changed; every watch gets 410 Expired, so that all is listed anew
    /change?rate=R&seconds=S    MODIFIED events, R a second, over all Pods in turn; each carries the moment of its
                                writing in the annotation `SENT_ANNOTATION`, in ns of the system's monotonic clock
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from hack.bench.pods import encode, make_pod

SENT_ANNOTATION = "scaling.example.org/sent"
_SENT_DIGITS = 20
# Written at once; small against what a socket holds, so that the server never copies much.
_SLICE = 64
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
_STREAM = _HEAD % b"application/json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_KIND = b'{"kind":"Pod","apiVersion":"v1",'
_EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired",'
    b'"message":"too old resource version","code":410}}\n'
)
_CHANGED_EVERY = 100


class PodServer:
    """See the module's contract."""

    def __init__(self, count: int, *, as_changes: bool, protobuf: bytes = b"") -> None:
        self._count = count
        self._as_changes = as_changes
        self._version = count + 1
        self._pods = [encode(make_pod(number, number + 2)) for number in range(count)]
        self._frames = list(_frames(protobuf))
        self._watchers: set[asyncio.Queue[bytes]] = set()
        self._changes: asyncio.Task[None] | None = None

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                url = urlsplit(head.split(" ", 2)[1])
                query = {key: values[-1] for key, values in parse_qs(url.query).items()}
                if url.path in ("/relist", "/change"):
                    self._steer(url.path, query)
                    await _send(writer, b"{}")
                elif query.get("watch", "").lower() in ("1", "true"):
                    await self._watch(writer, query, _PROTOBUF in head)
                    return
                else:
                    await self._list(writer)

    async def _list(self, writer: asyncio.StreamWriter) -> None:
        head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[' % self._version
        pods = [] if self._as_changes else self._pods
        # The items of a real list have neither kind nor apiVersion.
        length = len(head) + sum(map(len, pods)) - len(pods) * (len(_KIND) - 1) + max(0, len(pods) - 1) + len(b"]}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length)
        writer.write(head)
        for start in range(0, len(pods), _SLICE):
            items = b",".join(b"{" + pod[len(_KIND) :] for pod in pods[start : start + _SLICE])
            writer.write(b"," + items if start else items)
            await writer.drain()
        writer.write(b"]}")
        await writer.drain()

    async def _watch(self, writer: asyncio.StreamWriter, query: dict[str, str], protobuf: bool) -> None:
        inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._watchers.add(inbox)
        try:
            if self._as_changes and protobuf:
                writer.write(_HEAD % f"{_PROTOBUF};stream=watch".encode())
                await _stream(writer, self._frames, bytes)
            else:
                writer.write(_STREAM)
                if self._as_changes or query.get("sendInitialEvents") == "true":
                    await _stream(writer, self._pods, lambda pod: b'{"type":"ADDED","object":%s}\n' % pod)
            if query.get("sendInitialEvents") == "true":
                writer.write(_chunk(_bookmark(self._version)))
            while True:
                event = await inbox.get()
                writer.write(_chunk(event))
                await writer.drain()
                if event is _EXPIRED:
                    writer.write(b"0\r\n\r\n")
                    writer.close()
                    return
        finally:
            self._watchers.discard(inbox)

    def _steer(self, path: str, query: dict[str, str]) -> None:
        if path == "/relist":
            for number in range(0, self._count, _CHANGED_EVERY):
                self._version += 1
                self._pods[number] = encode(make_pod(number, self._version))
            self._tell(_EXPIRED)
        else:
            self._changes = asyncio.create_task(self._change(float(query["rate"]), float(query["seconds"])))

    async def _change(self, rate: float, seconds: float) -> None:
        """Whatever is due by now is sent at once: a late timer does not lower the rate."""
        lines = []
        for number in range(self._count):
            pod = make_pod(number, self._version + 1 + number)
            metadata = pod["metadata"]
            metadata["annotations"] = metadata["annotations"] | {SENT_ANNOTATION: "0" * _SENT_DIGITS}
            lines.append(b'{"type":"MODIFIED","object":%s}\n' % encode(pod))
        parts = [line.partition(b"0" * _SENT_DIGITS) for line in lines]
        started = time.monotonic()
        sent, total = 0, round(rate * seconds)
        while sent < total:
            due = min(total, int((time.monotonic() - started) * rate))
            for number in range(sent, due):
                before, _, after = parts[number % self._count]
                self._tell(before + b"%0*d" % (_SENT_DIGITS, time.monotonic_ns()) + after)
            sent = due
            await asyncio.sleep(1 / rate)

    def _tell(self, event: bytes) -> None:
        for inbox in self._watchers:
            inbox.put_nowait(event)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _bookmark(version: int) -> bytes:
    return (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d",'
        b'"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}}\n' % version
    )


async def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, items: list[bytes], frame: Callable[[bytes], bytes]) -> None:
    for start in range(0, len(items), _SLICE):
        writer.write(b"".join(_chunk(frame(item)) for item in items[start : start + _SLICE]))
        await writer.drain()


def _frames(protobuf: bytes) -> Iterator[bytes]:
    """Length-delimited frames, their lengths included."""
    position = 0
    while position < len(protobuf):
        end = position + 4 + int.from_bytes(protobuf[position : position + 4], "big")
        yield protobuf[position:end]
        position = end


# ---- from the outside ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def pod_server(count: int, *, as_changes: bool = False, protobuf: Path | None = None) -> Iterator[str]:
    """A server in a process of its own, on the last core that this process may use; its URL."""
    command = [sys.executable, "-m", "hack.bench.pod_server", str(count)]
    command += ["--changes"] if as_changes else []
    command += ["--protobuf", str(protobuf)] if protobuf else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError("the Pod server did not start; its error is above")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def pin(which: int) -> None:
    """Keep this process on one of the cores that it may use: 0 for who is measured, -1 for who serves."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[which]})


async def _serve(options: argparse.Namespace) -> None:
    protobuf = options.protobuf.read_bytes() if options.protobuf else b""
    served = PodServer(options.count, as_changes=options.changes, protobuf=protobuf)
    server = await asyncio.start_server(served.answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Serve Pods for measurements.")
    parser.add_argument("count", type=int)
    parser.add_argument("--changes", action="store_true", help="an empty list, and all Pods as ADDED events")
    parser.add_argument("--protobuf", type=Path, help="the same events as length-delimited protobuf frames")
    options = parser.parse_args()
    pin(-1)
    asyncio.run(_serve(options))


if __name__ == "__main__":
    main()
