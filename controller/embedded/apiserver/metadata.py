"""`metadata` of an object: what the server sets, keeps and refuses. Pure functions on parsed objects."""

from __future__ import annotations

import random
import uuid
from typing import Any

import orjson

from controller.embedded.apiserver.errors import Cause, GroupResource, Object, shown
from controller.embedded.apiserver.names import label_value_problems, object_name_problems, qualified_name_problems

# apimachinery's alphabet for generated names: no vowels, nothing that reads as another character.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_BASE = 63 - _SUFFIX_LENGTH
# All annotations of an object together (apimachinery TotalAnnotationSizeLimitB).
_MAX_ANNOTATIONS_BYTES = 256 * 1024
_STANDARD_FINALIZERS = frozenset(("orphan", "foregroundDeletion", "kubernetes"))
# Groups of built-in types that take only standard or domain-qualified finalizers.
_STRICT_GROUPS = frozenset(("", "apps", "discovery.k8s.io", "rbac.authorization.k8s.io"))
_OWNER_MEMBERS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
# What a client can never set or change by writing an object.
_SYSTEM_MEMBERS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def generate_name(base: str, rng: random.Random) -> str:
    """A name from `generateName`: the base and five characters."""
    return base[:_MAX_GENERATED_BASE] + "".join(rng.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))


def new_uid(rng: random.Random) -> str:
    """A version 4 UUID from the server's own random source, so that a seeded run repeats."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def metadata_of(obj: Object) -> Object:
    """The metadata of `obj`, made if it is missing."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = obj["metadata"] = {}
    return metadata


def retain_system_metadata(metadata: Object, old: Object) -> None:
    """Carry over what the server owns; a write can neither set nor drop it."""
    for member in _SYSTEM_MEMBERS:
        metadata.pop(member, None)
        if member in old:
            metadata[member] = old[member]
    metadata["name"] = old["name"]
    if "namespace" in old:
        metadata["namespace"] = old["namespace"]
    if "generateName" in old:
        metadata.setdefault("generateName", old["generateName"])


def immutable_causes(metadata: Object, old: Object) -> list[Cause]:
    """Identity that the write tries to change."""
    causes = []
    for member in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):  # others are silently kept
        given = metadata.get(member)
        if given and given != old.get(member):
            causes.append(_invalid(f"metadata.{member}", given, "field is immutable"))
    return causes


def finalizer_causes(metadata: Object, old: Object) -> list[Cause]:
    """Finalizers may only be removed once the object is being deleted."""
    if not old.get("deletionTimestamp"):
        return []
    added = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if not added:
        return []
    listed = ", ".join(f'"{name}"' for name in added)
    message = (
        f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
    )
    return [Cause("metadata.finalizers", "FieldValueForbidden", f"Forbidden: {message}")]


def finalizer_warnings(metadata: Object, old: Object) -> list[str]:
    """New finalizers whose names are nobody's in particular."""
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid accidental conflicts with '
        "other finalizer writers"
        for name in metadata.get("finalizers") or ()
        if name not in _STANDARD_FINALIZERS and "/" not in str(name) and name not in (old.get("finalizers") or ())
    ]


def metadata_causes(metadata: Object, resource: GroupResource, *, custom: bool) -> list[Cause]:
    """Names, labels, annotations, owner references and finalizers that break the rules of ObjectMeta."""
    causes = _name_causes(metadata, resource)
    generation = metadata.get("generation", 0)
    if generation < 0 and not custom:
        causes.append(_invalid("metadata.generation", generation, "must be greater than or equal to 0"))
    for key, value in (metadata.get("labels") or {}).items():
        causes += [_invalid("metadata.labels", key, text) for text in qualified_name_problems(key)]
        causes += [_invalid("metadata.labels", value, text) for text in label_value_problems(value)]
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        causes += [_invalid("metadata.annotations", key, text) for text in qualified_name_problems(key.lower())]
    if sum(len(key) + len(value) for key, value in annotations.items()) > _MAX_ANNOTATIONS_BYTES:
        text = f"Too long: may not be more than {_MAX_ANNOTATIONS_BYTES} bytes"
        causes.append(Cause("metadata.annotations", "FieldValueTooLong", text))
    causes += _owner_causes(metadata.get("ownerReferences") or [])
    finalizers = metadata.get("finalizers") or []
    for name in finalizers:
        causes += [_invalid("metadata.finalizers", name, text) for text in qualified_name_problems(name)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(_invalid("metadata.finalizers", finalizers, text))
    if not custom and resource.group in _STRICT_GROUPS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        causes += [
            _invalid(f"metadata.finalizers[{index}]", name, text)
            for index, name in enumerate(finalizers)
            if "/" not in name and name not in _STANDARD_FINALIZERS
        ]
    return causes


def _invalid(field: str, value: Any, text: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {text}")


def _name_causes(metadata: Object, resource: GroupResource) -> list[Cause]:
    base, name = metadata.get("generateName", ""), metadata.get("name", "")
    problems = object_name_problems(base, resource, base=True) if base else []
    causes = [_invalid("metadata.generateName", base, text) for text in problems]
    if name:
        return causes + [_invalid("metadata.name", name, text) for text in object_name_problems(name, resource)]
    text = "Required value: name or generateName is required"
    return [*causes, Cause("metadata.name", "FieldValueRequired", text)]


def _owner_causes(owners: list[Object]) -> list[Cause]:
    causes = []
    for owner in owners:  # the fields carry no index, as on the real server
        group, _, version = str(owner.get("apiVersion", "")).rpartition("/")
        if not version or "/" in group:
            text = "version must not be empty"
            causes.append(_invalid("metadata.ownerReferences.apiVersion", owner.get("apiVersion", ""), text))
        causes += [
            _invalid(f"metadata.ownerReferences.{member}", "", "must not be empty")
            for member in ("kind", "name", "uid")
            if not owner.get(member)
        ]
        if owner.get("kind") == "Event" and owner.get("apiVersion") == "v1":
            text = "/v1, Kind=Event is disallowed from being an owner"
            causes.append(Cause("metadata.ownerReferences", "FieldValueInvalid", f"{_given(owner)}: {text}"))
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        found = f'Found "true" in references for {" and ".join(controllers[:2])}'
        text = f"Only one reference can have Controller set to true. {found}"
        causes.append(Cause("metadata.ownerReferences", "FieldValueInvalid", f"{_given(owners)}: {text}"))
    return causes


def _given(owners: Object | list[Object]) -> str:
    """Owner references with their members in the order of the type."""
    if isinstance(owners, dict):
        ordered: Any = {member: owners[member] for member in _OWNER_MEMBERS if member in owners}
    else:
        ordered = [{member: owner[member] for member in _OWNER_MEMBERS if member in owner} for owner in owners]
    return f"Invalid value: {orjson.dumps(ordered).decode()}"


def merge_equal_owners(metadata: Object, *, patched: bool = False) -> list[str]:
    """Drop owner references that stand twice; the warning about it."""
    owners = metadata.get("ownerReferences") or []
    kept: list[Object] = []
    twice = []
    for owner in owners:
        if owner in kept:
            twice.append(str(owner.get("uid", "")))
        else:
            kept.append(owner)
    if not twice:
        return []
    metadata["ownerReferences"] = kept
    when = " after mutating admission happens" if patched else ""
    return [
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and "
        "may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(twice)
    ]
