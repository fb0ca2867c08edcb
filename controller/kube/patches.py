"""The three kinds of patches that custom resources accept. Strategic merge is left out: it is 415 on a custom resource.

A patch is bytes and a content type, made once; the client sends it as it is.

    JsonPatch().test("/metadata/annotations", key, value=…).replace("/spec/roles/0/replicas", value=3).build()
    merge_patch({"metadata": {"resourceVersion": "7", "labels": {"a": None}}})
    apply_patch({"apiVersion": "v1", "kind": "ConfigMap", …})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
# JSON is nearly a subset of YAML, and the only apply type that every server since 1.16 knows.
APPLY_PATCH = "application/apply-patch+yaml"
# What stands unescaped in JSON and not in YAML: controls are refused, a line separator ends a key.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Patch:
    """What goes over the wire."""

    content_type: str
    body: bytes


class JsonPatch:
    """An RFC 6902 patch, built in order; all of it is applied or nothing.

    Each path is given as a pointer prefix that is taken as it is, and further segments (keys, indices) that are
    escaped: `/` in an annotation's key must not become a level. On the real server a `test` against null passes for a
    missing member, a `replace` of a missing member adds it, and an index of -1 appends; nothing here relies on that.
    """

    def __init__(self) -> None:
        self._operations: list[dict[str, Any]] = []

    def test(self, pointer: str, *segments: str | int, value: Any) -> JsonPatch:
        """The patch is refused (422) unless this member has exactly this value."""
        return self._append("test", pointer, segments, value)

    def replace(self, pointer: str, *segments: str | int, value: Any) -> JsonPatch:
        """Change a member that exists."""
        return self._append("replace", pointer, segments, value)

    def add(self, pointer: str, *segments: str | int, value: Any) -> JsonPatch:
        """Set a member, new or not, or insert into a list (`-` as the last segment appends). Its parent must exist."""
        return self._append("add", pointer, segments, value)

    def remove(self, pointer: str, *segments: str | int) -> JsonPatch:
        """Take a member out; it must exist."""
        self._operations.append({"op": "remove", "path": json_pointer(pointer, *segments)})
        return self

    def build(self) -> Patch:
        """The patch. Raises ValueError when it would change nothing: the server would answer 200 to it."""
        if all(operation["op"] == "test" for operation in self._operations):
            raise ValueError("a JSON patch needs at least one change")
        return Patch(JSON_PATCH, orjson.dumps(self._operations))

    def _append(self, verb: str, pointer: str, segments: tuple[str | int, ...], value: Any) -> JsonPatch:
        self._operations.append({"op": verb, "path": json_pointer(pointer, *segments), "value": value})
        return self


def json_pointer(prefix: str, *segments: str | int) -> str:
    """`prefix` followed by the escaped segments. Raises ValueError for a prefix without its leading slash, which the
    API
    server accepts with 200 and ignores."""
    if prefix and not prefix.startswith("/"):
        raise ValueError(f"a JSON pointer starts with '/', got {prefix!r}")
    return prefix + "".join(f"/{str(segment).replace('~', '~0').replace('/', '~1')}" for segment in segments)


def merge_patch(changes: Mapping[str, Any]) -> Patch:
    """An RFC 7386 patch: None removes a member. With `metadata.resourceVersion` inside it is refused (409) when
    stale.
    """
    return Patch(MERGE_PATCH, orjson.dumps(changes))


def apply_patch(intent: Mapping[str, Any]) -> Patch:
    """A server-side apply of the whole intent: what its manager owned and is missing here is removed.

    Raises ValueError without apiVersion, kind and name, or with managedFields, which the server refuses.
    """
    metadata = intent.get("metadata") or {}
    if not (intent.get("apiVersion") and intent.get("kind") and metadata.get("name")):
        raise ValueError("an apply patch needs apiVersion, kind and metadata.name")
    if "managedFields" in metadata:
        raise ValueError("an apply patch must not carry metadata.managedFields")
    return Patch(APPLY_PATCH, _NOT_IN_YAML.sub(_escaped, orjson.dumps(intent).decode()).encode())


def _escaped(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"
