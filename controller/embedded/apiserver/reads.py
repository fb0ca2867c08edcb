"""The reading verbs over HTTP: get, list and watch.

A read of a resourceVersion that is still to come waits a while for it, then fails with 504. A watch lasts until its
time is up, its client goes away, it is told to end (`end_watches`), or its client does not keep up.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.answers import answer_stored, list_item, respond, table_format
from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.faults import Action
from controller.embedded.apiserver.listing import Page, list_head, list_page, required_resource_version, watch_start
from controller.embedded.apiserver.negotiation import Form, negotiate
from controller.embedded.apiserver.requests import ListOptions, parse_resource_version
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.selectors import parse_selector
from controller.embedded.apiserver.storage import Store
from controller.embedded.apiserver.streams import stream_lines
from controller.embedded.apiserver.table import PartialLines, partial_metadata
from controller.embedded.apiserver.targets import Target
from controller.embedded.apiserver.watch import LAST_BOOKMARK_SECONDS, LineFormat, ObjectLines, Watcher
from controller.foundation import Clock

# Range in which the real server draws the length of a watch that names none.
_DEFAULT_WATCH_SECONDS = (1800.0, 3600.0)
_META_VERSION = "meta.k8s.io/v1"


@dataclass(slots=True)
class Settings:
    """Timings of the server, injectable so that tests need not wait."""

    bookmark_interval_seconds: float = 60.0
    future_wait_seconds: float = 3.0  # how long a read waits for a resourceVersion that is still to come


@dataclass(slots=True)
class Reads:
    """Answers them, and knows every watch that is open."""

    store: Store
    clock: Clock
    rng: random.Random
    settings: Settings
    _watchers: set[Watcher] = field(default_factory=set)

    async def get(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        """One object. Raises ApiError 404."""
        await self._reach(parse_resource_version(query.get("resourceVersion", "")) or 0)
        stored = self.store.of(target.served).get(target.key)
        if stored is None:
            raise target.not_found()
        return answer_stored(request, target.served, stored, self.clock)

    async def _reach(self, resource_version: int) -> None:
        """Wait a while for a resourceVersion that is still to come. Raises ApiError 504."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.future_wait_seconds
        while self.store.resource_version < resource_version:
            remaining = deadline - loop.time()
            if remaining <= 0:
                raise errors.too_large_resource_version(resource_version, self.store.resource_version)
            await asyncio.sleep(min(remaining, 0.05))

    async def list(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        """A page of the objects of a namespace, or of all. Raises ApiError 410 where its version is no longer kept."""
        served = target.served
        options = ListOptions.parse(query, watching=False)
        selector = parse_selector(options.label_selector, options.field_selector, served.fields)
        accepted = negotiate(request.headers.get("Accept", ""))
        await self._reach(required_resource_version(options))
        page = list_page(self.store, served, target.namespace, options, selector)
        if accepted.form is Form.TABLE:
            return respond(request, self._table(request, served, page), accepted)
        if accepted.form is Form.PARTIAL:
            rendered = [orjson.dumps(partial_metadata(stored.object)) for stored in page.items]
            head = list_head(_META_VERSION, page, "PartialObjectMetadataList")
        else:
            rendered = [list_item(stored, served) for stored in page.items]
            head = list_head(served.api_version, page, served.type.list_kind, custom=served.type.custom)
        return respond(request, b"".join((head, b",".join(rendered), b"]}")), accepted)

    def _table(self, request: web.BaseRequest, served: ServedVersion, page: Page) -> bytes:
        table = table_format(request, served, self.clock)
        metadata: Object = {"resourceVersion": str(page.resource_version)}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        return table.table([served.view(stored.object) for stored in page.items], metadata)

    async def watch(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str], actions: Sequence[Action]
    ) -> web.StreamResponse:
        """Stream the events of a namespace, or of all, to the end of the watch."""
        served = target.served
        options = ListOptions.parse(query, watching=True)
        selector = parse_selector(options.label_selector, options.field_selector, served.fields)
        accepted = negotiate(request.headers.get("Accept", ""))
        begin = watch_start(options)
        if begin.initial:
            await self._reach(parse_resource_version(options.resource_version) or 0)
        collection = self.store.of(served)
        lines: LineFormat = ObjectLines(served)
        if accepted.form is Form.TABLE:
            lines = table_format(request, served, self.clock)
        elif accepted.form is Form.PARTIAL:
            lines = PartialLines(served)
        watcher = Watcher(
            collection, served, lines, namespace=target.namespace, selector=selector, after=begin.after or 0
        )
        try:
            replay = collection.since(begin.after) if begin.after is not None else []
        except errors.ApiError as error:
            watcher.fail(error)
        else:
            mark = self.store.resource_version if begin.mark else None
            watcher.start(collection.scan(target.namespace) if begin.initial else (), replay, mark)
            self._set_timers(watcher, options, self.store.resource_version if begin.after is None else begin.after)
        self._watchers.add(watcher)
        try:
            return await stream_lines(request, watcher, actions)
        finally:
            watcher.close()
            self._watchers.discard(watcher)

    def _set_timers(self, watcher: Watcher, options: ListOptions, began: int) -> None:
        """The end of a watch and its bookmarks: only those that are newer than what it began with."""
        seconds = float(options.timeout_seconds or self.rng.uniform(*_DEFAULT_WATCH_SECONDS))
        watcher.schedule("timeout", seconds, watcher.close)
        if not options.allow_bookmarks:
            return

        def bookmark() -> None:
            if self.store.resource_version > began:
                watcher.bookmark(self.store.resource_version)

        def tick() -> None:
            bookmark()
            watcher.schedule("bookmark", self.settings.bookmark_interval_seconds, tick)

        watcher.schedule("bookmark", self.settings.bookmark_interval_seconds, tick)
        if seconds > LAST_BOOKMARK_SECONDS:
            watcher.schedule("last bookmark", seconds - LAST_BOOKMARK_SECONDS, bookmark)

    def end_watches(self, key: tuple[str, str] | None = None) -> None:
        """End every watch that is open, or those of the type with this group and plural; what is queued is still
        sent."""
        for watcher in tuple(self._watchers):
            if key is None or watcher.served.type.resource == key:
                watcher.close()
