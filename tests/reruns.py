"""Which tests CI asks again when they fail (`make test RERUNS=1`): all but those of the laws of safety.

Hundreds of tests run the whole loop over real sockets. On a machine that stands still for seconds any of them may fail
without a fault, and such a failure says nothing about the change that is judged. Three may be asked once more in a run;
the summary shows them with their first failure. Who sees the same name there twice mends the test (`tests/busy.py`).

A test of a safety law is never asked again: two writers, a lost request or a forgotten retirement in one of a hundred
runs is just what it is there to find.
"""

from __future__ import annotations

import pytest

# Words in the names of the modules that hold these laws.
_SAFETY = (
    "binding",
    "crashes",
    "electors",
    "killed",
    "laws",
    "no_lost_request",
    "one_writer",
    "test_model",
    "test_races",
)


def ask_safety_once(items: list[pytest.Item]) -> None:
    """Exempt the laws of safety from being asked again."""
    for item in items:
        if any(word in item.path.stem for word in _SAFETY):
            item.add_marker(pytest.mark.flaky(reruns=0))
