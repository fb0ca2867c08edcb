"""Whether an applied configuration fits its schema at all: server-side apply reads it as a typed object before anything
else and answers 500 where that fails, long before validation would answer 422."""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.errors import Object, shown
from controller.embedded.apiserver.field_sets import missing_keys
from controller.embedded.apiserver.reading import read_as
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.shapes import Shape

_IDENTITY = frozenset(("apiVersion", "kind"))
_TEXT: Object = {"type": "string"}
_INTEGER: Object = {"type": "integer"}
_BOOLEAN: Object = {"type": "boolean"}
_TEXTS: Object = {"type": "object", "additionalProperties": _TEXT}
_METADATA: Object = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"), _TEXT),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TEXT),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _INTEGER),
        **dict.fromkeys(("labels", "annotations"), _TEXTS),
        "finalizers": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT),
                    **dict.fromkeys(("controller", "blockOwnerDeletion"), _BOOLEAN),
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
        "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    },
}
_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}


def untyped(configuration: Object, schema: Object | None) -> str:
    """What does not fit, in the words of the real server; the empty text where everything does. Without a schema only
    the metadata is looked at."""
    problems: list[str] = []
    given = {name: value for name, value in configuration.items() if name not in _IDENTITY}
    metadata = {"metadata": given.pop("metadata", None)}
    if schema is not None:
        _check_members(given, schema, "", problems)
    _check_members(metadata, {"properties": {"metadata": _METADATA}}, "", problems)
    if len(problems) > 1:
        return "errors:\n  " + "\n  ".join(problems)
    return problems[0] if problems else ""


def _check_members(value: Object, schema: Object, path: str, problems: list[str]) -> None:
    """Declared members first, in order of names. One that does not fit ends it (on the real server any one of them)."""
    declared = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for name in sorted(value, key=lambda name: (name not in declared, name)):
        node = declared.get(name, extra if isinstance(extra, dict) else None)
        before = len(problems)
        if node is not None:
            _check(value[name], node, f"{path}.{name}", problems)
        elif extra is not True and not schema.get("x-kubernetes-preserve-unknown-fields"):
            problems.append(f"{path}.{name}: field not declared in schema")
        if len(problems) > before:
            return


def _check(value: Any, node: Object, path: str, problems: list[str]) -> None:
    kind = node.get("type")
    if value is None or node.get("x-kubernetes-int-or-string"):
        return
    if kind == "object":
        if isinstance(value, dict):
            _check_members(value, node, path, problems)
        else:
            problems.append(f"{path}: expected map, got &{{{_go(value)}}}")
    elif kind == "array":
        if isinstance(value, list):
            _check_items(value, node, path, problems)
        else:
            problems.append(f"{path}: expected list, got &{{{_go(value)}}}")
    elif kind == "string" and not isinstance(value, str):
        problems.append(f"{path}: expected string, got &value.valueUnstructured{{Value:{_go(value, typed=True)}}}")
    elif kind in ("integer", "number") and (isinstance(value, bool) or not isinstance(value, int | float)):
        found = _GO_TYPES.get(type(value), "map[string]interface {}")
        problems.append(f"{path}: expected numeric (int or float), got {found}")
    elif kind == "boolean" and not isinstance(value, bool):
        problems.append(f"{path}: expected boolean, got &{{{_go(value)}}}")


def _check_items(items: list[Any], node: Object, path: str, problems: list[str]) -> None:
    shape, item_node = Shape(node), node.get("items") or {}
    keys = shape.keys(items)
    seen: set[str] = set()
    for index, item in enumerate(items):
        place = f"{path}[{index}]"
        if shape.is_set:
            place = f"{path}[={shown(item)}]"
        elif keys:
            if not isinstance(item, dict):
                what = "a null element" if item is None else "non-map elements"
                problem = f"associative list with keys may not have {what}"
                problems.append(f"{path}: element {index}: {problem}")
                return
            identity = shape.key_of(item, keys)
            if identity is None:
                problems.append(f"{path}: {missing_keys(index, keys)}")
                return
            key_text = "[" + ",".join(f"{key}={shown(part)}" for key, part in identity) + "]"
            if key_text in seen:
                problems.append(f"{path}: duplicate entries for key {key_text}")
                return
            seen.add(key_text)
            place = path + key_text
        _check(item, item_node, place, problems)


def _go(value: Any, *, typed: bool = False) -> str:
    """A value as Go prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inner = " ".join(f"{name}:{_go(member)}" for name, member in sorted(value.items()))
        return shown(value) if typed else f"map[{inner}]"
    if isinstance(value, list):
        return "[" + " ".join(_go(item) for item in value) + "]"
    if isinstance(value, str) and typed:
        return shown(value)
    return "<nil>" if value is None else str(value) if isinstance(value, str) else shown(value)


def converted(served: ServedVersion, configuration: Object, subject: str) -> Object:
    """A configuration as an object of its kind. Raises ApiError 500 for what only its type can tell, such as times."""
    try:
        return read_as(served, configuration)
    except errors.Undecodable as error:
        json = "" if error.problem.startswith("parsing") else "error decoding from json: "
        kind = f"{served.type.group}/{served.version}, Kind={served.type.kind}"
        raise errors.internal(
            f"failed to convert new object {subject} to proper version: unable to convert unstructured object to "
            f"{kind}: {json}{error.problem}"
        ) from None


def typed_name(obj: Object) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    version = str(obj.get("apiVersion"))
    return f"({name}; {version if '/' in version else f'/{version}'}, Kind={obj.get('kind')})"
