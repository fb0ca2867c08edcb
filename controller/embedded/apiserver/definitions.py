"""What stored CustomResourceDefinitions do to the server: which types are served, which watches end, and how a
definition goes.

* A type is served as soon as its definition is stored, and no longer once it is gone.
* Watches of a type end when its definition is gone or has another spec: they were opened on what is served no more.
* When a definition is deleted (`crds.begin_termination`), so are its objects. It goes once the last of them has gone
  and it has no finalizer but ours; until the objects are gone, no new one is taken.
* Objects that are left because somebody took our finalizer away stay in the store, and are seen again when the
  definition comes back.

The real server looks for remaining objects every five seconds and begins again after a minute
(`InstanceDeletionCheck`); here the definition goes right after the last object. Admission is not asked about the
objects. The real server leaves the objects behind where the definition is deleted as part of a collection; here it goes
like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from controller.embedded.apiserver.builtins import CRD_GROUP, CRD_PLURAL
from controller.embedded.apiserver.crds import CLEANUP, Termination, awaits_cleanup, resource_from_crd, set_termination
from controller.embedded.apiserver.deletion import DeleteOptions, delete_now
from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.operations import Operations, is_finished
from controller.embedded.apiserver.resources import Registry, ServedVersion
from controller.embedded.apiserver.storage import Change, Collection, Event
from controller.embedded.apiserver.targets import Target
from controller.embedded.apiserver.workqueue import WorkQueue
from controller.foundation import format_time


@dataclass(slots=True, eq=False)
class Definitions:
    """Follows the definitions, and the objects of those that are being deleted."""

    operations: Operations
    registry: Registry
    work: WorkQueue
    end_watches: Callable[[tuple[str, str]], None]  # of the type with this group and plural
    _going: dict[Collection, str] = field(default_factory=dict)  # objects of a definition in deletion → its name
    _due: set[str] = field(default_factory=set)  # names of definitions whose turn is in the queue

    def start(self) -> None:
        """Follow the store from now on."""
        self._stored.listeners[self] = self._changed
        self.operations.store.observers.append(self._observe)

    @property
    def _stored(self) -> Collection:
        return self.operations.store.collection((CRD_GROUP, CRD_PLURAL))

    def _changed(self, event: Event) -> None:
        crd = event.current.object
        key = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
        objects = self.operations.store.collection(key)
        if event.change is Change.DELETED:
            self.registry.remove(*key)
            self._going.pop(objects, None)
            self.end_watches(key)
            return
        self.registry.add(resource_from_crd(crd))
        if event.previous is not None and event.previous.object["spec"] != crd["spec"]:
            self.end_watches(key)
        if awaits_cleanup(crd):
            self._going[objects] = event.current.name
            self._schedule(event.current.name)
        else:
            self._going.pop(objects, None)

    def _observe(self, collection: Collection, event: Event) -> None:
        del event
        name = self._going.get(collection)
        if name is not None:
            self._schedule(name)

    def _schedule(self, name: str) -> None:
        """One turn for however many events."""
        if name not in self._due:
            self._due.add(name)
            self.work.later(partial(self._clean_up, name))

    def _clean_up(self, name: str) -> None:
        """Delete the objects of a definition, and let it go once there is none."""
        self._due.discard(name)
        stored = self._stored.get(name)
        if stored is None or not awaits_cleanup(stored.object):
            return
        now = format_time(self.operations.clock.now())
        crd = stored.copy()
        if set_termination(crd, Termination.IN_PROGRESS, now):
            stored = self._stored.commit(crd)
        if self._delete_objects(stored.object):
            return
        crd = stored.copy()
        crd["metadata"]["finalizers"].remove(CLEANUP)
        set_termination(crd, Termination.COMPLETED, now)
        if is_finished(crd):
            self._stored.remove(name)
        else:
            self._stored.commit(crd)

    def _delete_objects(self, crd: Object) -> int:
        """Delete what is not deleted yet; returns how many objects remain."""
        resource = resource_from_crd(crd)
        served = ServedVersion(resource, resource.storage_version)  # which requests may no longer be served at
        objects = self.operations.store.of(served)
        for stored in objects.scan():
            if not stored.object["metadata"].get("deletionTimestamp"):
                delete_now(self.operations, Target(served, stored.namespace, stored.name), stored, DeleteOptions())
        return len(objects)
