"""The two servers under test, seen the same way: an address, tokens, kubeconfigs, and a way to forget the past."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, Protocol

from controller.embedded.apiserver import ApiServer
from controller.foundation import Clock, WallClock
from controller.kube import Connection, Credentials, KubeClient, TlsFiles
from hack.controlplane import Certificates, ControlPlane

ADMIN_TOKEN = "embedded-admin"


class Server(Protocol):
    """What a conformance case may use beside HTTP."""

    name: str
    url: str
    authority: Path
    admin_token: str

    async def compact(self) -> None:
        """Forget all versions but the newest of each object, as etcd does every five minutes."""
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
        self.api = ApiServer(clock=clock or WallClock(), tokens={ADMIN_TOKEN: None}, rbac=True)

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

    def kubeconfig(self, namespace: str, token: str | None = None) -> Path:
        return self.cluster.kubeconfig(token, namespace=namespace, name="admin" if token is None else token[-8:])


def connection_to(server: Server, token: str | None = None, namespace: str = "default") -> Connection:
    """How this project's own client reaches a server."""
    headers = {"Authorization": f"Bearer {server.admin_token if token is None else token}"}
    return Connection(
        server.url, credentials=Credentials(headers, TlsFiles(ca_file=str(server.authority))), namespace=namespace
    )


def client_of(server: Server, token: str | None = None) -> KubeClient:
    """This project's own client; close it."""
    return KubeClient(connection_to(server, token), user_agent="conformance/1", field_manager="conformance")
