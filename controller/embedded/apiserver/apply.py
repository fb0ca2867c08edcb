"""Field management: `managedFields` of every write, and server-side apply with conflicts.

Each manager is (name, operation, apiVersion, subresource) and owns a set of fields. An Update takes over what it
changes; an Apply owns exactly what it states, loses nothing by stating what is already so, conflicts with the others
where it would change their fields, and removes what it stated last time, states no longer and nobody else owns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import orjson

from controller.embedded.apiserver.errors import Cause, Object, apply_conflict, bad_request
from controller.embedded.apiserver.field_sets import (
    NO_FIELDS,
    FieldSet,
    compare,
    describe_path,
    field_set,
    from_fields_v1,
    in_tree_order,
    to_fields_v1,
    with_named_parents,
    without_fields,
)
from controller.embedded.apiserver.merging import merge
from controller.embedded.apiserver.resources import ServedVersion
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


_NOTHING = Ownership(NO_FIELDS, "")
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
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(owned.fields) if owned.wire is None else owned.wire,
        }
        if owned.time:
            entry["time"] = owned.time
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def brought_managers(served: ServedVersion, obj: Object) -> Managers | None:
    """The managers that a write itself carries, to put in the place of the stored ones; None where it carries none, or
    not every entry can be read: a client that does not know the member must not delete it by accident."""
    entries = obj.get("metadata", {}).get("managedFields") or []
    managers = read_managers(obj)
    whole = len(managers) == len(entries) and all(owned.fields for owned in managers.values())
    known = all(entry.get("fieldsType") == "FieldsV1" for entry in entries if isinstance(entry, dict))
    return managers_of(served, obj) if managers and whole and known else None


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
    """The managers after an Update from `old` to `new` (an empty `old` on create): the author owns what it wrote,
    nobody owns what is gone. A write that only removes gives its author no new time."""
    change = compare(old, new, author.shape)
    written, removed = change.written, frozenset(change.removed)
    if not written and not removed:
        return managers
    tracked = {other: owned.without(written | removed) for other, owned in managers.items()}
    if written:
        own = managers.get(author.manager, _NOTHING)
        tracked[author.manager] = own.at((own.fields - removed) | written, author.now)
    return tracked


def managers_of(served: ServedVersion, obj: Object) -> Managers:
    """The managers of an object whose versions can be converted: of an Event, not those of the other group."""
    known = [version.api_version for version in served.type.versions.values()]
    return {manager: owned for manager, owned in read_managers(obj).items() if manager.api_version in known}


def record_managers(
    served: ServedVersion,
    obj: Object,
    current: Object,
    managers: Managers | None,
    author: Author,
    brought: Managers | None = None,
) -> None:
    """Put the managers after a write into `obj`; unchanged ones exactly as they are stored. `managers` are those of an
    apply; without them the write is an Update, counted on top of what it `brought` or else of what is stored."""
    held = current["metadata"].get("managedFields")
    if managers is None:
        if not held and brought is None:  # an object without managers stays so until somebody applies
            return
        before = managers_of(served, current) if brought is None else brought
        managers = track_update(before, author, current, obj)
    if held and managers == read_managers(current):
        obj["metadata"]["managedFields"] = held
    else:
        write_managers(obj, managers)


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an apply: the object (without `managedFields`) and its managers."""

    object: Object
    managers: Managers


def apply_configuration(
    live: Object, configuration: Object, whole: Object, managers: Managers, author: Author, *, force: bool
) -> Applied:
    """Server-side apply onto `live`, which for a create holds identity only; no argument is changed.

    `whole` is the configuration with what may not be owned through this subresource: it is not applied, but a
    configuration that differs from `live` only there counts as a change of its time.

    Raises ApiError 409 with one cause for each field of another manager that would change, unless `force`, and
    MalformedList for a keyed list with duplicate or missing keys.
    """
    manager, shape = author.manager, author.shape
    if (configuration.get("metadata") or {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    stated = field_set(configuration, shape)
    merged = merge(live, configuration, shape)
    previous = managers.get(manager, _NOTHING)
    others = {other: owned for other, owned in managers.items() if other != manager}
    if previous.fields:
        owned_now = stated.union(*(owned.fields for owned in others.values()))
        merged = _prune(merged, previous.fields, owned_now, shape)
    change = compare(live, merged, shape)
    conflicts = {other: overlap for other, owned in others.items() if (overlap := owned.fields & change.written)}
    if conflicts and not force:
        raise _conflict_error(conflicts)
    lost = change.written | change.removed
    after = {other: owned.without(lost) for other, owned in others.items()}
    # A manager gets a time when it changes the object; one that only states what is so keeps its own, or has none.
    idle = merged == live and (whole == configuration or merge(live, whole, shape) == live)
    time = previous.time if idle else author.now
    return Applied(merged, {**after, manager: previous.at(stated, time)})


def _prune(merged: Object, last: FieldSet, owned: FieldSet, shape: Shape) -> Object:
    """`merged` without what the manager stated last time and nobody owns now. What others own below a removed part
    comes back with its parents; of what nobody ever owned, only that goes which hung on the removed parts alone."""
    whole = with_named_parents(field_set(merged, shape), shape)
    before, kept = with_named_parents(last, shape), with_named_parents(owned, shape)
    pruned = without_fields(merged, before, shape) or {}
    left = with_named_parents(field_set(pruned, shape), shape)
    pruned = without_fields(merged, whole - (left | kept), shape) or {}
    left = with_named_parents(field_set(pruned, shape), shape)
    result: Object = without_fields(merged, (whole - left) & before, shape) or {}
    return result


def _conflict_error(conflicts: dict[Manager, FieldSet]) -> Exception:
    causes = []
    sentences = []
    for manager, fields in sorted(conflicts.items()):
        kind = f'"{manager.name}"' + (f' with subresource "{manager.subresource}"' if manager.subresource else "")
        using = f"{kind} using {manager.api_version}" if manager.operation == UPDATE else kind
        named = [describe_path(path) for path in in_tree_order(fields)]
        causes += [Cause(path, "FieldManagerConflict", f"conflict with {using}") for path in named]
        sentences.append(f"conflicts with {using}:" + "".join(f"\n- {path}" for path in named))
    if len(causes) == 1:
        return apply_conflict(causes, f"{causes[0].message}: {causes[0].field}")
    return apply_conflict(causes, "\n".join(sentences))
