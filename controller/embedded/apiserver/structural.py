"""The rules of structural schemas: what keeps a schema from being used, with the findings of the real server.

Not checked: the types of rules beyond the members that they name, and what rules would cost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import orjson

from controller.embedded.apiserver.cel import CelSyntaxError, CelUnsupported, compile_rule
from controller.embedded.apiserver.errors import Cause, Object, shown
from controller.embedded.apiserver.pruning import prune, set_defaults
from controller.embedded.apiserver.validation import value_causes

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_SCALARS = frozenset(("boolean", "integer", "number", "string"))
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id")
_OUTSIDE_ONLY = ("type", "additionalProperties", "default", "nullable", "description", "title")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_RULES = "x-kubernetes-validations"
_LIST_TYPE, _LIST_KEYS, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_INT_OR_STRING, _PRESERVE = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
_EITHER = [{"type": "integer"}, {"type": "string"}]
_EMBEDDED = "x-kubernetes-embedded-resource"
_ROOT_METADATA = frozenset(("name", "generateName"))
_FIELD_PATH = re.compile(r"(\.[A-Za-z_$][\w$]*|\['[^']+'\])+")
_FIELD_STEP = re.compile(r"\.([A-Za-z_$][\w$]*)|\['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands: its path, what it is there, and the list above it in which items have no predecessors."""

    path: str
    role: str = "specified object fields"
    uncorrelated: str = ""

    def child(self, step: str, role: str = "specified object fields") -> _Place:
        return replace(self, path=f"{self.path}.{step}", role=role)


def structural_causes(schema: Object, path: str) -> list[Cause]:
    """What is wrong with the schema of a version. Defaults are looked at only where the schema itself is sound."""
    causes: list[Cause] = []
    _check_root(schema, path, causes)
    _check(schema, _Place(path, "root"), causes)
    if not causes:
        _check_defaults(schema, path, causes)
    return causes


def _invalid(field: str, value: Any, text: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {text}")


def _required(field: str, text: str) -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {text}")


def _forbidden(field: str, text: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {text}")


def _unsupported(field: str, value: Any, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{option}"' for option in supported)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}")


def _check_root(schema: Object, path: str, causes: list[Cause]) -> None:
    if schema.get("type") and schema["type"] != "object":
        causes.append(_invalid(f"{path}.type", schema["type"], "must be object at the root"))
    properties = schema.get("properties") or {}
    for name in ("apiVersion", "kind"):
        given = (properties.get(name) or {}).get("type", "string")
        if given != "string":
            causes.append(_invalid(f"{path}.properties[{name}].type", given, "must be string"))
    metadata = properties.get("metadata") or {}
    if set(metadata.get("properties") or ()) - _ROOT_METADATA:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        causes.append(_forbidden(f"{path}.properties[metadata]", text))


def _check(schema: Any, place: _Place, causes: list[Cause]) -> None:
    if not isinstance(schema, dict):
        return
    path = place.path
    found = [name for name in _UNSUPPORTED if name in schema]
    if found:
        causes += [_forbidden(f"{path}.{name}", f"{name} is not supported") for name in found]
        return
    if isinstance(schema.get("items"), list):
        causes.append(_forbidden(f"{path}.items", "items must be a schema object and not an array"))
        return
    _check_type(schema, place, causes)
    _check_extensions(schema, path, causes)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(_forbidden(f"{path}.uniqueItems", text))
    if isinstance(schema.get("pattern"), str):
        try:
            re.compile(schema["pattern"])
        except re.error as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            causes.append(_invalid(f"{path}.pattern", schema["pattern"], text))
    if schema.get("properties") and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(_forbidden(f"{path}.additionalProperties", text))
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            _check_logical(inner, f"{path}.{name}[{index}]", causes, typed=schema[name] == _EITHER)
    _check_logical(schema.get("not"), f"{path}.not", causes)
    _check_rules(schema, place, causes)
    _check_children(schema, place, causes)


def _check_type(schema: Object, place: _Place, causes: list[Cause]) -> None:
    field, kind = f"{place.path}.type", schema.get("type")
    if not kind:
        if place.role == "root":
            causes.append(_required(field, "must not be empty at the root"))
        elif not (schema.get(_INT_OR_STRING) or schema.get(_PRESERVE)):
            causes.append(_required(field, f"must not be empty for {place.role}"))
    elif kind not in _TYPES:
        causes.append(_unsupported(field, kind, _TYPES))
        if kind == "null":
            causes.append(_forbidden(field, "type cannot be set to null, use nullable as an alternative"))
    if kind == "array" and not isinstance(schema.get("items"), dict):
        causes.append(_required(f"{place.path}.items", "must be specified"))


def _check_extensions(schema: Object, path: str, causes: list[Cause]) -> None:
    if schema.get(_PRESERVE) is False:
        causes.append(_invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined"))
    if schema.get(_EMBEDDED) and not schema.get("properties") and not schema.get(_PRESERVE):
        text = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        causes.append(_required(f"{path}.properties", text))
    kind = schema.get(_MAP_TYPE)
    if kind is not None and kind not in ("atomic", "granular"):
        causes.append(_unsupported(f"{path}.{_MAP_TYPE}", kind, ("atomic", "granular")))
    kind = schema.get(_LIST_TYPE)
    if kind is None:
        return
    if schema.get("type") != "array":
        text = f"must be array if {_LIST_TYPE} is specified"
        causes.append(_invalid(f"{path}.type", schema.get("type", ""), text))
    elif kind not in ("atomic", "set", "map"):
        causes.append(_unsupported(f"{path}.{_LIST_TYPE}", kind, ("atomic", "set", "map")))
    elif kind == "set":
        items = schema.get("items") or {}
        if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
            text = f"must be atomic as item of a list with {_LIST_TYPE}=set"
            causes.append(_invalid(f"{path}.items.{_MAP_TYPE}", items.get(_MAP_TYPE), text))
    elif kind == "map":
        _check_keys(schema, path, causes)


def _check_keys(schema: Object, path: str, causes: list[Cause]) -> None:
    keys, items = schema.get(_LIST_KEYS) or [], schema.get("items") or {}
    properties = items.get("properties") or {}
    if not keys:
        causes.append(_required(f"{path}.{_LIST_KEYS}", f"must not be empty if {_LIST_TYPE} is map"))
    if items.get("type") != "object":
        text = f"must be object if parent array's {_LIST_TYPE} is map"
        causes.append(_invalid(f"{path}.items.type", items.get("type", ""), text))
        return
    if not set(keys) <= set(properties):
        causes.append(_invalid(f"{path}.{_LIST_KEYS}", keys, "entries must all be names of item properties"))
        return
    for key in keys:
        place, node = f"{path}.items.properties[{key}]", properties[key]
        if node.get("type") not in _SCALARS:
            text = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            causes.append(_invalid(f"{place}.type", node.get("type", ""), text))
        if key not in (items.get("required") or ()) and "default" not in node:
            text = f"this property is in {_LIST_KEYS}, so it must have a default or be a required property"
            causes.append(_required(f"{place}.default", text))


def _check_logical(schema: Any, path: str, causes: list[Cause], *, typed: bool = False) -> None:
    """Inside allOf, anyOf, oneOf and not only values are restricted; the structure is outside. Only the two types of an
    IntOrString may stand there (`typed`)."""
    if not isinstance(schema, dict):
        return
    causes += [
        _forbidden(f"{path}.{name}", "must be empty to be structural")
        for name in _OUTSIDE_ONLY
        if name in schema and not (name == "type" and typed)
    ]
    for name, member in (schema.get("properties") or {}).items():
        _check_logical(member, f"{path}.properties[{name}]", causes)
    _check_logical(schema.get("items"), f"{path}.items", causes)
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            _check_logical(inner, f"{path}.{name}[{index}]", causes, typed=schema[name] == _EITHER)
    _check_logical(schema.get("not"), f"{path}.not", causes)


def _check_children(schema: Object, place: _Place, causes: list[Cause]) -> None:
    inside = place
    if schema.get(_MAP_TYPE) == "atomic" and not place.uncorrelated:
        inside = replace(place, uncorrelated=place.path)
    for name, member in (schema.get("properties") or {}).items():
        _check(member, inside.child(f"properties[{name}]"), causes)
    _check(schema.get("additionalProperties"), inside.child("additionalProperties"), causes)
    if schema.get("type") == "array" and schema.get(_LIST_TYPE) != "map" and not place.uncorrelated:
        inside = replace(place, uncorrelated=place.path)
    _check(schema.get("items"), inside.child("items", "specified array items"), causes)


def _check_rules(schema: Object, place: _Place, causes: list[Cause]) -> None:
    for index, rule in enumerate(schema.get(_RULES) or ()):
        path = f"{place.path}.{_RULES}[{index}]"
        text, message = str(rule.get("rule", "")), rule.get("message")
        if not text.strip():
            causes.append(_required(f"{path}.rule", "rule is not specified"))
            continue
        if message is not None and not message.strip():
            causes.append(_invalid(f"{path}.message", message, "message must be non-empty if specified"))
        elif message and "\n" in message.strip():
            causes.append(_invalid(f"{path}.message", message, "must not contain line breaks"))
        elif not message and "\n" in text.strip():
            causes.append(_required(f"{path}.message", "message must be specified if rule contains line breaks"))
        if rule.get("reason", _REASONS[0]) not in _REASONS:
            causes.append(_unsupported(f"{path}.reason", rule["reason"], _REASONS))
        if rule.get("fieldPath") and not _leads_somewhere(schema, rule["fieldPath"]):
            causes.append(_invalid(f"{path}.fieldPath", rule["fieldPath"], "must be a valid path"))
        try:
            compiled = compile_rule(text)
        except CelSyntaxError as error:
            causes.append(_failed(f"{path}.rule", rule, str(error)))
            continue
        except CelUnsupported:
            continue  # said with every object that it should be checked for
        if compiled.uses_old and place.uncorrelated and not rule.get("optionalOldSelf"):
            where = f"the uncorrelatable portion of the schema within {place.uncorrelated}"
            causes.append(_invalid(f"{path}.rule", text, f"oldSelf cannot be used on {where}"))
        causes += [
            _failed(f"{path}.rule", rule, f"undefined field '{unknown}'")
            for chain in sorted(compiled.paths)
            if (unknown := _unknown_member(schema, chain))
        ]


def _failed(field: str, rule: Object, problem: str) -> Cause:
    members = {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    given = orjson.dumps(members).decode()
    for character in "<>&":
        given = given.replace(character, f"\\u{ord(character):04x}")
    return Cause(field, "FieldValueInvalid", f"Invalid value: {given}: compilation failed: {problem}")


def _unknown_member(schema: Object, chain: tuple[str, ...]) -> str:
    """The first member that the schema does not have; the empty text where it has all, or leaves it open."""
    node: Any = schema
    for depth, name in enumerate(chain):
        if not isinstance(node, dict) or node.get("type") != "object" or node.get(_PRESERVE):
            return ""
        if "additionalProperties" in node:
            node = node["additionalProperties"]
            continue
        properties = node.get("properties") or {}
        if name not in properties:
            at_root = not depth and name in ("apiVersion", "kind", "metadata")
            return "" if at_root or node.get(_EMBEDDED) else name
        node = properties[name]
    return ""


def _leads_somewhere(schema: Object, path: str) -> bool:
    """Whether a field path names a member of the schema."""
    if not _FIELD_PATH.fullmatch(path):
        return False
    node: Any = schema
    for dotted, quoted in _FIELD_STEP.findall(path):
        name = dotted or quoted
        extra = node.get("additionalProperties")
        node = (node.get("properties") or {}).get(name, extra if isinstance(extra, dict) else None)
        if node is None:
            return False
    return True


def _check_defaults(schema: Any, path: str, causes: list[Cause]) -> None:
    if not isinstance(schema, dict):
        return
    if schema.get("default") is not None and not schema.get(_INT_OR_STRING):  # not looked at by the real server
        causes += _default_causes(schema, f"{path}.default")
    for name, member in (schema.get("properties") or {}).items():
        _check_defaults(member, f"{path}.properties[{name}]", causes)
    _check_defaults(schema.get("additionalProperties"), f"{path}.additionalProperties", causes)
    _check_defaults(schema.get("items"), f"{path}.items", causes)


def _default_causes(schema: Object, path: str) -> list[Cause]:
    """A default must be a value that a client could have sent: valid, complete, and without unknown members."""
    given = schema["default"]
    value = orjson.loads(orjson.dumps(given))
    if prune({"value": value}, {"properties": {"value": schema}}):
        return [_invalid(path, given, "must not have unknown fields")]
    set_defaults(value, schema)
    return [Cause(_joined(path, cause.field), cause.reason, cause.message) for cause in value_causes(value, schema)]


def _joined(path: str, below: str) -> str:
    return f"{path}{below}" if below.startswith("[") or not below else f"{path}.{below}"
