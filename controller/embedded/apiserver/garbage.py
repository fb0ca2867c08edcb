"""What kube-controller-manager does behind deletions: emptying namespaces and collecting dependants.

Namespaces are always emptied, or `kubectl delete namespace` would never end. Collecting dependants is an option: when
an owner is gone, an object whose owners are then all gone is deleted, another one loses the reference; a Foreground
deletion waits until the dependants are gone, an Orphan deletion removes their references first. Objects that are
created with an owner that never existed are left alone (the real collector deletes them).

Work is done after the commit that causes it, never within (`workqueue`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from controller.embedded.apiserver.deletion import FOREGROUND, ORPHAN, DeleteOptions, delete_now
from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.operations import Operations, is_finished
from controller.embedded.apiserver.resources import Registry, ServedVersion
from controller.embedded.apiserver.storage import Change, Collection, Event, Stored
from controller.embedded.apiserver.targets import Target
from controller.embedded.apiserver.workqueue import WorkQueue

_NAMESPACES = ("", "namespaces")


@dataclass(slots=True)
class Garbage:
    """Follows every event of the store."""

    operations: Operations
    registry: Registry
    work: WorkQueue
    _owners: dict[str, tuple[Collection, str]] = field(default_factory=dict)  # uid → where a live object is
    _dependants: dict[str, set[tuple[Collection, str]]] = field(default_factory=dict)  # owner's uid → where they are

    def start(self) -> None:
        """Follow the store from now on."""
        self.operations.store.observers.append(self._observe)

    def _observe(self, collection: Collection, event: Event) -> None:
        stored = event.current
        metadata = stored.object["metadata"]
        if metadata.get("deletionTimestamp") or event.change is Change.DELETED:
            self._observe_namespace(collection, event)
        if not self.operations.propagates:
            return
        place = (collection, stored.key)
        before = _owner_uids(event.previous) if event.previous is not None else set()
        after = _owner_uids(stored) if event.change is not Change.DELETED else set()
        for uid in before - after:
            self._dependants.get(uid, set()).discard(place)
            self.work.later(partial(self._settle, uid))
        for uid in after - before:
            self._dependants.setdefault(uid, set()).add(place)
        if event.change is Change.DELETED:
            self._owners.pop(stored.uid, None)
            if self._dependants.get(stored.uid):
                self.work.later(partial(self._collect, stored.uid))
            return
        self._owners[stored.uid] = place
        if metadata.get("deletionTimestamp") and {FOREGROUND, ORPHAN} & set(metadata.get("finalizers") or ()):
            self.work.later(partial(self._settle, stored.uid))

    # -- namespaces ------------------------------------------------------------------------------------------------

    def _observe_namespace(self, collection: Collection, event: Event) -> None:
        namespaces = self.operations.store.collection(_NAMESPACES)
        name = event.current.name if collection is namespaces else event.current.namespace
        terminating = namespaces.get(name) if name else None
        if terminating is not None and terminating.object["metadata"].get("deletionTimestamp"):
            self.work.later(partial(self._empty, name))

    def _empty(self, name: str) -> None:
        """Delete what is in a terminating namespace, and the namespace once nothing is."""
        namespaces = self.operations.store.collection(_NAMESPACES)
        namespace = namespaces.get(name)
        if namespace is None or not namespace.object["metadata"].get("deletionTimestamp"):
            return
        remaining = 0
        for collection, served in self._namespaced():
            for stored in collection.scan(name):
                if not stored.object["metadata"].get("deletionTimestamp"):
                    self._delete(served, stored)
            remaining += len(collection.scan(name))
        if remaining or namespace.object["metadata"].get("finalizers"):
            return
        namespaces.remove(name)

    def _namespaced(self) -> list[tuple[Collection, ServedVersion]]:
        store = self.operations.store
        return [
            (store.collection(resource.storage_key), next(iter(resource.versions.values())))
            for resource in self.registry
            if resource.namespaced and resource.versions and not resource.traits.virtual
        ]

    # -- owners ----------------------------------------------------------------------------------------------------

    def _collect(self, uid: str) -> None:
        """Deal with the dependants of an owner that is gone."""
        for collection, key in tuple(self._dependants.pop(uid, ())):
            stored = collection.get(key)
            if stored is None:
                continue
            if any(owner in self._owners for owner in _owner_uids(stored) - {uid}):
                self._forget_owner(collection, stored, uid)
            elif not stored.object["metadata"].get("deletionTimestamp"):
                self._delete(self._version_of(stored), stored)

    def _settle(self, uid: str) -> None:
        """Move a Foreground or Orphan deletion on, where `uid` is in one."""
        place = self._owners.get(uid)
        owner = place[0].get(place[1]) if place is not None else None
        if place is None or owner is None or not owner.object["metadata"].get("deletionTimestamp"):
            return
        finalizers = owner.object["metadata"].get("finalizers") or ()
        dependants = tuple(self._dependants.get(uid, ()))
        if ORPHAN in finalizers:
            for collection, key in dependants:
                stored = collection.get(key)
                if stored is not None:
                    self._forget_owner(collection, stored, uid)
            self._drop_finalizer(place[0], owner, ORPHAN)
        elif FOREGROUND in finalizers:
            for collection, key in dependants:
                stored = collection.get(key)
                if stored is not None and not stored.object["metadata"].get("deletionTimestamp"):
                    self._delete(self._version_of(stored), stored)
            if not self._dependants.get(uid):
                self._drop_finalizer(place[0], owner, FOREGROUND)

    def _forget_owner(self, collection: Collection, stored: Stored, uid: str) -> None:
        obj = stored.copy()
        kept = [owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("uid") != uid]
        obj["metadata"]["ownerReferences"] = kept
        if not kept:
            del obj["metadata"]["ownerReferences"]
        collection.commit(obj)

    def _drop_finalizer(self, collection: Collection, stored: Stored, name: str) -> None:
        obj = stored.copy()
        obj["metadata"]["finalizers"] = [other for other in obj["metadata"]["finalizers"] if other != name]
        if is_finished(obj):
            collection.remove(stored.key)
        else:
            collection.commit(obj)

    def _version_of(self, stored: Stored) -> ServedVersion | None:
        obj: Object = stored.object
        return self.registry.for_kind(str(obj.get("apiVersion")), str(obj.get("kind")))

    def _delete(self, served: ServedVersion | None, stored: Stored) -> None:
        if served is not None:
            target = Target(served, stored.namespace, stored.name)
            delete_now(self.operations, target, stored, DeleteOptions(propagation="Background"))


def _owner_uids(stored: Stored) -> set[str]:
    return {str(owner.get("uid")) for owner in stored.object["metadata"].get("ownerReferences") or ()}
