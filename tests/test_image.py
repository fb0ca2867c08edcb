"""The image is small, unprivileged and built from the source tree alone; read from the Dockerfile, without a daemon."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_TOOLS_TO_BUILD_WITH = re.compile(r"\b(apt-get|apk|dnf|gcc|g\+\+|make|build-essential|cargo|pip)\b")


@dataclass
class _Stage:
    base: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [arguments for name, arguments in self.instructions if name == instruction]


def _stages() -> list[_Stage]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    stages: list[_Stage] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        instruction, _, arguments = line.strip().partition(" ")
        if instruction == "FROM":
            base, _, name = arguments.partition(" AS ")
            stages.append(_Stage(base, name.strip()))
        elif instruction and stages:
            stages[-1].instructions.append((instruction, arguments.strip()))
    return stages


def test_two_stages_share_one_base() -> None:
    builder, final = _stages()
    assert builder.name == "builder"
    assert builder.base == final.base == "${PYTHON_IMAGE}"
    assert "ARG PYTHON_IMAGE=python:3.12-slim\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_final_stage_runs_nothing_and_copies_only_the_environment() -> None:
    final = _stages()[-1]
    assert final.all("RUN") == []
    assert final.all("COPY") == ["--from=builder /opt/mdscaler /opt/mdscaler"]
    assert not [
        arguments
        for name, arguments in final.instructions
        if name != "LABEL" and _TOOLS_TO_BUILD_WITH.search(arguments)
    ]


def test_no_stage_installs_a_compiler() -> None:
    assert not [
        run for stage in _stages() for run in stage.all("RUN") if re.search(r"\b(apt-get|apk|gcc|g\+\+)\b", run)
    ]


def test_the_user_is_a_number_that_is_not_root_and_comes_last() -> None:
    final = _stages()[-1]
    assert final.all("USER") == ["65532:65532"]
    after = [name for name, _ in final.instructions[[name for name, _ in final.instructions].index("USER") :]]
    assert not {"RUN", "COPY", "ADD"} & set(after)


def test_the_entry_point_is_the_console_script_without_a_shell() -> None:
    (entry,) = _stages()[-1].all("ENTRYPOINT")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert json.loads(entry) == list(scripts) == ["mdscaler"]


def test_the_environment_suits_a_read_only_file_system() -> None:
    variables = dict(pair.split("=", 1) for env in _stages()[-1].all("ENV") for pair in shlex.split(env))
    assert variables["PYTHONDONTWRITEBYTECODE"] == variables["PYTHONUNBUFFERED"] == variables["PYTHONSAFEPATH"] == "1"
    assert variables["PATH"].startswith("/opt/mdscaler/bin:")


def test_the_labels_name_title_licence_version_and_revision() -> None:
    labels = dict(pair.split("=", 1) for label in _stages()[-1].all("LABEL") for pair in shlex.split(label))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "org.opencontainers.image."
    assert labels[f"{prefix}title"] == project["name"]
    assert labels[f"{prefix}description"] == project["description"]
    assert labels[f"{prefix}licenses"] == project["license"]
    assert {f"{prefix}version", f"{prefix}revision"} <= set(labels)


def _is_sent(path: str) -> bool:
    """Whether the build context holds a path of the root, by those rules of .dockerignore that are used here."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!").strip()
        if pattern and not pattern.startswith("#") and fnmatch(path, pattern.removeprefix("**/")):
            sent = line.startswith("!")
    return sent


def test_everything_that_is_copied_is_sent_to_the_builder_and_nothing_else() -> None:
    copied = {source for copy in _stages()[0].all("COPY") for source in copy.split()[:-1]}
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    assert copied == {"pyproject.toml", "README.md", "LICENSE"} | {
        name.rstrip("*") for name in packages["find"]["include"]
    }
    assert all(map(_is_sent, copied))
    assert not [
        name for name in (".git", ".venv", "tests", "docs", "out", "secrets.yaml", "__pycache__") if _is_sent(name)
    ]
