"""A request's body as an object of the served kind: kind and version fit, and its metadata has the right types."""

from __future__ import annotations

from typing import Any

import orjson

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.builtin_types import json_word, type_problem
from controller.embedded.apiserver.errors import Cause, Object
from controller.embedded.apiserver.metadata import metadata_of
from controller.embedded.apiserver.resources import ServedVersion, ordered
from controller.embedded.apiserver.timestamps import TIME, time_problem

_TIMES = ("creationTimestamp", "deletionTimestamp")
_MEMBER_TYPES: dict[str, tuple[type, str]] = {
    "name": (str, "string"),
    "generateName": (str, "string"),
    "namespace": (str, "string"),
    "uid": (str, "types.UID"),
    "resourceVersion": (str, "string"),
    "generation": (int, "int64"),
    "creationTimestamp": (str, "string"),
    "deletionTimestamp": (str, "string"),
    "labels": (dict, "map[string]string"),
    "annotations": (dict, "map[string]string"),
    "ownerReferences": (list, "[]v1.OwnerReference"),
    "finalizers": (list, "[]string"),
    "managedFields": (list, "[]v1.ManagedFieldsEntry"),
}
_ITEM_TYPES: dict[str, tuple[type, str]] = {
    "ownerReferences": (dict, "v1.OwnerReference"),
    "finalizers": (str, "string"),
    "managedFields": (dict, "v1.ManagedFieldsEntry"),
}


def read_as(served: ServedVersion, body: Any) -> Object:
    """`body` as an object of the served kind. Raises ApiError 400 for another kind, or for metadata of wrong types."""
    kind = served.type.kind
    if body is None and not served.type.custom:
        body = {}
    if not isinstance(body, dict):
        raise errors.bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal into an object of kind {kind}"
        )
    given_version, given_kind = body.get("apiVersion"), body.get("kind")
    if served.type.custom and not (given_version and given_kind):
        missing = "Kind" if not given_kind else "apiVersion"
        raise errors.bad_request(f"Object '{missing}' is missing in '{orjson.dumps(body).decode()[:200]}'")
    if served.type.custom and given_version == served.api_version and given_kind != kind:
        cause = Cause("kind", "FieldValueInvalid", f'Invalid value: "{given_kind}": must be {kind}')
        given = errors.GroupResource(served.type.group, str(given_kind))
        name = body["metadata"].get("name", "") if isinstance(body.get("metadata"), dict) else ""
        raise errors.invalid(given, name, [cause])
    if given_version not in (None, "", served.api_version):
        raise errors.bad_request(
            f"the API version in the data ({given_version}) does not match the expected API version "
            f"({served.api_version})"
        )
    if given_kind not in (None, "", kind):
        raise errors.bad_request(
            f'{given_kind} in version "{served.version}" cannot be handled as a {kind}: no kind "{given_kind}" is '
            f'registered for version "{served.api_version}"'
        )
    if not isinstance(body.get("metadata", {}), dict | None):
        raise _wrong_type(served, "", body["metadata"], "v1.ObjectMeta")
    _check_types(served, metadata_of(body))
    if problem := type_problem(served.type.resource, body):
        raise _undecodable(served, problem)
    return ordered(body, kind, served.api_version, custom=served.type.custom)


def _check_types(served: ServedVersion, metadata: Object) -> None:
    """Nulls go as if they had not been sent."""
    for name, (expected, type_name) in _MEMBER_TYPES.items():
        value = metadata.get(name)
        if value is None:
            metadata.pop(name, None)
        elif not isinstance(value, expected) or isinstance(value, bool):
            raise _wrong_type(served, name, value, type_name)
    for name in ("labels", "annotations"):
        for key, value in metadata.get(name, {}).items():
            if value is None:
                metadata[name][key] = ""
            elif not isinstance(value, str):
                raise _wrong_type(served, name, value, "string")
    for name, (expected, type_name) in _ITEM_TYPES.items():
        for item in metadata.get(name, ()):
            if not isinstance(item, expected):
                raise _wrong_type(served, name, item, type_name)
    for name in _TIMES:
        if metadata.get(name):
            problem = time_problem(metadata[name], TIME)
            if problem:
                raise _undecodable(served, problem)


def _undecodable(served: ServedVersion, problem: str) -> errors.ApiError:
    return errors.Undecodable(served.type.kind, served.version, problem)


def _wrong_type(served: ServedVersion, name: str, value: Any, type_name: str) -> errors.ApiError:
    field = name if served.type.custom else f"metadata.{name}"
    place = f"struct field ObjectMeta.{field}" if name else f"struct field {served.type.kind}.metadata"
    if not name and served.type.custom:
        place = "value"
    return _undecodable(served, f"json: cannot unmarshal {json_word(value)} into Go {place} of type {type_name}")
