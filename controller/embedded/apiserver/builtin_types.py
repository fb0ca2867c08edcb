"""The types of those built-in kinds that clients of this project write themselves: what is of another type is refused,
what is unknown is dropped. All other built-in kinds are schema-less."""

from __future__ import annotations

import base64
import binascii
from functools import cache
from typing import Any

import orjson

from controller.embedded.apiserver.errors import GroupResource, Object
from controller.embedded.apiserver.timestamps import MICRO_TIME, TIME, time_problem

# Types by their Go names; a struct lists its members.
_REFERENCE = dict.fromkeys(("kind", "namespace", "name", "apiVersion", "resourceVersion", "fieldPath"), "string") | {
    "uid": "types.UID"
}
_STRUCTS: dict[str, dict[str, str]] = {
    "ConfigMap": {"data": "map[string]string", "binaryData": "map[string][]uint8", "immutable": "bool"},
    "Secret": {
        "data": "map[string][]uint8",
        "stringData": "map[string]string",
        "type": "v1.SecretType",
        "immutable": "bool",
    },
    "Lease": {"spec": "v1.LeaseSpec"},
    "LeaseSpec": {
        "holderIdentity": "string",
        "leaseDurationSeconds": "int32",
        "acquireTime": MICRO_TIME,
        "renewTime": MICRO_TIME,
        "leaseTransitions": "int32",
        "strategy": "v1.CoordinatedLeaseStrategy",  # behind a feature gate that is off, like the next
        "preferredHolder": "string",
    },
    "ObjectReference": _REFERENCE,
    "EventSource": {"component": "string", "host": "string"},
    "EventSeries": {"count": "int32", "lastObservedTime": MICRO_TIME},
}
_EVENT = {
    "reason": "string",
    "type": "string",
    "eventTime": MICRO_TIME,
    "series": "v1.EventSeries",
    "action": "string",
    "related": "v1.ObjectReference",
    "reportingInstance": "string",
}
_ROOTS = {
    GroupResource("", "configmaps"): ("ConfigMap", _STRUCTS["ConfigMap"]),
    GroupResource("", "secrets"): ("Secret", _STRUCTS["Secret"]),
    GroupResource("coordination.k8s.io", "leases"): ("Lease", _STRUCTS["Lease"]),
    GroupResource("", "events"): (
        "Event",
        _EVENT
        | {
            "involvedObject": "v1.ObjectReference",
            "message": "string",
            "source": "v1.EventSource",
            "firstTimestamp": TIME,
            "lastTimestamp": TIME,
            "count": "int32",
            "reportingComponent": "string",
        },
    ),
    GroupResource("events.k8s.io", "events"): (
        "Event",
        _EVENT
        | {
            "regarding": "v1.ObjectReference",
            "note": "string",
            "reportingController": "string",
            "deprecatedSource": "v1.EventSource",
            "deprecatedFirstTimestamp": TIME,
            "deprecatedLastTimestamp": TIME,
            "deprecatedCount": "int32",
        },
    ),
}
_SERVER_MEMBERS = frozenset(("apiVersion", "kind", "metadata"))
_TEXTS = frozenset(("string", "types.UID", "v1.SecretType", "v1.CoordinatedLeaseStrategy"))
_INT32 = 1 << 31


@cache
def builtin_schema(resource: GroupResource) -> Object | None:
    """The type of a built-in kind as a schema, None where it is not known."""
    root = _ROOTS.get(resource)
    return None if root is None else _schema_of(root[1])


def _schema_of(members: dict[str, str]) -> Object:
    properties: Object = {}
    for name, type_name in members.items():
        struct = _STRUCTS.get(type_name.removeprefix("v1."))
        if struct is not None:
            properties[name] = _schema_of(struct)
        elif type_name.startswith("map["):
            properties[name] = {"type": "object", "additionalProperties": {"type": "string"}}
        else:
            properties[name] = {"type": {"int32": "integer", "bool": "boolean"}.get(type_name, "string")}
    return {"type": "object", "properties": properties}


def type_problem(resource: GroupResource, obj: Object) -> str:
    """What has another type than its member, the empty text where nothing has."""
    struct, members = _ROOTS.get(resource, ("", {}))
    for name, value in obj.items():
        if name in members and value is not None:
            problem = _problem(value, members[name], (struct, name))
            if problem:
                return problem
    return ""


def drop_unknown(resource: GroupResource, obj: Object) -> list[str]:
    """Drop nulls and the members that the type does not have; the paths of the latter."""
    if resource not in _ROOTS:
        return []
    members = _ROOTS[resource][1]
    unknown: list[str] = []
    for name in [name for name in obj if name not in _SERVER_MEMBERS]:
        _drop(obj, name, members, "", unknown)
    return unknown


def _drop(holder: Object, name: str, members: dict[str, str], path: str, unknown: list[str]) -> None:
    value = holder[name]
    if name not in members:
        del holder[name]
        unknown.append(f"{path}{name}")
    elif (value is None and members[name] not in (TIME, MICRO_TIME)) or (value is None and path == "spec."):
        del holder[name]
    elif isinstance(value, dict):
        inner = _STRUCTS.get(members[name].removeprefix("v1."))
        if inner is None:
            holder[name] = {key: "" if item is None else item for key, item in value.items()}
            return
        for member in tuple(value):
            _drop(value, member, inner, f"{path}{name}.", unknown)


def _problem(value: Any, type_name: str, place: tuple[str, str]) -> str:
    """`place` is the struct that holds the member, and the member's path."""
    if type_name in (TIME, MICRO_TIME):
        return time_problem(value, type_name) if isinstance(value, str) else _mismatch(value, "string", place)
    if type_name in _TEXTS:
        return "" if isinstance(value, str) else _mismatch(value, type_name, place)
    if type_name == "bool":
        return "" if isinstance(value, bool) else _mismatch(value, type_name, place)
    if type_name == "int32":
        fits = isinstance(value, int) and not isinstance(value, bool) and -_INT32 <= value < _INT32
        return "" if fits else _mismatch(value, type_name, place)
    if not isinstance(value, dict):
        return _mismatch(value, type_name, place)
    if type_name.startswith("map["):
        return _map_problem(value, type_name, place)
    struct = type_name.removeprefix("v1.")
    members = _STRUCTS[struct]
    for name, member in value.items():
        if name in members and member is not None:
            problem = _problem(member, members[name], (struct, f"{place[1]}.{name}"))
            if problem:
                return problem
    return ""


def _map_problem(value: Object, type_name: str, place: tuple[str, str]) -> str:
    binary = type_name.endswith("[]uint8")
    for item in value.values():
        if item is None:
            continue
        if not isinstance(item, str):
            return _mismatch(item, "[]uint8" if binary else "string", place)
        if binary:
            try:
                base64.b64decode(item, validate=True)
            except binascii.Error:
                return "illegal base64 data at input byte 0"
    return ""


def _mismatch(value: Any, type_name: str, place: tuple[str, str]) -> str:
    return (
        f"json: cannot unmarshal {_shown(value, type_name)} into Go struct field {'.'.join(place)} of type {type_name}"
    )


def _shown(value: Any, type_name: str) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and type_name == "int32":
        return f"number {orjson.dumps(value).decode()}"
    return json_word(value)


def json_word(value: Any) -> str:
    """The JSON type of a value in Go's words."""
    words: tuple[tuple[type, str], ...] = ((bool, "bool"), (str, "string"), (dict, "object"), (list, "array"))
    return next((word for kind, word in words if isinstance(value, kind)), "number")
