"""Sets of fields: what an object has, what a write changed, and the FieldsV1 form that `managedFields` holds.

A field is a path of FieldsV1 steps: `f:name` for a member, `k:{"name":"x"}` for an item of a keyed list, `v:"x"` for a
member of a set. Containers are fields of their own beside their members: entries of maps, items of lists, and whatever
a write makes appear. Sets of paths make union, difference and conflict plain set algebra.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.shapes import Shape

Path = tuple[str, ...]
FieldSet = frozenset[Path]
NO_FIELDS: FieldSet = frozenset()
ABSENT: Any = object()
_ITSELF = "."
# Never owned by anybody: identity and what the server writes.
_UNOWNED = frozenset(("apiVersion", "kind"))
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
_METADATA: Path = ("f:metadata",)


class MalformedList(ValueError):
    """Two items of a keyed list with the same key, or an item without one; server-side apply answers 500 to it."""


def owned_part(obj: Object) -> Object:
    """`obj` without the members that nobody owns; `metadata` is always there, so nobody makes it appear."""
    part = {name: value for name, value in obj.items() if name not in _UNOWNED}
    metadata = obj.get("metadata") or {}
    part["metadata"] = {name: value for name, value in metadata.items() if name not in _UNOWNED_METADATA}
    return part


def field_set(obj: Object, shape: Shape) -> FieldSet:
    """The fields of an object as server-side apply counts them. Raises MalformedList."""
    found: set[Path] = set()
    _collect(owned_part(obj), shape, (), found)
    found.discard(_METADATA)
    return frozenset(found)


def _collect(value: Any, shape: Shape, path: Path, found: set[Path]) -> None:
    if isinstance(value, dict) and not shape.is_atomic_map:
        for name, member in value.items():
            place = (*path, f"f:{name}")
            _collect(member, shape.member(name), place, found)
            if member is None or member == {} or not shape.declares(name):
                found.add(place)
    elif isinstance(value, list) and shape.merges(value):
        for step, item in list_items(value, shape, path):
            _collect(item, shape.item(), (*path, step), found)
            found.add((*path, step))
    else:
        found.add(path)


def list_items(items: list[Any], shape: Shape, path: Path = ()) -> Iterator[tuple[str, Any]]:
    """(step, item) for each item of a set or keyed list at `path`. Raises MalformedList."""
    keys = () if shape.is_set else shape.keys(items)
    seen: set[str] = set()
    for index, item in enumerate(items):
        if shape.is_set:
            step = "v:" + orjson.dumps(item).decode()
        else:
            identity = shape.key_of(item, keys)
            if identity is None:
                raise MalformedList(f"{describe_path(path)}: {missing_keys(index, keys)}")
            step = "k:" + orjson.dumps(dict(identity)).decode()
        if step in seen:
            raise MalformedList(f"{describe_path(path)}: duplicate entries for key {describe_path((step,))}")
        seen.add(step)
        yield step, item


def missing_keys(index: int, keys: tuple[str, ...]) -> str:
    """The complaint about an item of a keyed list that says nothing about which it is."""
    listed = " ".join(f'"{key}"' for key in keys)
    return (
        f"element {index}: associative list with keys has an element that omits all key fields [{listed}] (and doesn't "
        "have default values for any key fields)"
    )


@dataclass(slots=True)
class Comparison:
    """What a write did, field by field."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    @property
    def written(self) -> FieldSet:
        return frozenset(self.added | self.modified)


def compare(old: Object, new: Object, shape: Shape) -> Comparison:
    """The difference between two objects; malformed lists count as one field."""
    found = Comparison()
    _compare(owned_part(old), owned_part(new), shape, (), found)
    for fields in (found.added, found.modified, found.removed):
        fields.discard(_METADATA)
    return found


def _compare(old: Any, new: Any, shape: Shape, path: Path, found: Comparison) -> None:
    if old == new:  # decided in C for whole subtrees; 1 and 1.0 are the same value of one owner
        return
    if _descend(old, new, shape, path, found):
        if old is ABSENT:
            found.added.add(path)
        elif new is ABSENT:
            found.removed.add(path)
    elif old is ABSENT:
        found.added.add(path)
    elif new is ABSENT:
        found.removed.add(path)
    else:
        found.modified.add(path)


def _descend(old: Any, new: Any, shape: Shape, path: Path, found: Comparison) -> bool:
    """Compare member by member; False where the value is one field as a whole."""
    both = [side for side in (old, new) if side is not ABSENT and side is not None]
    if not any(both):
        return False  # empty and absent are told apart as a whole
    if all(isinstance(side, dict) for side in both) and not shape.is_atomic_map:
        for name in _union(old, new):
            member = shape.member(name)
            before, after = _member(old, name, member, new), _member(new, name, member, old)
            _compare(before, after, member, (*path, f"f:{name}"), found)
        return True
    if all(isinstance(side, list) for side in both) and shape.merges(next(filter(None, both))):
        try:
            before, after = (dict(list_items(s, shape)) if isinstance(s, list) else {} for s in (old, new))
        except MalformedList:
            return False
        for step in {**before, **after}:
            _compare(before.get(step, ABSENT), after.get(step, ABSENT), shape.item(), (*path, step), found)
        return True
    if len(both) == 2 and type(old) is not type(new):  # another kind of value: the members of the old one are gone
        _descend(old, ABSENT, shape, path, found)
        _descend(ABSENT, new, shape, path, found)
    return False


def _union(old: Any, new: Any) -> Iterable[str]:
    left: Object = old if isinstance(old, dict) else {}
    right: Object = new if isinstance(new, dict) else {}
    return {**left, **right}


def _member(holder: Any, name: str, shape: Shape, other: Any) -> Any:
    """A member of one side. Structs of built-in types are there, if empty, wherever their holder is."""
    if not isinstance(holder, dict):
        return ABSENT
    if name not in holder and shape.is_always_there:
        return [] if isinstance(other[name], list) else {} if isinstance(other[name], dict) else ABSENT
    return holder.get(name, ABSENT)


def with_named_parents(fields: FieldSet, shape: Shape) -> FieldSet:
    """The fields and all declared members on the way to them: removing the last of what a struct holds removes the
    struct, while a map stays behind unless somebody owned it."""
    found = set(fields)
    for path in fields:
        at = shape
        for depth, step in enumerate(path, 1):
            if step.startswith("f:"):
                if depth < len(path) and at.declares(step[2:]):
                    found.add(path[:depth])
                at = at.member(step[2:])
            else:
                at = at.item()
    found.discard(_METADATA)  # it holds the object's identity and stays whatever becomes of its members
    return frozenset(found)


def without_fields(value: Any, fields: FieldSet, shape: Shape) -> Any:
    """`value` without these fields. What loses everything becomes null, as on the real server."""
    tree: Object = {}
    for path in fields:
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node[_ITSELF] = {}
    return _strip(value, tree, shape)


def _strip(value: Any, tree: Object, shape: Shape) -> Any:
    if isinstance(value, dict) and not shape.is_atomic_map:
        kept = {}
        for name, member in value.items():
            node = tree.get(f"f:{name}")
            if node is None:
                kept[name] = member
            elif _ITSELF not in node:
                kept[name] = _strip(member, node, shape.member(name))
        return kept or None
    if isinstance(value, list) and shape.merges(value):
        items = []
        for step, item in list_items(value, shape):
            node = tree.get(step)
            if node is None:
                items.append(item)
            elif _ITSELF not in node:
                items.append(_strip(item, node, shape.item()))
        return items or None
    return None


def to_fields_v1(fields: Iterable[Path]) -> Object:
    """The nested form that `managedFields[].fieldsV1` has: a field with members below it is marked by a dot."""
    root: Object = {}
    for path in sorted(fields):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node[_ITSELF] = {}
    _collapse(root)
    return root


def _collapse(node: Object) -> None:
    for step, child in node.items():
        if child.keys() == {_ITSELF}:
            node[step] = {}
        elif step != _ITSELF:
            _collapse(child)


def from_fields_v1(fields: Any) -> FieldSet:
    """The paths of a FieldsV1 object; anything that is not one is an empty set."""
    found: set[Path] = set()

    def walk(node: Any, path: Path) -> None:
        for step, child in node.items() if isinstance(node, dict) else ():
            if step == _ITSELF:
                found.add(path)
            elif child:
                walk(child, (*path, step))
            else:
                found.add((*path, step))

    walk(fields, ())
    return frozenset(found)


def in_tree_order(fields: Iterable[Path]) -> list[Path]:
    """Fields in the order of the real server: at each level what ends there before what goes deeper."""
    return sorted(fields, key=lambda path: [(depth < len(path), step) for depth, step in enumerate(path, 1)])


def describe_path(path: Path) -> str:
    """A path as messages show it: `.spec.roles[name="decode"].replicas`."""
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
