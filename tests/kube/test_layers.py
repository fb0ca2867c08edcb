"""The order of modules in the room's docstring is true: each imports only those before it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import controller.kube

ROOM = Path(controller.kube.__file__).parent
PACKAGE = "controller.kube."


def order() -> list[str]:
    """The modules in the order of the docstring's picture."""
    text = controller.kube.__doc__ or ""
    picture = re.findall(r"^    .*$", text, re.MULTILINE)
    layers = {"wire", "cache", "queue", "runtime"}
    found: list[str] = []
    for line in picture:
        words = re.findall(r"\w+", line)
        found += words[1:] if line[4] != " " and words[0] in layers else words
    return found


def imports_of(module: str) -> set[str]:
    """The modules of this room that a module imports."""
    tree = ast.parse((ROOM / f"{module}.py").read_text())
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.removeprefix(PACKAGE) for name in names if name.startswith(PACKAGE)}


def test_every_module_has_its_place() -> None:
    assert sorted(order()) == sorted(path.stem for path in ROOM.glob("*.py") if path.stem != "__init__")


def test_modules_import_only_those_before_them() -> None:
    rank = {module: number for number, module in enumerate(order())}
    upwards = {(module, other) for module in rank for other in imports_of(module) if rank[other] >= rank[module]}
    assert not upwards
