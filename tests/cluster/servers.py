"""The two servers under test, seen the same way: an address, tokens, kubeconfigs, and a way to forget the past."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from typing import Any, Protocol

from controller.embedded.apiserver import ApiServer
from controller.foundation import Clock, OperationFailed, WallClock
from controller.kube import Connection, Credentials, KubeClient, TlsFiles
from hack.controlplane import Certificates, ControlPlane
from tests.cluster.objects import GADGET_CRD

ADMIN_TOKEN = "embedded-admin"
SERVED_SECONDS = 120.0


class Server(Protocol):
    """What a conformance case may use beside HTTP."""

    name: str
    url: str
    authority: Path
    admin_token: str

    async def compact(self) -> None:
        """Forget all versions but the newest of each object, as etcd does every five minutes."""
        ...

    async def forget(self) -> None:
        """Let every watch that began before be too old, as after an upgrade of the server."""
        ...

    def kubeconfig(self, namespace: str, token: str | None = None) -> Path:
        """A kubeconfig of the administrator, or of the owner of a token."""
        ...


class EmbeddedServer:
    """The embedded API server with TLS, tokens and RBAC: as close to the real one as it comes."""

    name = "embedded"
    admin_token = ADMIN_TOKEN

    def __init__(self, certificates: Certificates, directory: Path, clock: Clock | None = None) -> None:
        self.authority = certificates.authority
        self._certificates = certificates
        self._directory = directory
        self.api = ApiServer(clock=clock or WallClock(), tokens={ADMIN_TOKEN: None}, rbac=True, garbage_collection=True)

    @property
    def url(self) -> str:
        return self.api.url

    async def start(self, *crds: dict[str, Any]) -> None:
        for crd in crds:
            self.api.install_crd(crd)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificates.server, self._certificates.server_key)
        await self.api.start(tls=context, certificate_authority=self.authority.read_bytes())

    async def stop(self) -> None:
        await self.api.stop()

    async def compact(self) -> None:
        self.api.store.compact()

    async def forget(self) -> None:
        self.api.store.compact()

    def kubeconfig(self, namespace: str, token: str | None = None) -> Path:
        owner = "admin" if token is None else token[-8:]
        path = self._directory / f"{owner}.{namespace}.kubeconfig"
        return self.api.write_kubeconfig(path, token=self.admin_token if token is None else token, namespace=namespace)


class RealServer:
    """etcd and kube-apiserver."""

    name = "real"

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster
        self.url = cluster.url
        self.authority = cluster.directory / "ca.crt"
        self.admin_token = cluster.admin_token

    async def compact(self) -> None:
        await asyncio.to_thread(self.cluster.compact)

    async def forget(self) -> None:
        await asyncio.to_thread(self.cluster.restart_apiserver)
        # Ready, yet the storage of a custom resource is set up by the first request, with 429 until it is there.
        await asyncio.to_thread(wait_served, self.cluster, GADGET_CRD)

    def kubeconfig(self, namespace: str, token: str | None = None) -> Path:
        return self.cluster.kubeconfig(token, namespace=namespace, name="admin" if token is None else token[-8:])


def wait_served(cluster: ControlPlane, crd: dict[str, Any]) -> None:
    """Wait until every version of a definition is served; paths lag behind the condition Established a little."""
    spec = crd["spec"]
    deadline = time.monotonic() + SERVED_SECONDS
    for version in spec["versions"]:
        path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        while True:
            try:
                cluster.request("GET", path)
                break
            except OperationFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def connection_to(server: Server, token: str | None = None, url: str = "") -> Connection:
    """How this project's own client reaches a server, perhaps by another address (of a proxy)."""
    token = server.admin_token if token is None else token
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Connection(url or server.url, credentials=Credentials(headers, TlsFiles(ca_file=str(server.authority))))


def client_of(server: Server, token: str | None = None, url: str = "") -> KubeClient:
    """This project's own client; close it."""
    return KubeClient(connection_to(server, token, url), user_agent="conformance/1", field_manager="conformance")
