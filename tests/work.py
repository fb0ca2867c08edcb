"""What work costs, in a measure that every machine agrees on.

Seconds, also those of the processor, are a matter of the machine and of who else is on it. Calls are not: the same work
makes the same calls everywhere, a few more or less by the version of Python, and work that grows faster than what it is
given shows in them. Not counted: what a call to a function of C does inside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def counted(work: Callable[[], T]) -> tuple[T, int]:
    """What `work` gives, and how many functions it called, those of C among them. Raises what it raises."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(before)
    return found, calls
