"""JSON Patch (RFC 6902) with the departures of the real server (control-plane.md §5).

`replace` of a missing member adds it; `test` of a missing member against null passes; `copy` of a missing member copies
null; 1 and 1.0 differ; index -1 appends on `add` and means the last item elsewhere; of a path without a leading slash
everything before the first slash is ignored; the empty path replaces the document, for `replace` only. An operation
that cannot be carried out fails the whole patch. The document given is changed in place, so callers hand over a copy.
"""

from __future__ import annotations

from typing import Any

import orjson

from controller.embedded.apiserver.errors import bad_request, too_large, unpatchable

# The limit of the real server (control-plane.md §5).
MAX_OPERATIONS = 10_000
_MISSING = object()
_WITH_VALUE = frozenset(("add", "replace", "test"))
_WITH_SOURCE = frozenset(("move", "copy"))


def apply_json_patch(document: Any, patch: Any) -> Any:
    """The patched document. Raises ApiError 400 for a body that is no patch, 413 for too many operations and 422 for an
    operation that fails."""
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise bad_request("error decoding patch: json: a JSON patch must be an array of operations")
    if len(patch) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise too_large(message)
    for operation in patch:
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str) or kind not in _WITH_VALUE | _WITH_SOURCE | {"remove"}:
        raise unpatchable()
    if kind in _WITH_SOURCE:
        source = operation.get("from")
        if not isinstance(source, str):
            raise unpatchable()
        value = _get(document, _split(source))
        if kind == "move":
            _remove(document, _split(source))
        else:
            value = None if value is _MISSING else _copy(value)
        return _add(document, _split(path), value)
    value = operation.get("value")
    if kind == "replace" and not path:
        return value
    parts = _split(path)
    if kind == "remove":
        _remove(document, parts)
        return document
    if kind == "test":
        found = _get(document, parts)
        if not same(None if found is _MISSING else found, value):
            raise unpatchable()
        return document
    return _add(document, parts, value) if kind == "add" else _replace(document, parts, value)


def _split(path: str) -> list[str]:
    """The members that a path leads through. Raises ApiError 422 for a path without any."""
    if "/" not in path:
        raise unpatchable()
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _copy(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1, 1.0 and true are three different things."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def _index(part: str, length: int) -> int:
    """The position that a path segment means in a list of `length`; -1 is the last. Raises ApiError 422."""
    digits = part.removeprefix("-")
    if not digits.isascii() or not digits.isdigit():
        raise unpatchable()
    index = int(part)
    if index < 0:
        index += length
    if not 0 <= index < length:
        raise unpatchable()
    return index


def _get(document: Any, parts: list[str]) -> Any:
    for depth, part in enumerate(parts):
        if isinstance(document, dict):
            document = document.get(part, _MISSING)
        elif isinstance(document, list):
            document = document[_index(part, len(document))]
        else:
            document = _MISSING
        if document is _MISSING:
            if depth < len(parts) - 1:
                raise unpatchable()
            return _MISSING
    return document


def _parent(document: Any, parts: list[str]) -> Any:
    parent = _get(document, parts[:-1])
    if not isinstance(parent, dict | list):
        raise unpatchable()
    return parent


def _add(document: Any, parts: list[str], value: Any) -> Any:
    parent, last = _parent(document, parts), parts[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    else:
        parent.insert(_index(last, len(parent) + 1), value)
    return document


def _replace(document: Any, parts: list[str], value: Any) -> Any:
    parent, last = _parent(document, parts), parts[-1]
    if isinstance(parent, dict):
        parent[last] = value
    else:
        parent[_index(last, len(parent))] = value
    return document


def _remove(document: Any, parts: list[str]) -> None:
    parent, last = _parent(document, parts), parts[-1]
    if isinstance(parent, dict):
        if last not in parent:
            raise unpatchable()
        del parent[last]
    else:
        del parent[_index(last, len(parent))]
