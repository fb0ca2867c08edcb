"""CustomResourceDefinitions: defaults and status of the object, and the resource type that it makes served."""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.resources import CUSTOM_VERBS, Column, ResourceType, Traits, version_priority

# What the real server shows for a CRD that names no columns.
_AGE = Column("Age", "date", ".metadata.creationTimestamp")


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


def resource_from_crd(crd: Object) -> ResourceType:
    """The resource type that a CRD describes; unserved versions are left out."""
    spec, names = crd["spec"], crd["spec"]["names"]
    versions = [version for version in spec["versions"] if version.get("served")]
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
        verbs=CUSTOM_VERBS,
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
