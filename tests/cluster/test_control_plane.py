"""The control plane itself: where its programs come from, what a failure says, and that nothing outlives a test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controller.foundation import OperationFailed
from hack.controlplane import Binaries, BinariesMissing, ControlPlane, binaries, find_binaries
from hack.controlplane.processes import ServerProcess

SECONDS = 60.0  # for the kernel, on a loaded machine
ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "hack" / "controlplane"


def _program(path: Path, script: str = "exit 3") -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def _assets(folder: Path, *names: str) -> dict[str, str]:
    for name in names:
        _program(folder / name)
    return {"KUBEBUILDER_ASSETS": str(folder), "PATH": os.environ["PATH"]}


# ---- where the programs come from ------------------------------------------------------------------------------------


def test_a_collection_made_for_envtest_is_used_and_has_no_controller_manager(tmp_path: Path):
    found = find_binaries(_assets(tmp_path, "etcd", "kube-apiserver", "kubectl"))
    assert (found.etcd, found.controller_manager) == (tmp_path / "etcd", None)
    with pytest.raises(BinariesMissing, match="no kube-controller-manager"):
        ControlPlane(found)


def test_a_collection_that_lacks_a_program_names_it(tmp_path: Path):
    with pytest.raises(BinariesMissing, match="lacks kube-apiserver, kubectl; unset it to build them with Go"):
        find_binaries(_assets(tmp_path, "etcd"))


def test_without_go_and_without_a_collection_the_way_out_is_told(tmp_path: Path):
    with pytest.raises(BinariesMissing, match="neither Go nor KUBEBUILDER_ASSETS: install Go"):
        find_binaries({"PATH": str(tmp_path), "HOME": str(tmp_path)})


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go")
def test_what_is_not_built_yet_is_named_with_the_command(tmp_path: Path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("KUBEBUILDER_ASSETS", None)
    with pytest.raises(BinariesMissing, match=r"etcd, .* not built yet: run python -m hack.controlplane build"):
        find_binaries(environment)


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go")
def test_other_modules_have_another_place_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for module in ("etcd", "kubernetes"):
        shutil.copytree(MODULES / module, tmp_path / module)
    monkeypatch.setattr(binaries, "_HERE", tmp_path)
    before = binaries._cache_folder(os.environ)
    assert before == binaries._cache_folder(os.environ)
    with (tmp_path / "etcd" / "go.sum").open("a", encoding="utf-8") as sums:
        sums.write("example.com/x v1.0.0 h1:x=\n")
    assert binaries._cache_folder(os.environ) != before


def test_the_libraries_of_kubernetes_move_together_with_it():
    text = (MODULES / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    (version,) = re.findall(r"^\s*k8s\.io/kubernetes v1\.(\S+)", text, flags=re.MULTILINE)
    replaced = re.findall(r"^\s*(k8s\.io/\S+) => (k8s\.io/\S+) v0\.(\S+)$", text, flags=re.MULTILINE)
    assert len(replaced) > 30
    assert {(name == target, library) for name, target, library in replaced} == {(True, version)}


# ---- processes -------------------------------------------------------------------------------------------------------


def _is_gone(pid: int) -> bool:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if (
            Path(f"/proc/{pid}/stat").exists()
            and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        ):
            return True
        time.sleep(0.02)
    return False


def test_a_server_is_ended_with_its_children_even_if_it_does_not_want_to(tmp_path: Path):
    script = 'trap "" TERM; sleep 1000 & echo $! > child; while true; do sleep 1000; done'
    server = ServerProcess("stubborn", [_program(tmp_path / "stubborn", script)], tmp_path / "log", os.environ)
    child = tmp_path / "child"
    while not (child.exists() and child.read_text().strip()):
        time.sleep(0.01)
    server.check()
    server.stop(patience_seconds=0.1)
    assert _is_gone(server.pid)
    assert _is_gone(int(child.read_text()))
    server.stop()


def test_a_server_does_not_outlive_its_parent(tmp_path: Path):
    _program(tmp_path / "server", "echo $$ > pid; exec sleep 1000")
    code = (
        "import os, pathlib, sys, time\n"
        "from hack.controlplane.processes import ServerProcess\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "server = ServerProcess('server', [folder / 'server'], folder / 'log', os.environ)\n"
        "time.sleep(1000)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text().strip()):
        time.sleep(0.01)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert _is_gone(int(pid.read_text()))


async def test_a_start_that_fails_tells_the_end_of_the_log_and_keeps_all_of_it(tmp_path: Path):
    etcd = _program(tmp_path / "etcd", "echo $$ > pid; exec sleep 1000")
    apiserver = _program(
        tmp_path / "kube-apiserver", "until [ -s pid ]; do sleep 0.01; done; echo the certificate is bad; exit 3"
    )
    cluster = ControlPlane(Binaries(etcd, apiserver, apiserver, None), controller_manager=False)
    with pytest.raises(OperationFailed) as failed:
        async with cluster:
            pytest.fail("it cannot be used")
    assert "kube-apiserver ended with status 3" in str(failed.value)
    assert "the certificate is bad" in str(failed.value)
    assert (cluster.directory / "kube-apiserver.log").exists()
    assert _is_gone(int((cluster.directory / "pid").read_text()))
    cluster.stop()
    assert not cluster.directory.exists()


# ---- a real one ------------------------------------------------------------------------------------------------------


def test_the_server_calls_itself_by_its_version(control_plane: ControlPlane):
    version = control_plane.request("GET", "/version")["gitVersion"]
    assert version.startswith("v1.")
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        assert version == binaries._version_of(binaries._PROGRAMS[1])


# ---- never silently skipped ------------------------------------------------------------------------------------------


def _run_one_case(tmp_path: Path, **environment: str) -> str:
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path), **environment}
    case = "tests/cluster/test_access.py::test_without_a_token_health_and_version_are_open_and_resources_are_not"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", case]
    return subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True, check=False).stdout


def test_without_the_programs_the_real_half_is_skipped_visibly(tmp_path: Path):
    out = _run_one_case(tmp_path)
    assert "1 passed, 1 skipped" in out
    assert "real control plane: NOT RUN" in out
    assert "neither Go nor KUBEBUILDER_ASSETS" in out


def test_in_ci_it_fails_instead(tmp_path: Path):
    out = _run_one_case(tmp_path, CI="true")
    assert "1 passed, 1 error" in out
    assert "in CI it is never skipped" in out
