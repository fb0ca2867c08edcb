"""Reading built-in kinds by their types: what has another type than its member is refused, what is unknown to a closed
struct is dropped, and null is nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import cache
from typing import Any

import orjson

from controller.embedded.apiserver.builtin_structs import (
    ANY,
    CLOSED,
    ROOTS,
    SCHEMA_OR_ARRAY,
    SCHEMA_OR_BOOL,
    STRUCTS,
)
from controller.embedded.apiserver.errors import GroupResource, Object
from controller.embedded.apiserver.timestamps import MICRO_TIME, TIME, time_problem

_SERVER_MEMBERS = frozenset(("apiVersion", "kind", "metadata"))
_MAP = "map[string]"
_BYTES = "[]uint8"
_BITS = {"int32": 31, "int64": 63}
_SCALARS = frozenset(("bool", "float64", _BYTES, *_BITS))
# (struct that holds the member, path of the member): how messages name a place
_Place = tuple[str, str]
_Fits = Callable[[Any], bool]


def type_problem(resource: GroupResource, obj: Object) -> str:
    """What has another type than its member, the empty text where nothing has."""
    struct = ROOTS.get(resource)
    if struct is None or _fits_root(obj, struct):
        return ""
    members = {name: value for name, value in obj.items() if name not in _SERVER_MEMBERS}
    return struct_problem(members, struct)


def drop_unknown(resource: GroupResource, obj: Object) -> list[str]:
    """Drop nulls, and what a closed struct does not have; the paths of the latter."""
    unknown: list[str] = []
    struct = ROOTS.get(resource)
    if struct is not None and not _fits_root(obj, struct):
        held = {name: obj.pop(name) for name in _SERVER_MEMBERS if name in obj}
        _clean(obj, struct, "", unknown)
        rest = dict(obj)
        obj.clear()
        obj |= held | rest
    return unknown


@cache
def builtin_schema(resource: GroupResource) -> Object | None:
    """The type of a built-in kind as a schema, for those that are known in full."""
    struct = ROOTS.get(resource)
    whole = struct in CLOSED and struct != "CustomResourceDefinition"
    return _schema_of(struct) if whole and struct else None


def _fits_root(obj: Object, struct: str) -> bool:
    """Whether everything below the root has its type, is known and is not null: nearly always, and quickly told."""
    members = _fits_members(struct)
    for name, value in obj.items():
        if name not in _SERVER_MEMBERS:
            fits = members.get(name)
            if not fits(value) if fits is not None else struct in CLOSED:
                return False
    return True


@cache
def _fits_members(struct: str) -> dict[str, _Fits]:
    return {name: _fits_type(type_name) for name, type_name in STRUCTS[struct].items()}


@cache
def _fits_type(type_name: str) -> _Fits:
    """A quick check of a type that says no wherever the thorough one has to look."""
    struct = type_name.removeprefix("v1.")
    if type_name.startswith(_MAP):
        inner = _fits_type(type_name.removeprefix(_MAP))
        return lambda value: type(value) is dict and all(map(inner, value.values()))
    if type_name.startswith("[]") and type_name != _BYTES:
        inner = _fits_type(type_name[2:])
        return lambda value: type(value) is list and all(map(inner, value))
    if struct in STRUCTS:
        closed = struct in CLOSED

        def fits_struct(value: Any) -> bool:
            if type(value) is not dict:
                return False
            members = _fits_members(struct)  # looked up late: structs may contain themselves
            for name, member in value.items():
                fits = members.get(name)
                if not fits(member) if fits is not None else closed:
                    return False
            return True

        return fits_struct
    if type_name == ANY:
        return lambda value: value is not None
    if type_name == "bool":
        return lambda value: type(value) is bool
    if type_name == "int32":
        return lambda value: type(value) is int and -(1 << 31) <= value < 1 << 31
    if type_name in (*_SCALARS, TIME, MICRO_TIME, SCHEMA_OR_ARRAY, SCHEMA_OR_BOOL):
        place = ("", "")
        return lambda value: type(value) in (int, float, str) and not _problem(value, type_name, place)
    return lambda value: type(value) is str


def json_word(value: Any) -> str:
    """The JSON type of a value in Go's words."""
    words: tuple[tuple[type, str], ...] = ((bool, "bool"), (str, "string"), (dict, "object"), (list, "array"))
    return next((word for kind, word in words if isinstance(value, kind)), "number")


def _schema_of(struct: str) -> Object:
    properties: Object = {}
    for name, type_name in STRUCTS[struct].items():
        inner = type_name.removeprefix("v1.")
        if inner in STRUCTS:
            properties[name] = _schema_of(inner)
        elif type_name.startswith(_MAP):
            properties[name] = {"type": "object", "additionalProperties": {"type": "string"}}
        else:
            properties[name] = {"type": {"int32": "integer", "bool": "boolean"}.get(type_name, "string")}
    return {"type": "object", "properties": properties}


def _clean(value: Object, struct: str, path: str, unknown: list[str]) -> None:
    members = STRUCTS[struct]
    for name in tuple(value):
        type_name = members.get(name)
        if type_name is None:
            if struct in CLOSED:
                del value[name]
                unknown.append(f"{path}{name}")
        elif value[name] is None:
            if type_name not in (TIME, MICRO_TIME) or struct == "LeaseSpec":  # an Event shows times that it lacks
                del value[name]
        else:
            value[name] = _cleaned(value[name], type_name, f"{path}{name}", unknown)


def _cleaned(value: Any, type_name: str, path: str, unknown: list[str]) -> Any:
    """A value without nulls: as items they are the empty value of their type."""
    if type_name in (SCHEMA_OR_BOOL, SCHEMA_OR_ARRAY):
        type_name = "v1.JSONSchemaProps"
    struct = type_name.removeprefix("v1.")
    if isinstance(value, list) and type_name.startswith("[]"):
        return [
            _cleaned(_empty(type_name[2:]) if item is None else item, type_name[2:], f"{path}[{index}]", unknown)
            for index, item in enumerate(value)
        ]
    if isinstance(value, dict) and type_name.startswith(_MAP):
        inner = type_name.removeprefix(_MAP)
        return {
            key: _cleaned(_empty(inner) if item is None else item, inner, f"{path}.{key}", unknown)
            for key, item in value.items()
        }
    if isinstance(value, dict) and struct in STRUCTS:
        _clean(value, struct, f"{path}.", unknown)
    return value


def _empty(type_name: str) -> Any:
    if type_name == ANY:
        return None
    return {} if type_name.removeprefix("v1.") in STRUCTS else ""


def _problem(value: Any, type_name: str, place: _Place) -> str:
    if value is None or type_name == ANY:
        return ""
    if type_name in (TIME, MICRO_TIME):
        return time_problem(value, type_name) if isinstance(value, str) else _mismatch(value, "string", place)
    if type_name in (SCHEMA_OR_BOOL, SCHEMA_OR_ARRAY):
        other, words = (bool, "boolean") if type_name == SCHEMA_OR_BOOL else (list, "array")
        if isinstance(value, other):
            return ""
        if not isinstance(value, dict):
            return f"{words} or JSON schema expected"
        type_name = "v1.JSONSchemaProps"
    if type_name in _SCALARS:
        return _scalar_problem(value, type_name, place)
    if type_name.startswith(_MAP):
        return _map_problem(value, type_name, place)
    if type_name.startswith("[]"):
        if not isinstance(value, list):
            return _mismatch(value, _go_list(type_name), place)
        return next((found for item in value if (found := _problem(item, type_name[2:], place))), "")
    struct = type_name.removeprefix("v1.")
    if struct not in STRUCTS:
        return "" if isinstance(value, str) else _mismatch(value, type_name, place)
    return struct_problem(value, struct, place[1]) if isinstance(value, dict) else _mismatch(value, type_name, place)


def struct_problem(value: Object, struct: str, path: str = "") -> str:
    """The same for a value of any struct, which stands at `path`."""
    members = STRUCTS[struct]
    name_shown = "Event" if struct == "NewerEvent" else struct
    for name, member in value.items():
        if name in members:
            problem = _problem(member, members[name], (name_shown, f"{path}.{name}" if path else name))
            if problem:
                return problem
    return ""


def _scalar_problem(value: Any, type_name: str, place: _Place) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if type_name == "bool":
        fits = isinstance(value, bool)
    elif type_name == "float64":
        fits = number
    elif type_name == _BYTES:
        if isinstance(value, str):
            return _base64_problem(value)
        fits = False
    else:
        limit = 1 << _BITS[type_name]
        fits = number and isinstance(value, int) and -limit <= value < limit
    return "" if fits else _mismatch(value, type_name, place)


def _map_problem(value: Any, type_name: str, place: _Place) -> str:
    if not isinstance(value, dict):
        return _mismatch(value, type_name, place)
    inner = type_name.removeprefix(_MAP)
    return next((found for item in value.values() if (found := _problem(item, inner, place))), "")


def _base64_problem(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "illegal base64 data at input byte 0"
    return ""


def _go_list(type_name: str) -> str:
    return "[]interface {}" if type_name == f"[]{ANY}" else type_name


def _mismatch(value: Any, type_name: str, place: _Place) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = f"number {orjson.dumps(value).decode()}" if number and type_name in _BITS else json_word(value)
    return f"json: cannot unmarshal {shown} into Go struct field {'.'.join(place)} of type {type_name}"
