"""Objects that a strict decoder refuses, and types that can make something of them all the same.

A user's object may hold anything, also a wrong type in a member that we read; skipping it would hide it from whoever
has to report on it. A projection that has a class method `recover(bytes)` is asked for its view of such an object;
what it gives is stored like any other. A type without it, or one whose `recover` raises ValueError, leaves the
object skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def recovered(type_: type[T], data: bytes) -> T | None:
    """The view of a damaged object, None where its type has none. Never raises for bad data."""
    recover: Callable[[bytes], object] | None = getattr(type_, "recover", None)
    if recover is None:
        return None
    try:
        view = recover(data)
    except (ValueError, RecursionError):
        return None
    return view if isinstance(view, type_) else None
