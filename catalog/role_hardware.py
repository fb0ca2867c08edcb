"""The hardware of a role: from its InstanceType, else from the labels of the nodes that it can run on.

Both an InstanceType's accelerator group and its detail, and all labels of all nodes, must name one family. A node that
names none is not passed over: it may hold anything, and the next replica may land on it. Only a node that is labelled
as having no accelerators is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from catalog.hardware import HardwareProblem, HardwareRefusal, memory_gib, resolve_hardware
from catalog.inputs import HardwareInput

_OPERATOR_PREFIX: Final = "acceleratable.feature.gpustack.ai/"
_ACCELERATABLE_LABEL: Final = "feature.gpustack.ai/acceleratable"
_GKE_LABEL: Final = "cloud.google.com/gke-accelerator"
_READ_PREFIXES: Final = (_OPERATOR_PREFIX, "nvidia.com/gpu.", "amd.com/gpu.")
_SHARING: Final = ("time-slicing", "mps")


def hardware_of(source: HardwareInput | None) -> str | HardwareRefusal:
    """The family of a role's hardware, or why it cannot be told."""
    if source is None:
        return HardwareRefusal(HardwareProblem.UNKNOWN_VENDOR, "no InstanceType is known")
    memory = memory_gib(source.memory) if source.memory else None
    found = _stated(source, memory)
    if found and not all(_is_unknown(entry) for entry in found):
        return _agreed(found, f"InstanceType {source.instance_type}")
    nodes = [
        hardware_of_labels(labels, memory)
        for labels in source.node_labels
        if labels.get(_ACCELERATABLE_LABEL) != "false"
    ]
    if nodes:
        silent = next((entry for entry in nodes if _is_unknown(entry)), None)
        return silent or _agreed(nodes, f"the nodes of InstanceType {source.instance_type}")
    says = found[0].message if found and isinstance(found[0], HardwareRefusal) else "it states no accelerator"
    return HardwareRefusal(
        HardwareProblem.UNKNOWN_VENDOR,
        f"InstanceType {source.instance_type}, of which no node is known: {says}",
    )


def says_hardware(source: HardwareInput) -> bool:
    """The InstanceType itself settles the hardware, for or against a match; its nodes need not be read."""
    found = _stated(source, None)
    return bool(found) and not all(_is_unknown(entry) for entry in found)


def group_label(group: str) -> str:
    """The label that is `true` on every node of an accelerator group."""
    return f"{_OPERATOR_PREFIX}{group}"


def labels_that_count(labels: Mapping[str, str]) -> dict[str, str]:
    """Of a node's labels those that hardware is read from."""
    return {
        key: value
        for key, value in labels.items()
        if key in (_ACCELERATABLE_LABEL, _GKE_LABEL) or key.startswith(_READ_PREFIXES)
    }


def _stated(source: HardwareInput, memory: float | None) -> list[str | HardwareRefusal]:
    found: list[str | HardwareRefusal] = []
    if source.product:
        found.append(resolve_hardware(source.product, manufacturer=source.manufacturer, memory_gib=memory))
    if source.accelerator_group:
        found.append(resolve_hardware(source.accelerator_group, memory_gib=memory))
    return found


def hardware_of_labels(labels: Mapping[str, str], memory: float | None = None) -> str | HardwareRefusal:
    """The family that a node's labels name: the operator's, NVIDIA's, AMD's or GKE's, which must agree, also with a
    memory in GiB that is known from elsewhere."""
    found: list[str | HardwareRefusal] = []
    for key, value in sorted(labels.items()):
        if key.startswith(_OPERATOR_PREFIX) and key.endswith(".product"):
            accelerator = key.removesuffix(".product")
            found.append(resolve_hardware(value, memory_gib=_memory(labels, f"{accelerator}.memory")))
    if "nvidia.com/gpu.product" in labels:
        sharing = labels.get("nvidia.com/gpu.sharing-strategy", "none")
        if sharing in _SHARING or labels.get("nvidia.com/gpu.replicas", "1") not in ("0", "1"):
            return HardwareRefusal(HardwareProblem.OTHER_FORM, "the node's GPUs are shared (time-slicing or MPS)")
        product = labels["nvidia.com/gpu.product"]
        found.append(
            resolve_hardware(product, manufacturer="nvidia", memory_gib=_memory(labels, "nvidia.com/gpu.memory"))
        )
    if "amd.com/gpu.product-name" in labels:
        product = labels["amd.com/gpu.product-name"]
        found.append(resolve_hardware(product, manufacturer="amd", memory_gib=_memory(labels, "amd.com/gpu.vram")))
    if not found and _GKE_LABEL in labels:
        found.append(resolve_hardware(labels[_GKE_LABEL]))
    if not found:
        return HardwareRefusal(HardwareProblem.UNKNOWN_VENDOR, "the node has no label that names an accelerator")
    family = _agreed(found, "the node's labels")
    if isinstance(family, str) and memory is not None:
        return resolve_hardware(family, memory_gib=memory)
    return family


def _agreed(found: list[str | HardwareRefusal], where: str) -> str | HardwareRefusal:
    refusals = [entry for entry in found if isinstance(entry, HardwareRefusal) and not _is_unknown(entry)]
    if refusals:
        return refusals[0]
    families = sorted({entry for entry in found if isinstance(entry, str)})
    if len(families) > 1:
        return HardwareRefusal(HardwareProblem.OTHER_FORM, f"{where} name several: {', '.join(families)}")
    if families and not any(isinstance(entry, HardwareRefusal) for entry in found):
        return families[0]
    # One name resolves and another means nothing (an administrator's own group name): the one that resolves counts.
    return families[0] if families else next(entry for entry in found if isinstance(entry, HardwareRefusal))


def _is_unknown(entry: str | HardwareRefusal) -> bool:
    return isinstance(entry, HardwareRefusal) and entry.problem is HardwareProblem.UNKNOWN_VENDOR


def _memory(labels: Mapping[str, str], key: str) -> float | None:
    return memory_gib(labels[key]) if key in labels else None
