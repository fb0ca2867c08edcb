"""What every Kubernetes object has: how it is addressed and its metadata, as slotted projections.

These are read from untrusted JSON: unknown fields are ignored, `null` and missing members become defaults. A projection
keeps what this project reads and nothing else (`managedFields` only where a view asks for it), because the cache holds
one per object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec


@dataclass(frozen=True, slots=True)
class Resource:
    """How objects of one kind are addressed: group, version, plural, kind, scope."""

    group: str  # "" for the core group
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The request path of a collection or one object; without a namespace, all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            root = f"{root}/namespaces/{namespace}"
        parts = [root, self.plural, *(part for part in (name, subresource) if part)]
        return "/".join(parts)


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """metav1.OwnerReference, the part that is read."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """metav1.ObjectMeta, the part that is read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    def label(self, key: str) -> str | None:
        """The value of a label, None where it is absent."""
        return (self.labels or {}).get(key)

    def annotation(self, key: str) -> str | None:
        """The value of an annotation, None where it is absent."""
        return (self.annotations or {}).get(key)

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for a cluster-scoped object: the key of stores and work queues."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class KubeObject(Protocol):
    """Anything that a store can hold."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


def split_key(key: str) -> tuple[str, str]:
    """(namespace, name) of a key; the namespace is empty for a cluster-scoped object."""
    namespace, _, name = key.rpartition("/")
    return namespace, name
