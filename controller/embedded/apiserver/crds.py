"""CustomResourceDefinitions: defaults and status of the object, the stages of its deletion, and the resource type that
it makes served. Pure functions."""

from __future__ import annotations

from enum import Enum
from typing import Any

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.resources import (
    CUSTOM_VERBS,
    TERMINATING_VERBS,
    Column,
    ResourceType,
    Traits,
    version_priority,
)

# What the real server shows for a CRD that names no columns.
_AGE = Column("Age", "date", ".metadata.creationTimestamp")
# Holds a definition until its objects are gone; the server sets it with the deletion.
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_TERMINATING = "Terminating"


class Termination(Enum):
    """How far the deletion of a definition is: status, reason and message of its condition `Terminating`."""

    PENDING = (
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    )
    IN_PROGRESS = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
    COMPLETED = ("False", "InstanceDeletionCompleted", "removed all instances")


def set_crd_defaults(crd: Object) -> None:
    """Names that follow from others, the conversion strategy, and what a typed version always shows."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    for version in spec.get("versions") or ():
        version.setdefault("served", False)
        version.setdefault("storage", False)
        _drop_null_defaults((version.get("schema") or {}).get("openAPIV3Schema"))


def _drop_null_defaults(schema: Any) -> None:
    """A default of null is none."""
    if not isinstance(schema, dict):
        return
    if "default" in schema and schema["default"] is None:
        del schema["default"]
    for member in (schema.get("properties") or {}).values():
        _drop_null_defaults(member)
    _drop_null_defaults(schema.get("items"))
    _drop_null_defaults(schema.get("additionalProperties"))


def crd_status(crd: Object, old: Object | None, now: str) -> Object:
    """The status of an accepted CRD. The real server sets it a moment later; here it is there at once, as the resource
    is served at once."""
    names = crd["spec"]["names"]
    storage = next(version["name"] for version in crd["spec"]["versions"] if version["storage"])
    stored = list(((old or {}).get("status") or {}).get("storedVersions") or [])
    if storage not in stored:
        stored.append(storage)
    conditions = ((old or {}).get("status") or {}).get("conditions") or [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    return {"conditions": conditions, "acceptedNames": names, "storedVersions": stored}


def begin_termination(crd: Object, now: str) -> None:
    """Mark a definition as being deleted. Neither its generation nor its grace is touched, unlike other kinds'."""
    metadata = crd["metadata"]
    metadata["deletionTimestamp"] = now
    finalizers = metadata.setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)
    set_termination(crd, Termination.PENDING, now)


def awaits_cleanup(crd: Object) -> bool:
    """Whether a definition is being deleted and its objects are not known to be gone."""
    metadata = crd["metadata"]
    return bool(metadata.get("deletionTimestamp")) and CLEANUP in (metadata.get("finalizers") or ())


def set_termination(crd: Object, stage: Termination, now: str) -> bool:
    """Write the condition `Terminating`; its time moves with its status only. Returns whether anything changed."""
    status, reason, message = stage.value
    conditions = crd.setdefault("status", {}).setdefault("conditions", [])
    found = next((condition for condition in conditions if condition["type"] == _TERMINATING), None)
    if found is None:
        found = {"type": _TERMINATING}
        conditions.append(found)
    since = found["lastTransitionTime"] if found.get("status") == status else now
    written = {"status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    if all(found.get(name) == value for name, value in written.items()):
        return False
    found.update(written)
    return True


def is_terminating(crd: Object) -> bool:
    """Whether the type of a definition takes no new objects."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == _TERMINATING and each["status"] == "True" for each in conditions)


def resource_from_crd(crd: Object) -> ResourceType:
    """The resource type that a CRD describes; unserved versions are left out."""
    spec, names = crd["spec"], crd["spec"]["names"]
    versions = [version for version in spec["versions"] if version.get("served")]
    terminating = is_terminating(crd)
    with_status = any("status" in (version.get("subresources") or {}) for version in versions)
    resource = ResourceType(
        group=spec["group"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        list_kind=names.get("listKind", ""),
        namespaced=spec["scope"] == "Namespaced",
        storage_version=next(version["name"] for version in spec["versions"] if version["storage"]),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        custom=True,
        verbs=TERMINATING_VERBS if terminating else CUSTOM_VERBS,
        terminating=terminating,
        traits=Traits(status=with_status),
    )
    for version in sorted(versions, key=lambda version: version_priority(version["name"])):
        selectable = tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ())
        resource.add_version(
            version["name"],
            schema=version["schema"]["openAPIV3Schema"],
            columns=tuple(_column(column) for column in version.get("additionalPrinterColumns") or ()) or (_AGE,),
            selectable=selectable,
            status="status" in (version.get("subresources") or {}),
        )
    return resource


def _column(column: Object) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        path=column["jsonPath"],
        format=column.get("format", ""),
        description=column.get("description", ""),
        priority=column.get("priority", 0),
    )
