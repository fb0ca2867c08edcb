"""Where the programs of the control plane are, and how they are built.

The order is: `KUBEBUILDER_ASSETS` (the convention of envtest), then the cache of earlier builds, then a build. A build
lands in a folder named after the digest of everything that it depends on, never in the checkout: a clean clone with the
same modules and the same Go finds it again. Several processes may build at once; one does, the others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controller.foundation import OperationFailed

_HERE = Path(__file__).resolve().parent
# Neither debug symbols nor paths of this machine; without cgo the result runs on any libc.
_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false")
_STRIP = "-s -w"


class BinariesMissing(OperationFailed):
    """There are no programs and no way to make them; the message says what would help."""


class NotBuilt(BinariesMissing):
    """There are no programs yet, but Go to build them."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs. Collections made for envtest have no controller manager."""

    etcd: Path
    apiserver: Path
    kubectl: Path
    controller_manager: Path | None


@dataclass(frozen=True, slots=True)
class _Program:
    name: str
    module: str  # folder beside this file
    package: str


_ETCD = _Program("etcd", "etcd", "go.etcd.io/etcd/server/v3")
_PROGRAMS = (
    _ETCD,
    *(
        _Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")
        for name in ("kube-apiserver", "kubectl", "kube-controller-manager")
    ),
)


def find_binaries(environment: Mapping[str, str] = os.environ) -> Binaries:
    """The programs that are there already. Raises NotBuilt or another BinariesMissing, saying what to do."""
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        return _from_assets(Path(assets))
    _require_go(environment)
    folder = _cache_folder(environment)
    missing = [program.name for program in _PROGRAMS if not (folder / program.name).is_file()]
    if missing:
        raise NotBuilt(
            f"{', '.join(missing)} not built yet: run python -m hack.controlplane build "
            "(minutes the first time), or set KUBEBUILDER_ASSETS"
        )
    return _in(folder)


def build_binaries(report: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Binaries:
    """The programs, built where they are missing. `report` gets a line before each long step.

    Raises BinariesMissing without Go, or when a build fails (with the end of what Go said).
    """
    if environment.get("KUBEBUILDER_ASSETS"):
        return find_binaries(environment)
    _require_go(environment)
    folder = _cache_folder(environment)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(folder / ".lock"):
        for program in _PROGRAMS:
            if not (folder / program.name).is_file():
                report(f"building {program.name} {_version_of(program)}; this takes minutes the first time")
                _build(program, folder, environment)
    return _in(folder)


def _from_assets(folder: Path) -> Binaries:
    found = _in(folder)
    missing = [path.name for path in (found.etcd, found.apiserver, found.kubectl) if not path.is_file()]
    if missing:
        raise BinariesMissing(f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(missing)}; unset it to build them with Go")
    return found


def _in(folder: Path) -> Binaries:
    manager = folder / "kube-controller-manager"
    return Binaries(
        folder / "etcd", folder / "kube-apiserver", folder / "kubectl", manager if manager.is_file() else None
    )


def _require_go(environment: Mapping[str, str]) -> None:
    if shutil.which("go", path=environment.get("PATH")) is None:
        raise BinariesMissing(
            "neither Go nor KUBEBUILDER_ASSETS: install Go 1.21 or newer (it fetches the version it needs), or set "
            "KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl"
        )


def _build(program: _Program, folder: Path, environment: Mapping[str, str]) -> None:
    partial = folder / f".{program.name}.partial"
    command = ["go", "build", *_FLAGS, "-ldflags", _link_flags(program), "-o", str(partial), program.package]
    done = _go(command, program.module, environment)
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise BinariesMissing(f"building {program.name} failed: {' '.join(command)}\n{said}")
    partial.replace(folder / program.name)


def _link_flags(program: _Program) -> str:
    if program is _ETCD:
        return _STRIP
    # Without these the server calls itself v0.0.0-master, and clients that look at versions take it for ancient.
    version = _version_of(program)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    variable = "k8s.io/component-base/version"
    return f"{_STRIP} -X {variable}.gitVersion={version} -X {variable}.gitMajor={major} -X {variable}.gitMinor={minor}"


def _version_of(program: _Program) -> str:
    module = "go.etcd.io/etcd/server/v3" if program is _ETCD else "k8s.io/kubernetes"
    text = (_HERE / program.module / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", text, flags=re.MULTILINE)
    if found is None:
        raise BinariesMissing(f"{program.module}/go.mod does not require {module}")
    return found.group(1)


def _go(command: list[str], module: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Go inside one of the modules: it may fetch and run the newer toolchain that go.mod asks for."""
    settings = {**environment, "CGO_ENABLED": "0", "GOWORK": "off"}
    return subprocess.run(command, cwd=_HERE / module, env=settings, capture_output=True, text=True, check=False)


def _cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder of exactly these modules, this Go and these flags."""
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or Path.home()) / ".cache"
    digest = hashlib.sha256()
    for module in ("etcd", "kubernetes"):
        for name in ("go.mod", "go.sum"):
            digest.update((_HERE / module / name).read_bytes())
        asked = ["go", "env", "-json", "GOVERSION", "GOOS", "GOARCH"]
        done = _go(asked, module, environment)
        if done.returncode:
            raise BinariesMissing(f"{' '.join(asked)} failed: {done.stderr.strip()}")
        digest.update(json.dumps(json.loads(done.stdout), sort_keys=True).encode())
    digest.update(repr((_FLAGS, [_link_flags(program) for program in _PROGRAMS])).encode())
    return Path(home) / "model-deployment-scaler" / "controlplane" / digest.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
