"""From Kubernetes documents (as read from YAML files) to the inputs of identity inference.

Accepts either apiVersion, `instanceType` or the later `acceleratorType`, `repository` or `repo`; ignores unknown
fields; null is absent. Objects are found by kind and name; namespaces are ignored, because a file describes one
deployment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from catalog.inference import ANNOTATION
from catalog.inputs import ArtifactInput, HardwareInput, Hub, RoleInput
from controller.foundation import UsageError, parse_quantity

_POOL_KINDS: Final = ("InstanceType", "AcceleratorType")
_HUBS: Final = (("huggingFace", Hub.HUGGING_FACE), ("modelScope", Hub.MODEL_SCOPE))

Document = Mapping[str, Any]


def role_inputs(documents: Iterable[object]) -> list[RoleInput]:
    """Every role of the one ModelDeployment among `documents`. Raises UsageError when there is none, or several."""
    objects = [document for document in documents if isinstance(document, Mapping)]
    deployments = [entry for entry in objects if entry.get("kind") == "ModelDeployment"]
    if len(deployments) != 1:
        raise UsageError(f"the file must hold exactly one ModelDeployment, found {len(deployments)}")
    deployment = deployments[0]
    spec = _mapping(deployment, "spec")
    artifact = _artifact(_text(_mapping(_mapping(spec, "model"), "artifactRef"), "name"), objects)
    annotations = _mapping(_mapping(deployment, "metadata"), "annotations")
    roles = spec.get("roles")
    if not isinstance(roles, list) or not roles:
        raise UsageError("spec.roles of the ModelDeployment must list at least one role")
    return [
        _role(role, _text(_mapping(spec, "engine"), "name") or "", artifact, annotations, objects)
        for role in roles
        if isinstance(role, Mapping)
    ]


def _role(
    role: Document,
    engine: str,
    artifact: ArtifactInput | None,
    annotations: Document,
    objects: list[Document],
) -> RoleInput:
    name = _text(role, "name") or ""
    resources = _mapping(role, "resources")
    shares = ("acceleratorSlicedMemoryPercentage", "acceleratorSlicedCoresPercentage")
    pool = _text(role, "instanceType") or _text(role, "acceleratorType")
    declared = annotations.get(f"{ANNOTATION}{name}")
    return RoleInput(
        name=name,
        kind=_text(role, "kind") or "Server",
        engine=engine,
        accelerators_per_pod=_whole(resources.get("accelerator", 1)),
        size=_whole(role.get("size")) or 1,
        command=_strings(role.get("command")),
        extra_args=_strings(role.get("extraArgs")),
        env=_environment(role.get("env")),
        image=_text(role, "image"),
        sliced=any((_whole(resources.get(share)) or 0) > 0 for share in shares),
        partitioned_profile=_text(resources, "acceleratorPartitionedProfile") or "",
        artifact=artifact,
        hardware=_hardware(pool, objects),
        declared=declared if isinstance(declared, str) else None,
    )


def _artifact(name: str | None, objects: list[Document]) -> ArtifactInput | None:
    if name is None:
        return None
    for entry in objects:
        if entry.get("kind") == "ModelArtifact" and _text(_mapping(entry, "metadata"), "name") == name:
            source = _mapping(_mapping(entry, "spec"), "source")
            for key, hub in _HUBS:
                holder = _mapping(source, key)
                if holder:
                    return ArtifactInput(name, hub, _text(holder, "repository") or _text(holder, "repo"))
            return ArtifactInput(name, Hub.OTHER)
    return ArtifactInput(name, Hub.OTHER)


def _hardware(pool: str | None, objects: list[Document]) -> HardwareInput | None:
    nodes = [_labels(_mapping(entry, "metadata")) for entry in objects if entry.get("kind") == "Node"]
    for entry in objects:
        if entry.get("kind") in _POOL_KINDS and _text(_mapping(entry, "metadata"), "name") == pool:
            detail = _mapping(_mapping(entry, "status"), "detail")
            return HardwareInput(
                instance_type=pool or "",
                accelerator_group=_text(_mapping(entry, "spec"), "acceleratorGroup"),
                manufacturer=_text(detail, "manufacturer"),
                product=_text(detail, "product"),
                memory=_text(detail, "memory"),
                node_labels=tuple(nodes),
            )
    return HardwareInput(instance_type=pool or "", node_labels=tuple(nodes)) if nodes else None


def _mapping(holder: Document, key: str) -> Document:
    value = holder.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(holder: Document, key: str) -> str | None:
    value = holder.get(key)
    return value if isinstance(value, str) and value else None


def _labels(metadata: Document) -> dict[str, str]:
    return {str(key): str(value) for key, value in _mapping(metadata, "labels").items()}


def _strings(value: object) -> tuple[str, ...]:
    return tuple(str(entry) for entry in value) if isinstance(value, list) else ()


def _environment(value: object) -> tuple[tuple[str, str], ...]:
    entries = value if isinstance(value, list) else []
    return tuple(
        (str(entry["name"]), str(entry["value"]))
        for entry in entries
        if isinstance(entry, Mapping) and "name" in entry and entry.get("value") is not None
    )


def _whole(value: object) -> int | None:
    if value is None:
        return None
    try:
        number = parse_quantity(value)
    except ValueError:
        return None
    return int(number) if number == number.to_integral_value() else None
