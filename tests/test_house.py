"""The house keeps its own rules: rooms as documented, every module explained, no file too long, documents true."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
_LONGEST_FILE = 500
_LONGEST_TABLE = 700  # a test file is a table of cases: longer is still one noun
_CODE = ("controller", "webhooks", "catalog", "hack", "tests")
_PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Where tools leave things; `.ci` is ours.
_NOT_OURS = {"build", "dist", "out", "node_modules", "__pycache__"}


def _files(*suffixes: str) -> Iterator[Path]:
    """The files of the repository with one of the suffixes, without what tools leave behind."""
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part != ".ci" for part in parts[:-1])
        if not hidden and not _NOT_OURS.intersection(parts) and path.suffix in suffixes and path.is_file():
            yield path


def _short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _python_files() -> list[Path]:
    return [path for path in _files(".py") if path.relative_to(ROOT).parts[0] in _CODE]


# --- rooms ---


def _rooms_on_disk() -> set[str]:
    inside = {f"controller.{path.parent.name}" for path in (ROOT / "controller").glob("*/__init__.py")}
    modules = {f"controller.{path.stem}" for path in (ROOT / "controller").glob("*.py") if path.stem != "__init__"}
    return inside | modules | {"webhooks", "catalog"}


def _documented() -> dict[str, set[str]]:
    """The table of docs/architecture.md: room → rooms that it may import."""
    table: dict[str, set[str]] = {}
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room, allowed in re.findall(r"^\| `([\w.]+)` \|.*\| ([^|]+) \|$", text, flags=re.MULTILINE):
        match allowed.strip():
            case "nothing of ours":
                table[room] = set()
            case "everything but testing":
                table[room] = _rooms_on_disk() - {"controller.testing", room}
            case names:
                short = {full.removeprefix("controller."): full for full in _rooms_on_disk()}
                table[room] = {short.get(name, f"unknown room {name}") for name in names.split(", ")}
    return table


def _enforced() -> dict[str, set[str]]:
    """The contracts of pyproject.toml: room → rooms that it may import, because they are not forbidden."""
    allowed = {room: _rooms_on_disk() - {room} for room in _rooms_on_disk()}
    for contract in _PROJECT["tool"]["importlinter"]["contracts"]:
        for room in contract["source_modules"]:
            if room in allowed:
                allowed[room] -= set(contract["forbidden_modules"])
    return allowed


def test_the_documented_table_names_every_room() -> None:
    assert set(_documented()) == _rooms_on_disk()


@pytest.mark.parametrize("room", sorted(_documented()))
def test_a_room_may_import_what_the_document_says(room: str) -> None:
    assert _documented()[room] == _enforced()[room]


def test_contracts_are_named_after_what_they_allow() -> None:
    short = {full: full.removeprefix("controller.") for full in _rooms_on_disk()}
    for contract in _PROJECT["tool"]["importlinter"]["contracts"]:
        room, says, names = contract["name"].partition(" imports only ")
        if says:
            allowed = {short[name] for name in _enforced()[contract["source_modules"][0]]}
            assert allowed == set() if names == "nothing of ours" else allowed == set(names.split(", ")), room


def test_the_document_tells_of_the_wall_around_the_embedded_api_server() -> None:
    (wall,) = (
        contract["forbidden_modules"]
        for contract in _PROJECT["tool"]["importlinter"]["contracts"]
        if contract["source_modules"] == ["controller.embedded.apiserver"]
    )
    assert wall == ["controller.kube", "controller.plant"]
    text = " ".join((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split())
    assert "the embedded API server imports neither `kube` nor `plant`" in text


def test_every_contract_is_about_rooms_that_exist() -> None:
    for contract in _PROJECT["tool"]["importlinter"]["contracts"]:
        for module in contract["source_modules"] + contract["forbidden_modules"]:
            base = ROOT / module.replace(".", "/")
            assert (base / "__init__.py").exists() or base.with_suffix(".py").exists(), module


# --- files ---


def test_every_module_says_what_it_is() -> None:
    modules = [
        path for path in _python_files() if path.relative_to(ROOT).parts[0] in ("controller", "webhooks", "catalog")
    ]
    assert len(modules) > 10
    silent = [_short(path) for path in modules if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert silent == []


def test_no_file_is_too_long_to_read() -> None:
    lengths = {_short(path): len(path.read_text(encoding="utf-8").splitlines()) for path in _python_files()}
    limits = {name: _LONGEST_TABLE if name.startswith("tests/") else _LONGEST_FILE for name in lengths}
    assert {name: length for name, length in lengths.items() if length > limits[name]} == {}


def test_no_path_of_somebodys_machine_is_left() -> None:
    machine = re.compile(r"(?<![\w.})\]])/(?:work|home|Users)/[A-Za-z]")
    named = [path for path in (ROOT / name for name in ("Makefile", "Dockerfile", ".ci/run")) if path.exists()]
    found = [
        f"{_short(path)}:{number}: {line.strip()}"
        for path in [*_files(".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".go"), *named]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if machine.search(line)
    ]
    assert found == []


# --- documents ---


def _names(requirements: list[str]) -> list[str]:
    return [re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0] for requirement in requirements]


def test_every_library_has_its_reason() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    documented = {
        heading: re.findall(r"^- `([\w.-]+)`: [^\n]{5,}\.$", body, flags=re.MULTILINE)
        for heading, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    }
    project = _PROJECT["project"]
    assert documented == {
        "Runtime": _names(project["dependencies"]),
        **{f"Extra `{extra}`": _names(wanted) for extra, wanted in project["optional-dependencies"].items()},
    }


def test_every_measured_figure_has_command_machine_and_result() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert sections
    for heading, body in sections:
        missing = [
            entry
            for entry in ("Command", "Machine", "Result")
            if not re.search(rf"^- {entry}: \S", body, flags=re.MULTILINE)
        ]
        assert missing == [], heading


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{_short(path)}: {target}"
        for path in _files(".md")
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert broken == []
