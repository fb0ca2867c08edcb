"""Names of quantizations in flags and repositories."""

from __future__ import annotations

import pytest

from catalog.identity import Quantization
from catalog.quantization import leaves_bits_open, quantization_of_flag, quantizations_of_repository

FLAGS = {
    "mxfp4": Quantization.FP4,
    "modelopt_fp4": Quantization.FP4,
    "fp8": Quantization.FP8,
    "FP8": Quantization.FP8,
    "w8a8_fp8": Quantization.FP8,
    "awq_marlin": Quantization.INT4,
    "w8a8_int8": Quantization.INT8,
    "gptq": None,
    "compressed-tensors": None,
    "modelopt": None,
    "bitsandbytes": None,
    "nonsense": None,
}


@pytest.mark.parametrize(("value", "expected"), FLAGS.items())
def test_flag_values(value: str, expected: Quantization | None) -> None:
    assert quantization_of_flag(value) is expected


def test_a_known_open_value_is_told_from_nonsense() -> None:
    assert leaves_bits_open("compressed-tensors")
    assert not leaves_bits_open("nonsense")


REPOSITORIES = {
    "Qwen/Qwen3-8B": (),
    "openai/gpt-oss-120b": (),
    "Qwen/Qwen3-8B-FP8": ("fp8",),
    "nvidia/DeepSeek-R1-0528-FP4-V2": ("fp4",),
    "nvidia/DeepSeek-R1-0528-FP4-v2": ("fp4",),
    "nvidia/GLM-5.2-NVFP4": ("fp4",),
    "amd/DeepSeek-R1-0528-MXFP4-Preview": ("fp4",),
    "amd/Llama-3.3-70B-Instruct-FP8-KV": ("fp8",),
    "amd/gpt-oss-120b-w-mxfp4-a-fp8": ("fp4",),
    "Qwen/Qwen3-8B-AWQ": ("int4",),
    "Qwen/Qwen3-8B-GPTQ-Int4": ("int4",),
    "Qwen/Qwen3-8B-GPTQ-Int8": ("int8",),
    "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16": ("int4",),
    "RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8": ("int8",),
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": ("fp8",),
    "unsloth/gpt-oss-120b-BF16": ("bf16",),
    "casperhansen/llama-3-70b-awq-int4": ("int4",),
    "someone/llama-nvfp4-fp8": ("fp4", "fp8"),
    "fp8-lab/plain-model": (),
}


@pytest.mark.parametrize(("name", "expected"), REPOSITORIES.items())
def test_repository_names(name: str, expected: tuple[str, ...]) -> None:
    assert quantizations_of_repository(name) == expected
