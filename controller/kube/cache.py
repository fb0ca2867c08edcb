"""A store and those who are told about its changes: the one place where an object's state becomes calls of handlers.

The order of things, for every change: the store and its indices first, then each handler in the order of registration.
A change of uid is a delete and an add. A state that is stored already is told to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from controller.foundation import KubeObject
from controller.kube.handlers import Registration, Tombstone
from controller.kube.store import IndexFunction, Store

T = TypeVar("T", bound=KubeObject)


class Cache(Generic[T]):
    """What the scopes of an informer write to. `transform` is applied by them to every object that comes in."""

    def __init__(
        self, indexers: Mapping[str, IndexFunction[T]] | None = None, transform: Callable[[T], T] | None = None
    ) -> None:
        self.store: Store[T] = Store(indexers)
        self.transform = transform
        # Replaced, never changed: a handler may add or remove handlers while it is being called.
        self.registrations: tuple[Registration[T], ...] = ()

    def same_as_stored(self, key: str, obj: T) -> T:
        """The stored object when it is in the same state, so that the new copy can go; otherwise `obj`."""
        stored = self.store.get(key)
        return stored if stored is not None and is_same_state(stored, obj) else obj

    def changed(self, key: str, obj: T, initial: bool) -> None:
        """The server has this state."""
        old = self.store.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            self.gone(key, old, final=False)
            old = None
        if old is None:
            self.store.put(key, old, obj)
            for registration in self.registrations:
                registration.add(obj, initial)
        elif not is_same_state(old, obj):
            self.store.put(key, old, obj)
            for registration in self.registrations:
                registration.update(old, obj)

    def gone(self, key: str, last_known: T, final: bool) -> None:
        """The server has no such object (any more)."""
        if self.store.pop(key) is None:
            return
        tombstone = Tombstone(key, last_known, final)
        for registration in self.registrations:
            registration.delete(tombstone)


def is_same_state(left: KubeObject, right: KubeObject) -> bool:
    """Whether two objects of one key are the same state of the same object. Without a version nothing is the same."""
    ours, theirs = left.metadata, right.metadata
    return bool(ours.resource_version) and ours.resource_version == theirs.resource_version and ours.uid == theirs.uid
