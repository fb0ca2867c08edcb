"""The writing verbs over the store, without HTTP: create, update, patch, delete.

A write runs in three steps: draft the candidate from what is stored, let admission see it (the only step that may
await), then finish it (validation, field managers) and commit. If the stored object changed while admission was asked,
the write starts over, so a commit always follows the very object that it was checked against. Cancellation before the
commit leaves nothing behind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.access import ANONYMOUS, User
from controller.embedded.apiserver.admission import Admission, AdmissionRequest
from controller.embedded.apiserver.apply import (
    APPLY,
    UPDATE,
    Manager,
    Managers,
    apply_configuration,
    read_managers,
    strips_managers,
    track_update,
    write_managers,
)
from controller.embedded.apiserver.builtins import CRD_PLURAL
from controller.embedded.apiserver.crds import crd_status
from controller.embedded.apiserver.errors import Cause, GroupResource, Object
from controller.embedded.apiserver.metadata import generate_name, new_uid, retain_system_metadata
from controller.embedded.apiserver.requests import WriteOptions, parse_resource_version
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.shapes import root_shape
from controller.embedded.apiserver.storage import Collection, Store, Stored, storage_key
from controller.embedded.apiserver.strategy import (
    check,
    complete,
    drop_status_on_create,
    isolate,
    moves_generation,
    read_as,
)
from controller.foundation import Clock, format_time, wall_now

# A patch that loses against other writers is applied anew this often before it is a conflict (as the real server does).
_PATCH_ATTEMPTS = 5
# A generated name that is taken is drawn again this often.
_NAME_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Target:
    """What a write is about."""

    served: ServedVersion
    namespace: str
    name: str
    subresource: str = ""
    user: User = ANONYMOUS

    @property
    def key(self) -> str:
        return storage_key(self.namespace, self.name)

    @property
    def resource(self) -> GroupResource:
        return self.served.type.resource

    def not_found(self) -> errors.ApiError:
        return errors.not_found(self.resource, self.name)


@dataclass(slots=True)
class Outcome:
    """What a write came to. `object` is in the version of the request; `removed` after a deletion that is complete."""

    object: Object
    created: bool = False
    removed: bool = False
    warnings: list[str] = field(default_factory=list)


Build = Callable[[Object], Any]  # a private copy of the present object → the body of the update


@dataclass(slots=True)
class Operations:
    """The writing verbs. One instance per server; no method keeps a reference to the bodies it is given."""

    store: Store
    clock: Clock
    rng: random.Random
    admission: Admission
    create_namespaces: bool = False  # create a missing namespace on first use, for fixtures

    # -- create ----------------------------------------------------------------------------------------------------

    async def create(self, target: Target, body: Any, options: WriteOptions) -> Outcome:
        """POST. Raises ApiError."""
        self._find_namespace(target)
        draft, warnings = self._draft_create(target, body, options)
        request = AdmissionRequest(
            "CREATE", target.served, target.user, draft, None, target.subresource, options.dry_run
        )
        draft = await self.admission.admit(request, warnings)
        manager = Manager(UPDATE, options.manager, target.served.api_version)
        return self._finish_create(target, draft, options, warnings, {}, manager)

    def create_now(self, target: Target, body: Any, options: WriteOptions) -> Outcome:
        """Create without asking admission, for fixtures; never awaits."""
        self._find_namespace(target)
        draft, warnings = self._draft_create(target, body, options)
        manager = Manager(UPDATE, options.manager, target.served.api_version)
        return self._finish_create(target, draft, options, warnings, {}, manager, keep_status=True)

    def _find_namespace(self, target: Target) -> None:
        if not target.served.type.namespaced:
            return
        namespaces = self.store.collection(("", "namespaces"))
        found = namespaces.get(target.namespace)
        if found is None:
            if not self.create_namespaces:
                raise errors.not_found(GroupResource("", "namespaces"), target.namespace)
            metadata = self._new_metadata({"name": target.namespace}, wall=False)
            metadata["labels"] = {"kubernetes.io/metadata.name": target.namespace}
            namespaces.commit(
                {
                    "kind": "Namespace",
                    "apiVersion": "v1",
                    "metadata": metadata,
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                }
            )
        elif found.object["metadata"].get("deletionTimestamp"):
            error = errors.forbidden(
                target.resource,
                target.name,
                f"unable to create new content in namespace {target.namespace} because it is being terminated",
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {target.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error

    def _new_metadata(self, metadata: Object, *, wall: bool) -> Object:
        now = format_time(wall_now() if wall else self.clock.now())
        return {**metadata, "uid": new_uid(self.rng), "creationTimestamp": now}

    def _draft_create(self, target: Target, body: Any, options: WriteOptions) -> tuple[Object, list[str]]:
        served = target.served
        obj = read_as(served, _copy(body))
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise errors.internal("resourceVersion should not be set on objects to be created")
        _place(metadata, target)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "uid", "creationTimestamp"):
            metadata.pop(name, None)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._free_name(target, metadata["generateName"])
        warnings: list[str] = []
        _report_unknown(served, complete(served, obj), options, warnings, patched=False)
        return obj, warnings

    def _free_name(self, target: Target, base: str) -> str:
        collection = self.store.of(target.served)
        name = generate_name(base, self.rng)
        for _ in range(_NAME_ATTEMPTS):
            if collection.get(storage_key(target.namespace, name)) is None:
                break
            name = generate_name(base, self.rng)
        return name

    def _finish_create(
        self,
        target: Target,
        draft: Object,
        options: WriteOptions,
        warnings: list[str],
        managers: Managers,
        manager: Manager,
        *,
        keep_status: bool = False,
    ) -> Outcome:
        served = target.served
        if not keep_status:
            drop_status_on_create(served, draft)
        complete(served, draft)
        stripped = strips_managers(draft)
        draft["metadata"].pop("managedFields", None)
        check(served, draft, None, warnings)
        draft["metadata"] = self._new_metadata(draft["metadata"], wall=served.type.traits.wall_clock)
        now = draft["metadata"]["creationTimestamp"]
        if served.type.plural == CRD_PLURAL:
            draft["status"] = crd_status(draft, None, now)
        if served.type.traits.generation:
            draft["metadata"]["generation"] = 1
        if manager.operation == UPDATE and not stripped and manager.name:
            managers = track_update(managers, manager, {}, draft, root_shape(served.schema), now)
        write_managers(draft, managers)
        collection = self.store.of(served)
        if collection.get(storage_key(target.namespace, draft["metadata"]["name"])) is not None:
            raise errors.already_exists(target.resource, draft["metadata"]["name"])
        if options.dry_run:
            return Outcome(draft, created=True, warnings=warnings)
        stored = self._commit(collection, served, draft)
        return Outcome(served.view(stored.object), created=True, warnings=warnings)

    # -- update and patch ------------------------------------------------------------------------------------------

    async def update(self, target: Target, body: Any, options: WriteOptions) -> Outcome:
        """PUT. Raises ApiError 409 for another resourceVersion than the stored one."""
        collection = self.store.of(target.served)
        if collection.get(target.key) is None:
            if not target.served.type.traits.create_on_update or target.subresource:
                raise target.not_found()
            fresh = _copy(body)
            if isinstance(fresh, dict) and isinstance(fresh.get("metadata"), dict):
                fresh["metadata"].pop("resourceVersion", None)
            return await self.create(target, fresh, options)
        return await self._write(target, lambda _: _copy(body), options, patched=False)

    async def patch(self, target: Target, build: Build, options: WriteOptions) -> Outcome:
        """PATCH with JSON, merge or strategic content: `build` makes the new body from a copy of the present object."""
        if self.store.of(target.served).get(target.key) is None:
            raise target.not_found()
        return await self._write(target, build, options, patched=True)

    async def _write(self, target: Target, build: Build, options: WriteOptions, *, patched: bool) -> Outcome:
        collection = self.store.of(target.served)
        for _ in range(_PATCH_ATTEMPTS):
            stored = collection.get(target.key)
            if stored is None:
                raise target.not_found()
            body = build(_view_copy(target.served, stored))
            draft, warnings = self._draft_update(target, stored, body, options, patched=patched)
            current = target.served.view(stored.object)
            request = AdmissionRequest(
                "UPDATE", target.served, target.user, draft, current, target.subresource, options.dry_run
            )
            draft = await self.admission.admit(request, warnings)
            if collection.get(target.key) is not stored:
                continue
            manager = Manager(UPDATE, options.manager, target.served.api_version, target.subresource)
            return self._finish_update(target, stored, draft, options, warnings, None, manager)
        raise errors.modified(target.resource, target.name)

    def replace_now(self, target: Target, body: Any, options: WriteOptions) -> Outcome:
        """Replace main part and status at once without asking admission, for fixtures; never awaits."""
        stored = self.store.of(target.served).get(target.key)
        if stored is None:
            raise target.not_found()
        draft, warnings = self._draft_update(target, stored, _copy(body), options, patched=True, whole=True)
        manager = Manager(UPDATE, options.manager, target.served.api_version, target.subresource)
        return self._finish_update(target, stored, draft, options, warnings, None, manager)

    def _draft_update(
        self, target: Target, stored: Stored, body: Any, options: WriteOptions, *, patched: bool, whole: bool = False
    ) -> tuple[Object, list[str]]:
        served = target.served
        obj = read_as(served, body)
        metadata = obj["metadata"]
        _place(metadata, target)
        wanted = metadata.get("resourceVersion", "")
        if not wanted and not patched and not served.type.traits.unconditional_update:
            text = "Invalid value: 0x0: must be specified for an update"
            cause = Cause("metadata.resourceVersion", "FieldValueInvalid", text)
            raise errors.invalid(served.type.kind_name, target.name, [cause])
        if wanted and parse_resource_version(wanted) != stored.resource_version:
            raise errors.modified(target.resource, target.name)
        if metadata.get("uid") and metadata["uid"] != stored.uid:
            text = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {stored.uid}"
            raise errors.conflict(target.resource, target.name, text)
        if not whole:
            obj = isolate(served, obj, _view_copy(served, stored), target.subresource)
        warnings: list[str] = []
        _report_unknown(served, complete(served, obj), options, warnings, patched=patched)
        return obj, warnings

    def _finish_update(
        self,
        target: Target,
        stored: Stored,
        draft: Object,
        options: WriteOptions,
        warnings: list[str],
        managers: Managers | None,
        manager: Manager,
    ) -> Outcome:
        """Check and commit. `managers` are those of an apply; None: the write is an Update and tracked here."""
        served = target.served
        current = served.view(stored.object)
        metadata = draft["metadata"]
        stripped = strips_managers(draft)
        check(served, draft, current, warnings)
        retain_system_metadata(metadata, current["metadata"])
        metadata["resourceVersion"] = str(stored.resource_version)
        if moves_generation(served, draft, current):
            metadata["generation"] = current["metadata"].get("generation", 0) + 1
        now = format_time(wall_now() if served.type.traits.wall_clock else self.clock.now())
        if served.type.plural == CRD_PLURAL and not target.subresource:
            draft["status"] = crd_status(draft, current, now)
        self._write_managers(draft, current, managers, manager, served, now, stripped=stripped)
        if draft == current:
            return Outcome(current, warnings=warnings)
        if options.dry_run:
            return Outcome(draft, warnings=warnings)
        collection = self.store.of(served)
        if _is_finished(draft):
            collection.remove(target.key)
            return Outcome(draft, warnings=warnings)
        written = self._commit(collection, served, draft)
        return Outcome(served.view(written.object), warnings=warnings)

    def _write_managers(
        self,
        draft: Object,
        current: Object,
        managers: Managers | None,
        manager: Manager,
        served: ServedVersion,
        now: str,
        *,
        stripped: bool,
    ) -> None:
        held = current["metadata"].get("managedFields")
        draft["metadata"].pop("managedFields", None)
        if managers is None:
            if stripped or not held:  # an object without managers stays so until somebody applies
                return
            before = read_managers(current)
            managers = track_update(before, manager, current, draft, root_shape(served.schema), now)
            if managers is before:
                draft["metadata"]["managedFields"] = held
                return
        elif held and managers == read_managers(current):
            draft["metadata"]["managedFields"] = held
            return
        write_managers(draft, managers)

    async def apply(self, target: Target, configuration: Any, options: WriteOptions) -> Outcome:
        """PATCH with application/apply-patch+yaml: server-side apply; creates what is missing."""
        served = target.served
        if not options.explicit_manager:
            text = "Required value: is required for apply patch"
            raise errors.invalid(
                GroupResource("meta.k8s.io", "PatchOptions"), "", [Cause("fieldManager", "FieldValueRequired", text)]
            )
        stated = read_as(served, _copy(configuration))
        _place(stated["metadata"], target)
        manager = Manager(APPLY, options.manager, served.api_version, target.subresource)
        collection = self.store.of(served)
        for _ in range(_PATCH_ATTEMPTS):
            stored = collection.get(target.key)
            if stored is None and target.subresource:
                raise target.not_found()
            live = _view_copy(served, stored) if stored else {"metadata": {}}
            wanted = stated["metadata"].get("resourceVersion")
            if wanted and (stored is None or parse_resource_version(wanted) != stored.resource_version):
                raise errors.modified(target.resource, target.name)
            managers = read_managers(live)
            live["metadata"].pop("managedFields", None)
            now = format_time(self.clock.now())
            applied = apply_configuration(
                live, stated, managers, manager, root_shape(served.schema), now, force=options.force
            )
            body = _copy(applied.object)
            if stored is None:
                body["metadata"].pop("resourceVersion", None)
                self._find_namespace(target)
                draft, warnings = self._draft_create(target, body, options)
                request = AdmissionRequest("CREATE", served, target.user, draft, None, "", options.dry_run)
                draft = await self.admission.admit(request, warnings)
                if collection.get(target.key) is None:
                    return self._finish_create(target, draft, options, warnings, applied.managers, manager)
                continue
            draft, warnings = self._draft_update(target, stored, body, options, patched=True)
            current = served.view(stored.object)
            request = AdmissionRequest(
                "UPDATE", served, target.user, draft, current, target.subresource, options.dry_run
            )
            draft = await self.admission.admit(request, warnings)
            if collection.get(target.key) is stored:
                return self._finish_update(target, stored, draft, options, warnings, applied.managers, manager)
        raise errors.modified(target.resource, target.name)

    def _commit(self, collection: Collection, served: ServedVersion, obj: Object) -> Stored:
        return collection.commit(served.unview(obj))


def _copy(body: Any) -> Any:
    return orjson.loads(orjson.dumps(body))


def _view_copy(served: ServedVersion, stored: Stored) -> Object:
    """A private copy of a stored object as `served` shows it."""
    if served.from_storage is not None:
        return _copy(served.from_storage(stored.object))
    copied = stored.copy()
    copied["apiVersion"] = served.api_version
    return copied


def _is_finished(obj: Object) -> bool:
    """Whether nothing holds an object back from its deletion any longer."""
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and obj.get("kind") != "Namespace"
    )


def _place(metadata: Object, target: Target) -> None:
    """Bring name and namespace of a body in line with the path. Raises ApiError 400 where they contradict it."""
    name = metadata.get("name")
    if target.name and name not in (None, "", target.name):
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if target.name:
        metadata["name"] = target.name
    if not target.served.type.namespaced:
        metadata.pop("namespace", None)
        return
    namespace = metadata.get("namespace")
    if namespace not in (None, "", target.namespace):
        raise errors.bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request "
            f"({namespace} is not {target.namespace})"
        )
    metadata["namespace"] = target.namespace


def _report_unknown(
    served: ServedVersion, unknown: list[str], options: WriteOptions, warnings: list[str], *, patched: bool
) -> None:
    """Unknown fields as the request wants them reported: not at all, as warnings, or as a failure."""
    if not unknown or options.field_validation == "Ignore":
        return
    texts = [f'unknown field "{path}"' for path in unknown]
    if options.field_validation == "Warn":
        warnings += texts
        return
    raise strict_error(served, texts, patched=patched)


def strict_error(served: ServedVersion, texts: list[str], *, patched: bool) -> errors.ApiError:
    """The failure of strict field validation: 400 for a body, 422 at `patch` for a patch."""
    problem = f"strict decoding error: {', '.join(texts)}"
    kind = served.type.kind
    if patched:
        cause = Cause("patch", "FieldValueInvalid", f"Invalid value: {problem}")
        return errors.invalid(served.type.kind_name, "", [cause])
    return errors.bad_request(f'{kind} in version "{served.version}" cannot be handled as a {kind}: {problem}')
