"""What every Kubernetes object has: how it is addressed and its metadata, as slotted projections.

These are read from untrusted JSON: unknown fields are ignored, missing members become defaults, and so do members that
are `null` where an object is read with `decode_object`. A projection keeps what this project reads and nothing else
(`managedFields` only where a view asks for it), because the cache holds one per object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from controller.foundation.quantity import describe

_T = TypeVar("_T")
# apimachinery refuses "/" and "%" in every object name; the others would end the path of a request or split its line.
_NOT_A_PATH_SEGMENT = re.compile(r"[/%?#\\\s\x00-\x1f\x7f]")


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
        """The request path of a collection or one object; without a namespace, all namespaces.

        Raises ValueError for a namespace or name that would lead to another path ("..", a slash, a percent sign); the
        API server accepts no object of such a name.
        """
        for part in (namespace, name):
            if part in (".", "..") or (part and _NOT_A_PATH_SEGMENT.search(part)):
                raise ValueError(f"not a name of a Kubernetes object: {describe(part)}")
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


def decode_object(decoder: msgspec.json.Decoder[_T], body: bytes | str) -> _T:
    """The object in `body`, members that are `null` read as if they were missing, as Go's decoder reads them.

    A body without such members, which is nearly every one, costs a single pass. `null` inside a list keeps its place
    and is refused: leaving it out would shift the indices that a JSON patch is built from.
    Raises msgspec.ValidationError with the path of the member that does not fit, msgspec.DecodeError for broken or
    absurdly nested JSON.
    """
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            return decoder.decode(msgspec.json.encode(_without_nulls(msgspec.json.decode(body))))
    except RecursionError:
        raise msgspec.DecodeError("JSON is nested too deeply") from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
