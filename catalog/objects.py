"""From API objects to the inputs of identity inference, and the same from documents in a file.

What an object holds in a shape that cannot be read is not taken for absent: a role whose arguments, variables or
resources are damaged is handed on with the damage named, and inference refuses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from catalog.inputs import ArtifactInput, HardwareInput, Hub, RoleInput
from catalog.role_hardware import group_label, says_hardware
from controller.api import (
    IDENTITY_ANNOTATION_PREFIX,
    InstanceType,
    ModelArtifact,
    ModelDeployment,
    Node,
    decode_view,
    engine_request_limit,
)
from controller.api import Hub as SourceHub
from controller.foundation import FieldError, UsageError, parse_quantity

_HUBS = {SourceHub.HUGGING_FACE: Hub.HUGGING_FACE, SourceHub.MODEL_SCOPE: Hub.MODEL_SCOPE}
_POOL_KINDS = ("InstanceType", "AcceleratorType")


def role_input(
    deployment: ModelDeployment,
    name: str,
    *,
    artifact: ModelArtifact | None = None,
    instance_type: InstanceType | None = None,
    nodes: Sequence[Node] = (),
) -> RoleInput:
    """The input for one declared role. `artifact` and `instance_type` are the objects that the deployment and the role
    refer to, None where they do not exist; `nodes` those that the pool can place Pods on, empty where unknown.

    Raises KeyError for a role that the deployment does not declare.
    """
    index = deployment.role_index(name)
    if index is None:
        raise KeyError(name)
    role = deployment.roles[index]
    resources = role.resources
    shares = (
        (resources.accelerator_sliced_memory_percentage, resources.accelerator_sliced_cores_percentage)
        if resources
        else ()
    )
    return RoleInput(
        name=role.name,
        kind=role.kind,
        engine=deployment.spec.engine.name,
        accelerators_per_pod=_accelerators(resources.accelerator if resources else None),
        size=role.size,
        command=role.command or (),
        extra_args=role.extra_args or (),
        env=tuple((variable.name, variable.value) for variable in role.env or ()),
        image=role.image or None,
        most_requests=engine_request_limit(role, deployment.spec.engine.name),
        sliced=any(share for share in shares),
        partitioned_profile=resources.accelerator_partitioned_profile if resources else "",
        artifact=_artifact(deployment, artifact),
        hardware=_hardware(role.pool, instance_type, nodes),
        declared=deployment.metadata.annotation(f"{IDENTITY_ANNOTATION_PREFIX}{role.name}"),
        damage=_damage(deployment.malformed, index),
    )


def _accelerators(given: str | int | None) -> int | None:
    if given is None:
        return 1  # the operator's default on an acceleratable type
    try:
        number = parse_quantity(given)
    except ValueError:
        return None
    return int(number) if number == number.to_integral_value() and number < Decimal(2**31) else None


def _artifact(deployment: ModelDeployment, artifact: ModelArtifact | None) -> ArtifactInput | None:
    reference = deployment.spec.model.artifact_ref
    if reference is None or not reference.name:
        return None
    source = artifact.hub_model if artifact is not None and not artifact.malformed else None
    if source is None:
        return ArtifactInput(reference.name, Hub.OTHER)
    return ArtifactInput(reference.name, _HUBS[source.hub], source.repository)


def pool_says_hardware(instance_type: InstanceType | None) -> bool:
    """Whether an InstanceType settles the hardware without a look at its nodes."""
    source = None if instance_type is None else _hardware(instance_type.metadata.name, instance_type, ())
    return source is not None and says_hardware(source)


def _hardware(pool: str, instance_type: InstanceType | None, nodes: Sequence[Node]) -> HardwareInput | None:
    labels = tuple(node.metadata.labels or {} for node in nodes)
    if instance_type is None or instance_type.malformed:
        return HardwareInput(pool, node_labels=labels) if labels else None
    detail = instance_type.status.detail
    return HardwareInput(
        instance_type=pool,
        accelerator_group=instance_type.spec.accelerator_group or None,
        manufacturer=(detail.manufacturer if detail else "") or None,
        product=(detail.product if detail else "") or None,
        memory=None if detail is None or detail.memory is None else str(detail.memory),
        node_labels=labels,
    )


def _damage(findings: Iterable[FieldError], index: int) -> str:
    """The paths of what could not be read of a role, or of what all roles rest upon."""
    rests_on = re.compile(rf"|metadata(?!\.managedFields).*|spec|spec\.(model|engine).*|spec\.roles(\[{index}\].*)?")
    return ", ".join(finding.path or "the object" for finding in findings if rests_on.fullmatch(finding.path))


def role_inputs(documents: Iterable[object]) -> list[RoleInput]:
    """Every role of the one ModelDeployment among the documents of a file (plain values, as a YAML reader gives them).

    Objects are found by kind and name; namespaces are ignored, because a file describes one deployment. Raises
    UsageError when there is no ModelDeployment, or several, or none of its roles can be read.
    """
    by_kind: dict[str, list[bytes]] = {}
    for document in flattened(documents):
        by_kind.setdefault(str(document.get("kind")), []).append(_bytes(document))
    deployments = [decode_view(ModelDeployment, data) for data in by_kind.get("ModelDeployment", ())]
    if len(deployments) != 1:
        raise UsageError(f"the file must hold exactly one ModelDeployment, found {len(deployments)}")
    (deployment,) = deployments
    artifacts = [decode_view(ModelArtifact, data) for data in by_kind.get("ModelArtifact", ())]
    pools = [decode_view(InstanceType, data) for kind in _POOL_KINDS for data in by_kind.get(kind, ())]
    nodes = [decode_view(Node, data) for data in by_kind.get("Node", ())]
    if not deployment.roles:
        raise UsageError("spec.roles of the ModelDeployment must list at least one role")
    reference = deployment.spec.model.artifact_ref
    artifact = next((a for a in artifacts if reference is not None and a.metadata.name == reference.name), None)
    inputs = []
    for role in deployment.roles:
        pool = next((pool for pool in pools if pool.metadata.name == role.pool), None)
        inputs.append(
            role_input(
                deployment, role.name, artifact=artifact, instance_type=pool, nodes=_nodes_of(pool, nodes) or nodes
            )
        )
    return inputs


def _nodes_of(pool: InstanceType | None, nodes: Sequence[Node]) -> list[Node]:
    """The nodes that carry the label of the pool's accelerator group."""
    group = "" if pool is None else pool.spec.accelerator_group
    return [node for node in nodes if group and node.metadata.label(group_label(group)) == "true"]


def flattened(documents: Iterable[object]) -> Iterator[Mapping[str, object]]:
    """The objects among the documents of a file; `kubectl get -o yaml` writes several as one List."""
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        items = document.get("items")
        if document.get("kind") == "List" and isinstance(items, list):
            yield from (item for item in items if isinstance(item, Mapping))
        else:
            yield document


def _bytes(document: Mapping[str, object]) -> bytes:
    # orjson knows no integer beyond 64 bits; such a member is damage like any other, and named as such.
    return json.dumps(document, default=str).encode()
