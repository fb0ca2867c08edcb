"""Keeping cached objects small: drop the annotations that nobody reads, share the strings that many objects have.

    Informer(client, POD, PodView, transform=lean(annotations=("example.org/",)))

A Pod carries kilobytes of annotations, and the same namespace, owner and label values as thousands of others.
Measured on 20,000 Pods of 12 KB: hack/bench/watch.py. The transform changes the metadata of the object it is
given in place, which is allowed because nobody else has seen it yet; applied twice it changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import force_setattr

from controller.foundation import KubeObject, OwnerReference

T = TypeVar("T", bound=KubeObject)

_MAX_OWNERS = 10_000
# Namespaces and what labels hold. A pool of our own, because `sys.intern` looks through every name in the process.
_MAX_STRINGS = 10_000
# Keys that nobody reads; beyond this they are as many as the objects, and not worth knowing.
_MAX_UNREAD = 1_000


def lean(*, annotations: tuple[str, ...] = ()) -> Callable[[T], T]:
    """A transform that keeps the annotations whose keys begin with one of the prefixes, and shares what repeats."""
    strings: dict[str, str] = {}
    share = strings.setdefault
    share_owners = _OwnerPool().share
    pick = _AnnotationFilter(annotations).pick

    def shrink(obj: T) -> T:
        meta = obj.metadata
        if found := meta.annotations:
            force_setattr(meta, "annotations", pick(found))
        namespace = meta.namespace
        force_setattr(meta, "namespace", share(namespace, namespace))
        if labels := meta.labels:
            # Decoders share short keys only; those with a prefix are as many strings as there are objects.
            values = labels.values()
            shared = zip(map(share, labels, labels), map(share, values, values), strict=True)
            force_setattr(meta, "labels", dict(shared))
            if len(strings) > _MAX_STRINGS:
                strings.clear()  # values come and go; those that live are soon back
        if meta.owner_references:
            force_setattr(meta, "owner_references", share_owners(meta.owner_references))
        return obj

    return shrink


class _AnnotationFilter:
    """Picks annotations by the prefixes of their keys. Most objects have none of them and the same few others, whose
    keys it knows after the first time."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes
        self._unread: set[str] = set()

    def pick(self, found: dict[str, str]) -> dict[str, str] | None:
        if self._unread.issuperset(found):
            return None
        kept = {sys.intern(key): sys.intern(value) for key, value in found.items() if key.startswith(self._prefixes)}
        if len(self._unread) < _MAX_UNREAD:
            self._unread.update(found.keys() - kept.keys())
        return kept or None


class _OwnerPool:
    """One tuple of owner references for all the objects that have the same owners."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[OwnerReference, ...]] = {}

    def share(self, owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
        uid = owners[0].uid
        known = self._known.get(uid)
        if known == owners and known is not None:
            return known
        if len(self._known) >= _MAX_OWNERS:
            self._known.clear()  # owners come and go; those that live are soon back
        self._known[uid] = owners
        return owners
