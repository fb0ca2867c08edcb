"""Reading and writing one Lease: the requests of an election, and nothing of its rules.

Lease requests are urgent (they wait for no other request) and not gated: whoever may not write yet must be able to ask
for the lease.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from controller.kube.client import KubeClient
from controller.kube.errors import NotFound
from controller.kube.lease import LEASE, Lease, LeaseSpec


class Lock(Protocol):
    """A record with compare-and-set: what an elector needs of a Lease. Every method may raise ApiError."""

    @property
    def name(self) -> str:
        """How people call it."""
        ...

    async def read(self, timeout_seconds: float) -> Lease | None:
        """The record, None when there is none."""
        ...

    async def create(self, spec: LeaseSpec, timeout_seconds: float) -> Lease:
        """Make the record. Raises AlreadyExists."""
        ...

    async def update(self, lease: Lease, spec: LeaseSpec, timeout_seconds: float) -> Lease:
        """Change the record if it is still in this state. Raises Conflict, NotFound."""
        ...


class LeaseLock:
    """A Lease object on the server."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self._namespace}/{self._name}"

    async def read(self, timeout_seconds: float) -> Lease | None:
        """The lease as it is in etcd."""
        try:
            return await self._client.get(
                LEASE, self._name, self._namespace, type_=Lease, timeout_seconds=timeout_seconds, urgent=True
            )
        except NotFound:
            return None

    async def create(self, spec: LeaseSpec, timeout_seconds: float) -> Lease:
        """POST."""
        return await self._client.create(
            LEASE,
            self._body(spec, {}),
            self._namespace,
            type_=Lease,
            timeout_seconds=timeout_seconds,
            gated=False,
            urgent=True,
        )

    async def update(self, lease: Lease, spec: LeaseSpec, timeout_seconds: float) -> Lease:
        """PUT with the resourceVersion that was read, and with the metadata that others put there."""
        kept = {
            "resourceVersion": lease.metadata.resource_version,
            "labels": lease.metadata.labels,
            "annotations": lease.metadata.annotations,
        }
        return await self._client.replace(
            LEASE,
            self._name,
            self._body(spec, {key: value for key, value in kept.items() if value}),
            self._namespace,
            type_=Lease,
            timeout_seconds=timeout_seconds,
            gated=False,
            urgent=True,
        )

    def _body(self, spec: LeaseSpec, metadata: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace, **metadata},
            "spec": msgspec.to_builtins(spec),
        }
