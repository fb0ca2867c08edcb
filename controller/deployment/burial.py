"""Removes what is left of deployments: of one that is being deleted, and of one that is gone.

The API server's garbage collector does the same where it runs; doing it here too costs nothing (every deletion carries
the UID) and frees names that a successor of the same name waits for. What is gone is never told from a cache: the owner
is looked up live before anything of it is deleted, and so is whether the object still names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from controller.api import MODEL_DEPLOYMENTS, PODS, SERVICES, ModelDeployment, Pod
from controller.deployment.faults import Faults
from controller.deployment.kinds import Service
from controller.deployment.ownership import made_by_us
from controller.deployment.writes import Writes
from controller.foundation import ObjectMeta, Resource, split_key
from controller.kube import KubeClient, NotFound

# There until the garbage collector has taken the owner's name from everything it owns.
_ORPHAN_FINALIZER: Final = "orphan"


class _Only(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class Burial:
    """Removals of one process."""

    def __init__(self, client: KubeClient, writes: Writes) -> None:
        self._client = client
        self._writes = writes

    async def tear_down(self, deployment: ModelDeployment, pods: Sequence[Pod], faults: Faults) -> None:
        """The deployment is being deleted: its Pods go, with the hook at the end of their life as the only drain.
        Unless whoever deletes it wants them to live on (`--cascade=orphan`)."""
        if _ORPHAN_FINALIZER in (deployment.metadata.finalizers or ()):
            return
        for pod in pods:
            if not pod.deleting and made_by_us(pod):
                delete = self._writes.delete_pod(deployment, pod)
                await faults.attempt(f"deleting Pod {pod.metadata.name}", delete)

    async def bury(self, key: str, pods: Sequence[Pod], services: Sequence[Service], living_uid: str) -> None:
        """Delete what we made for deployments of this name that exist no more. `living_uid`: of the one that the cache
        has, empty where it has none. Raises ApiError."""
        dead_pods = [
            pod for pod in pods if made_by_us(pod) and not pod.deleting and _owner(pod.metadata) not in ("", living_uid)
        ]
        dead_services = [each for each in services if _owner(each.metadata) not in ("", living_uid)]
        if not dead_pods and not dead_services:
            return
        namespace, name = split_key(key)
        try:
            living = (await self._client.get(MODEL_DEPLOYMENTS, name, namespace, type_=_Only)).metadata.uid
        except NotFound:
            living = ""
        for pod in dead_pods:
            if _owner(pod.metadata) != living and await self._still_owned(PODS, pod.metadata):
                await self._writes.bury_pod(pod)
        for service in dead_services:
            if _owner(service.metadata) != living and await self._still_owned(SERVICES, service.metadata):
                await self._writes.delete_service(service)

    async def _still_owned(self, resource: Resource, meta: ObjectMeta) -> bool:
        """Whether the object still names the owner that is gone: one that was to live on without it does not, and a
        cache may not have heard of that yet."""
        try:
            found = await self._client.get(resource, meta.name, meta.namespace, type_=_Only)
        except NotFound:
            return False
        return found.metadata.uid == meta.uid and _owner(found.metadata) == _owner(meta)


def _owner(meta: ObjectMeta) -> str:
    """UID of the ModelDeployment that controls the object, empty where none does."""
    owners = (owner for owner in meta.owner_references or () if owner.controller)
    return next((owner.uid for owner in owners if owner.kind == MODEL_DEPLOYMENTS.kind), "")
