"""Lists and watches from a script, without HTTP: what the reflector and the informer are tested with."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.foundation import ObjectMeta, Resource
from controller.kube.errors import ApiError, TimedOut
from controller.kube.pages import PageRequest
from controller.kube.streaming import StreamingSupport
from tests.kube.scripted_server import status_body

THING = Resource("example.org", "v1", "things", "Thing")


class ThingSpec(msgspec.Struct, frozen=True):
    size: int = 0


class Thing(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ThingSpec | None = None


def thing(
    name: str, version: int | str, *, uid: str | None = None, namespace: str = "ns", **more: Any
) -> dict[str, Any]:
    """A Thing as the server writes it."""
    labels = more.pop("labels", None)
    return {
        "kind": "Thing",
        "apiVersion": "example.org/v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            **({"labels": labels} if labels else {}),
        },
        "spec": more or {"size": 1},
    }


def event(kind: str, obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode()


def bookmark(version: int | str, annotation: str | None = None) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if annotation is not None:
        meta["annotations"] = {"k8s.io/initial-events-end": annotation}
    return event("BOOKMARK", {"kind": "Thing", "apiVersion": "example.org/v1", "metadata": meta, "spec": None})


def error(code: int, reason: str, message: str = "no", **details: Any) -> bytes:
    return event("ERROR", status_body(code, reason, message, **details))


def thing_list(version: int | str, *items: dict[str, Any], continue_: str = "", kind: str = "ThingList") -> bytes:
    meta = {"resourceVersion": str(version), **({"continue": continue_} if continue_ else {})}
    return json.dumps({"kind": kind, "apiVersion": "example.org/v1", "metadata": meta, "items": list(items)}).encode()


@dataclass
class Asked:
    """One request: its verb, its query, and when it was made."""

    verb: str
    path: str
    query: dict[str, str]
    at: float


@dataclass
class ScriptedClient:
    """Answers lists from `lists`, watches from `watches`; an exception in them is raised.

    A watch is a sequence of lines, numbers (seconds of silence) and at most one exception. When the script has ended, a
    request waits for ever, so that a test can look at a reflector that has settled down.
    """

    lists: deque[bytes | ApiError] = field(default_factory=deque)
    watches: deque[list[bytes | float | ApiError] | ApiError] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    streaming: StreamingSupport = field(default_factory=lambda: StreamingSupport(refused=True))
    opened: int = 0
    closed: int = 0

    @asynccontextmanager
    async def open_list(
        self, path: str, request: PageRequest, selectors: Iterable[tuple[str, str]]
    ) -> AsyncIterator[ScriptedBody]:
        self._note("list", path, [*request.query(), *selectors])
        if not self.lists:
            await asyncio.Event().wait()
        step = self.lists.popleft()
        if isinstance(step, ApiError):
            raise step
        yield ScriptedBody(step)

    @asynccontextmanager
    async def watch(
        self, path: str, query: Iterable[tuple[str, str]], *, total_seconds: float, inactivity_seconds: float
    ) -> AsyncIterator[ScriptedStream]:
        self._note("watch", path, query)
        if not self.watches:
            await asyncio.Event().wait()
        step = self.watches.popleft()
        if isinstance(step, ApiError):
            raise step
        self.opened += 1
        try:
            yield ScriptedStream(deque(step), total_seconds, inactivity_seconds)
        finally:
            self.closed += 1

    def _note(self, verb: str, path: str, query: Iterable[tuple[str, str]]) -> None:
        self.asked.append(Asked(verb, path, dict(query), asyncio.get_running_loop().time()))

    @property
    def versions(self) -> list[tuple[str, str]]:
        """(verb, resourceVersion) of every request, "-" for none."""
        return [(asked.verb, asked.query.get("resourceVersion", "-")) for asked in self.asked]


@dataclass
class ScriptedBody:
    """A body in chunks of odd sizes."""

    body: bytes
    chunk_bytes: int = 97

    async def next_chunk(self) -> bytes:
        chunk, self.body = self.body[: self.chunk_bytes], self.body[self.chunk_bytes :]
        return chunk


@dataclass
class ScriptedStream:
    """The lines of one watch, all that are ready in one read; with the deadlines of a real one."""

    steps: deque[bytes | float | ApiError]
    total_seconds: float
    inactivity_seconds: float

    async def next_lines(self) -> list[bytes]:
        lines: list[bytes] = []
        while self.steps:
            step = self.steps[0]
            if isinstance(step, bytes):
                lines.append(step)
                self.steps.popleft()
                continue
            if lines:
                break
            self.steps.popleft()
            if isinstance(step, ApiError):
                raise step
            limit = min(self.total_seconds, self.inactivity_seconds)
            await asyncio.sleep(min(step, limit))
            if step >= self.total_seconds <= self.inactivity_seconds:
                return []
            if step >= self.inactivity_seconds:
                raise TimedOut("silent", reason="Silent")
        return lines
