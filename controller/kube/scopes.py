"""What one reflector feeds: a whole store, or the objects of one namespace in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from controller.foundation import KubeObject
from controller.kube.cache import Cache
from controller.kube.envelopes import Added, Deleted, Modified
from controller.kube.pacing import TimeBudget

T = TypeVar("T", bound=KubeObject)


class Scope(Generic[T]):
    """The sink of one reflector.

    version: the resourceVersion up to which this part of the store is complete.
    heard_at: loop time of the last answer that could be used.
    """

    def __init__(self, cache: Cache[T], namespace: str | None, on_synced: Callable[[], None]) -> None:
        self.namespace = namespace
        self.version = ""
        self.synced = False
        self.heard_at = float("-inf")
        self._cache = cache
        self._transform = cache.transform
        self._on_synced = on_synced

    def covers(self, namespace: str | None) -> bool:
        """Whether objects of this namespace come from here; None asks for any."""
        return namespace is None or self.namespace is None or self.namespace == namespace

    def begin_replace(self) -> ScopeReplacement[T]:
        """A new list begins."""
        return ScopeReplacement(self, self._cache)

    def apply(self, change: Added[T] | Modified[T] | Deleted[T]) -> None:
        """One event of the watch."""
        obj = change.object
        if self._transform is not None:
            obj = self._transform(obj)
        meta = obj.metadata
        if type(change) is Deleted:
            self._cache.gone(meta.key, obj, True)
        else:
            self._cache.changed(meta.key, obj, False)
        if meta.resource_version:
            self.version = meta.resource_version

    def bookmark(self, version: str) -> None:
        """Nothing older is missing."""
        self.version = version or self.version

    def alive(self) -> None:
        """The server has just sent something that could be used."""
        self.heard_at = asyncio.get_running_loop().time()

    def complete(self, version: str) -> None:
        """A list is in the store."""
        self.version = version or self.version
        first = not self.synced
        self.synced = True
        if first:
            self._on_synced()


class ScopeReplacement(Generic[T]):
    """A list on its way in. Objects that have not changed are taken from the store, so that a relist of a large
    collection needs little memory."""

    def __init__(self, scope: Scope[T], cache: Cache[T]) -> None:
        self._scope = scope
        self._cache = cache
        self._listed: dict[str, T] = {}
        self._kept: set[str] = set()

    def put(self, obj: T) -> None:
        """The list has this object."""
        if self._cache.transform is not None:
            obj = self._cache.transform(obj)
        key = obj.metadata.key
        self._listed[key] = self._cache.same_as_stored(key, obj)

    def remove(self, obj: T) -> None:
        """Deleted while the list was streamed."""
        self._listed.pop(obj.metadata.key, None)

    def keep(self, key: str) -> None:
        """The list has it, unreadable: what is stored stays."""
        self._kept.add(key)

    async def commit(self, version: str) -> None:
        """Make the store equal to the list: deletions first, a few milliseconds at a time."""
        cache, scope, budget = self._cache, self._scope, TimeBudget()
        for key in cache.store:
            obj = cache.store.get(key)
            listed = key in self._listed or key in self._kept
            if obj is not None and not listed and scope.covers(obj.metadata.namespace):
                cache.gone(key, obj, False)
            if budget.spent():
                await asyncio.sleep(0)
        initial = not scope.synced
        for key, obj in self._listed.items():
            cache.changed(key, obj, initial)
            if budget.spent():
                await asyncio.sleep(0)
        scope.complete(version)
