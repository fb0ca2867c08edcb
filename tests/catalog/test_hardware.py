"""Spellings of accelerators, and what must not pass for one."""

from __future__ import annotations

import pytest

from catalog.hardware import HardwareProblem, HardwareRefusal, memory_gib, resolve_hardware
from catalog.inputs import HardwareInput
from catalog.role_hardware import hardware_of, hardware_of_labels

RESOLVED = {
    "GPU feature discovery, H200": ("NVIDIA-H200", "nvidia-h200"),
    "GPU feature discovery, H100 SXM": ("NVIDIA-H100-80GB-HBM3", "nvidia-h100"),
    "GPU feature discovery, B300 AC": ("NVIDIA-B300-SXM6-AC", "nvidia-b300"),
    "GPU feature discovery, B300 PC": ("NVIDIA-B300-SXM6-PC", "nvidia-b300"),
    "GPU feature discovery, GB200": ("NVIDIA-GB200", "nvidia-gb200"),
    "an operator's accelerator group": ("nvidia-h100-80gb-hbm3", "nvidia-h100"),
    "GKE": ("nvidia-h200-141gb", "nvidia-h200"),
    "AIConfigurator": ("h200_sxm", "nvidia-h200"),
    "MLPerf": ("NVIDIA H200-SXM-141GB", "nvidia-h200"),
    "MLPerf, AMD": ("AMD Instinct MI355X 288GB HBM3e", "amd-mi355x"),
    "a person": ("H200-SXM5-141GB", "nvidia-h200"),
    "a hub": ("H200 (141GB)", "nvidia-h200"),
    "AMD's node labeller": ("AMD_Instinct_MI300X_OAM", "amd-mi300x"),
    "AMD's node labeller, without the X": ("AMD_Instinct_MI325_OAM", "amd-mi325x"),
    "rocm-smi": ("MI300X-O", "amd-mi300x"),
    "an autoscaler's tests": ("AMD-MI300X-192G", "amd-mi300x"),
    "140 GB is an H200 too": ("nvidia-h200-140gb", "nvidia-h200"),
}


@pytest.mark.parametrize(("spelling", "family"), RESOLVED.values(), ids=RESOLVED.keys())
def test_spelling_resolves(spelling: str, family: str) -> None:
    assert resolve_hardware(spelling) == family


REFUSED = {
    "a MIG partition": ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", HardwareProblem.OTHER_FORM),
    "a time-sliced card": ("NVIDIA-H100-80GB-HBM3-SHARED", HardwareProblem.OTHER_FORM),
    "the NVL board": ("NVIDIA-H200-NVL", HardwareProblem.OTHER_FORM),
    "the PCIe board": ("NVIDIA-H100-PCIe", HardwareProblem.OTHER_FORM),
    "a virtual function": ("AMD Instinct MI300X VF", HardwareProblem.OTHER_FORM),
    "a known vendor with a product of no family": ("NVIDIA-A100-SXM4-80GB", HardwareProblem.UNKNOWN_PRODUCT),
    "a product whose name begins like a family": ("NVIDIA-H20", HardwareProblem.UNKNOWN_PRODUCT),
    "a superchip of another family": ("NVIDIA-GH200-480GB", HardwareProblem.UNKNOWN_PRODUCT),
    "a sibling of a family": ("AMD_Instinct_MI308X_OAM", HardwareProblem.UNKNOWN_PRODUCT),
    "a variant that nobody measured": ("NVIDIA-H100-TURBO", HardwareProblem.UNKNOWN_PRODUCT),
    "another manufacturer": ("ascend-910b3", HardwareProblem.UNKNOWN_PRODUCT),
    "the wrong vendor's prefix": ("amd-h200", HardwareProblem.UNKNOWN_PRODUCT),
    "too little memory in the name": ("NVIDIA-H100-64GB-HBM2", HardwareProblem.UNKNOWN_PRODUCT),
    "a memory of another card": ("nvidia-h100-94gb", HardwareProblem.MEMORY_DISAGREES),
    "an administrator's own name": ("bench-gpu", HardwareProblem.UNKNOWN_VENDOR),
    "nothing": ("", HardwareProblem.UNKNOWN_VENDOR),
}


@pytest.mark.parametrize(("spelling", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_other_hardware_is_refused(spelling: str, problem: HardwareProblem) -> None:
    refusal = resolve_hardware(spelling)
    assert isinstance(refusal, HardwareRefusal), refusal
    assert refusal.problem is problem


MEMORIES = {
    "141Gi is an H200": ("NVIDIA H200", "141Gi", True),
    "140Gi is an H200": ("NVIDIA H200", "140Gi", True),
    "the driver's 143771 MiB is an H200": ("NVIDIA H200", "143771Mi", True),
    "137Gi is within three per cent": ("NVIDIA H200", "137Gi", True),
    "136Gi is not": ("NVIDIA H200", "136Gi", False),
    "80Gi is no H200": ("NVIDIA H200", "80Gi", False),
    "81559 MiB is an H100": ("NVIDIA H100 80GB HBM3", "81559", True),
    "192G is an MI300X": ("MI300X", "192G", True),
    "256G is no MI300X": ("MI300X", "256G", False),
}


@pytest.mark.parametrize(("product", "memory", "fits"), MEMORIES.values(), ids=MEMORIES.keys())
def test_memory_must_agree_within_three_per_cent(product: str, memory: str, fits: bool) -> None:
    found = resolve_hardware(product, memory_gib=memory_gib(memory))
    assert isinstance(found, str) is fits


def _instance(**fields: object) -> HardwareInput:
    return HardwareInput(instance_type="pool", **fields)  # type: ignore[arg-type]


SOURCES: dict[str, tuple[HardwareInput | None, str | HardwareProblem]] = {
    "group and detail agree": (
        _instance(accelerator_group="nvidia-h200", manufacturer="nvidia", product="NVIDIA H200", memory="143771Mi"),
        "nvidia-h200",
    ),
    "only the group is known yet": (_instance(accelerator_group="nvidia-h200"), "nvidia-h200"),
    "group and detail name two families": (
        _instance(accelerator_group="nvidia-h100", product="NVIDIA H200"),
        HardwareProblem.OTHER_FORM,
    ),
    "an administrator's group name gives way to the detail": (
        _instance(accelerator_group="bench-gpu", manufacturer="nvidia", product="NVIDIA H200"),
        "nvidia-h200",
    ),
    "an administrator's group name gives way to the nodes": (
        _instance(accelerator_group="bench-gpu", node_labels=({"nvidia.com/gpu.product": "NVIDIA-H200"},)),
        "nvidia-h200",
    ),
    "nodes of two families": (
        _instance(node_labels=({"nvidia.com/gpu.product": "NVIDIA-H200"}, {"nvidia.com/gpu.product": "NVIDIA-B200"})),
        HardwareProblem.OTHER_FORM,
    ),
    "nothing is known": (_instance(), HardwareProblem.UNKNOWN_VENDOR),
    "no InstanceType": (None, HardwareProblem.UNKNOWN_VENDOR),
}


@pytest.mark.parametrize(("source", "expected"), SOURCES.values(), ids=SOURCES.keys())
def test_instance_type_and_nodes(source: HardwareInput | None, expected: str | HardwareProblem) -> None:
    found = hardware_of(source)
    assert (found.problem if isinstance(found, HardwareRefusal) else found) == expected


LABELS: dict[str, tuple[dict[str, str], str | HardwareProblem]] = {
    "NVIDIA with memory": ({"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}, "nvidia-h200"),
    "AMD with memory": (
        {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"},
        "amd-mi300x",
    ),
    "the operator's": (
        {
            "acceleratable.feature.gpustack.ai/nvidia-h200.product": "NVIDIA H200",
            "acceleratable.feature.gpustack.ai/nvidia-h200.memory": "141Gi",
        },
        "nvidia-h200",
    ),
    "GKE's": ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, "nvidia-h100"),
    "time slicing under the plain product name": (
        {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
        HardwareProblem.OTHER_FORM,
    ),
    "several replicas of a card": (
        {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.replicas": "4"},
        HardwareProblem.OTHER_FORM,
    ),
    "two label families that differ": (
        {
            "nvidia.com/gpu.product": "NVIDIA-H200",
            "acceleratable.feature.gpustack.ai/nvidia-b200.product": "NVIDIA B200",
        },
        HardwareProblem.OTHER_FORM,
    ),
    "no label": ({"kubernetes.io/arch": "amd64"}, HardwareProblem.UNKNOWN_VENDOR),
}


@pytest.mark.parametrize(("labels", "expected"), LABELS.values(), ids=LABELS.keys())
def test_node_labels(labels: dict[str, str], expected: str | HardwareProblem) -> None:
    found = hardware_of_labels(labels)
    assert (found.problem if isinstance(found, HardwareRefusal) else found) == expected
