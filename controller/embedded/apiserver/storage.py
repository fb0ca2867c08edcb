"""Storage: objects as immutable JSON bytes under one global resourceVersion, and an ordered event log per collection.

Promises:

* one counter for all collections; every commit takes the next number, and events of a collection are in that order;
* a stored object never changes: a commit replaces it. `Stored.raw` is encoded once, by the writer;
* the log of a collection keeps the newest `history_limit` events; `floor` is the highest resourceVersion whose
  successor may be missing, so reading from below it is `Expired`;
* listeners are called synchronously, in order, inside the commit: whoever lists and listens without awaiting in between
  misses nothing.

Only the newest version of an object also keeps its parsed form; older ones in the log are bytes (a parsed object costs
about five times its bytes) and are parsed again when a late watcher with a selector needs them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum

import orjson

from controller.embedded.apiserver.errors import Object, internal, too_old
from controller.embedded.apiserver.resources import ServedVersion

# etcd's limit for one request: larger objects are refused with 500 (control-plane.md §5).
MAX_OBJECT_BYTES = 1_572_864


class Stored:
    """One version of one object, immutable. `raw` is its JSON in the storage version."""

    __slots__ = ("_object", "key", "name", "namespace", "raw", "resource_version", "uid")

    def __init__(self, obj: Object, resource_version: int) -> None:
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(resource_version)
        self.raw = orjson.dumps(obj)
        self.resource_version = resource_version
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.uid: str = metadata.get("uid", "")
        self.key = storage_key(self.namespace, self.name)
        self._object: Object | None = obj

    @property
    def object(self) -> Object:
        """The parsed object; shared, so it must not be changed. `copy` gives one that may."""
        if self._object is None:
            return orjson.loads(self.raw)  # type: ignore[no-any-return]  # a JSON object by construction
        return self._object

    def copy(self) -> Object:
        """A private copy; parsing the bytes is the fastest deep copy there is."""
        return orjson.loads(self.raw)  # type: ignore[no-any-return]

    def retire(self) -> None:
        """Keep the bytes only."""
        self._object = None


def storage_key(namespace: str, name: str) -> str:
    """`namespace/name`: lists are sorted by it, as in etcd (so namespace `x-b` comes before `x`)."""
    return f"{namespace}/{name}" if namespace else name


class Change(Enum):
    """What a commit did to an object, in the words of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Event:
    """One entry of the log. For a deletion `current` is the last state under the deletion's resourceVersion."""

    __slots__ = ("change", "current", "encoded", "previous", "resource_version")

    def __init__(self, change: Change, current: Stored, previous: Stored | None) -> None:
        self.change = change
        self.current = current
        self.previous = previous
        self.resource_version = current.resource_version
        # Lines already made for this event, by form and version: encoded once, whoever watches. Only the newest event
        # of a collection keeps them; its watchers have taken theirs by the time of the next.
        self.encoded: dict[object, bytes] = {}


Listener = Callable[[Event], None]
Observer = Callable[["Collection", Event], None]


class Collection:
    """The objects of one storage key, sorted, with their event log and listeners."""

    def __init__(self, store: Store, history_limit: int) -> None:
        self._store = store
        self._items: dict[str, Stored] = {}
        self._keys: list[str] = []
        self._log: deque[Event] = deque()
        self._history_limit = history_limit
        self.floor = store.compacted
        self.listeners: dict[object, Listener] = {}

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> Stored | None:
        return self._items.get(key)

    def scan(self, namespace: str = "") -> list[Stored]:
        """All objects of a namespace (or of all) in key order."""
        if not namespace:
            return [self._items[key] for key in self._keys]
        # "/" is followed by "0": the range holds exactly the keys with the prefix `namespace/`.
        low, high = bisect_left(self._keys, f"{namespace}/"), bisect_left(self._keys, f"{namespace}0")
        return [self._items[key] for key in self._keys[low:high]]

    def scan_at(self, resource_version: int, namespace: str = "") -> list[Stored]:
        """All objects as they were at an older resourceVersion. Raises ApiError 410 when that is compacted."""
        if resource_version < self.floor:
            raise too_old(resource_version, self.oldest)
        items = {stored.key: stored for stored in self.scan(namespace)}
        for event in reversed(self._log):
            if event.resource_version <= resource_version:
                break
            if namespace and event.current.namespace != namespace:
                continue
            if event.previous is None:
                items.pop(event.current.key, None)
            else:
                items[event.current.key] = event.previous
        return [items[key] for key in sorted(items)]

    def since(self, resource_version: int) -> list[Event]:
        """The events after `resource_version`, oldest first. Raises ApiError 410 when some of them are compacted."""
        if resource_version < self.floor:
            raise too_old(resource_version, self.oldest)
        found: list[Event] = []
        for event in reversed(self._log):
            if event.resource_version <= resource_version:
                break
            found.append(event)
        found.reverse()
        return found

    @property
    def oldest(self) -> int:
        """The resourceVersion of the oldest event kept; the store's own where none is."""
        return self._log[0].resource_version if self._log else self._store.resource_version

    def log(self) -> Iterator[Event]:
        """Every event still kept, oldest first."""
        return iter(self._log)

    def commit(self, obj: Object) -> Stored:
        """Store a new version of an object and tell the listeners. `obj` becomes the store's own.

        Raises ApiError 500 for an object beyond etcd's limit."""
        stored = Stored(obj, self._store.advance())
        if len(stored.raw) > MAX_OBJECT_BYTES:
            raise internal("etcdserver: request is too large")
        previous = self._items.get(stored.key)
        self._items[stored.key] = stored
        if previous is None:
            insort(self._keys, stored.key)
        self._record(Event(Change.MODIFIED if previous else Change.ADDED, stored, previous))
        return stored

    def remove(self, key: str, last_state: Object | None = None) -> Stored:
        """Delete an object; the event shows its last state (the stored one by default) under a new resourceVersion.
        KeyError when absent."""
        previous = self._items.pop(key)
        del self._keys[bisect_left(self._keys, key)]
        last = Stored(last_state or previous.copy(), self._store.advance())
        self._record(Event(Change.DELETED, last, previous))
        last.retire()
        return last

    def compact(self, resource_version: int) -> None:
        """Forget the events up to and including `resource_version`."""
        while self._log and self._log[0].resource_version <= resource_version:
            self._log.popleft()
        self.floor = max(self.floor, resource_version)

    def _record(self, event: Event) -> None:
        if self._log:
            self._log[-1].encoded = {}
        self._log.append(event)
        if len(self._log) > self._history_limit:
            self.floor = self._log.popleft().resource_version
        for listener in tuple(self.listeners.values()):
            listener(event)
        for observer in self._store.observers:
            observer(self, event)
        if event.previous is not None:
            event.previous.retire()


class Store:
    """All collections under one resourceVersion counter."""

    def __init__(self, history_limit: int) -> None:
        if history_limit < 1:
            raise ValueError(f"history_limit must be at least 1 event per resource, got {history_limit}")
        self.resource_version = 1  # nothing is ever stored under 0, which means "any" in requests
        self.compacted = 0  # history up to here is gone in every collection
        self._history_limit = history_limit
        self._collections: dict[tuple[str, str], Collection] = {}
        self.observers: list[Observer] = []  # told of every event of every collection, after its listeners

    def advance(self) -> int:
        self.resource_version += 1
        return self.resource_version

    def collection(self, key: tuple[str, str]) -> Collection:
        """The collection of a storage key, empty at first."""
        found = self._collections.get(key)
        if found is None:
            found = self._collections[key] = Collection(self, self._history_limit)
        return found

    def of(self, served: ServedVersion) -> Collection:
        return self.collection(served.type.storage_key)

    def collections(self) -> Iterator[tuple[tuple[str, str], Collection]]:
        return iter(self._collections.items())

    def compact(self, resource_version: int | None = None) -> None:
        """Forget the history of every collection up to `resource_version` (default: everything so far), as etcd's
        compaction does every five minutes: older watches and continue tokens become `Expired`."""
        upto = self.resource_version if resource_version is None else resource_version
        self.compacted = max(self.compacted, upto)
        for collection in self._collections.values():
            collection.compact(upto)


def encode(stored: Stored, served: ServedVersion) -> bytes:
    """The JSON of a stored object as `served` shows it."""
    return stored.raw if served.stores_itself else orjson.dumps(served.view(stored.object))
