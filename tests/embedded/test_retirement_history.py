"""How retirements went, told from versions alone."""

from __future__ import annotations

from typing import Any

import pytest

from controller.embedded.retirement_history import Retirements, retirements


def operation(state: str, pod: str = "a", started: str = "1") -> dict[str, Any]:
    return {"status": {"retirement": {"state": state, "targetMemberUIDs": [pod], "startedAt": started}}}


NONE: dict[str, Any] = {"status": {}}


@pytest.mark.parametrize(
    ("versions", "counted"),
    [
        pytest.param([NONE, NONE], Retirements(), id="none"),
        pytest.param([operation("Admitted"), operation("Draining")], Retirements(1), id="one that is under way"),
        pytest.param(
            [operation("Admitted"), operation("Deleting"), operation("Settling"), NONE],
            Retirements(1, completed=1),
            id="one that came to its end",
        ),
        pytest.param([operation("Draining"), NONE], Retirements(1, adopted=1), id="one that was called back"),
        pytest.param(
            [operation("Draining"), operation("Aborted"), operation("Aborted"), NONE],
            Retirements(1, aborted=1),
            id="one that was given up",
        ),
        pytest.param(
            [operation("Aborted"), operation("Admitted", started="2"), operation("Settling", started="2"), NONE],
            Retirements(1, completed=1, aborted=1),
            id="one that was given up and ordered again",
        ),
        pytest.param(
            [operation("Settling"), NONE, operation("Admitted", "b"), operation("Settling", "b"), NONE],
            Retirements(2, completed=2),
            id="one after the other",
        ),
        pytest.param(
            [operation("Settling"), operation("Admitted", "b")], Retirements(2, completed=1), id="without a pause"
        ),
        pytest.param(
            [operation("Draining", started="1"), operation("Draining", started="5"), operation("Deleting"), NONE],
            Retirements(1, completed=1),
            id="one that a new leader took up",
        ),
    ],
)
def test_how_retirements_went(versions: list[dict[str, Any]], counted: Retirements) -> None:
    assert retirements(versions) == counted
