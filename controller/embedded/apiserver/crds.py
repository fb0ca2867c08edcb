"""CustomResourceDefinitions: checks, defaults and status of the object, and the resource type that it makes served."""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.errors import Cause, Object
from controller.embedded.apiserver.resources import CUSTOM_VERBS, Column, ResourceType, Traits, version_priority

# What the real server shows for a CRD that names no columns.
_AGE = Column("Age", "date", ".metadata.creationTimestamp")
_COLUMN_TYPES = frozenset(("integer", "number", "string", "boolean", "date"))
_MAX_SELECTABLE = 8


def set_crd_defaults(crd: Object) -> None:
    """Names that follow from others, and the conversion strategy."""
    spec = crd.get("spec")
    names = spec.get("names") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(names, dict):
        return
    kind = names.get("kind")
    if isinstance(kind, str):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def crd_causes(crd: Object) -> list[Cause]:
    """What keeps a CRD from being served."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return [_required("spec")]
    causes: list[Cause] = []
    names: Object = spec["names"] if isinstance(spec.get("names"), dict) else {}
    causes += [_required(f"spec.{name}") for name in ("group", "scope", "versions") if not spec.get(name)]
    causes += [_required(f"spec.names.{name}") for name in ("plural", "kind") if not names.get(name)]
    if causes:
        return causes
    expected = f"{names['plural']}.{spec['group']}"
    if crd["metadata"].get("name") != expected:
        text = f'Invalid value: "{crd["metadata"].get("name")}": must be spec.names.plural+"."+spec.group'
        causes.append(Cause("metadata.name", "FieldValueInvalid", text))
    if spec["scope"] not in ("Namespaced", "Cluster"):
        text = f'Unsupported value: "{spec["scope"]}": supported values: "Cluster", "Namespaced"'
        causes.append(Cause("spec.scope", "FieldValueNotSupported", text))
    strategy = (spec.get("conversion") or {}).get("strategy", "None")
    if strategy != "None":
        text = f'Unsupported value: "{strategy}": this server converts by apiVersion alone: supported values: "None"'
        causes.append(Cause("spec.conversion.strategy", "FieldValueNotSupported", text))
    versions = spec["versions"] if isinstance(spec["versions"], list) else []
    if sum(1 for version in versions if version.get("storage")) != 1:
        text = "Invalid value: must have exactly one version marked as storage version"
        causes.append(Cause("spec.versions", "FieldValueInvalid", text))
    for index, version in enumerate(versions):
        causes += _version_causes(version, f"spec.versions[{index}]")
    return causes


def _required(field: str) -> Cause:
    return Cause(field, "FieldValueRequired", "Required value")


def _version_causes(version: Object, path: str) -> list[Cause]:
    causes = []
    if not version.get("name"):
        causes.append(_required(f"{path}.name"))
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        return [
            *causes,
            Cause(f"{path}.schema.openAPIV3Schema", "FieldValueRequired", "Required value: schemas are required"),
        ]
    _structural_causes(schema, f"{path}.schema.openAPIV3Schema", causes)
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        field = f"{path}.additionalPrinterColumns[{index}]"
        causes += [_required(f"{field}.{name}") for name in ("name", "type", "jsonPath") if not column.get(name)]
        if column.get("type") and column["type"] not in _COLUMN_TYPES:
            text = f'Unsupported value: "{column["type"]}"'
            causes.append(Cause(f"{field}.type", "FieldValueNotSupported", text))
    if len(version.get("selectableFields") or ()) > _MAX_SELECTABLE:
        text = f"Too many: must have at most {_MAX_SELECTABLE} items"
        causes.append(Cause(f"{path}.selectableFields", "FieldValueTooMany", text))
    return causes


def _structural_causes(schema: Any, path: str, causes: list[Cause]) -> None:
    """The main rules of structural schemas: a type everywhere, no references, keyed lists with usable keys."""
    if not isinstance(schema, dict):
        return
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not loose:
        causes.append(
            Cause(f"{path}.type", "FieldValueRequired", "Required value: must not be empty for specified object fields")
        )
    causes += [
        Cause(f"{path}.{name}", "FieldValueForbidden", "Forbidden: not allowed in a structural schema")
        for name in ("$ref", "definitions", "dependencies", "patternProperties")
        if name in schema
    ]
    if schema.get("properties") and schema.get("additionalProperties"):
        text = "Forbidden: additionalProperties and properties are mutual exclusive"
        causes.append(Cause(f"{path}.additionalProperties", "FieldValueForbidden", text))
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        causes.append(Cause(f"{path}.items", "FieldValueRequired", "Required value: must be specified"))
    items = schema.get("items")
    if schema.get("x-kubernetes-list-type") == "map":
        keys = schema.get("x-kubernetes-list-map-keys") or []
        if not keys:
            causes.append(_required(f"{path}.x-kubernetes-list-map-keys"))
        properties = (items or {}).get("properties") or {}
        required = (items or {}).get("required") or ()
        for key in keys:
            if key not in properties:
                text = f'Invalid value: "{key}": must be the name of a property of the items'
                causes.append(Cause(f"{path}.x-kubernetes-list-map-keys", "FieldValueInvalid", text))
            elif key not in required and "default" not in properties[key]:
                text = (
                    "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be "
                    "a required property"
                )
                causes.append(Cause(f"{path}.items.properties[{key}].default", "FieldValueRequired", text))
    for name, member in (schema.get("properties") or {}).items():
        _structural_causes(member, f"{path}.properties[{name}]", causes)
    if isinstance(items, dict):
        _structural_causes(items, f"{path}.items", causes)
    if isinstance(schema.get("additionalProperties"), dict):
        _structural_causes(schema["additionalProperties"], f"{path}.additionalProperties", causes)


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
