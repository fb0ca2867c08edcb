"""`python -m hack.conformance DIR [--suite ID]`: run the decision vectors of a folder.

DIR holds one JSON file a suite, `{id, semantics, vectors: [{id, in, expect}]}`; a file without vectors is an
explanation and is passed over. Prints `id: passed/total` for each suite, every disagreement, and at the end `N
passed, N failed`. Exit status: 0 all pass, 1 some fail, 2 wrong usage, an unreadable file, or a suite that this
harness does not know.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from hack.conformance.suites import SUITES, agrees


class Unusable(Exception):
    """The folder or a file in it cannot be used; the message says what to do about it."""


def load(folder: Path, only: str | None) -> list[tuple[str, list[dict[str, Any]]]]:
    """The suites of a folder in order of their names. Raises Unusable."""
    if not folder.is_dir():
        raise Unusable(f"{folder} is not a folder; give the one that holds the vector files")
    suites = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise Unusable(f"{path}: {error}") from None
        if not isinstance(document, dict) or "vectors" not in document:
            continue
        name = document.get("id", path.stem)
        if only is not None and name != only:
            continue
        if name not in SUITES:
            raise Unusable(f"{path}: no rule is known for suite {name!r}; known are {', '.join(sorted(SUITES))}")
        suites.append((name, document["vectors"]))
    if not suites:
        raise Unusable(f"{folder} holds no suite" + (f" called {only!r}" if only is not None else ""))
    return suites


def run(name: str, vectors: list[dict[str, Any]]) -> list[str]:
    """The disagreements of one suite, one line each."""
    failures = []
    for number, vector in enumerate(vectors):
        label = vector.get("id", f"{name}[{number}]")
        try:
            actual = SUITES[name](vector["in"])
        except Exception as error:  # noqa: BLE001 (a vector that breaks a rule is a failed vector)
            failures.append(f"{label}: {type(error).__name__}: {error}")
            continue
        if not agrees(vector["expect"], actual):
            failures.append(f"{label}: expected {vector['expect']}, got {actual}")
    return failures


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m hack.conformance", description="Run decision vectors.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--suite", metavar="ID", help="only this suite")
    options = parser.parse_args(arguments)
    try:
        suites = load(options.folder, options.suite)
    except Unusable as error:
        print(f"hack.conformance: {error}", file=sys.stderr)
        return 2
    passed = failed = 0
    for name, vectors in suites:
        failures = run(name, vectors)
        print(f"{name}: {len(vectors) - len(failures)}/{len(vectors)}")
        for failure in failures:
            print(f"  {failure}")
        passed += len(vectors) - len(failures)
        failed += len(failures)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
