"""Objects that Pods are made from and that are seldom needed: pools and artifacts, read when they are needed and
remembered for a moment, so that no watch has to be kept on kinds that a cluster may not even serve.

Raises ApiError where the API server does not answer; an object, or a kind, that is not there is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from controller.api import (
    ACCELERATOR_TYPES,
    INSTANCE_TYPES,
    MODEL_ARTIFACTS,
    InstanceType,
    ModelArtifact,
    ModelDeployment,
    Role,
    decode_view,
)
from controller.foundation import Resource, monotonic
from controller.kube import KubeClient, NotFound

V = TypeVar("V", bound=msgspec.Struct)

# Wall time: how late a change of a pool or an artifact may be seen.
REMEMBER_SECONDS: Final = 15.0
_MAX_ENTRIES: Final = 1024


class Lookups:
    """Live reads with a short memory."""

    def __init__(self, client: KubeClient, *, now: Callable[[], float] = monotonic) -> None:
        self._client = client
        self._now = now
        self._known: dict[tuple[Resource, str, str], tuple[float, msgspec.Struct | None]] = {}

    async def pool(self, role: Role) -> InstanceType | None:
        """The pool that a role names, under either name of the kind."""
        if not role.pool:
            return None
        resource = ACCELERATOR_TYPES if role.accelerator_type else INSTANCE_TYPES
        return await self._get(resource, role.pool, "", InstanceType)

    async def artifact(self, deployment: ModelDeployment) -> ModelArtifact | None:
        """The artifact that a deployment refers to."""
        reference = deployment.spec.model.artifact_ref
        if reference is None or not reference.name:
            return None
        return await self._get(MODEL_ARTIFACTS, reference.name, deployment.metadata.namespace, ModelArtifact)

    async def _get(self, resource: Resource, name: str, namespace: str, view: type[V]) -> V | None:
        key = (resource, namespace, name)
        known = self._known.get(key)
        if known is not None and self._now() < known[0]:
            found = known[1]
            return found if isinstance(found, view) else None
        value: V | None
        try:
            path = resource.path(namespace or None, name)
        except ValueError:
            return None  # no object can have this name
        try:
            value = decode_view(view, await self._client.request_raw("GET", path))
        except NotFound:
            value = None
        if len(self._known) >= _MAX_ENTRIES:
            self._known.clear()
        self._known[key] = (self._now() + REMEMBER_SECONDS, value)
        return value
