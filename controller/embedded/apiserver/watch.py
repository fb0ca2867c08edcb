"""Watches: a queue of ready-made lines per watcher, filled inside the commit that it reports.

A watcher never awaits the store: `Collection` calls `offer` synchronously, which appends the bytes of the event's line
(shared by all watchers of the same form) and wakes the writer. Bookmarks and the end of the watch are timers of the
event loop. A watcher that lets more than `_MAX_PENDING_BYTES` pile up is closed; its client comes back with the last
resourceVersion it saw. Cancelling `next_lines` loses nothing that was not yet handed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol

import orjson

from controller.embedded.apiserver.errors import ApiError, Object
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.selectors import NO_SELECTOR, Selector
from controller.embedded.apiserver.storage import Change, Collection, Event, Stored, encode

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# The real server sends a last bookmark this long before a watch times out, so that the client resumes close by.
LAST_BOOKMARK_SECONDS = 2.0
# About a thousand lines of a large object: beyond it the client does not keep up and must come again.
_MAX_PENDING_BYTES = 32 * 1024 * 1024
# Lines of the backlog made in one go: a few milliseconds of the event loop at most.
_BACKLOG_BATCH = 200


class LineFormat(Protocol):
    """How events become lines: full objects, metadata only, or table rows."""

    def line(self, change: Change, event: Event) -> bytes:
        """The line of an event as `change`, which is DELETED also for an object that left the selector."""
        ...

    def added(self, stored: Stored) -> bytes:
        """The line of an object that was there when the watch began."""
        ...

    def bookmark(self, resource_version: int, *, initial_end: bool = False) -> bytes:
        """A BOOKMARK line."""
        ...


class ObjectLines:
    """Full objects as `served` shows them; the default format."""

    def __init__(self, served: ServedVersion) -> None:
        self._served = served

    def line(self, change: Change, event: Event) -> bytes:
        key = (self._served.api_version, change)
        found = event.encoded.get(key)
        if found is None:
            left = change is Change.DELETED and event.change is not Change.DELETED
            body = orjson.dumps(self._served.view(departed(event))) if left else encode(event.current, self._served)
            found = event.encoded[key] = frame(change.value, body)
        return found

    def added(self, stored: Stored) -> bytes:
        return frame("ADDED", encode(stored, self._served))

    def bookmark(self, resource_version: int, *, initial_end: bool = False) -> bytes:
        return frame("BOOKMARK", orjson.dumps(bookmark_object(self._served, resource_version, initial_end=initial_end)))


def departed(event: Event) -> Object:
    """What a selector's watcher sees of an object that left it: the OLD object under the new resourceVersion."""
    old = (event.previous or event.current).copy()
    old["metadata"]["resourceVersion"] = str(event.resource_version)
    return old


def frame(kind: str, body: bytes) -> bytes:
    """One line of a watch stream."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def bookmark_object(served: ServedVersion, resource_version: int, *, initial_end: bool) -> Object:
    """The object of a bookmark: an empty object of the kind. The real server encodes the zero value of a built-in
    type, so a Pod's shows `"containers": null`; clients have to bear it."""
    metadata: Object = {"resourceVersion": str(resource_version)}
    if initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    bookmark: Object = {"kind": served.type.kind, "apiVersion": served.api_version, "metadata": metadata}
    if not served.type.custom and served.type.traits.status:
        bookmark |= {"spec": {"containers": None} if served.type.plural == "pods" else {}, "status": {}}
    return bookmark


class Watcher:
    """One watch: what it selects, and the lines that wait for its writer."""

    def __init__(
        self,
        collection: Collection,
        served: ServedVersion,
        lines: LineFormat,
        *,
        namespace: str = "",
        selector: Selector = NO_SELECTOR,
        after: int = 0,
    ) -> None:
        self.served = served
        self._collection = collection
        self._namespace = namespace
        self._selector = selector
        self._lines = lines
        self._after = after  # a resourceVersion of the future: silence until it is passed
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._backlog: Iterator[bytes] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self, initial: Iterable[Stored], replay: Iterable[Event], mark: int | None = None) -> None:
        """Begin with the initial objects and the events to catch up with, then listen. Never awaits, so nothing falls
        between. `mark` is the resourceVersion of the bookmark that ends the initial events, where one is wanted.

        The backlog is made into lines only as the writer takes it: a snapshot costs references, not copies.
        """
        self._backlog = self._lines_of(initial, replay, mark)
        self._collection.listeners[self] = self.offer

    def _lines_of(self, initial: Iterable[Stored], replay: Iterable[Event], mark: int | None) -> Iterator[bytes]:
        for stored in initial:
            if self._selector.is_empty or self._selects(stored):
                yield self._lines.added(stored)
        for event in replay:
            line = self._line_of(event)
            if line is not None:
                yield line
        if mark is not None:
            yield self._lines.bookmark(mark, initial_end=True)

    def offer(self, event: Event) -> None:
        """Take one event, if it is selected. Called inside the commit."""
        line = self._line_of(event)
        if line is not None:
            self._push(line)

    def _line_of(self, event: Event) -> bytes | None:
        current = event.current
        if event.resource_version <= self._after or (self._namespace and current.namespace != self._namespace):
            return None
        if self._selector.is_empty:
            return self._lines.line(event.change, event)
        before = event.previous is not None and self._selects(event.previous)
        after = event.change is not Change.DELETED and self._selects(current)
        if after:
            return self._lines.line(Change.MODIFIED if before else Change.ADDED, event)
        return self._lines.line(Change.DELETED, event) if before else None

    def bookmark(self, resource_version: int) -> None:
        """Queue a bookmark."""
        self._push(self._lines.bookmark(resource_version))

    def fail(self, error: ApiError) -> None:
        """Queue an ERROR event and close: how a stream that already has status 200 reports a failure."""
        self._push(frame("ERROR", orjson.dumps(error.status())))
        self.close()

    def schedule(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Run `action` once after `seconds`; the watch's end cancels it."""
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, action)

    def close(self) -> None:
        """Stop listening. What is queued is still handed out, then `next_lines` returns None."""
        self._closed = True
        self._collection.listeners.pop(self, None)
        for timer in self._timers.values():
            timer.cancel()
        self._wake()

    async def next_lines(self) -> list[bytes] | None:
        """The lines queued since the last call, at least one; None once the watch is closed and drained."""
        if self._backlog is not None:
            lines = list(islice(self._backlog, _BACKLOG_BATCH))
            if lines:
                return lines
            self._backlog = None
        while not self._pending:
            if self._closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        lines, self._pending, self._pending_bytes = self._pending, [], 0
        return lines

    def _selects(self, stored: Stored) -> bool:
        obj = stored.object
        return self._selector.matches(self.served.from_storage(obj) if self.served.from_storage else obj)

    def _push(self, line: bytes) -> None:
        self._pending.append(line)
        self._pending_bytes += len(line)
        if self._pending_bytes > _MAX_PENDING_BYTES and not self._closed:
            self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
