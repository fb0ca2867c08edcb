"""Merging an applied configuration into the live object: everything stated wins, everything else stays.

Maps and keyed lists merge member by member, sets by union, the rest is replaced. A merged list follows the order of the
configuration for the items that both have; items of one side keep their place among their neighbours.
"""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.field_sets import ABSENT, list_items
from controller.embedded.apiserver.shapes import Shape


def merge(live: Any, stated: Any, shape: Shape) -> Any:
    """The merged value; shares leaves with both sides, containers are new. Raises MalformedList."""
    if stated is ABSENT:
        return live
    if isinstance(live, dict) and live and isinstance(stated, dict | None) and not shape.is_atomic_map:
        if stated is None and not shape.is_typed:
            return stated
        merged = dict(live)
        for name, value in (stated or {}).items():
            merged[name] = merge(live.get(name, ABSENT), value, shape.member(name))
        return merged
    if isinstance(live, list) and live and isinstance(stated, list | None) and shape.merges(live):
        return live if stated is None else _merge_items(live, stated, shape)
    return stated


def _merge_items(live: list[Any], stated: list[Any], shape: Shape) -> list[Any]:
    """Two lists, item by item. The live side's cursor waits at a shared item until its turn in the stated order."""
    left, right = dict(list_items(live, shape)), dict(list_items(stated, shape))
    left_steps, right_steps = list(left), list(right)
    shared = [step for step in right_steps if step in left]
    merged: dict[str, Any] = {}

    def take(step: str) -> None:
        merged[step] = merge(left.get(step, ABSENT), right.get(step, ABSENT), shape.item())

    at_left = at_right = 0
    while at_left < len(left_steps) or at_right < len(right_steps):
        mine = left_steps[at_left] if at_left < len(left_steps) else None
        theirs = right_steps[at_right] if at_right < len(right_steps) else None
        if mine is not None and mine == theirs:
            take(mine)
            at_left, at_right, shared = at_left + 1, at_right + 1, shared[1:]
            continue
        if mine is not None and theirs is not None and mine in right and shared and shared[0] != mine:
            at_left += 1  # a shared item whose turn in the stated order is another
            continue
        if mine is not None and mine not in right:
            take(mine)
            at_left += 1
            continue
        if mine is not None and mine in merged:
            at_left += 1
        if theirs is not None:
            take(theirs)
            at_right += 1
            if shared and shared[0] == theirs:
                shared = shared[1:]
    return list(merged.values())
