"""Uniqueness in lists: members of sets, and items of keyed lists by their keys."""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.errors import Cause, Object, shown


def list_causes(value: Any, schema: Object, path: str, causes: list[Cause]) -> None:
    """Walk a value along its schema and report the first repetition of everything that must be unique."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for name, member in value.items():
            if name in properties:
                list_causes(member, properties[name], f"{path}.{name}" if path else name, causes)
            elif isinstance(extra, dict):
                list_causes(member, extra, f"{path}[{name}]", causes)
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            causes += [
                Cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {shown(value[index])}")
                for index in _repeated(value)
            ]
        elif kind == "map":
            causes += _keyed_causes(value, schema.get("x-kubernetes-list-map-keys") or (), path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                list_causes(item, items, f"{path}[{index}]", causes)


def _keyed_causes(items: list[Any], keys: Any, path: str) -> list[Cause]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            text = f"Invalid value: {shown(item)}: must be an object for an array of list-type map"
            return [Cause(f"{path}[{index}]", "FieldValueInvalid", text)]
    identities = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    return [
        Cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {shown(identities[index])}")
        for index in _repeated(identities)
    ]


def _repeated(values: list[Any]) -> list[int]:
    """The indices at which a value is there for the second time."""
    seen: dict[str, int] = {}
    found = []
    for index, value in enumerate(values):
        text = f"{type(value).__name__} {shown(value)}"
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            found.append(index)
    return found
