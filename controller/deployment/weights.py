"""Where an engine finds the weights of its model: what to tell it, and what to mount. Pure.

Without an artifact the served name is also the repository, as engines take it. With one, the artifact's source decides.
An artifact that is missing, or that somebody reports as unresolved, lets no Pod be created: an engine that starts
without its weights crashes for half an hour and is no clearer than the sentence here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from controller.api import Hub, ModelArtifact, ModelDeployment

MOUNT_PATH = "/models"
VOLUME = "weights"


class WeightsReason(StrEnum):
    """Reasons of the condition WeightsReady."""

    NOT_APPLICABLE = "NotApplicable"  # no artifact is referred to
    RESOLVED = "Resolved"
    ARTIFACT_NOT_FOUND = "ArtifactNotFound"
    ARTIFACT_NOT_RESOLVED = "ArtifactNotResolved"
    SOURCE_UNKNOWN = "SourceUnknown"
    LOOKUP_FAILED = "LookupFailed"  # the API server did not show the artifact: not known, which is not False


@dataclass(frozen=True, slots=True)
class Weights:
    """What the engine's command line and the Pod need."""

    model: str  # the argument that names the model: a repository or a path
    revision: str = ""
    hub: Hub = Hub.HUGGING_FACE
    volume: dict[str, Any] | None = None  # a Pod's volume without its name


@dataclass(frozen=True, slots=True)
class WeightsVerdict:
    """The weights, or None and the reason why no replica may be created."""

    weights: Weights | None
    reason: WeightsReason
    message: str = ""


def weights_of(deployment: ModelDeployment, artifact: ModelArtifact | None) -> WeightsVerdict:
    """The weights of a deployment; `artifact` is what its artifactRef names, None where that does not exist."""
    reference = deployment.spec.model.artifact_ref
    if reference is None or not reference.name:
        return WeightsVerdict(Weights(deployment.spec.model.name), WeightsReason.NOT_APPLICABLE)
    if artifact is None:
        message = f"ModelArtifact {reference.name} does not exist in this namespace: create it"
        return WeightsVerdict(None, WeightsReason.ARTIFACT_NOT_FOUND, message)
    resolved = next((each for each in artifact.status.conditions or () if each.type == "Resolved"), None)
    if resolved is not None and resolved.status == "False":
        why = resolved.message or resolved.reason or "no reason given"
        message = f"ModelArtifact {reference.name} is not resolved: {why}"
        return WeightsVerdict(None, WeightsReason.ARTIFACT_NOT_RESOLVED, message)
    weights = _from_source(artifact)
    if weights is None:
        message = (
            f"ModelArtifact {reference.name} has no source that can be served: give huggingFace, modelScope, "
            "persistentVolumeClaim or image"
        )
        return WeightsVerdict(None, WeightsReason.SOURCE_UNKNOWN, message)
    return WeightsVerdict(weights, WeightsReason.RESOLVED)


def _from_source(artifact: ModelArtifact) -> Weights | None:
    model = artifact.hub_model
    if model is not None:
        pinned = artifact.status.resolved.revision if artifact.status.resolved is not None else ""
        return Weights(model.repository, pinned or model.revision, model.hub)
    source = artifact.spec.source
    if source.persistent_volume_claim is not None and source.persistent_volume_claim.claim_name:
        claim = source.persistent_volume_claim
        path = "/".join(part for part in (MOUNT_PATH, claim.path.strip("/")) if part)
        return Weights(path, volume={"persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": True}})
    if source.image is not None and source.image.reference:
        return Weights(MOUNT_PATH, volume={"image": {"reference": source.image.reference}})
    return None
