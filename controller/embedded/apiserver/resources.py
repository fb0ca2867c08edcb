"""What is served: resource types, their versions, and the registry that finds them by path.

A `ResourceType` is one storage (all versions of one group and plural); a `ServedVersion` is how it is seen under one
API version. Two types may share a storage (`storage_key`): core events and events.k8s.io events are one collection with
two faces. Traits are data, so that the verbs stay free of special cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from controller.embedded.apiserver.errors import GroupResource, Object
from controller.embedded.apiserver.selectors import FieldGetter, field_getter

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
# The real server lists them in this order for custom resources.
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
# And these while their definition is being deleted, although it still takes updates and patches.
TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
Convert = Callable[[Object], Object]
COMMON_FIELDS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of Table output: a JSONPath into the object, or a function of the object and the time now."""

    name: str
    type: str = "string"
    path: str = ""
    compute: Callable[[Object, float], Any] | None = None
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0: shown with `-o wide` only


@dataclass(frozen=True, slots=True)
class Traits:
    """How objects of one type behave in the verbs. The defaults are those of custom resources."""

    status: bool = True  # a `status` subresource; main writes ignore it
    generation: bool = True  # `metadata.generation` is kept
    status_on_create: bool = False  # a status given on create is kept (Node: the kubelet registers with one)
    status_writes_metadata: bool = False  # labels and annotations may be changed through /status (Pod, Node)
    create_on_update: bool = False  # PUT of a missing object creates it (Lease, Endpoints, Event, Role …)
    unconditional_update: bool = False  # PUT needs no resourceVersion
    returns_deleted: bool = False  # DELETE answers the object, not a Status
    graceful: bool = False  # DELETE waits for the kubelet (Pod)
    wall_clock: bool = False  # creationTimestamp is wall time also where the server's clock runs faster (Lease, Event)
    virtual: bool = False  # POST only and never stored (reviews)


@dataclass(slots=True, eq=False)
class ResourceType:
    """All versions of one plural in one group, sharing one collection."""

    group: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    storage_version: str
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    custom: bool = False
    terminating: bool = False  # its definition is being deleted: nothing new is created
    traits: Traits = Traits()
    storage_key: tuple[str, str] = ("", "")
    versions: dict[str, ServedVersion] = field(default_factory=dict)  # in order of preference

    def __post_init__(self) -> None:
        self.list_kind = self.list_kind or f"{self.kind}List"
        if self.storage_key == ("", ""):
            self.storage_key = (self.group, self.plural)

    @property
    def resource(self) -> GroupResource:
        return GroupResource(self.group, self.plural)

    @property
    def kind_name(self) -> GroupResource:
        return GroupResource(self.group, self.kind)

    @property
    def storage_api_version(self) -> str:
        return f"{self.group}/{self.storage_version}" if self.group else self.storage_version

    def add_version(self, name: str, **options: Any) -> ServedVersion:
        """Serve this type under one more version."""
        served = ServedVersion(self, name, **options)
        self.versions[name] = served
        return served


@dataclass(slots=True, eq=False)
class ServedVersion:
    """One resource type as it is seen under one API version."""

    type: ResourceType
    version: str
    schema: Object | None = None  # structural schema (custom resources)
    columns: tuple[Column, ...] = ()
    from_storage: Convert | None = None
    to_storage: Convert | None = None
    selectable: tuple[str, ...] = ()  # dotted paths offered to field selectors, beyond name and namespace
    selectable_aliases: Mapping[str, str] = field(default_factory=dict)
    status: bool = True  # whether /status is served at this version
    deprecation: str = ""  # a warning that every answer carries
    api_version: str = ""
    fields: dict[str, FieldGetter] = field(default_factory=dict)
    prefix: bytes = b""  # the leading `{"kind":…,"apiVersion":…` of every stored object of a built-in type

    def __post_init__(self) -> None:
        group = self.type.group
        self.api_version = f"{group}/{self.version}" if group else self.version
        self.status = self.status and self.type.traits.status
        offered = COMMON_FIELDS if self.type.namespaced else COMMON_FIELDS[:1]
        self.fields = {path: field_getter(path) for path in (*offered, *self.selectable)}
        self.fields |= {label: field_getter(path) for label, path in self.selectable_aliases.items()}
        self.prefix = orjson.dumps({"kind": self.type.kind, "apiVersion": self.api_version})[:-1]

    @property
    def stores_itself(self) -> bool:
        """Whether objects are stored exactly as this version shows them."""
        return self.from_storage is None and self.api_version == self.type.storage_api_version

    def view(self, stored: Object) -> Object:
        """A stored object as this version shows it; shares members with `stored`, so it must not be changed."""
        if self.from_storage is not None:
            return self.from_storage(stored)
        if self.stores_itself:
            return stored
        return stored | {"apiVersion": self.api_version}

    def unview(self, obj: Object) -> Object:
        """The object to store for one that was written through this version."""
        if self.to_storage is not None:
            return self.to_storage(obj)
        return ordered(obj, self.type.kind, self.type.storage_api_version, custom=self.type.custom)


def ordered(obj: Object, kind: str, api_version: str, *, custom: bool) -> Object:
    """`obj` with its type members first, in the order of the real server (built-in types: kind first)."""
    head = {"apiVersion": api_version, "kind": kind} if custom else {"kind": kind, "apiVersion": api_version}
    for name, value in obj.items():
        if name not in head:
            head[name] = value
    return head


class Registry:
    """The served resource types. Discovery and OpenAPI documents are functions of it; `generation` grows with each
    change, so that they can be cached."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], ServedVersion] = {}
        self._types: dict[tuple[str, str], ResourceType] = {}
        self.generation = 0

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._types.values())

    def add(self, resource: ResourceType) -> None:
        """Serve `resource`, in place of a type with the same group and plural."""
        self.remove(resource.group, resource.plural)
        self._types[resource.group, resource.plural] = resource
        for version in resource.versions.values():
            self._by_path[resource.group, version.version, resource.plural] = version
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a type; nothing happens when it is unknown."""
        removed = self._types.pop((group, plural), None)
        if removed is not None:
            for version in removed.versions:
                del self._by_path[group, version, plural]
            self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ServedVersion | None:
        return self._by_path.get((group, version, plural))

    def type(self, group: str, plural: str) -> ResourceType | None:
        return self._types.get((group, plural))

    def for_kind(self, api_version: str, kind: str) -> ServedVersion | None:
        """The version that serves `kind`; a linear look-up, for fixtures and owner references."""
        group, _, version = api_version.rpartition("/")
        for resource in self._types.values():
            if resource.group == group and resource.kind == kind and version in resource.versions:
                return resource.versions[version]
        return None

    def groups(self) -> dict[str, list[str]]:
        """Group → versions in order of preference, over all types; the core group is the empty text."""
        found: dict[str, list[str]] = {}
        for resource in self._types.values():
            versions = found.setdefault(resource.group, [])
            versions.extend(version for version in resource.versions if version not in versions)
        return {group: sorted(versions, key=version_priority) for group, versions in found.items()}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts GA before beta before alpha, newer first, anything else last (the rule of CRD versions)."""
    for rank, stage in enumerate(("", "beta", "alpha")):
        major, found, minor = version.removeprefix("v").partition(stage) if stage else (version[1:], "", "")
        if version.startswith("v") and major.isdigit() and (not stage or (found and minor.isdigit())):
            return (rank, -int(major), -int(minor or 0), "")
    return (3, 0, 0, version)
