"""Structural schemas on the way in: unknown members go, nulls that are not allowed go, defaults come.

Works in place on a private copy. The root's `apiVersion`, `kind` and `metadata` belong to the server and are never
pruned; the same holds inside an `x-kubernetes-embedded-resource`.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from controller.embedded.apiserver.errors import Object

_TYPE_MEMBERS = frozenset(("apiVersion", "kind", "metadata"))


def prune(obj: Object, schema: Object) -> list[str]:
    """Drop the members that the schema does not know; their paths are returned, sorted."""
    dropped: list[str] = []
    _prune_object(obj, schema, "", dropped, keep=_TYPE_MEMBERS)
    return sorted(dropped)


def _prune(value: Any, schema: Object, path: str, dropped: list[str]) -> None:
    if isinstance(value, dict):
        keep = _TYPE_MEMBERS if schema.get("x-kubernetes-embedded-resource") else frozenset()
        _prune_object(value, schema, path, dropped, keep)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                if isinstance(item, dict | list):
                    _prune(item, items, f"{path}[{index}]", dropped)


def _prune_object(obj: Object, schema: Object, path: str, dropped: list[str], keep: frozenset[str]) -> None:
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    preserve = schema.get("x-kubernetes-preserve-unknown-fields") or extra is True
    gone = []
    for name, value in obj.items():
        if name in keep:
            continue
        member = properties.get(name)
        if member is None and isinstance(extra, dict):
            member = extra
        if member is not None:
            if isinstance(value, dict | list):
                _prune(value, member, f"{path}.{name}" if path else name, dropped)
        elif not preserve:
            gone.append(name)
    for name in gone:
        del obj[name]
        dropped.append(f"{path}.{name}" if path else name)


def set_defaults(value: Any, schema: Object, *, keep_nulls: bool = False) -> None:
    """Remove nulls where null is not allowed (unless they are kept), then fill in the defaults of absent members and of
    such nulls, parents first."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for name, node in properties.items():
            if "default" in node and (name not in value or (value[name] is None and not node.get("nullable"))):
                value[name] = orjson.loads(orjson.dumps(node["default"]))
        for name in tuple(value):
            node = properties.get(name, extra if isinstance(extra, dict) else None)
            if node is None:
                continue
            if value[name] is None and not node.get("nullable"):
                if "default" in node:
                    value[name] = orjson.loads(orjson.dumps(node["default"]))
                elif not keep_nulls:
                    del value[name]
                    continue
            if isinstance(value[name], dict | list):
                set_defaults(value[name], node, keep_nulls=keep_nulls)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                if isinstance(item, dict | list):
                    set_defaults(item, items, keep_nulls=keep_nulls)


def duplicate_members(body: bytes, parsed: Any) -> list[str]:
    """The paths of members that a JSON text gives twice; parsers keep the last one and say nothing.

    Reading with a pair hook is slow, so it happens only when the text has more `"…":` than the value has members.
    """
    if body.count(b'":') + body.count(b'" :') <= _count_members(parsed):
        return []

    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> Any:
        marked: dict[str, Any] = {}
        for name, value in pairs:
            if name in marked:
                marked.setdefault("\0duplicates", []).append(name)
            marked[name] = value
        return marked

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            found.extend(f"{path}.{name}" if path else name for name in value.pop("\0duplicates", ()))
            for name, member in value.items():
                walk(member, f"{path}.{name}" if path else name)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path}[{index}]")

    walk(json.loads(body, object_pairs_hook=collect), "")
    return found


def _count_members(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(_count_members(member) for member in value.values() if isinstance(member, dict | list))
    if isinstance(value, list):
        return sum(_count_members(item) for item in value if isinstance(item, dict | list))
    return 0
