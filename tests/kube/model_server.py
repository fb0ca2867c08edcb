"""A collection with the version rules of an API server, in memory, with faults: what the model test runs against.

One counter of versions, a log of events that is compacted, lists with continue tokens that die, watches with
bookmarks, deadlines and initial events. Faults come from a random source: refused, throttled, cut, stalled, half a
line, garbage, a 410 in any of its shapes, a server that lags behind.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from controller.kube.errors import (
    ApiError,
    BadAnswer,
    ConnectFailed,
    ConnectionLost,
    Expired,
    Invalid,
    ResourceVersionTooLarge,
    ServerFailed,
    Throttled,
    TimedOut,
    Transient,
)
from controller.kube.lines import LineSplitter
from controller.kube.pages import PageRequest
from controller.kube.streaming import StreamingSupport
from tests.kube.scripted_client import ScriptedBody, bookmark, error, event, thing, thing_list


@dataclass(frozen=True)
class LogEntry:
    version: int
    kind: str
    obj: dict[str, Any]


@dataclass
class ModelServer:
    """See the module. `faults` is the probability that a request or a read goes wrong."""

    rng: random.Random
    faults: float = 0.0
    can_stream: bool = True
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    log: list[LogEntry] = field(default_factory=list)
    version: int = 100
    floor: int = 100  # events up to here are compacted
    snapshots: dict[str, tuple[int, list[dict[str, Any]]]] = field(default_factory=dict)
    streaming: StreamingSupport = field(default_factory=StreamingSupport)
    requests: int = 0
    uids: int = 0

    def __post_init__(self) -> None:
        self._changed = asyncio.Event()

    # ---- what users do ---------------------------------------------------------------------------------------------

    def random_operation(self) -> None:
        name = self.rng.choice("abcdefgh")
        match self.rng.randrange(5):
            case 0 | 1 if name not in self.objects:
                self.uids += 1
                self._record(
                    "ADDED", name, thing(name, self.version + 1, uid=f"u{self.uids}", size=self.rng.randrange(9))
                )
            case 0 | 1 | 2 if name in self.objects:
                uid = self.objects[name]["metadata"]["uid"]
                self._record("MODIFIED", name, thing(name, self.version + 1, uid=uid, size=self.rng.randrange(9)))
            case 3 if name in self.objects:
                gone = json.loads(json.dumps(self.objects[name]))
                gone["metadata"]["resourceVersion"] = str(self.version + 1)
                self._record("DELETED", name, gone)
            case _:
                self.version += 1  # somebody else's object

    def compact(self) -> None:
        self.floor = self.version
        self.log.clear()
        self.snapshots.clear()

    def _record(self, kind: str, name: str, obj: dict[str, Any]) -> None:
        self.version += 1
        if kind == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = obj
        self.log.append(LogEntry(self.version, kind, obj))
        self._changed.set()
        self._changed = asyncio.Event()

    # ---- what a reflector asks ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open_list(
        self, path: str, request: PageRequest, selectors: Iterable[tuple[str, str]]
    ) -> AsyncIterator[ScriptedBody]:
        self.requests += 1
        await asyncio.sleep(self.rng.random() * 0.2)
        self._perhaps_fail()
        if request.continue_:
            if request.continue_ not in self.snapshots:
                raise Expired("the continue token is too old", status=410, reason="Expired")
            version, items = self.snapshots.pop(request.continue_)
        else:
            self._check_version(request.resource_version)
            version, items = self.version, list(self.objects.values())
        page, rest = (items[: request.limit], items[request.limit :]) if request.limit else (items, [])
        token = ""
        if rest:
            token = f"c{self.requests}"
            self.snapshots[token] = (version, rest)
        yield ScriptedBody(thing_list(version, *page, continue_=token), self.rng.randint(1, 400))

    @asynccontextmanager
    async def watch(
        self, path: str, query: Iterable[tuple[str, str]], *, total_seconds: float, inactivity_seconds: float
    ) -> AsyncIterator[ModelStream]:
        self.requests += 1
        options = dict(query)
        await asyncio.sleep(self.rng.random() * 0.2)
        self._perhaps_fail()
        initial = options.get("sendInitialEvents") == "true"
        if initial and not self.can_stream:
            raise Invalid("sendInitialEvents is forbidden", status=422, reason="Invalid")
        start = options.get("resourceVersion", "")
        self._check_version(start)
        if not initial and int(start or 0) < self.floor:
            if self.rng.random() < 0.5:
                raise Expired("too old", status=410, reason="Gone")
            yield ModelStream(self, self.version, [error(410, "Expired")], total_seconds, inactivity_seconds)
            return
        stream = ModelStream(self, int(start or 0), [], total_seconds, inactivity_seconds)
        if initial:
            stream.pending = [event("ADDED", obj) for obj in self.objects.values()]
            self.rng.shuffle(stream.pending)
            stream.position = self.version
            stream.reads_before_mark = self.rng.randrange(8)
        yield stream

    def _check_version(self, version: str) -> None:
        if version not in ("", "0") and int(version) > self.version:
            raise AssertionError("the client asks for a version that never was")
        if version not in ("", "0") and self.rng.random() < self.faults * 0.3:
            raise ResourceVersionTooLarge("too large resource version", status=504, reason="Timeout")

    def _perhaps_fail(self) -> None:
        if self.rng.random() >= self.faults:
            return
        raise self.rng.choice(FAULTS)


FAULTS: list[ApiError] = [
    ConnectFailed("refused"),
    ConnectionLost("reset"),
    Transient("bad gateway", status=502),
    ServerFailed("etcd", status=500),
    Throttled("busy", status=429, retry_after_seconds=2.0),
    BadAnswer("a page of a proxy"),
    TimedOut("no answer"),
    Expired("gone", status=410, reason="Gone"),
]


@dataclass
class ModelStream:
    """An open watch. `position` is the version up to which everything has been sent."""

    server: ModelServer
    position: int
    pending: list[bytes]
    total_seconds: float
    inactivity_seconds: float
    reads_before_mark: int | None = None  # the initial events end after so many reads, and when all has been sent

    def __post_init__(self) -> None:
        now = asyncio.get_running_loop().time
        self._opened = now()
        self._server_limit = self._opened + self.total_seconds - 30.0
        self._splitter = LineSplitter()

    async def next_lines(self) -> list[bytes]:
        server, now = self.server, asyncio.get_running_loop().time
        while True:
            if server.rng.random() < server.faults * 0.5:
                return await self._go_wrong()
            lines = self._take()
            if lines:
                return lines
            if now() >= self._server_limit:
                return []
            changed = server._changed
            try:
                async with asyncio.timeout(60.0):  # a bookmark a minute
                    await changed.wait()
            except TimeoutError:
                if now() < self._server_limit:
                    self.position = server.version
                    return [bookmark(server.version)]

    def _take(self) -> list[bytes]:
        if not self.pending:
            self.pending = [event(entry.kind, entry.obj) for entry in self.server.log if entry.version > self.position]
            if self.position < self.server.floor and not self.pending:
                self.pending = [error(410, "Expired")]
            self.position = max(self.position, self.server.log[-1].version if self.server.log else 0)
        if self.reads_before_mark is not None:
            self.reads_before_mark -= 1
            if not self.pending and self.reads_before_mark <= 0:
                self.reads_before_mark = None
                self.position = self.server.version
                return [bookmark(self.server.version, "true")]
        count = self.server.rng.randint(1, 5)
        lines, self.pending = self.pending[:count], self.pending[count:]
        return lines

    async def _go_wrong(self) -> list[bytes]:
        match self.server.rng.randrange(7):
            case 0:
                raise ConnectionLost("cut")
            case 1:
                return []
            case 2:
                return [*self._take(), b'{"type":"MODIFIED","obj']
            case 3:
                return [error(500, "InternalError")]
            case 4:
                return [error(429, "TooManyRequests", retryAfterSeconds=1)]
            case 5:
                await asyncio.sleep(self.inactivity_seconds)
                raise TimedOut("silent", reason="Silent")
            case _:
                return [event("ADDED", {"kind": "Table"})]
