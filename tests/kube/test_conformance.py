"""docs/conformance.md names every case that this room answers for, and claims nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text()
COUNTS = {"R": 31, "W": 15, "P": 6, "Y": 6, "X": 10, "I": 23, "S": 7, "M": 5, "C": 7, "E": 3}
COUNTS |= {"Q": 13, "D": 7, "L": 7, "B": 8, "K": 2, "T": 9, "A": 35, "V": 8, "H": 13, "O": 4}
ALL = {f"{group}{number}" for group, count in COUNTS.items() for number in range(1, count + 1)}


def expand(text: str) -> set[str]:
    """`R1–R3, I5` → R1, R2, R3, I5."""
    found = set()
    for first, last in re.findall(r"\b([A-Z]\d+)(?:–([A-Z]\d+))?", text):
        group, start = first[0], int(first[1:])
        found |= {f"{group}{number}" for number in range(start, int(last[1:]) + 1 if last else start + 1)}
    return found


def column(section: str, number: int) -> set[str]:
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return set().union(*(expand(row[number + 1]) for row in rows[1:]))


def named_in_tests() -> set[str]:
    """The ids in the tests' docstrings and in the names of their rows."""
    rooms = [ROOT / "tests" / room for room in ("kube", "operations", "reconcile", "deployment")]
    sources = [path for room in rooms for path in room.glob("test_*.py") if path.name != Path(__file__).name]
    return set().union(*(expand(path.read_text()) for path in sources))


CLAIMED = column(PAGE.split("## ")[0], 1)
EXCUSED = column(PAGE.split("## Cases that do not apply")[1], 0)


def test_every_case_is_either_tested_or_excused() -> None:
    assert not ALL - CLAIMED - EXCUSED
    assert not (CLAIMED | EXCUSED) - ALL


def test_every_claim_has_a_test_that_names_it() -> None:
    assert not CLAIMED - named_in_tests()
