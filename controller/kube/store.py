"""The objects of one resource as they were last seen, with indices.

Promised: readers see whole objects (projections are frozen) in the state of the last applied event; an index entry
disappears with its last object; the result of a lookup is the reader's own list.

Not promised: that two lookups see the same moment, unless no await lies between them.

Only the informer's cache writes. Everything is synchronous and for one event loop.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import structlog

from controller.foundation import KubeObject

T = TypeVar("T", bound=KubeObject)

# Pure: the same object gives the same values. None and the empty string are no values.
IndexFunction = Callable[[T], Iterable[str] | None]

_log = structlog.get_logger(__name__)


class Index(Generic[T]):
    """value → keys of the objects that have it. Several values an object are fine."""

    def __init__(self, name: str, function: IndexFunction[T]) -> None:
        self.name = name
        self._function = function
        self._keys: dict[str, dict[str, None]] = {}

    def keys(self, value: str) -> Iterable[str]:
        """The keys under a value, oldest first."""
        return self._keys.get(value, ())

    def values(self) -> list[str]:
        """The values that at least one object has."""
        return list(self._keys)

    def change(self, key: str, old: T | None, new: T | None) -> None:
        """An object appeared, changed or went."""
        before = self._values_of(old) if old is not None else ()
        after = self._values_of(new) if new is not None else ()
        if before == after:
            return
        buckets = self._keys
        for value in before:
            if value not in after and (bucket := buckets.get(value)) is not None:
                bucket.pop(key, None)
                if not bucket:
                    del buckets[value]  # or every owner that ever lived would stay (k8s#84959)
        for value in after:
            if value:
                bucket = buckets.get(value)
                if bucket is None:
                    buckets[value] = {key: None}
                else:
                    bucket[key] = None

    def _values_of(self, obj: T) -> tuple[str, ...]:
        try:
            return tuple(self._function(obj) or ())
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as failure:
            # An odd object must not stop the cache; it is simply not found through this index.
            _log.error("index function failed", index=self.name, key=obj.metadata.key, error=repr(failure))
            return ()


class Store(Generic[T]):
    """key (`namespace/name`) → object."""

    def __init__(self, indexers: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[str, T] = {}
        self._indices: dict[str, Index[T]] = {}
        for name, function in (indexers or {}).items():
            self.add_index(name, function)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._objects))

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def get(self, key: str) -> T | None:
        """The object, None when there is none."""
        return self._objects.get(key)

    def list(self, namespace: str | None = None) -> list[T]:
        """All objects, or those of one namespace (a scan: index by namespace when it is asked often)."""
        if namespace is None:
            return [*self._objects.values()]
        return [obj for obj in self._objects.values() if obj.metadata.namespace == namespace]

    def by_index(self, name: str, value: str) -> builtins.list[T]:
        """The objects under a value of an index, in the order in which they came under it. Raises KeyError for an
        unknown index."""
        objects = self._objects
        return [objects[key] for key in self._indices[name].keys(value)]

    def index_values(self, name: str) -> builtins.list[str]:
        """The values of an index that have objects."""
        return self._indices[name].values()

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index, also to a filled store. Raises ValueError when the name is taken."""
        if name in self._indices:
            raise ValueError(f"index {name!r} exists already")
        index = self._indices[name] = Index(name, function)
        for key, obj in self._objects.items():
            index.change(key, None, obj)

    def put(self, key: str, old: T | None, new: T) -> None:
        """Store `new` under its key in the place of `old`, what `get` has just returned. For the cache."""
        self._objects[key] = new
        for index in self._indices.values():
            index.change(key, old, new)

    def pop(self, key: str) -> T | None:
        """Remove an object and return it. For the cache."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indices.values():
                index.change(key, old, None)
        return old
