"""The list+watch loop of one collection: the thin shell around `listwatch`.

Promised

1. `run` ends by cancellation only. An exception that is not an `ApiError` escapes, and is meant to end the process: a
   cache that silently stopped is worse than a restart.
2. The sink sees every state that the server sent, in order, except those that fell between two lists; a list replaces
   the whole scope of the reflector, and what is missing from it is deleted.
3. Three deadlines stand against a watch that only looks alive: the server's own (drawn from 300–600 s), ours a little
   above it, and a limit on silence (bookmarks come every minute).
4. No failure is retried hot: 0.8 s doubling to 30 s with jitter, and never sooner than the server's Retry-After.
5. An object that does not fit its projection is skipped, logged and counted; a cached older state of it is kept.

Cancellation: safe at any await; the sink holds a consistent state, possibly in the middle of a list.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, NoReturn, Protocol, TypeVar

import structlog

from controller.foundation import KubeObject, Resource
from controller.kube.backoff import REFLECTOR_BACKOFF, Backoff, BackoffPolicy
from controller.kube.endmark import MarkWait
from controller.kube.envelopes import Added, Bookmark, Deleted, Event, EventDecoder, Failed, Modified, Skipped
from controller.kube.errors import ApiError, Expired, Forbidden, NotFound, Unauthorized
from controller.kube.listdecoder import Decoded, ListDecoder
from controller.kube.listwatch import (
    SHORT_WATCH_SECONDS,
    Delay,
    Listing,
    ListWatch,
    Step,
    Streaming,
    Verdict,
)
from controller.kube.observers import SILENT, ReflectorObserver, RestartReason
from controller.kube.pacing import TimeBudget
from controller.kube.pages import ListMeta, PageRequest, PageWalk
from controller.kube.streaming import StreamingSupport

T = TypeVar("T", bound=KubeObject)
T_contra = TypeVar("T_contra", bound=KubeObject, contravariant=True)

# The server randomises its own minimum of 30 minutes; asking for less spreads reconnects over its replicas.
MIN_WATCH_SECONDS = 300.0
# Above the server's limit: it only strikes when the server did not close in time.
WATCH_GRACE_SECONDS = 30.0
# A server sends bookmarks every minute, but only when there is something newer than where the watch began: an idle
# watch of a real kube-apiserver was silent for two minutes.
INACTIVITY_SECONDS = 180.0

_CHANGES = frozenset((Added, Modified, Deleted))

_log = structlog.get_logger(__name__)


class LineStream(Protocol):
    """An open watch: `WatchStream`, or a script in a test."""

    async def next_lines(self) -> list[bytes]:
        """At least one line, or none at the end."""
        ...


class ChunkStream(Protocol):
    """An open answer."""

    async def next_chunk(self) -> bytes:
        """The next bytes, none at the end."""
        ...


class ListWatchClient(Protocol):
    """The two requests that a reflector makes; `KubeClient` has them."""

    @property
    def streaming(self) -> StreamingSupport:
        """What is known about the server's streamed lists."""
        ...

    def open_list(
        self, path: str, request: PageRequest, selectors: Iterable[tuple[str, str]]
    ) -> AbstractAsyncContextManager[ChunkStream]:
        """One page of a list as it comes. Never retried by the client itself."""
        ...

    def watch(
        self, path: str, query: Iterable[tuple[str, str]], *, total_seconds: float, inactivity_seconds: float
    ) -> AbstractAsyncContextManager[LineStream]:
        """An open watch."""
        ...


class Replacement(Protocol[T_contra]):
    """A list that is being received; it is thrown away by dropping it."""

    def put(self, obj: T_contra) -> None:
        """The list has this object."""

    def remove(self, obj: T_contra) -> None:
        """The list does not have it after all: it was deleted while being streamed."""

    def keep(self, key: str) -> None:
        """The list has this object, but in a state that cannot be read: what is stored stays."""

    async def commit(self, version: str) -> None:
        """The list is complete: make the store equal to it, deletions first, yielding on the way."""


class Sink(Protocol[T]):
    """Where the objects go: an informer's store and its handlers."""

    def begin_replace(self) -> Replacement[T]:
        """A new list begins."""
        ...

    def apply(self, change: Added[T] | Modified[T] | Deleted[T]) -> None:
        """One event of the watch."""

    def bookmark(self, version: str) -> None:
        """Nothing older than this version is missing."""

    def alive(self) -> None:
        """The server has just sent something that could be used."""


@dataclass(frozen=True, slots=True)
class Target:
    """One collection: what to list and watch, and how it is called in logs and metrics."""

    resource: Resource
    path: str
    selectors: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """`pods`, `leases.coordination.k8s.io`: bounded, for metrics."""
        return f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural


class Reflector(Generic[T]):
    """Keeps a sink equal to a collection on the server."""

    def __init__(
        self,
        client: ListWatchClient,
        target: Target,
        type_: type[T],
        sink: Sink[T],
        *,
        streaming: StreamingSupport | None = None,
        observer: ReflectorObserver = SILENT,
        rng: random.Random | None = None,
        backoff: BackoffPolicy = REFLECTOR_BACKOFF,
        page_size: int = 0,
        min_watch_seconds: float = MIN_WATCH_SECONDS,
    ) -> None:
        self._client = client
        self._target = target
        self._sink = sink
        self._observer = observer
        self._rng = rng or random.Random()
        self._machine = ListWatch(streaming or client.streaming, page_size)
        self._backoff = Backoff(backoff, self._rng)
        self._events = EventDecoder(target.resource, type_)
        self._lists = ListDecoder(target.resource, type_)
        # Values below five minutes would turn every reflector into a poller; they are raised.
        self._min_watch_seconds = max(min_watch_seconds, MIN_WATCH_SECONDS)
        self._budget = TimeBudget()
        self._delivered = 0  # events of the current watch that could be used, bookmarks included

    @property
    def last_version(self) -> str:
        """The resourceVersion up to which the sink is complete."""
        return self._machine.last_version

    async def run(self) -> NoReturn:
        """List and watch for ever."""
        now = asyncio.get_running_loop().time
        while True:
            step = self._machine.next_step()
            started = now()
            self._delivered = 0
            error: ApiError | None = None
            try:
                if isinstance(step, Listing):
                    await self._list(step)
                    continue
                await self._watch(step)
                verdict = self._machine.ended(now() - started, self._delivered)
            except ApiError as failure:
                error = failure
                verdict = self._machine.failed(step, failure, now() - started)
            await self._settle(step, verdict, error, now() - started)

    # ---- requests ------------------------------------------------------------------------------------------------

    async def _list(self, step: Listing) -> None:
        now = asyncio.get_running_loop().time
        started = now()
        replacement = self._sink.begin_replace()
        walk = PageWalk(step.request)
        version, pages, count = "", 0, 0
        while (request := walk.request) is not None:
            try:
                meta, objects = await self._list_page(request, replacement)
            except Expired as failure:
                # The continue token died with a compaction: everything at once, at the version first asked for.
                walk.expired(failure)
                replacement, version, count = self._sink.begin_replace(), "", 0
                continue
            version = version or meta.resource_version
            pages += 1
            count += objects
            walk.arrived(meta)
        await replacement.commit(version)
        self._machine.listed(version, step.request, in_pages=pages > 1)
        self._observer.listed(self._target.label, now() - started, count)

    async def _list_page(self, request: PageRequest, replacement: Replacement[T]) -> tuple[ListMeta, int]:
        """Receive one page into the replacement: its metadata, and the number of its objects."""
        parser = self._lists.parser()
        count = 0
        async with self._client.open_list(self._target.path, request, self._target.selectors) as stream:
            while chunk := await stream.next_chunk():
                count += self._put_all(parser.feed(chunk), replacement)
                if self._budget.spent():
                    await asyncio.sleep(0)
        end = parser.finish()
        count += self._put_all(end, replacement)
        self._sink.alive()
        await asyncio.sleep(0)
        return end.meta or ListMeta(), count

    def _put_all(self, decoded: Decoded[T], replacement: Replacement[T]) -> int:
        if decoded.objects:
            self._sink.alive()  # not for bytes alone: they may be a page of a proxy, or come one by one for ever
        for obj in decoded.objects:
            replacement.put(obj)
        for skipped in decoded.skipped:
            self._skip(skipped)
            replacement.keep(skipped.key)
        return len(decoded.objects)

    async def _watch(self, step: Step) -> None:
        """Read one watch to its end; with a streamed list at its beginning."""
        total = self._min_watch_seconds * (1.0 + self._rng.random())
        streaming = isinstance(step, Streaming)
        query = watch_query(step, int(total), self._target.selectors)
        now = asyncio.get_running_loop().time
        started = now()
        async with self._client.watch(
            self._target.path,
            query,
            total_seconds=total + WATCH_GRACE_SECONDS,
            inactivity_seconds=INACTIVITY_SECONDS,
        ) as stream:
            self._observer.watch_started(self._target.label)
            self._sink.alive()
            if streaming:
                rest = await self._receive_list(stream)
                if rest is None:
                    return
                self._observer.listed(self._target.label, now() - started, self._delivered)
                await self._apply_lines(rest)
            while lines := await stream.next_lines():
                await self._apply_lines(lines)

    async def _receive_list(self, stream: LineStream) -> list[bytes] | None:
        """Gather the initial events up to their mark and commit them. The lines that followed the mark in the same read
        are returned; None when the stream ended before the mark."""
        replacement = self._sink.begin_replace()
        with MarkWait(stream, self._target.label) as initial:
            while lines := await initial.next_lines():
                for number, line in enumerate(lines):
                    if mark := self._gather(line, replacement):
                        await replacement.commit(mark)
                        self._machine.streamed(mark)
                        return lines[number + 1 :]
                    if self._budget.spent():
                        await asyncio.sleep(0)
                self._sink.alive()
        return None

    def _gather(self, line: bytes, replacement: Replacement[T]) -> str | None:
        """One initial event into the replacement; the version of the mark when it is that."""
        event = self._events.decode(line)
        self._delivered += 1
        match event:
            case Added(object=obj) | Modified(object=obj):
                replacement.put(obj)
            case Deleted(object=obj):
                replacement.remove(obj)
            case Bookmark() as bookmark if bookmark.ends_initial_events:
                return bookmark.object.metadata.resource_version
            case Failed(error=error):
                raise error
            case Skipped() as skipped:
                self._skip(skipped)
                replacement.keep(skipped.key)
        return None

    # ---- events ----------------------------------------------------------------------------------------------------

    async def _apply_lines(self, lines: list[bytes]) -> None:
        """The hot path: everything that an event costs is in this loop, `EventDecoder.decode` and the sink."""
        decode, apply, spent = self._events.decode, self._sink.apply, self._budget.spent
        version = ""
        try:
            for line in lines:
                event = decode(line)
                if type(event) in _CHANGES:
                    self._delivered += 1
                    apply(event)  # type: ignore[arg-type]
                    version = event.object.metadata.resource_version or version  # type: ignore[union-attr]
                else:
                    version = self._apply_other(event) or version
                if spent():
                    await asyncio.sleep(0)
        finally:
            if version:
                self._machine.observed(version)
                self._sink.alive()

    def _apply_other(self, event: Event[T]) -> str:
        """Whatever is not a change of an object; the version that it brings, if any."""
        match event:
            case Bookmark():
                self._delivered += 1
                version = event.object.metadata.resource_version
                self._sink.bookmark(version)
                return version
            case Failed(error=error):
                raise error
            case Skipped():
                self._skip(event)
        return ""

    def _skip(self, skipped: Skipped) -> None:
        self._observer.skipped(self._target.label)
        _log.warning("object skipped", resource=self._target.label, key=skipped.key, reason=skipped.reason)

    # ---- between requests --------------------------------------------------------------------------------------------

    async def _settle(self, step: Step, verdict: Verdict, error: ApiError | None, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        label = self._target.label
        if not isinstance(step, Listing):
            self._observer.watch_ended(label, verdict.reason, seconds, self._delivered)
        if isinstance(error, Expired):
            self._observer.relist_needed(label, verdict.reason)
        delay = 0.0
        if verdict.delay is Delay.PACE:
            delay = max(0.0, SHORT_WATCH_SECONDS - seconds)
        elif verdict.delay is Delay.BACKOFF:
            delay = self._backoff.next_delay(now)
            if error is not None and error.retry_after_seconds is not None:
                delay = max(delay, error.retry_after_seconds)
        if verdict.reason is RestartReason.UNSUPPORTED:
            _log.info("the server does not stream lists; they are fetched in pages", reason=str(error))
        if verdict.error:
            self._observer.failed(label, verdict.reason, self._backoff.failures)
            self._report(step, error, delay)
        await asyncio.sleep(delay)

    def _report(self, step: Step, error: ApiError | None, delay: float) -> None:
        """Missing permission or a missing CRD needs a person: say it loudly each time. The rest is weather."""
        log = _log.error if isinstance(error, Forbidden | NotFound | Unauthorized) else _log.warning
        log(
            "list failed" if isinstance(step, Listing) else "watch interrupted",
            resource=self._target.label,
            path=self._target.path,
            reason=str(error) if error else "it ended at once, without an event",
            retry_in_seconds=round(delay, 1),
            failures=self._backoff.failures,
        )


def watch_query(step: Step, timeout_seconds: int, selectors: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parameters of a watch, except `watch=true`."""
    query = [("allowWatchBookmarks", "true"), ("timeoutSeconds", str(timeout_seconds))]
    if isinstance(step, Streaming):
        query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
    if not isinstance(step, Listing) and step.resource_version:
        query.append(("resourceVersion", step.resource_version))
    query += selectors
    return query
