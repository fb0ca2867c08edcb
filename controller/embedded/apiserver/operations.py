"""The writing verbs over the store, without HTTP: create, update, patch, apply. (`deletion` has the other one.)

A write runs in three steps: draft the candidate from what is stored, let admission see it (the only step that may
await), then finish it (validation, field managers) and commit. If the stored object changed while admission was asked,
the write starts over, so a commit always follows the very object that it was checked against. Cancellation before the
commit leaves nothing behind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.access import Access
from controller.embedded.apiserver.admission import Admission, AdmissionRequest
from controller.embedded.apiserver.apply import (
    APPLY,
    UPDATE,
    Author,
    Manager,
    Managers,
    apply_configuration,
    brought_managers,
    managers_of,
    record_managers,
    strips_managers,
    track_update,
    write_managers,
)
from controller.embedded.apiserver.builtin_types import builtin_schema
from controller.embedded.apiserver.builtins import CRD_PLURAL
from controller.embedded.apiserver.crds import crd_status
from controller.embedded.apiserver.errors import Cause, GroupResource, Object
from controller.embedded.apiserver.field_sets import MalformedList
from controller.embedded.apiserver.metadata import generate_name, merge_equal_owners, new_uid, retain_system_metadata
from controller.embedded.apiserver.rbac import Attributes
from controller.embedded.apiserver.reading import read_as
from controller.embedded.apiserver.requests import WriteOptions, parse_resource_version
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.shapes import root_shape
from controller.embedded.apiserver.storage import Store, Stored, storage_key
from controller.embedded.apiserver.strategy import (
    check,
    complete,
    drop_status_on_create,
    isolate,
    moves_generation,
    only_half,
)
from controller.embedded.apiserver.targets import Draft, Outcome, Target, copied, view_copy
from controller.embedded.apiserver.typed import converted, typed_name, untyped
from controller.foundation import Clock, format_time, wall_now

# A patch that loses against other writers is applied anew this often before it is a conflict (as the real server does).
_PATCH_ATTEMPTS = 5
# A generated name that is taken is drawn again this often.
_NAME_ATTEMPTS = 8
_SERVER_SET = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "uid", "creationTimestamp")

Build = Callable[[Object], Any]  # a private copy of the present object → the body of the update


class _Update(Enum):
    """Where the new body of an update comes from; the real server treats them a little differently."""

    REPLACED = "PUT"
    PATCHED = "a JSON, merge or strategic patch"
    APPLIED = "server-side apply"
    FIXTURE = "the process itself: whole, and without asking for a resourceVersion"


@dataclass(slots=True)
class Operations:
    """The writing verbs. One instance per server; no method keeps a reference to the bodies it is given."""

    store: Store
    clock: Clock
    rng: random.Random
    admission: Admission
    access: Access | None = None  # asked where an update or an apply creates; None: everything may be created
    propagates: bool = False  # somebody collects garbage, so deletions may wait for their dependents
    create_namespaces: bool = False  # create a missing namespace on first use, for fixtures

    def now(self, served: ServedVersion) -> float:
        """The time that objects of this type are stamped with."""
        return wall_now() if served.type.traits.wall_clock else self.clock.now()

    # -- create ----------------------------------------------------------------------------------------------------

    async def create(self, target: Target, body: Any, options: WriteOptions) -> Outcome:
        """POST. Raises ApiError."""
        return await self._create(target, body, options)

    async def _create(self, target: Target, body: Any, options: WriteOptions, *, implied: bool = False) -> Outcome:
        draft = self._draft_create(target, body, options)
        draft.implied = implied
        with errors.warned(draft.warnings):
            await self._admit(draft)
            return self._finish_create(draft, {}, Manager(UPDATE, options.manager, target.served.api_version))

    def create_now(self, target: Target, body: Any, options: WriteOptions) -> Outcome:
        """Create whole, status included, without asking admission, for fixtures; never awaits."""
        draft = self._draft_create(target, body, options, whole=True)
        return self._finish_create(draft, {}, Manager(UPDATE, options.manager, target.served.api_version))

    def _draft_create(
        self, target: Target, body: Any, options: WriteOptions, *, whole: bool = False, applied: bool = False
    ) -> Draft:
        served = target.served
        if served.type.terminating and not whole:
            named = read_as(served, copied(body))["metadata"]
            target.place(named)
            raise errors.definition_terminating(target.resource, named.get("name", ""))
        self._find_namespace(target)
        draft = Draft(target, options, read_as(served, copied(body)))
        metadata = draft.object["metadata"]
        if metadata.get("resourceVersion"):
            raise errors.internal("resourceVersion should not be set on objects to be created")
        target.place(metadata)
        for name in _SERVER_SET:
            if name != "generation" or served.type.traits.generation:  # other types keep what is sent
                metadata.pop(name, None)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._free_name(target, metadata["generateName"])
        if not whole:
            drop_status_on_create(served, draft.object)
        draft.report_unknown(complete(served, draft.object, applied=applied), patched=False)
        draft.warnings += merge_equal_owners(metadata)
        return draft

    def _find_namespace(self, target: Target) -> None:
        if not target.served.type.namespaced:
            return
        found = self.store.collection(("", "namespaces")).get(target.namespace)
        if found is None:
            if not self.create_namespaces:
                raise errors.not_found(GroupResource("", "namespaces"), target.namespace)
            self._create_namespace(target.namespace)
        elif found.object["metadata"].get("deletionTimestamp"):
            raise errors.namespace_terminating(target.resource, target.name, target.namespace)

    def _create_namespace(self, name: str) -> None:
        metadata = self._stamped({"name": name, "labels": {"kubernetes.io/metadata.name": name}}, self.clock.now())
        namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}
        parts = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        self.store.collection(("", "namespaces")).commit(namespace | parts)

    def _stamped(self, metadata: Object, now: float) -> Object:
        return {**metadata, "uid": new_uid(self.rng), "creationTimestamp": format_time(now)}

    def _free_name(self, target: Target, base: str) -> str:
        collection = self.store.of(target.served)
        name = generate_name(base, self.rng)
        for _ in range(_NAME_ATTEMPTS):
            if collection.get(storage_key(target.namespace, name)) is None:
                break
            name = generate_name(base, self.rng)
        return name

    def _finish_create(self, draft: Draft, managers: Managers, manager: Manager) -> Outcome:
        target, served, obj = draft.target, draft.target.served, draft.object
        untracked = strips_managers(obj)
        obj["metadata"].pop("managedFields", None)
        check(served, obj, None, draft.warnings)
        if draft.implied and self.access is not None:
            attributes = Attributes("create", *target.resource, namespace=target.namespace, name=target.name)
            self.access.require(target.user, attributes)
        obj["metadata"] = self._stamped(obj["metadata"], self.now(served))
        now = obj["metadata"]["creationTimestamp"]
        if served.type.traits.generation:
            obj["metadata"]["generation"] = 1
        if manager.operation == UPDATE and not untracked:
            stated = {name: part for name, part in obj.items() if name != "status" or not served.status}
            managers = track_update(managers, Author(manager, root_shape(served.schema), now), {}, stated)
        if served.type.plural == CRD_PLURAL:
            obj["status"] = crd_status(obj, None, now)
        write_managers(obj, managers)
        collection = self.store.of(served)
        name = obj["metadata"]["name"]
        taken = collection.get(storage_key(target.namespace, name))
        if taken is not None:
            deleting = bool(taken.object["metadata"].get("deletionTimestamp"))
            raise errors.already_exists(target.resource, name, deleting=deleting)
        if not draft.options.dry_run:
            obj = served.view(collection.commit(served.unview(obj)).object)
        return Outcome(obj, created=True, warnings=draft.warnings)

    # -- update and patch ------------------------------------------------------------------------------------------

    async def update(self, target: Target, body: Any, options: WriteOptions) -> Outcome:
        """PUT. Raises ApiError 409 for another resourceVersion than the stored one."""
        if self.store.of(target.served).get(target.key) is None:
            if not target.served.type.traits.create_on_update or target.subresource:
                raise target.not_found()
            fresh = copied(body)
            if isinstance(fresh, dict) and isinstance(fresh.get("metadata"), dict):
                fresh["metadata"].pop("resourceVersion", None)
            return await self._create(target, fresh, options, implied=True)
        return await self._write(target, lambda _: copied(body), options, kind=_Update.REPLACED)

    async def patch(self, target: Target, build: Build, options: WriteOptions) -> Outcome:
        """PATCH with JSON, merge or strategic content: `build` makes the new body from a copy of the present object."""
        return await self._write(target, build, options, kind=_Update.PATCHED)

    async def _write(self, target: Target, build: Build, options: WriteOptions, *, kind: _Update) -> Outcome:
        collection = self.store.of(target.served)
        for _ in range(_PATCH_ATTEMPTS):
            stored = collection.get(target.key)
            if stored is None:
                raise target.not_found()
            body = build(view_copy(target.served, stored))
            draft = self._draft_update(target, stored, body, options, kind=kind)
            with errors.warned(draft.warnings):
                await self._admit(draft)
                if collection.get(target.key) is stored:
                    manager = Manager(UPDATE, options.manager, target.served.api_version, target.subresource)
                    return self._finish_update(draft, stored, manager, None)
        raise errors.modified(target.resource, target.name)

    def replace_now(self, target: Target, body: Any, options: WriteOptions) -> Outcome:
        """Replace main part and status at once without asking admission, for fixtures; never awaits."""
        stored = self.store.of(target.served).get(target.key)
        if stored is None:
            raise target.not_found()
        draft = self._draft_update(target, stored, copied(body), options, kind=_Update.FIXTURE)
        manager = Manager(UPDATE, options.manager, target.served.api_version)
        return self._finish_update(draft, stored, manager, None)

    async def apply(self, target: Target, configuration: Any, options: WriteOptions) -> Outcome:
        """PATCH with application/apply-patch+yaml: server-side apply; creates what is missing."""
        served, collection = target.served, self.store.of(target.served)
        if not options.explicit_manager:
            cause = Cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
            raise errors.invalid(GroupResource("meta.k8s.io", "PatchOptions"), "", [cause])
        given = configuration if isinstance(configuration, dict) else {}
        if (given.get("apiVersion"), given.get("kind")) != (served.api_version, served.type.kind):
            raise errors.bad_request(f"invalid object type: {given.get('apiVersion')}, Kind={given.get('kind')}")
        subject = typed_name(given)
        schema = served.schema or (None if served.type.custom else builtin_schema(served.type.resource))
        if problem := untyped(given, schema):
            raise errors.internal(f"failed to create typed patch object {subject}: {problem}")
        whole = converted(served, copied(configuration), subject)
        stated = only_half(served, whole, target.subresource)
        nameless = not stated["metadata"].get("name")
        target.place(stated["metadata"])
        wanted = stated["metadata"].get("resourceVersion")
        manager = Manager(APPLY, options.manager, served.api_version, target.subresource)
        for _ in range(_PATCH_ATTEMPTS):
            stored = collection.get(target.key)
            if stored is None and target.subresource:
                raise target.not_found()
            if wanted and stored is not None and parse_resource_version(wanted) != stored.resource_version:
                raise errors.modified(target.resource, target.name)
            live = view_copy(served, stored) if stored else {"metadata": {}}
            managers = managers_of(served, live)
            live["metadata"].pop("managedFields", None)
            author = Author(manager, root_shape(served.schema), format_time(self.now(served)))
            try:
                applied = apply_configuration(live, stated, whole, managers, author, force=options.force)
            except MalformedList as error:
                raise errors.internal(f"failed to create typed patch object {subject}: {error}") from None
            body = copied(applied.object)
            if stored is None:
                target.need_name({} if nameless else body["metadata"])
                body["metadata"].pop("resourceVersion", None)
                draft = self._draft_create(target, body, options, applied=True)
                draft.implied = True
                with errors.warned(draft.warnings):
                    await self._admit(draft)
                    if collection.get(target.key) is None:
                        return self._finish_create(draft, applied.managers, manager)
            else:
                draft = self._draft_update(target, stored, body, options, kind=_Update.APPLIED)
                with errors.warned(draft.warnings):
                    await self._admit(draft)
                    if collection.get(target.key) is stored:
                        return self._finish_update(draft, stored, manager, applied.managers)
        raise errors.modified(target.resource, target.name)

    async def _admit(self, draft: Draft) -> None:
        target = draft.target
        operation = "CREATE" if draft.stored is None else "UPDATE"
        request = AdmissionRequest(
            operation,
            target.served,
            target.user,
            draft.object,
            draft.current,
            target.subresource,
            draft.options.dry_run,
            draft.options.as_object(),
        )
        admitted = await self.admission.admit(request, draft.warnings)
        if admitted is draft.object:
            return
        # What admission changed is read, pruned and kept to its half like what a client sends.
        draft.object = read_as(target.served, copied(admitted))
        target.place(draft.object["metadata"])
        if draft.stored is None:
            drop_status_on_create(target.served, draft.object)
        else:
            live = view_copy(target.served, draft.stored)
            draft.object = isolate(target.served, draft.object, live, target.subresource)
        complete(target.served, draft.object)

    def _draft_update(
        self, target: Target, stored: Stored, body: Any, options: WriteOptions, *, kind: _Update
    ) -> Draft:
        served = target.served
        try:
            obj = read_as(served, body)
        except errors.ApiError as error:
            if kind is not _Update.PATCHED or error.code != 400:
                raise
            if isinstance(error, errors.Undecodable):
                raise errors.unreadable_patch(error.problem, body) from None
            raise errors.unreadable_patch(error.message) from None
        metadata = obj["metadata"]
        target.need_name(metadata)
        target.place(metadata)
        wanted = metadata.get("resourceVersion", "")
        if not wanted and kind is not _Update.FIXTURE and not served.type.traits.unconditional_update:
            raise errors.no_resource_version(target.resource, target.name)
        if wanted and parse_resource_version(wanted) != stored.resource_version:
            raise errors.modified(target.resource, target.name)
        # Only PUT takes the uid for a precondition; to a patch it is an immutable field.
        if kind is _Update.REPLACED and metadata.get("uid") and metadata["uid"] != stored.uid:
            raise errors.precondition_failed(target.resource, target.name, "UID", metadata["uid"], stored.uid)
        if kind is not _Update.FIXTURE:
            obj = isolate(served, obj, view_copy(served, stored), target.subresource)
        draft = Draft(target, options, obj, stored)
        unknown = complete(served, obj, applied=kind is _Update.APPLIED)
        draft.report_unknown(unknown, patched=kind is not _Update.REPLACED)
        draft.warnings += merge_equal_owners(obj["metadata"], patched=kind is _Update.PATCHED)
        return draft

    def _finish_update(self, draft: Draft, stored: Stored, manager: Manager, managers: Managers | None) -> Outcome:
        """Check and commit. `managers` are those of an apply; None: the write is an Update and tracked here."""
        target, served, obj = draft.target, draft.target.served, draft.object
        current = served.view(stored.object)
        metadata = obj["metadata"]
        untracked = strips_managers(obj)
        check(served, obj, current, draft.warnings, target.subresource)
        retain_system_metadata(metadata, current["metadata"])
        metadata["resourceVersion"] = str(stored.resource_version)
        if moves_generation(served, obj, current):
            metadata["generation"] = current["metadata"].get("generation", 0) + 1
        now = format_time(self.now(served))
        if served.type.plural == CRD_PLURAL and not target.subresource:
            obj["status"] = crd_status(obj, current, now)
        brought = None if target.subresource else brought_managers(served, obj)
        metadata.pop("managedFields", None)
        if not untracked:
            author = Author(manager, root_shape(served.schema), now)
            record_managers(served, obj, current, managers, author, brought)
        if obj == current:
            return Outcome(current, warnings=draft.warnings)
        if draft.options.dry_run:
            return Outcome(obj, warnings=draft.warnings)
        collection = self.store.of(served)
        if is_finished(obj):
            # The event shows the object as it was, finalizer included; the answer keeps its resourceVersion.
            collection.remove(target.key)
            return Outcome(obj, warnings=draft.warnings)
        written = collection.commit(served.unview(obj))
        return Outcome(served.view(written.object), warnings=draft.warnings)


def is_finished(obj: Object) -> bool:
    """Whether nothing holds an object back from its deletion any longer. (A namespace waits until it is empty.)"""
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and obj.get("kind") != "Namespace"
    )
