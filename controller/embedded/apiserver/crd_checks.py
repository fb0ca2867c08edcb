"""Whether a CustomResourceDefinition can be served: its names, versions, columns and schemas."""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.errors import Cause, Object, shown
from controller.embedded.apiserver.names import dns_1035_problems, subdomain_problems
from controller.embedded.apiserver.structural import structural_causes

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE = 8
_SELECTABLE_TYPES = frozenset(("boolean", "integer", "string"))
_APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")


def crd_causes(crd: Object) -> list[Cause]:
    """What keeps a CRD from being served."""
    spec = crd.get("spec") or {}
    names, group = spec.get("names") or {}, spec.get("group") or ""
    versions = spec.get("versions")
    name = crd["metadata"].get("name")
    causes: list[Cause] = []
    if name and name != f"{names.get('plural', '')}.{group}":
        causes.append(_invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    causes += _group_causes(group)
    scope = spec.get("scope")
    if not scope:
        causes.append(_required("spec.scope"))
    elif scope not in ("Cluster", "Namespaced"):
        causes.append(_unsupported("spec.scope", scope, ("Cluster", "Namespaced")))
    causes += _versions_causes(spec, versions or [])
    causes += [_required(f"spec.names.{member}") for member in _NAMES if not names.get(member)]
    causes += _names_causes(names)
    for shared, field in _shared_parts(versions or []):
        causes += _PARTS[field][1](shared, _PARTS[field][0], (versions or [])[0])
    causes += _conversion_causes(spec.get("conversion") or {})
    if not any(version.get("storage") for version in versions or ()):
        text = "must have at least one stored version"
        causes.append(_invalid("status.storedVersions", None, text))
    if _is_protected(group) and not (crd["metadata"].get("annotations") or {}).get(_APPROVAL):
        text = (
            f'Required value: protected groups must have approval annotation "{_APPROVAL}", see '
            "https://github.com/kubernetes/enhancements/pull/1111"
        )
        causes.append(Cause(f"metadata.annotations[{_APPROVAL}]", "FieldValueRequired", text))
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(_invalid("spec.preserveUnknownFields", True, text))
    return causes


_NAMES = ("plural", "singular", "kind", "listKind")


def _invalid(field: str, value: Any, text: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {text}")


def _required(field: str, text: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {text}" if text else "Required value")


def _unsupported(field: str, value: Any, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{option}"' for option in supported)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}")


def _group_causes(group: str) -> list[Cause]:
    if not group:
        return [_required("spec.group")]
    problems = subdomain_problems(group)
    if problems:
        return [_invalid("spec.group", group, ",".join(problems))]
    return [] if "." in group else [_invalid("spec.group", group, "should be a domain with at least one dot")]


def _is_protected(group: str) -> bool:
    return group in _PROTECTED or group.endswith(tuple(f".{name}" for name in _PROTECTED))


def _names_causes(names: Object) -> list[Cause]:
    causes: list[Cause] = []
    for member in ("plural", "singular"):
        if names.get(member):
            causes += _label_causes(f"spec.names.{member}", names[member])
    for member in ("kind", "listKind"):
        if names.get(member):
            problems = ",".join(dns_1035_problems(names[member].lower()))
            text = f"may have mixed case, but should otherwise match: {problems}"
            causes += [_invalid(f"spec.names.{member}", names[member], text)] if problems else []
    for index, name in enumerate(names.get("shortNames") or ()):
        causes += _label_causes(f"spec.names.shortNames[{index}]", name)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        text = "kind and listKind may not be the same"
        causes.append(_invalid("spec.names.listKind", names["listKind"], text))
    for index, name in enumerate(names.get("categories") or ()):
        causes += _label_causes(f"spec.names.categories[{index}]", name)
    return causes


def _label_causes(field: str, name: str) -> list[Cause]:
    problems = dns_1035_problems(name)
    return [_invalid(field, name, ",".join(problems))] if problems else []


def _versions_causes(spec: Object, versions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    shared = {field for _, field in _shared_parts(versions)}
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if not isinstance((version.get("schema") or {}).get("openAPIV3Schema"), dict):
            causes.append(_required(f"{path}.schema.openAPIV3Schema"))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        causes += _label_causes(f"{path}.name", version.get("name", ""))
        if version.get("deprecationWarning") and not version.get("deprecated"):
            text = "can only be set for deprecated versions"
            causes.append(_invalid(f"{path}.deprecationWarning", version["deprecationWarning"], text))
        for field, (_, check) in _PARTS.items():
            if field not in shared and version.get(field):
                causes += check(version[field], f"{path}.{_PER_VERSION.get(field, field)}", version)
    named = [version.get("name", "") for version in versions]
    shown_versions = _as_typed(versions) if "versions" in spec else "null"
    if len(set(named)) < len(named):
        text = f"Invalid value: {shown_versions}: must contain unique version names"
        causes.append(Cause("spec.versions", "FieldValueInvalid", text))
    if sum(1 for version in versions if version.get("storage")) != 1:
        text = f"Invalid value: {shown_versions}: must have exactly one version marked as storage version"
        causes.append(Cause("spec.versions", "FieldValueInvalid", text))
    if named and named[0]:
        causes += _label_causes("spec.version", named[0])
    return causes


def _as_typed(versions: list[Object]) -> str:
    """Versions as the server's internal type prints them (what they share stands elsewhere, and is null here)."""
    parts = ",".join(
        f'{{"Name":{shown(version.get("name", ""))},"Served":{shown(bool(version.get("served")))},'
        f'"Storage":{shown(bool(version.get("storage")))},"Deprecated":{shown(bool(version.get("deprecated")))},'
        f'"DeprecationWarning":{shown(version.get("deprecationWarning"))},"Schema":null,"Subresources":null,'
        '"AdditionalPrinterColumns":null,"SelectableFields":null}'
        for version in versions
    )
    return f"[{parts}]"


def _schema_causes(part: Any, path: str, version: Object) -> list[Cause]:
    del version
    schema = (part or {}).get("openAPIV3Schema")
    return structural_causes(schema, f"{path}.openAPIV3Schema") if isinstance(schema, dict) else []


def _subresource_causes(part: Any, path: str, version: Object) -> list[Cause]:
    del version
    scale = (part or {}).get("scale")
    if scale is None:
        return []
    return [
        _required(f"{path}.scale.{name}") for name in ("specReplicasPath", "statusReplicasPath") if not scale.get(name)
    ]


def _column_causes(part: Any, path: str, version: Object) -> list[Cause]:
    del version
    causes = []
    types, formats = ",".join(_COLUMN_TYPES), ",".join(_COLUMN_FORMATS)
    for index, column in enumerate(part or ()):
        field = f"{path}[{index}]"
        if not column.get("name"):
            causes.append(_required(f"{field}.name"))
        if not column.get("type"):
            causes.append(_required(f"{field}.type", f"must be one of {types}"))
        elif column["type"] not in _COLUMN_TYPES:
            causes.append(_invalid(f"{field}.type", column["type"], f"must be one of {types}"))
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            causes.append(_invalid(f"{field}.format", column["format"], f"must be one of {formats}"))
        if not column.get("jsonPath"):
            causes.append(_required(f"{field}.JSONPath"))
        elif not column["jsonPath"].startswith("."):
            text = "must be a simple json path starting with ."
            causes.append(_invalid(f"{field}.JSONPath", column["jsonPath"], text))
    return causes


def _selectable_causes(part: Any, path: str, version: Object) -> list[Cause]:
    causes = []
    fields = part or ()
    if len(fields) > _MAX_SELECTABLE:
        text = f"Too many: {len(fields)}: must have at most {_MAX_SELECTABLE} items"
        causes.append(Cause(path, "FieldValueTooMany", text))
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    for index, field in enumerate(fields):
        place, json_path = f"{path}[{index}].jsonPath", field.get("jsonPath", "")
        if not json_path:
            causes.append(_required(place))
        elif not _is_selectable(schema, json_path):
            causes.append(_invalid(place, json_path, "is an invalid path: does not refer to a valid field"))
    return causes


def _is_selectable(schema: Object, json_path: str) -> bool:
    node: Any = schema
    steps = json_path.lstrip(".").split(".")
    if steps[0] in ("metadata", "apiVersion", "kind"):
        return False
    for step in steps:
        node = (node.get("properties") or {}).get(step)
        if node is None:
            return False
    return node.get("type") in _SELECTABLE_TYPES


# Parts of a version: where findings are reported when all versions share the part, and the check.
_PARTS = {
    "schema": ("spec.validation", _schema_causes),
    "subresources": ("spec.subresources", _subresource_causes),
    "additionalPrinterColumns": ("spec.additionalPrinterColumns", _column_causes),
    "selectableFields": ("spec.selectableFields", _selectable_causes),
}
_PER_VERSION = {"schema": "schema"}


def _shared_parts(versions: list[Object]) -> list[tuple[Any, str]]:
    """(part, its name) of what is equal in all versions: the server keeps it once, and reports it there."""
    if not versions:
        return []
    first = versions[0]
    return [
        (first[field], field)
        for field in _PARTS
        if first.get(field) and all(version.get(field) == first[field] for version in versions)
    ]


def _conversion_causes(conversion: Object) -> list[Cause]:
    strategy = conversion.get("strategy", "None")
    if strategy == "Webhook":
        text = "this server converts by apiVersion alone and calls no conversion webhook"
        return [_invalid("spec.conversion.strategy", strategy, text)]
    if strategy != "None":
        return [_unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))]
    return []
