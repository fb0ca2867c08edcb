"""Every write of this room to the API server, and nothing else: Pods, Services, labels, status.

* A Pod is deleted by name and UID: one of the same name that was made since is never touched.
* A label is changed by a patch that carries the Pod's UID, for the same reason.
* Status is patched with the resourceVersion it was made from.
* The resourceVersion of each answer is noted, so that the next pass waits until the caches show it.

Values of environment variables may be secrets: an error that might repeat one is redacted before anybody sees it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson

from controller.api import (
    ELIGIBLE_LABEL,
    MODEL_DEPLOYMENTS,
    PODS,
    RETIREMENT_RETRY_ANNOTATION,
    SERVICES,
    ModelDeployment,
    Pod,
    decode_view,
)
from controller.deployment.eligibility import LabelChange
from controller.deployment.kinds import Service
from controller.deployment.names import FIRST_ELIGIBLE_ANNOTATION
from controller.foundation import Clock, ObjectMeta, Resource, format_time, redact
from controller.kube import (
    AlreadyExists,
    ApiError,
    Conflict,
    ConsistencyStore,
    Forbidden,
    Invalid,
    KubeClient,
    NotFound,
    TooLarge,
    merge_patch,
)

Object = dict[str, Any]


class Refused(Exception):
    """The API server does not want this object; trying again the same way cannot help. The message is safe to show."""


class NameTaken(Refused):
    """An object of this name is somebody else's; others of ours are not concerned."""


class Writes:
    """The writes of one process."""

    def __init__(self, client: KubeClient, consistency: ConsistencyStore, clock: Clock) -> None:
        self._client = client
        self._consistency = consistency
        self._clock = clock

    async def create_pod(self, deployment: ModelDeployment, body: Object, secrets: list[str]) -> bool:
        """Create a Pod. False where one of this name is there: ours, which the cache will show, or one on its way out.

        Raises NameTaken for one that somebody else has made or that was set aside, Refused for a Pod that the API
        server does not take.
        """
        name, namespace = body["metadata"]["name"], deployment.metadata.namespace
        try:
            answer = await self._client.create(PODS, body, namespace)
        except AlreadyExists:
            await self._explain_taken(deployment, name, body["metadata"]["labels"])
            return False
        except (Forbidden, Invalid, TooLarge) as failure:
            raise Refused(f"Pod {name} was refused: {redact(failure.message, secrets)}") from None
        except ApiError as failure:
            failure.message = redact(failure.message, secrets)
            failure.args = (failure.message,)
            raise
        self._note(deployment, PODS, answer)
        return True

    async def delete_pod(self, deployment: ModelDeployment, pod: Pod) -> bool:
        """Delete exactly this Pod. False where it is gone already, whatever has its name now."""
        meta = pod.metadata
        try:
            answer = await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return False
        self._note(deployment, PODS, answer)
        return True

    async def bury_pod(self, pod: Pod) -> None:
        """Delete exactly this Pod of a deployment that is gone."""
        meta = pod.metadata
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)

    async def change_label(self, deployment: ModelDeployment, change: LabelChange) -> bool:
        """Give or take the eligibility label; the first giving is remembered on the Pod. False where the Pod is
        another one by now. Raises ApiError."""
        meta = change.pod.metadata
        metadata: Object = {"uid": meta.uid, "labels": {ELIGIBLE_LABEL: "true" if change.eligible else None}}
        if change.eligible and meta.annotation(FIRST_ELIGIBLE_ANNOTATION) is None:
            metadata["annotations"] = {FIRST_ELIGIBLE_ANNOTATION: format_time(self._clock.now())}
        try:
            answer = await self._client.patch(PODS, meta.name, merge_patch({"metadata": metadata}), meta.namespace)
        except (NotFound, Conflict):
            return False
        except Invalid:
            # Another UID is answered by this too, and so is what a policy does not like.
            if await self._is_another(meta):
                return False
            raise
        self._note(deployment, PODS, answer)
        return True

    async def create_service(self, deployment: ModelDeployment, body: Object) -> None:
        """Create a Service. Raises Refused."""
        name = body["metadata"]["name"]
        try:
            answer = await self._client.create(SERVICES, body, deployment.metadata.namespace)
        except AlreadyExists:
            try:
                found = await self._client.get(SERVICES, name, deployment.metadata.namespace, type_=Service)
            except NotFound:
                return
            if found.owned_by(deployment.metadata.uid):
                return
            raise NameTaken(f"Service {name} belongs to somebody else: rename it or the deployment") from None
        except (Forbidden, Invalid) as failure:
            raise Refused(f"Service {name} was refused: {failure.message}") from None
        self._note(deployment, SERVICES, answer)

    async def patch_service(self, deployment: ModelDeployment, name: str, change: Object) -> None:
        """Bring a Service back into shape. Raises Conflict."""
        try:
            answer = await self._client.patch(SERVICES, name, merge_patch(change), deployment.metadata.namespace)
        except NotFound:
            return
        self._note(deployment, SERVICES, answer)

    async def delete_service(self, service: Service) -> None:
        """Delete exactly this Service."""
        meta = service.metadata
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(SERVICES, meta.name, meta.namespace, uid=meta.uid)

    async def patch_status(self, deployment: ModelDeployment, patch: Object) -> ModelDeployment:
        """Write a part of the status; the deployment as it is afterwards. Raises Conflict when anything of it has
        changed since it was read."""
        return await self._patch(deployment, patch, subresource="status")

    async def consume_retry(self, deployment: ModelDeployment) -> ModelDeployment:
        """Take the retry annotation away. Raises Conflict."""
        metadata = {
            "resourceVersion": deployment.metadata.resource_version,
            "annotations": {RETIREMENT_RETRY_ANNOTATION: None},
        }
        return await self._patch(deployment, {"metadata": metadata})

    async def _patch(
        self, deployment: ModelDeployment, patch: Object, subresource: str | None = None
    ) -> ModelDeployment:
        meta = deployment.metadata
        answer = await self._client.patch(
            MODEL_DEPLOYMENTS, meta.name, merge_patch(patch), meta.namespace, subresource=subresource
        )
        self._note(deployment, MODEL_DEPLOYMENTS, answer)
        # Tolerantly, as the cache reads it: a damaged member elsewhere in the object is no reason to stop here.
        return decode_view(ModelDeployment, orjson.dumps(answer))

    async def _explain_taken(self, deployment: ModelDeployment, name: str, labels: Mapping[str, str]) -> None:
        try:
            found = await self._client.get(PODS, name, deployment.metadata.namespace, type_=Pod)
        except NotFound:
            return
        if found.deleting:
            return
        if not found.owned_by(deployment.metadata.uid):
            raise NameTaken(f"Pod {name} belongs to somebody else: rename it or the deployment")
        # Somebody has set it aside, to look into it say: it is not a replica any more, and its name is taken.
        lost = [key for key, value in labels.items() if found.metadata.label(key) != value]
        if lost:
            raise NameTaken(
                f"Pod {name} has lost its label {lost[0]}={labels[lost[0]]} and keeps its place empty: delete it or "
                "give the label back"
            )

    async def _is_another(self, meta: ObjectMeta) -> bool:
        try:
            found = await self._client.get(PODS, meta.name, meta.namespace, type_=Pod)
        except NotFound:
            return True
        return found.metadata.uid != meta.uid

    def _note(self, deployment: ModelDeployment, resource: Resource, answer: Object) -> None:
        meta = deployment.metadata
        version = (answer.get("metadata") or {}).get("resourceVersion", "")
        self._consistency.wrote(meta.key, meta.uid, resource, meta.namespace, version)
