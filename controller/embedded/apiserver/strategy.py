"""What happens to an object between its arrival and its storage, apart from who wrote it: reading it as its kind,
pruning and defaulting, keeping status and main part apart, generation, and all checks. Pure functions."""

from __future__ import annotations

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.builtin_events import event_causes
from controller.embedded.apiserver.builtin_rules import (
    builtin_causes,
    normalise,
    set_builtin_defaults,
)
from controller.embedded.apiserver.builtin_types import drop_unknown
from controller.embedded.apiserver.builtins import CRD_PLURAL
from controller.embedded.apiserver.crd_checks import crd_causes
from controller.embedded.apiserver.crds import set_crd_defaults
from controller.embedded.apiserver.errors import Cause, Object
from controller.embedded.apiserver.metadata import (
    finalizer_causes,
    finalizer_warnings,
    immutable_causes,
    metadata_causes,
    metadata_of,
)
from controller.embedded.apiserver.pruning import prune, set_defaults
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.validation import validate

_METADATA_MEMBERS = frozenset(
    (
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    )
)
_IDENTITY = frozenset(("name", "namespace", "resourceVersion", "managedFields"))
# Changes to these never move the generation.
_NO_GENERATION = frozenset(("metadata", "status", "apiVersion", "kind"))


def complete(served: ServedVersion, obj: Object, *, applied: bool = False) -> list[str]:
    """Prune and default in place; returns the paths of unknown fields.

    What was `applied` has been read as a typed object already: it is defaulted, but keeps its nulls."""
    unknown = []
    metadata = metadata_of(obj)
    for name in [name for name in metadata if name not in _METADATA_MEMBERS]:
        del metadata[name]
        unknown.append(f"metadata.{name}")
    metadata.pop("selfLink", None)
    for name in ("labels", "annotations", "ownerReferences", "finalizers"):
        if name in metadata and not metadata[name]:
            del metadata[name]  # as typed metadata leaves out what is empty
    if served.schema is not None:
        unknown += prune(obj, served.schema)
        set_defaults(obj, served.schema, keep_nulls=applied)
    elif not served.type.custom:
        unknown += drop_unknown(served.type.resource, obj)
        normalise(served.type.plural, served.type.group, obj)
        if served.type.plural == CRD_PLURAL:
            set_crd_defaults(obj)
        else:
            set_builtin_defaults(served.type.plural, obj)
    return unknown


def isolate(served: ServedVersion, obj: Object, current: Object, subresource: str) -> Object:
    """The candidate of a write that may touch only its own half: the main part or the status."""
    if subresource == "status":
        kept = dict(current)
        if served.type.traits.status_writes_metadata:
            kept["metadata"] = obj["metadata"]
        else:
            kept["metadata"] = dict(current["metadata"])
            for name in ("resourceVersion", "managedFields"):
                if name in obj["metadata"]:
                    kept["metadata"][name] = obj["metadata"][name]
        kept.pop("status", None)
        if "status" in obj:
            kept["status"] = obj["status"]
        return kept
    if served.status:
        obj.pop("status", None)
        if "status" in current:
            obj["status"] = current["status"]
    return obj


def only_half(served: ServedVersion, configuration: Object, subresource: str) -> Object:
    """What an apply may own: the status through /status, everything else through the main part. A shallow copy."""
    if subresource == "status":
        metadata = {name: v for name, v in configuration["metadata"].items() if name in _IDENTITY}
        half = {name: v for name, v in configuration.items() if name in ("apiVersion", "kind", "status")}
        return {**half, "metadata": metadata}
    return {name: v for name, v in configuration.items() if name != "status" or not served.status}


def drop_status_on_create(served: ServedVersion, obj: Object) -> None:
    """A status given on create is ignored where status is a subresource (a Node keeps it)."""
    if served.status and not served.type.traits.status_on_create:
        obj.pop("status", None)


def _below(subresource: str, cause: Cause) -> Cause:
    """A finding about a subresource, whose validator speaks of paths below it."""
    if not subresource or not cause.field.startswith(subresource):
        return cause
    path = cause.field.removeprefix(subresource).removeprefix(".")
    return Cause(cause.field, cause.reason, cause.message.replace(f"{cause.field} in body", f"{path} in body"))


def moves_generation(served: ServedVersion, obj: Object, current: Object) -> bool:
    """Whether the wanted state changed: anything but metadata, and status where it is a subresource."""
    if not served.type.traits.generation:
        return False
    ignored = _NO_GENERATION if served.status else _NO_GENERATION - {"status"}
    names = (obj.keys() | current.keys()) - ignored
    return any(obj.get(name) != current.get(name) for name in names)


def check(
    served: ServedVersion, obj: Object, current: Object | None, warnings: list[str], subresource: str = ""
) -> None:
    """Every rule at once. Raises ApiError 422 with all causes."""
    causes: list[Cause] = []
    metadata = obj["metadata"]
    identity = served.type.resource
    if current is None:
        causes += metadata_causes(metadata, identity, custom=served.type.custom)
    else:
        old = current["metadata"]
        # Ratcheting: metadata that is stored already is not checked again.
        changed = {name: value for name, value in metadata.items() if value != old.get(name)}
        changed |= {"name": old["name"], "generation": 0}
        causes += metadata_causes(changed, identity, custom=served.type.custom)
        causes += immutable_causes(metadata, old) + finalizer_causes(metadata, old)
    if served.schema is not None:
        findings = validate(obj, current, served.schema, causes)
        causes = [_below(subresource, cause) for cause in findings.causes]
        warnings += findings.warnings
    elif served.type.plural == CRD_PLURAL:
        causes += crd_causes(obj)
    elif not served.type.custom:
        stored = served.unview(obj)
        old = None if current is None else served.unview(current)
        causes += builtin_causes(served.type.plural, stored, old)
        if served.type.plural == "events":
            causes += event_causes(stored, old, newer=bool(served.type.group))
    if causes:
        kind = served.type.kind_name
        if served.type.plural == "events":
            kind = errors.GroupResource("", kind.name)  # both groups report as the core type
        raise errors.invalid(kind, metadata.get("name", ""), causes)
    if served.type.custom:
        warnings += finalizer_warnings(metadata, current["metadata"] if current else {})
