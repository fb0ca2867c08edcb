"""One control plane: its processes, its folder, its users.

Promised: `start` returns once `/readyz` says so, with every process alive; a failed start leaves nothing running and
keeps the logs, whose place the error names. `stop` ends everything by process group and removes the folder, unless the
control plane was told to keep it. All ports are free loopback ports chosen here.

Blocking on purpose: a test session starts it once, outside of any event loop. `async with` does the same in a thread.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import contextlib
import http.client
import os
import secrets
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import orjson
import yaml

from controller.foundation import OperationFailed
from hack.controlplane.binaries import Binaries, BinariesMissing, find_binaries
from hack.controlplane.certificates import Certificates
from hack.controlplane.processes import ServerProcess

# About three seconds on an idle machine; many times that on one that compiles beside it.
READY_SECONDS = 120.0
_POLL_SECONDS = 0.05
# Two processes may pick the same port at the same moment; the loser starts again with others.
_ATTEMPTS = 3
# Below those that Linux gives to outgoing connections: such a one could be given away while kube-apiserver restarts.
_PORTS = range(20_000, 32_768)
_ADMIN = "admin"
_ISSUER = "https://kubernetes.default.svc"

# What ServiceAccounts ask for, apart from those of the control plane itself; one line a request, when it is answered.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


class ControlPlane:
    """etcd, kube-apiserver and (where there is one) kube-controller-manager. Starts once.

    feature_gates: passed to kube-apiserver, for what a cluster of another age would do.
    controller_manager: False leaves it out; garbage collection, ServiceAccounts, slices and namespaces then stay as
    they are. Raises BinariesMissing when it is asked for and not there.
    """

    def __init__(
        self,
        binaries: Binaries | None = None,
        *,
        controller_manager: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.binaries = binaries or find_binaries()
        if controller_manager and self.binaries.controller_manager is None:
            raise BinariesMissing(
                "there is no kube-controller-manager (collections made for envtest lack it): unset KUBEBUILDER_ASSETS "
                "and run python -m hack.controlplane build"
            )
        self._manager = self.binaries.controller_manager if controller_manager else None
        self._gates = dict(feature_gates or {})
        self._processes: list[ServerProcess] = []
        self.admin_token = secrets.token_urlsafe(24)
        self._etcd = ""
        self._apiserver: list[str | Path] = []
        self.url = ""
        self.directory = Path()

    # ---- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bring everything up. Raises OperationFailed when that fails."""
        self.directory = Path(tempfile.mkdtemp(prefix="controlplane-"))
        atexit.register(self.stop)
        certificates = Certificates.create(self.directory)
        for attempt in range(_ATTEMPTS):
            try:
                self._start(certificates)
                return
            except OperationFailed as failure:
                self._stop_processes()
                if "address already in use" in str(failure) and attempt + 1 < _ATTEMPTS:
                    continue
                atexit.unregister(self.stop)
                raise OperationFailed(f"{failure}\nall logs are kept in {self.directory}") from None

    def stop(self, *, keep: bool = False) -> None:
        """End all processes, the youngest first, and remove the folder; `keep` leaves it for a look at the logs."""
        atexit.unregister(self.stop)
        self._stop_processes()
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop(keep=_is_failure(kind))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await asyncio.to_thread(self.stop, keep=_is_failure(kind))

    # ---- use ---------------------------------------------------------------------------------------------------------

    def kubeconfig(self, token: str | None = None, *, namespace: str = "default", name: str = _ADMIN) -> Path:
        """A kubeconfig of the administrator, or of the owner of a token; `name` keeps several apart."""
        cluster = {"server": self.url, "certificate-authority": str(self.directory / "ca.crt")}
        context = {"cluster": "local", "user": name, "namespace": namespace}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self.admin_token if token is None else token}}],
            "contexts": [{"name": "local", "context": context}],
            "current-context": "local",
        }
        path = self.directory / f"{name}.{namespace}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """One request as the administrator; the JSON answer. Raises OperationFailed unless it is 2xx."""
        status, answer = self._request(method, path, None if body is None else orjson.dumps(body), content_type)
        if status >= 300:
            raise OperationFailed(f"{method} {path} answered {status}: {answer[:1000].decode(errors='replace')}")
        return orjson.loads(answer)

    def compact(self) -> None:
        """Let etcd forget every version but the newest of each object, as kube-apiserver does every five minutes.

        kube-apiserver hears of it by the key that its own compaction uses, and forgets the snapshots of its watch
        caches within fifteen seconds.
        """
        revision = self._etcd_call("range", {"key": "AA=="})["header"]["revision"]
        key, value = (base64.b64encode(text.encode()).decode() for text in ("compact_rev_key", revision))
        self._etcd_call("put", {"key": key, "value": value})
        self._etcd_call("compaction", {"revision": revision, "physical": True})

    def restart_apiserver(self) -> None:
        """Kill kube-apiserver and start it again at the same address: every connection breaks, every watch cache begins
        anew, and watches from before are too old."""
        (old,) = [process for process in self._processes if process.name == "kube-apiserver"]
        old.stop(patience_seconds=0.0)
        self._processes[self._processes.index(old)] = self._spawn("kube-apiserver", self._apiserver)
        self._wait_ready()

    def audit_log(self, user: str) -> Iterable[dict[str, Any]]:
        """What a user (`system:serviceaccount:NAMESPACE:NAME`) has asked for so far, oldest first."""
        path = self.directory / "audit.log"
        written = path.read_bytes() if path.exists() else b""
        for line in written[: written.rfind(b"\n") + 1].splitlines():  # the last one may be half written
            event = orjson.loads(line)
            if event["user"]["username"] == user:
                yield event

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _start(self, certificates: Certificates) -> None:
        client, peer, secure = _free_ports(3)
        self._etcd = f"127.0.0.1:{client}"
        self.url = f"https://127.0.0.1:{secure}"
        self._processes.append(self._spawn("etcd", self._etcd_command(client, peer)))
        # kube-apiserver waits for etcd by itself.
        self._apiserver = self._apiserver_command(secure, certificates)
        self._processes.append(self._spawn("kube-apiserver", self._apiserver))
        self._wait_ready()
        if self._manager is not None:
            command = self._manager_command(self._manager, certificates)
            self._processes.append(self._spawn("kube-controller-manager", command))

    def _spawn(self, name: str, command: list[str | Path]) -> ServerProcess:
        return ServerProcess(name, command, self.directory / f"{name}.log", self._environment())

    def _environment(self) -> dict[str, str]:
        """Nothing of a person's own kubectl settings, and no proxy between loopback and loopback."""
        kept = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.directory), "TMPDIR": str(self.directory)}
        return {**kept, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    def _etcd_command(self, client: int, peer: int) -> list[str | Path]:
        clients, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        return [
            self.binaries.etcd,
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver_command(self, port: int, certificates: Certificates) -> list[str | Path]:
        tokens = self.directory / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self.admin_token},{_ADMIN},{_ADMIN},"system:masters"\n', encoding="utf-8")
        policy = self.directory / "audit-policy.json"
        policy.write_bytes(orjson.dumps(_AUDIT_POLICY))
        command: list[str | Path] = [
            self.binaries.apiserver,
            f"--etcd-servers=http://{self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.directory}",
            f"--tls-cert-file={certificates.server}",
            f"--tls-private-key-file={certificates.server_key}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={tokens}",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={certificates.token_key}",
            f"--service-account-signing-key-file={certificates.token_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.directory / 'audit.log'}",
            "--audit-log-mode=blocking",
        ]
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in self._gates.items())
        return [*command, f"--feature-gates={gates}"] if gates else command

    def _manager_command(self, program: Path, certificates: Certificates) -> list[str | Path]:
        return [
            program,
            f"--kubeconfig={self.kubeconfig()}",
            f"--service-account-private-key-file={certificates.token_key}",
            f"--root-ca-file={certificates.authority}",
            "--leader-elect=false",
            "--secure-port=0",  # nobody asks for its metrics
        ]

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        said = "no answer"
        while time.monotonic() < deadline:
            for process in self._processes:
                process.check()
            try:
                status, body = self._request("GET", "/readyz")
                if status == 200:
                    return
                said = body.decode(errors="replace")
            except (OSError, http.client.HTTPException) as failure:
                said = str(failure)
            time.sleep(_POLL_SECONDS)
        raise OperationFailed(f"kube-apiserver was not ready within {READY_SECONDS:g} s: {said}")

    def _request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=self.directory / "ca.crt")
        connection = http.client.HTTPSConnection(self.url.removeprefix("https://"), timeout=30, context=context)
        try:
            headers = {"Authorization": f"Bearer {self.admin_token}", "Content-Type": content_type}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _etcd_call(self, operation: str, body: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection(self._etcd, timeout=10)
        try:
            connection.request("POST", f"/v3/kv/{operation}", orjson.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise OperationFailed(f"etcd refused {operation}: {answer.status} {text.decode(errors='replace')}")
        return orjson.loads(text)

    def _stop_processes(self) -> None:
        for process in reversed(self._processes):
            process.stop()
        self._processes.clear()


def _is_failure(kind: type[BaseException] | None) -> bool:
    """An interruption is how a control plane of a person ends; nobody needs its logs."""
    return kind is not None and issubclass(kind, Exception)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment, all different."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            with contextlib.suppress(OSError):
                held.append(socket.create_server(("127.0.0.1", _PORTS.start + secrets.randbelow(len(_PORTS)))))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
