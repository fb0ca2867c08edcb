"""Field management: `managedFields` of every write, and server-side apply with conflicts.

Each manager is (name, operation, apiVersion, subresource) and owns a set of fields. An Update takes over what it
changes; an Apply owns exactly what it states, loses nothing by stating what is already so, conflicts with the others
where it would change their fields, and removes what it stated last time, states no longer and nobody else owns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from controller.embedded.apiserver.errors import Cause, Object, apply_conflict, bad_request
from controller.embedded.apiserver.field_sets import (
    ITSELF,
    FieldSet,
    Path,
    changed_fields,
    describe_path,
    field_set,
    from_fields_v1,
    keyed_items,
    to_fields_v1,
    value_step,
)
from controller.embedded.apiserver.shapes import Shape

APPLY = "Apply"
UPDATE = "Update"


@dataclass(frozen=True, slots=True, order=True)
class Manager:
    """Who wrote. The order is the one in which `managedFields` are listed: appliers first."""

    operation: str
    name: str
    api_version: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Ownership:
    """What a manager owns since when. `wire` is the FieldsV1 form of the same fields, where it is at hand."""

    fields: FieldSet
    time: str
    wire: Object | None = field(default=None, compare=False)

    def without(self, gone: FieldSet) -> Ownership:
        """The ownership after losing some fields; itself where it loses none."""
        return self if self.fields.isdisjoint(gone) else Ownership(self.fields - gone, self.time)

    def at(self, fields: FieldSet, time: str) -> Ownership:
        """The ownership of other fields at another time; the wire form is kept where the fields are the same."""
        return Ownership(fields, time, self.wire if fields == self.fields else None)


_NOTHING = Ownership(frozenset(), "")
Managers = dict[Manager, Ownership]


def read_managers(obj: Object) -> Managers:
    """The managers of an object; entries that are not understood are dropped."""
    managers: Managers = {}
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
            continue
        manager = Manager(
            entry["operation"],
            str(entry.get("manager", "")),
            str(entry.get("apiVersion", "")),
            str(entry.get("subresource", "")),
        )
        wire = entry.get("fieldsV1")
        managers[manager] = Ownership(_parsed(orjson.dumps(wire)), str(entry.get("time", "")), wire)
    return managers


@lru_cache(maxsize=256)  # most objects of one kind share a few sets, and an object's sets outlive many writes
def _parsed(fields: bytes) -> FieldSet:
    return from_fields_v1(orjson.loads(fields))


def write_managers(obj: Object, managers: Managers) -> None:
    """Put the managers into the object's metadata; managers that own nothing are left out."""
    entries = []
    for manager, owned in sorted(managers.items(), key=lambda item: (item[0].operation, item[1].time, item[0])):
        if not owned.fields:
            continue
        entry: Object = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": owned.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(owned.fields) if owned.wire is None else owned.wire,
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def strips_managers(obj: Object) -> bool:
    """Whether a write carries `managedFields: [{}]` or `[]`: the way to have them removed."""
    entries = obj.get("metadata", {}).get("managedFields")
    return isinstance(entries, list) and all(entry == {} for entry in entries)


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes an object of which shape, and when."""

    manager: Manager
    shape: Shape
    now: str


def track_update(managers: Managers, author: Author, old: Object, new: Object) -> Managers:
    """The managers after an Update from `old` to `new` (an empty `old` on create)."""
    written, removed = changed_fields(old, new, author.shape)
    if not written and not removed:
        return managers
    touched = written | removed
    tracked = {other: owned.without(touched) for other, owned in managers.items()}
    own = managers.get(author.manager, _NOTHING)
    tracked[author.manager] = own.at((own.fields | written) - removed, author.now)
    return tracked


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an apply: the object (without `managedFields`) and its managers."""

    object: Object
    managers: Managers


def apply_configuration(
    live: Object, configuration: Object, managers: Managers, author: Author, *, force: bool
) -> Applied:
    """Server-side apply onto `live`, which for a create holds identity only; neither argument is changed.

    Raises ApiError 409 with one cause for each field of another manager that would change, unless `force`, and
    MalformedList for a keyed list with duplicate or missing keys.
    """
    manager, shape = author.manager, author.shape
    if (configuration.get("metadata") or {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    stated = field_set(configuration, shape)
    merged = _merge(live, configuration, shape)
    written, _ = changed_fields(live, merged, shape)
    others = {other: owned for other, owned in managers.items() if other != manager}
    conflicts = {other: overlap for other, owned in others.items() if (overlap := owned.fields & written)}
    if conflicts and not force:
        raise _conflict_error(conflicts)
    for other, overlap in conflicts.items():
        others[other] = others[other].without(overlap)
    previous = managers.get(manager, _NOTHING)
    if previous.fields:
        still_owned = frozenset[Path]().union(*(owned.fields for owned in others.values()))
        merged = _without(merged, previous.fields - stated, still_owned | stated, shape)
    unchanged = previous.fields == stated and not written
    return Applied(merged, {**others, manager: previous.at(stated, previous.time if unchanged else author.now)})


def _conflict_error(conflicts: dict[Manager, FieldSet]) -> Exception:
    causes = []
    sentences = []
    for manager, fields in sorted(conflicts.items()):
        kind = f'"{manager.name}"' + (f' with subresource "{manager.subresource}"' if manager.subresource else "")
        using = f"{kind} using {manager.api_version}" if manager.operation == UPDATE else kind
        named = [describe_path(path) for path in sorted(fields) if path[-1] != ITSELF]
        causes += [Cause(path, "FieldManagerConflict", f"conflict with {using}") for path in named]
        if len(named) == 1:
            sentences.append(f"conflict with {using}: {named[0]}")
        else:
            sentences.append(f"conflicts with {using}:" + "".join(f"\n- {path}" for path in named))
    return apply_conflict(causes, "\n".join(sentences))


def _merge(live: Any, stated: Any, shape: Shape) -> Any:
    """`live` with everything that `stated` says; new containers on the way, shared leaves."""
    if isinstance(stated, dict) and isinstance(live, dict) and not shape.is_atomic_map:
        merged = dict(live)
        for name, value in stated.items():
            merged[name] = _merge(live[name], value, shape.member(name)) if name in live else value
        return merged
    if isinstance(stated, list) and isinstance(live, list):
        if shape.is_set:
            return live + [item for item in stated if item not in live]
        keys = shape.keys(stated or live)
        if keys:
            current, wanted = dict(keyed_items(live, shape, keys)), dict(keyed_items(stated, shape, keys))
            for step, item in wanted.items():
                current[step] = _merge(current[step], item, shape.item()) if step in current else item
            return list(current.values())
    return stated


def _without(value: Any, dropped: FieldSet, kept: FieldSet, shape: Shape) -> Any:
    """`value` without the dropped fields that nobody keeps; containers that this empties go, too."""
    tree, owners = to_fields_v1(dropped - kept), to_fields_v1(kept)
    return _strip(value, tree, owners, shape) if tree else value


def _strip(value: Any, tree: Object, owners: Object, shape: Shape) -> Any:
    if isinstance(value, dict):
        result = {}
        for name, member in value.items():
            step = f"f:{name}"
            if step not in tree:
                result[name] = member
            elif tree[step]:
                stripped = _strip(member, tree[step], owners.get(step) or {}, shape.member(name))
                if stripped or not isinstance(stripped, dict | list) or step in owners:
                    result[name] = stripped
            elif step in owners:
                result[name] = member
        return result
    if isinstance(value, list):
        if shape.is_set:
            gone = {step for step in tree if step.startswith("v:")}
            return [item for item in value if value_step(item) not in gone]
        items = []
        for step, item in keyed_items(value, shape, shape.keys(value)):
            if step not in tree:
                items.append(item)
            elif not tree[step] or ITSELF in tree[step]:  # the item itself is dropped
                if step in owners:
                    items.append(_strip(item, tree[step], owners[step], shape.item()))
            else:
                items.append(_strip(item, tree[step], owners.get(step) or {}, shape.item()))
        return items
    return value
