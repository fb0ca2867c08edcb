"""Targets as the server has them, whatever is in them.

A ModelDeployment comes from another program, and its definition may check nothing. One member of a wrong type must not
hide the whole object: the cache would keep an older state of it, and an answer to a write of ours would count as a
failure. So the metadata, which every server checks, is read strictly, and the rest by `decode_view`: what cannot be
read is named in `malformed`, and `unreadable` says when no count may rest on it.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from controller.api import MODEL_DEPLOYMENTS, DeploymentMeta, ModelDeployment, decode_view
from controller.kube import KubeClient, Patch

_NOTHING = msgspec.Raw()


class TargetView(msgspec.Struct, frozen=True):
    """What the informer decodes; `target` is what is read."""

    metadata: DeploymentMeta = msgspec.field(default_factory=DeploymentMeta)
    spec: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING
    target: ModelDeployment = msgspec.field(default_factory=ModelDeployment, name="-target")

    RESOURCE: ClassVar = MODEL_DEPLOYMENTS

    def __post_init__(self) -> None:
        body = b'{"spec":%b,"status":%b}' % (bytes(self.spec) or b"null", bytes(self.status) or b"null")
        target = msgspec.structs.replace(decode_view(ModelDeployment, body), metadata=self.metadata)
        msgspec.structs.force_setattr(self, "target", target)
        # A Raw points into the buffer it was decoded from, which would live as long as the view.
        msgspec.structs.force_setattr(self, "spec", _NOTHING)
        msgspec.structs.force_setattr(self, "status", _NOTHING)


async def read_target(client: KubeClient, name: str, namespace: str) -> ModelDeployment:
    """The target as it is now. Raises NotFound."""
    return (await client.get(MODEL_DEPLOYMENTS, name, namespace, type_=TargetView)).target


async def patch_target(client: KubeClient, target: ModelDeployment, patch: Patch) -> ModelDeployment:
    """The target after the patch. Raises ApiError."""
    meta = target.metadata
    return (await client.patch(MODEL_DEPLOYMENTS, meta.name, patch, meta.namespace, type_=TargetView)).target
