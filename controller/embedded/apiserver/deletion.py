"""DELETE: preconditions, grace, finalizers, and what it means to be gone.

Foreground and Orphan deletion wait on a finalizer, as ever, but only where somebody will remove it (`garbage`).

An object without finalizers and without grace is removed at once. Otherwise it is marked: `deletionTimestamp` is set
once, the generation moves on, and it goes when the last finalizer does (`Operations`) or, for a Pod, when the kubelet
deletes it with grace 0. Namespaces wait until they are empty (`garbage`), definitions until their objects are gone
(`definitions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.admission import AdmissionRequest
from controller.embedded.apiserver.builtin_types import json_word, struct_problem
from controller.embedded.apiserver.builtins import CRD_GROUP, CRD_PLURAL
from controller.embedded.apiserver.crds import begin_termination
from controller.embedded.apiserver.errors import GroupResource, Object
from controller.embedded.apiserver.operations import Operations
from controller.embedded.apiserver.requests import integer
from controller.embedded.apiserver.storage import Stored
from controller.embedded.apiserver.targets import Outcome, Target
from controller.foundation import format_time

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_PROPAGATION_FINALIZERS = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_DEFINITIONS = GroupResource(CRD_GROUP, CRD_PLURAL)
_IMMORTAL_NAMESPACES = ("default", "kube-public", "kube-system")
_POLICIES = ("Foreground", "Background", "Orphan")
_DEFAULT_POD_GRACE_SECONDS = 30
_FINISHED_POD_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The body (or query) of DELETE."""

    uid: str = ""
    resource_version: str = ""
    grace_seconds: int | None = None
    propagation: str = ""
    dry_run: bool = False

    def as_object(self) -> Object:
        """The options as webhooks see them; what was not asked for is left out."""
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        members: Object = {
            "gracePeriodSeconds": self.grace_seconds,
            "preconditions": {name: value for name, value in preconditions.items() if value} or None,
            "propagationPolicy": self.propagation or None,
            "dryRun": ["All"] if self.dry_run else None,
        }
        return {name: value for name, value in members.items() if value is not None}

    @classmethod
    def parse(cls, body: Any, query: Mapping[str, str]) -> DeleteOptions:
        """Raises ApiError 400 for options of a wrong type and 422 for an unknown policy."""
        if not isinstance(body, dict | None):
            raise errors.bad_request(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_word(body)} into Go value "
                "of type DeleteOptions"
            )
        given: Object = body or {}
        if given.get("kind") not in (None, "", "DeleteOptions"):
            raise errors.bad_request(f'no kind "{given["kind"]}" is registered for version "meta.k8s.io/v1"')
        if problem := struct_problem(given, "DeleteOptions"):
            raise errors.bad_request(problem)
        preconditions = given.get("preconditions") or {}
        grace = given.get("gracePeriodSeconds")
        if grace is None:
            grace = integer(query, "gracePeriodSeconds")
        propagation = given.get("propagationPolicy") or query.get("propagationPolicy") or ""
        orphan = given.get("orphanDependents")
        dry_run = given.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
        causes = [] if set(dry_run) <= {"All"} else [_unsupported("dryRun", dry_run, ("All",))]
        if propagation and propagation not in _POLICIES:
            causes.append(_unsupported("propagationPolicy", propagation, (*_POLICIES, "nil")))
        if propagation and orphan is not None:
            text = f'Invalid value: "{propagation}": orphanDependents and deletionPropagation cannot be both set'
            causes.append(errors.Cause("propagationPolicy", "FieldValueInvalid", text))
        if causes:
            raise errors.invalid(errors.GroupResource("meta.k8s.io", "DeleteOptions"), "", causes)
        if orphan is not None:
            propagation = "Orphan" if orphan else "Background"
        return cls(
            preconditions.get("uid") or "",
            preconditions.get("resourceVersion") or "",
            None if grace is None else max(0, grace),
            propagation,
            bool(dry_run),
        )


def _unsupported(field: str, value: Any, supported: tuple[str, ...]) -> errors.Cause:
    listed = ", ".join(f'"{option}"' for option in supported)
    text = f"Unsupported value: {errors.shown(value)}: supported values: {listed}"
    return errors.Cause(field, "FieldValueNotSupported", text)


async def delete(operations: Operations, target: Target, options: DeleteOptions) -> Outcome:
    """Delete one object. The outcome's object is the last state (removed) or the marked object (held)."""
    collection = operations.store.of(target.served)
    stored = collection.get(target.key)
    if stored is None:
        raise target.not_found()
    _check_preconditions(target, stored, options)
    if target.served.type.plural == "namespaces" and target.name in _IMMORTAL_NAMESPACES:
        raise errors.forbidden(target.resource, target.name, "this namespace may not be deleted")
    request = AdmissionRequest(
        "DELETE",
        target.served,
        target.user,
        None,
        target.served.view(stored.object),
        dry_run=options.dry_run,
        options=options.as_object(),
    )
    await operations.admission.admit(request, [])
    stored = collection.get(target.key)
    if stored is None:
        raise target.not_found()
    _check_preconditions(target, stored, options)
    return delete_now(operations, target, stored, options)


def delete_now(operations: Operations, target: Target, stored: Stored, options: DeleteOptions) -> Outcome:
    """The deletion itself, without admission; never awaits."""
    served, collection = target.served, operations.store.of(target.served)
    obj = stored.copy()
    changed = _mark(operations, target, obj, options)
    removed = changed is not _Marking.HELD and changed is not _Marking.UNCHANGED
    if options.dry_run:
        return Outcome(served.view(obj), removed=removed)
    if changed is _Marking.GRACEFUL:
        collection.commit(obj)  # the kubelet's last deletion is a write of its own before the object goes
    if removed:
        last = collection.remove(stored.key)
        return Outcome(served.view(last.object if changed is _Marking.GRACEFUL else obj), removed=True)
    if changed is _Marking.HELD:
        return Outcome(served.view(collection.commit(obj).object))
    return Outcome(served.view(obj))


def _check_preconditions(target: Target, stored: Stored, options: DeleteOptions) -> None:
    kind = target.served.type.kind_name
    if target.resource == _DEFINITIONS and not stored.object["metadata"].get("deletionTimestamp"):
        _check_stored(target, stored, options)
    if options.uid and options.uid != stored.uid:
        text = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({stored.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(kind, target.name, text)
    if options.resource_version and options.resource_version != str(stored.resource_version):
        text = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({stored.resource_version}). The object might have been modified"
        )
        raise errors.conflict(kind, target.name, text)


def _check_stored(target: Target, stored: Stored, options: DeleteOptions) -> None:
    """The same of a definition, which is marked past the common way: in the words of storage."""
    pairs = (
        ("UID", options.uid, stored.uid),
        ("ResourceVersion", options.resource_version, str(stored.resource_version)),
    )
    for what, wanted, found in pairs:
        if wanted and wanted != found:
            raise errors.precondition_failed(target.resource, target.name, what, wanted, found)


class _Marking(Enum):
    """What marking an object came to."""

    FREE = "nothing holds it, and it was not marked"
    GRACEFUL = "marked, and its grace is over"
    HELD = "marked, and something holds it"
    UNCHANGED = "held already, as before"


def _mark(operations: Operations, target: Target, obj: Object, options: DeleteOptions) -> _Marking:
    """Mark `obj` as being deleted, where something holds it or its type has a grace."""
    traits = target.served.type.traits
    metadata = obj["metadata"]
    if target.resource == _DEFINITIONS:
        return _mark_definition(obj, format_time(operations.now(target.served)))
    already = bool(metadata.get("deletionTimestamp"))
    finalizers = list(metadata.get("finalizers") or ())
    wanted = _PROPAGATION_FINALIZERS.get(options.propagation) if operations.propagates else None
    if wanted and wanted not in finalizers and not already:
        finalizers.append(wanted)
        metadata["finalizers"] = finalizers
    grace = _pod_grace(obj, options) if traits.graceful else 0
    is_namespace = target.served.type.plural == "namespaces"
    free = not finalizers and grace == 0 and not is_namespace
    if free and not traits.graceful:
        return _Marking.FREE
    if already:
        remaining = metadata.get("deletionGracePeriodSeconds") or 0
        if not traits.graceful or grace >= remaining:
            return _Marking.UNCHANGED
        metadata["deletionGracePeriodSeconds"] = grace
        return _Marking.GRACEFUL if free else _Marking.HELD
    metadata["deletionTimestamp"] = format_time(operations.now(target.served) + grace)
    if not is_namespace:
        metadata["deletionGracePeriodSeconds"] = grace
    if traits.generation:
        metadata["generation"] = metadata.get("generation", 0) + 1
    if is_namespace:
        obj.setdefault("status", {})["phase"] = "Terminating"
    return _Marking.GRACEFUL if free else _Marking.HELD


def _mark_definition(crd: Object, now: str) -> _Marking:
    """Only a second deletion writes the grace, which is none."""
    metadata = crd["metadata"]
    if not metadata.get("deletionTimestamp"):
        begin_termination(crd, now)
    elif "deletionGracePeriodSeconds" in metadata:
        return _Marking.UNCHANGED
    else:
        metadata["deletionGracePeriodSeconds"] = 0
    return _Marking.HELD


def _pod_grace(pod: Object, options: DeleteOptions) -> int:
    """The seconds that the kubelet gets; none where no kubelet has the Pod."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _FINISHED_POD_PHASES:
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_POD_GRACE_SECONDS))
