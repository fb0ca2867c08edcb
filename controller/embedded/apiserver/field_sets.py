"""Sets of fields: which leaves an object has, which a write changed, and their FieldsV1 form in `managedFields`.

A field is a path of FieldsV1 steps: `f:name` for a member, `k:{"name":"x"}` for an item of a keyed list, `v:"x"` for a
member of a set; the step `.` at the end means the item or map itself. Sets of paths make union, difference and
conflict plain set algebra.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import orjson

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.shapes import Shape

Path = tuple[str, ...]
FieldSet = frozenset[Path]
ITSELF = "."
# Never owned by anybody: identity and what the server writes.
_UNOWNED_METADATA = frozenset(
    (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    )
)


def owned_part(obj: Object) -> Object:
    """`obj` without the members that nobody owns."""
    part = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    metadata = part.get("metadata")
    if isinstance(metadata, dict):
        part["metadata"] = {name: value for name, value in metadata.items() if name not in _UNOWNED_METADATA}
        if not part["metadata"]:
            del part["metadata"]
    return part


class MalformedList(ValueError):
    """Two items of a keyed list with the same key, or an item without one; server-side apply answers 500 to it."""


class Grown(Enum):
    """Which containers are fields of their own. Server-side apply owns none but the items of keyed lists; an Update
    owns those that it makes: maps and keyed lists, but not the structs of built-in types, which are there from the
    start. Within a new item of a keyed list nothing was there before, so there it owns structs, too."""

    NOTHING = 0
    CONTAINERS = 1
    EVERYTHING = 2


def inside_item(path: Path) -> bool:
    """Whether a path leads through an item of a keyed list."""
    return any(step.startswith("k:") for step in path)


def field_set(obj: Object, shape: Shape) -> FieldSet:
    """The leaves of an object, as server-side apply owns them. Raises MalformedList."""
    found: set[Path] = set()
    _collect(owned_part(obj), shape, (), found)
    return frozenset(found)


def _collect(value: Any, shape: Shape, path: Path, found: set[Path], *, grown: Grown = Grown.NOTHING) -> None:
    """The leaves of a value and, where it has grown, the containers on the way."""
    if isinstance(value, dict) and not shape.is_atomic_map:
        as_map = bool(path) and (shape.is_map or grown is Grown.EVERYTHING)
        if as_map and value and grown is not Grown.NOTHING:
            found.add((*path, ITSELF))
        if as_map and not value:
            found.add(path)
        for name, member in value.items():
            place = (*path, f"f:{name}")
            below = shape.member(name)
            if isinstance(member, dict) and member and not shape.declares(name) and not below.is_atomic_map:
                found.add((*place, ITSELF))
            _collect(member, below, place, found, grown=grown)
        return
    if isinstance(value, list) and value:
        keys = () if shape.is_set else shape.keys(value)
        if (shape.is_set or keys) and grown is not Grown.NOTHING and not shape.is_present:
            found.add((*path, ITSELF))
        if shape.is_set:
            found.update((*path, value_step(item)) for item in value)
            return
        if keys:
            within = grown if grown is Grown.NOTHING else Grown.EVERYTHING  # a new item has nothing but new members
            for step, item in keyed_items(value, shape, keys, path):
                if not shape.item().is_atomic_map:
                    found.add((*path, step, ITSELF))
                _collect(item, shape.item(), (*path, step), found, grown=within)
            return
    if path:
        found.add(path)


def keyed_items(items: list[Any], shape: Shape, keys: tuple[str, ...], path: Path = ()) -> list[tuple[str, Any]]:
    """(step, item) for each item of a keyed list at `path`. Raises MalformedList."""
    seen: dict[str, Any] = {}
    for index, item in enumerate(items):
        identity = shape.key_of(item, keys)
        if identity is None:
            listed = " ".join(f'"{key}"' for key in keys)
            raise MalformedList(
                f"{describe_path(path)}: element {index}: associative list with keys has an element that omits all key "
                f"fields [{listed}] (and doesn't have default values for any key fields)"
            )
        step = "k:" + orjson.dumps(dict(zip(keys, identity, strict=True)), option=orjson.OPT_SORT_KEYS).decode()
        if step in seen:
            raise MalformedList(f"{describe_path(path)}: duplicate entries for key {describe_path((step,))}")
        seen[step] = item
    return list(seen.items())


def value_step(value: Any) -> str:
    """The step of one member of a set."""
    return "v:" + orjson.dumps(value).decode()


def changed_fields(old: Object, new: Object, shape: Shape) -> tuple[FieldSet, FieldSet]:
    """(set or changed, removed) leaves of a write. Malformed lists count as one leaf."""
    difference = _Difference()
    difference.compare(owned_part(old), owned_part(new), shape, ())
    return frozenset(difference.written), frozenset(difference.removed)


class _Difference:
    """Collects what changed between two objects."""

    def __init__(self) -> None:
        self.written: set[Path] = set()
        self.removed: set[Path] = set()

    def compare(self, old: Any, new: Any, shape: Shape, path: Path) -> None:
        if old == new:  # decided in C for whole subtrees; 1 and 1.0 are the same value of one owner
            return
        if isinstance(old, dict) and isinstance(new, dict) and not shape.is_atomic_map and (not path or (old and new)):
            self._compare_members(old, new, shape, path)
            return
        if isinstance(old, list) and isinstance(new, list) and old and new:
            if shape.is_set:
                before, after = {value_step(item) for item in old}, {value_step(item) for item in new}
                self.written.update((*path, step) for step in after - before)
                self.removed.update((*path, step) for step in before - after)
                return
            if self._compare_keyed(old, new, shape, path):
                return
        if isinstance(old, dict | list) and old:
            _leaves(old, shape, path, self.removed)
        _leaves(new, shape, path, self.written)
        self.removed -= self.written

    def _compare_members(self, old: Object, new: Object, shape: Shape, path: Path) -> None:
        for name, value in new.items():
            step = (*path, f"f:{name}")
            if name not in old:
                _leaves(value, shape.member(name), step, self.written)
            else:
                self.compare(old[name], value, shape.member(name), step)
        for name, value in old.items():
            if name not in new:
                _leaves(value, shape.member(name), (*path, f"f:{name}"), self.removed)

    def _compare_keyed(self, old: list[Any], new: list[Any], shape: Shape, path: Path) -> bool:
        """Compare two keyed lists item by item; False where they are atomic or malformed."""
        keys = shape.keys(new)
        if not keys:
            return False
        try:
            before, after = dict(keyed_items(old, shape, keys)), dict(keyed_items(new, shape, keys))
        except MalformedList:
            return False
        for step, item in after.items():
            if step in before:
                self.compare(before[step], item, shape.item(), (*path, step))
            else:
                _leaves(item, shape.item(), (*path, step), self.written)
                self.written.add((*path, step, ITSELF))
        for step, item in before.items():
            if step not in after:
                _leaves(item, shape.item(), (*path, step), self.removed)
                self.removed.add((*path, step, ITSELF))
        return True


def _leaves(value: Any, shape: Shape, path: Path, found: set[Path]) -> None:
    """What appears or disappears with a part; a malformed list is one leaf."""
    try:
        _collect(value, shape, path, found, grown=Grown.EVERYTHING if inside_item(path) else Grown.CONTAINERS)
    except MalformedList:
        found.add(path)


def to_fields_v1(fields: Iterable[Path]) -> Object:
    """The nested form that `managedFields[].fieldsV1` has."""
    root: Object = {}
    for path in sorted(fields):
        node = root
        for step in path:
            node = node.setdefault(step, {})
    return root


def from_fields_v1(fields: Any) -> FieldSet:
    """The paths of a FieldsV1 object; anything that is not one is an empty set."""
    found: set[Path] = set()

    def walk(node: Any, path: Path) -> None:
        if not isinstance(node, dict) or not node:
            if path:
                found.add(path)
            return
        for step, child in node.items():
            walk(child, (*path, step))

    walk(fields, ())
    return frozenset(found)


def describe_path(path: Path) -> str:
    """A path as conflict messages show it: `.spec.roles[name="decode"].replicas`."""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            pairs = orjson.loads(rest)
            text += "[" + ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in pairs.items()) + "]"
        elif kind == "v":
            text += f"[={rest}]"
    return text
