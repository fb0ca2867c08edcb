"""`metadata` of an object: what the server sets, keeps and refuses. Pure functions on parsed objects."""

from __future__ import annotations

import random
import re
import uuid
from typing import Any

from controller.embedded.apiserver.errors import Cause, Object

# apimachinery's alphabet for generated names: no vowels, nothing that reads as another character.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_BASE = 63 - _SUFFIX_LENGTH
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_MAX_SUBDOMAIN = 253
_MAX_LABEL = 63
# All annotations of an object together (apimachinery TotalAnnotationSizeLimitB).
_MAX_ANNOTATIONS_BYTES = 256 * 1024

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_KNOWN_FINALIZERS = frozenset(("orphan", "foregroundDeletion", "kubernetes"))
_PATH_NAMES = frozenset(
    ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
)  # names of RBAC objects are path segments (`system:node`)
_LABEL_NAMES = frozenset(("namespaces", "services"))
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
        shown = f'"{given}"' if isinstance(given, str) else given
        if given and given != old.get(member):
            causes.append(
                Cause(f"metadata.{member}", "FieldValueInvalid", f"Invalid value: {shown}: field is immutable")
            )
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
        if name not in _KNOWN_FINALIZERS and "/" not in str(name) and name not in (old.get("finalizers") or ())
    ]


def metadata_causes(metadata: Object, plural: str) -> list[Cause]:
    """Names, labels, annotations, finalizers and owner references that break the rules of ObjectMeta."""
    causes = _name_causes(metadata, plural)
    labels = metadata.get("labels")
    causes += _map_causes(labels, "metadata.labels")
    for key, value in labels.items() if isinstance(labels, dict) else ():
        if isinstance(value, str) and (len(value) > _MAX_LABEL or not _LABEL_VALUE.fullmatch(value)):
            text = (
                f'Invalid value: "{value}": a valid label must be an empty string or consist of alphanumeric '
                f"characters, '-', '_' or '.', of at most {_MAX_LABEL} characters"
            )
            causes.append(Cause("metadata.labels", "FieldValueInvalid", f"{text} (label {key})"))
    annotations = metadata.get("annotations")
    causes += _map_causes(annotations, "metadata.annotations")
    if isinstance(annotations, dict):
        size = sum(len(key) + len(str(value)) for key, value in annotations.items())
        if size > _MAX_ANNOTATIONS_BYTES:
            text = f"Too long: may not be more than {_MAX_ANNOTATIONS_BYTES} bytes"
            causes.append(Cause("metadata.annotations", "FieldValueTooLong", text))
    causes += _owner_causes(metadata.get("ownerReferences"))
    return causes


def _name_causes(metadata: Object, plural: str) -> list[Cause]:
    causes = []
    base = metadata.get("generateName")
    if isinstance(base, str) and base and (problem := _name_problem(base.rstrip("-") or "-", plural)):
        causes.append(Cause("metadata.generateName", "FieldValueInvalid", f'Invalid value: "{base}": {problem}'))
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        text = "Required value: name or generateName is required"
        causes.append(Cause("metadata.name", "FieldValueRequired", text))
    elif problem := _name_problem(name, plural):
        causes.append(Cause("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {problem}'))
    return causes


def _name_problem(name: str, plural: str) -> str:
    """The rule that a name breaks, the empty text where it breaks none."""
    if plural in _PATH_NAMES:
        wrong = name in (".", "..") or "/" in name or "%" in name
        rule = "may not be '.' or '..' and may not contain '/' or '%'"
    elif plural in _LABEL_NAMES:
        wrong, rule = len(name) > _MAX_LABEL or not _LABEL.fullmatch(name), _LABEL_RULE
    else:
        wrong, rule = len(name) > _MAX_SUBDOMAIN or not _SUBDOMAIN.fullmatch(name), _SUBDOMAIN_RULE
    return rule if wrong else ""


def _map_causes(value: Any, field: str) -> list[Cause]:
    if value is None:
        return []
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        return [Cause(field, "FieldValueInvalid", "Invalid value: must be a map of strings")]
    causes = []
    for key in value:
        prefix, _, name = key.rpartition("/")
        bad_prefix = "/" in key and (len(prefix) > _MAX_SUBDOMAIN or not _SUBDOMAIN.fullmatch(prefix.lower()))
        if bad_prefix or not _QUALIFIED_NAME.fullmatch(name):
            text = (
                f"Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.', and "
                "must start and end with an alphanumeric character, after an optional DNS prefix and '/'"
            )
            causes.append(Cause(field, "FieldValueInvalid", text))
    return causes


def _owner_causes(owners: Any) -> list[Cause]:
    if owners is None:
        return []
    causes = []
    for owner in owners if isinstance(owners, list) else [None]:
        for member in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner, dict) or not owner.get(member):
                field = f"metadata.ownerReferences.{member}"  # without index, as on the real server
                causes.append(Cause(field, "FieldValueInvalid", 'Invalid value: "": must not be empty'))
    controllers = [owner for owner in owners if isinstance(owner, dict) and owner.get("controller")]
    if len(controllers) > 1:
        text = "Only one reference can have Controller set to true"
        causes.append(Cause("metadata.ownerReferences", "FieldValueInvalid", f"Invalid value: {text}"))
    return causes
