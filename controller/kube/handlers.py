"""Who is told about changes in a store, and in which words.

The contract of a handler

1. It is called after the store and its indices show the change, or something newer.
2. For one object the calls follow the order of its states; states in between may be missing. Between objects there is
   no order.
3. `on_add(obj, initial)`: `initial` is true for what was there when the handler started to listen.
4. `on_delete` gets a `Tombstone`: `final` false means that the deletion was not seen, only that the object is missing
   (or was replaced by one of the same name and another uid, which then follows as an add), so `last_known` may be
   stale.
5. Handlers are synchronous and quick (put a key into a queue): they run in the task that reads the watch. One that
   takes longer than 100 ms is logged.
6. An exception in a handler is logged and counted; the other handlers and the cache are not affected.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog

from controller.foundation import KubeObject
from controller.kube.observers import ReflectorObserver

T = TypeVar("T", bound=KubeObject)

SLOW_SECONDS = 0.1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Tombstone(Generic[T]):
    """What is left of a deleted object."""

    key: str
    last_known: T
    final: bool


class Handler(Protocol[T]):
    """Told about every change, see the module's contract."""

    def on_add(self, obj: T, initial: bool) -> None:
        """The object is there."""

    def on_update(self, old: T, new: T) -> None:
        """The object changed; both have the same uid."""

    def on_delete(self, tombstone: Tombstone[T]) -> None:
        """The object is gone."""


@dataclass(frozen=True, slots=True)
class HandlerFunctions(Generic[T]):
    """A handler made of functions; what is left out is ignored."""

    added: Callable[[T, bool], None] | None = None
    updated: Callable[[T, T], None] | None = None
    deleted: Callable[[Tombstone[T]], None] | None = None

    def on_add(self, obj: T, initial: bool) -> None:
        if self.added is not None:
            self.added(obj, initial)

    def on_update(self, old: T, new: T) -> None:
        if self.updated is not None:
            self.updated(old, new)

    def on_delete(self, tombstone: Tombstone[T]) -> None:
        if self.deleted is not None:
            self.deleted(tombstone)


@dataclass(frozen=True, slots=True)
class FilteringHandler(Generic[T]):
    """Passes on what fulfils a condition: coming into it is an add, leaving it a delete of the last state inside."""

    condition: Callable[[T], bool]
    inner: Handler[T]

    def on_add(self, obj: T, initial: bool) -> None:
        if self.condition(obj):
            self.inner.on_add(obj, initial)

    def on_update(self, old: T, new: T) -> None:
        was, is_now = self.condition(old), self.condition(new)
        if was and is_now:
            self.inner.on_update(old, new)
        elif is_now:
            self.inner.on_add(new, False)
        elif was:
            self.inner.on_delete(Tombstone(old.metadata.key, old, final=True))

    def on_delete(self, tombstone: Tombstone[T]) -> None:
        if self.condition(tombstone.last_known):
            self.inner.on_delete(tombstone)


class Registration(Generic[T]):
    """One handler's place at an informer: its backlog of initial objects, and whether it has seen them all."""

    def __init__(self, handler: Handler[T], resource: str, observer: ReflectorObserver) -> None:
        for method in (handler.on_add, handler.on_update, handler.on_delete):
            if inspect.iscoroutinefunction(method):
                raise TypeError(f"{method.__qualname__} is a coroutine function; handlers are synchronous")
        # Bound once: these are called for every event.
        self._on_add, self._on_update, self._on_delete = handler.on_add, handler.on_update, handler.on_delete
        self._name = type(handler).__qualname__
        self._resource = resource
        self._observer = observer
        self._backlog: dict[str, T] = {}  # in the store when the handler came, not told yet
        self._store_complete = False
        self._synced = asyncio.Event()
        self._active = True

    @property
    def has_synced(self) -> bool:
        """Whether the handler has *finished* with every object of the initial list. Gate workers on this."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once `has_synced`. Cancel-safe."""
        await self._synced.wait()

    @property
    def active(self) -> bool:
        """False after the handler was removed."""
        return self._active

    # ---- called by the informer ----------------------------------------------------------------------------------

    def begin(self, backlog: dict[str, T], *, store_complete: bool) -> None:
        """These objects are in the store already; `store_complete`: the initial list has been received."""
        self._backlog = backlog
        self._store_complete = store_complete
        self._check_synced()

    def store_completed(self) -> None:
        """The initial list is in the store and has been passed on."""
        self._store_complete = True
        self._check_synced()

    def stop(self) -> None:
        """No call begins after this."""
        self._active = False
        self._backlog.clear()

    def deliver_one(self) -> bool:
        """Tell one object of the backlog. False when there is none left."""
        if not self._backlog:
            return False
        key = next(iter(self._backlog))
        self._catch_up(key)
        return True

    def add(self, obj: T, initial: bool) -> None:
        """A new object."""
        if self._active:
            started = time.perf_counter()
            try:
                self._on_add(obj, initial)
            except Exception:  # noqa: BLE001 - whatever a handler does wrong, the cache and the other handlers go on
                self._failed()
            if time.perf_counter() - started > SLOW_SECONDS:
                self._slow(started)

    def update(self, old: T, new: T) -> None:
        """A new state."""
        if self._active:
            if self._backlog:
                self._catch_up(new.metadata.key)
            started = time.perf_counter()
            try:
                self._on_update(old, new)
            except Exception:  # noqa: BLE001 - as above
                self._failed()
            if time.perf_counter() - started > SLOW_SECONDS:
                self._slow(started)

    def delete(self, tombstone: Tombstone[T]) -> None:
        """A deletion."""
        if self._active:
            if self._backlog:
                self._catch_up(tombstone.key)
            started = time.perf_counter()
            try:
                self._on_delete(tombstone)
            except Exception:  # noqa: BLE001 - as above
                self._failed()
            if time.perf_counter() - started > SLOW_SECONDS:
                self._slow(started)

    def _catch_up(self, key: str) -> None:
        """A change of an object that the handler has not heard of yet: tell it first, or order would be lost."""
        obj = self._backlog.pop(key, None)
        if obj is not None:
            self.add(obj, True)
            self._check_synced()

    def _check_synced(self) -> None:
        if self._store_complete and not self._backlog:
            self._synced.set()

    def _failed(self) -> None:
        self._observer.handler_failed(self._resource)
        _log.exception("event handler failed", resource=self._resource, handler=self._name)

    def _slow(self, started: float) -> None:
        seconds = round(time.perf_counter() - started, 3)
        _log.warning(
            "slow event handler holds up the watch", resource=self._resource, handler=self._name, seconds=seconds
        )
