"""Merge patch (RFC 7386) and strategic merge patch.

The strategic form merges the lists that `Shape` knows to be keyed, item by item, and honours the directives
`$patch: delete|replace|merge`, `$deleteFromPrimitiveList/…`, `$retainKeys` and `$setElementOrder/…`. Documents given
are changed in place, so callers hand over a copy.
"""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.errors import bad_request
from controller.embedded.apiserver.shapes import Shape

_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_SET_ORDER = "$setElementOrder/"


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """The merged document: null deletes a member, an object merges, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = document if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = apply_merge_patch(result.get(name), value)
        else:
            result[name] = value
    return result


def apply_strategic_patch(document: Any, patch: Any, shape: Shape) -> Any:
    """The merged document. Raises ApiError 400 for a directive that cannot be followed."""
    if not isinstance(patch, dict):
        return patch
    result = document if isinstance(document, dict) else {}
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unrecognized patch directive $patch: {directive!r}; use merge, replace or delete")
    kept = patch.get("$retainKeys")
    if isinstance(kept, list):
        for name in [name for name in result if name not in kept]:
            del result[name]
    for name, value in patch.items():
        if name.startswith("$") and not name.startswith(_DELETE_PRIMITIVES):
            continue  # $patch, $retainKeys, and the orders, which follow the members they order
        if name.startswith(_DELETE_PRIMITIVES):
            field = name.removeprefix(_DELETE_PRIMITIVES)
            result[field] = [item for item in result.get(field) or [] if item not in (value or [])]
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = apply_strategic_patch(result.get(name), value, shape.member(name))
        elif isinstance(value, list):
            result[name] = _merge_list(result.get(name), value, shape.member(name))
        else:
            result[name] = value
    for name, order in patch.items():
        field = name.removeprefix(_SET_ORDER)
        if field != name and isinstance(result.get(field), list) and isinstance(order, list):
            result[field] = _ordered(result[field], order, shape.member(field))
    return result


def _merge_list(current: Any, patch: list[Any], shape: Shape) -> list[Any]:
    existing: list[Any] = current if isinstance(current, list) else []
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    if shape.is_set:
        return existing + [item for item in patch if item not in existing]
    keys = shape.keys(patch or existing)
    if not keys:
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    merged = list(existing)
    for item in patch:
        identity = shape.key_of(item, keys)
        if identity is None:
            raise bad_request(f"map: {item!r} does not contain declared merge key: {keys[0]}")
        position = next((at for at, old in enumerate(merged) if shape.key_of(old, keys) == identity), None)
        if item.get("$patch") == "delete":
            if position is not None:
                del merged[position]
        elif position is None:
            merged.append(apply_strategic_patch({}, item, shape.item()))
        else:
            merged[position] = apply_strategic_patch(merged[position], item, shape.item())
    return merged


def _ordered(items: list[Any], order: list[Any], shape: Shape) -> list[Any]:
    """`items` with those that `order` names in its order; the others stay behind the item they followed."""
    keys = shape.keys(items)

    def identity(item: Any) -> Any:
        return shape.key_of(item, keys) if keys else item

    rank = {repr(identity(item)): at for at, item in enumerate(order)}
    named = iter(
        sorted((item for item in items if repr(identity(item)) in rank), key=lambda i: rank[repr(identity(i))])
    )
    return [next(named) if repr(identity(item)) in rank else item for item in items]
