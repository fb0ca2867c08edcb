"""How lists and maps merge: the part of a schema that patches and field ownership need.

A `Shape` is a place in an object. For custom resources it reads `x-kubernetes-list-type`, `x-kubernetes-list-map-keys`
and `x-kubernetes-map-type` from the structural schema; for built-in types, whose schemas are not carried here, from a
short table of field names taken from the Kubernetes API reference. `metadata` follows the table in every object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.embedded.apiserver.errors import Object

# Field name → merge keys, as the API reference gives them (`patchMergeKey` / list-map-keys).
_BUILTIN_KEYS: dict[str, tuple[str, ...]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "hostIPs": ("ip",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "resourceClaims": ("name",),
    "secrets": ("name",),
    "schedulingGates": ("name",),
    "taints": ("key", "effect"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "webhooks": ("name",),
}
_BUILTIN_SETS = frozenset(("finalizers",))
# Structs and maps that one writer owns whole: label selectors and references.
_BUILTIN_ATOMIC_MAPS = frozenset(
    (
        "configMapKeyRef",
        "fieldRef",
        "involvedObject",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "objectSelector",
        "regarding",
        "related",
        "resourceFieldRef",
        "roleRef",
        "secretKeyRef",
        "selector",
        "targetRef",
    )
)
_BUILTIN_MAPS = frozenset(
    (
        "allocatable",
        "annotations",
        "binaryData",
        "capacity",
        "data",
        "labels",
        "limits",
        "matchLabels",
        "requests",
        "stringData",
    )
)
# Structs that are absent rather than empty; an Update owns them like a map when they appear.
_BUILTIN_POINTERS = frozenset(("securityContext", "series", "valueFrom"))
# Lists that typed objects always have, if only as null: they never appear, so an Update does not own them as such.
_BUILTIN_PRESENT = frozenset(("containers",))
_METADATA: Object = {
    "type": "object",
    "properties": {
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
# Members of a merge key that may be left out, with the value they then have (`protocol` of a port).
_KEY_DEFAULTS = {"protocol": "TCP"}


Key = tuple[tuple[str, Any], ...]  # (name, value) of the keys of a list item, by name


@dataclass(frozen=True, slots=True)
class Shape:
    """A place in an object: its schema node (None for built-in types) and the name of the field that led here."""

    node: Object | None
    field: str = ""

    def member(self, name: str) -> Shape:
        """The shape of one member of an object."""
        if self.node is None:
            return Shape(_METADATA if name == "metadata" else None, name)
        properties = self.node.get("properties") or {}
        node = properties.get(name)
        if node is None:
            extra = self.node.get("additionalProperties")
            node = extra if isinstance(extra, dict) else {}
        return Shape(node, name)

    def item(self) -> Shape:
        """The shape of the items of a list."""
        if self.node is None:
            return Shape(None)
        return Shape(self.node.get("items") or {})

    def declares(self, name: str) -> bool:
        """Whether a member is a field of its own rather than an entry of a map with free keys."""
        if self.node is None:
            return self.field not in _BUILTIN_MAPS
        return name in (self.node.get("properties") or {})

    @property
    def is_atomic_map(self) -> bool:
        if self.node is None:
            return self.field in _BUILTIN_ATOMIC_MAPS
        return self.node.get("x-kubernetes-map-type") == "atomic"

    @property
    def is_typed(self) -> bool:
        """Whether the schema says what is here; elsewhere values speak for themselves."""
        return self.node is None or "type" in self.node

    @property
    def is_always_there(self) -> bool:
        """Whether this is a struct or list that the typed objects of the server always have, if only empty: a write
        cannot make it appear. Custom resources have none, they are maps to the server."""
        if self.node is _METADATA:
            return True
        if self.node is None:
            return self.field not in _BUILTIN_MAPS | _BUILTIN_POINTERS and (
                not _BUILTIN_KEYS.get(self.field) or self.field in _BUILTIN_PRESENT
            )
        return False

    def merges(self, items: list[Any]) -> bool:
        """Whether a list is a set or keyed, so that its items are fields of their own."""
        return self.is_set or bool(self.keys(items))

    @property
    def is_set(self) -> bool:
        if self.node is None:
            return self.field in _BUILTIN_SETS
        return self.node.get("x-kubernetes-list-type") == "set"

    def keys(self, items: list[Any]) -> tuple[str, ...]:
        """The merge keys of a list; empty where the list is atomic or a set. `items` tells apart the two kinds of
        `ports` that built-in types have."""
        if self.node is not None:
            if self.node.get("x-kubernetes-list-type") != "map":
                return ()
            return tuple(self.node.get("x-kubernetes-list-map-keys") or ())
        if self.field == "ports":
            first = items[0] if items and isinstance(items[0], dict) else {}
            return ("containerPort", "protocol") if "containerPort" in first else ("port", "protocol")
        return _BUILTIN_KEYS.get(self.field, ())

    def key_of(self, item: Any, keys: tuple[str, ...]) -> Key | None:
        """The identity of a list item: the keys that it has (or that have a default), by name. None where it has
        none, or is no object."""
        if not isinstance(item, dict):
            return None
        properties = ((self.node or {}).get("items") or {}).get("properties") or {}
        found = []
        for key in sorted(keys):
            default = (properties.get(key) or {}).get("default", _KEY_DEFAULTS.get(key) if self.node is None else None)
            if key in item or default is not None:
                found.append((key, item.get(key, default)))
        return tuple(found) or None


def root_shape(schema: Object | None) -> Shape:
    """The shape of a whole object: `metadata` always has its own."""
    if schema is None:
        return Shape(None)
    properties = {**(schema.get("properties") or {}), "metadata": _METADATA}
    return Shape({**schema, "properties": properties})
