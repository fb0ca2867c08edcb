"""The names that engines and repositories give to quantizations, and the six that a catalog knows.

A name that leaves the number of bits open (compressed-tensors, modelopt, quark, gguf …) resolves to nothing here: the
repository name may still say it, else the role states no quantization or is refused.
"""

from __future__ import annotations

import re
from typing import Final

from catalog.identity import Quantization

_FLAGS: Final[dict[str, Quantization]] = {
    **dict.fromkeys(
        ("mxfp4", "nvfp4", "modelopt_fp4", "gpt_oss_mxfp4", "petit_nvfp4", "nvfp4_per_token", "fp4"), Quantization.FP4
    ),
    **dict.fromkeys(
        (
            *(
                "fp8",
                "fp8_per_tensor",
                "fp8_block",
                "fp8_channel",
                "fbgemm_fp8",
                "ptpc_fp8",
                "w8a8_fp8",
                "modelopt_fp8",
            ),
            *("modelopt_mxfp8", "mxfp8", "deepspeedfp8", "deepseek_v4_fp8", "blockwise_fp8"),
        ),
        Quantization.FP8,
    ),
    **dict.fromkeys(
        ("awq", "auto_awq", "awq_marlin", "cpu_awq", "w4afp8", "moe_wna16", "int4", "w4a16", "qoq"), Quantization.INT4
    ),
    **dict.fromkeys(
        ("w8a8_int8", "blockwise_int8", "experts_int8", "int8_per_channel_weight_only", "tpu_int8", "int8"),
        Quantization.INT8,
    ),
}
# Known to leave the bits open. gptq exists with 2, 3, 4 and 8 bits.
_OPEN: Final = frozenset(
    (
        *("gptq", "auto_gptq", "gptq_marlin", "compressed-tensors", "modelopt", "modelopt_mixed", "quark", "torchao"),
        *("bitsandbytes", "gguf", "inc", "auto-round", "fp_quant", "humming", "online", "hqq", "aqlm", "marlin"),
    )
)
_NAMES: Final[tuple[tuple[re.Pattern[str], Quantization], ...]] = (
    (re.compile(r"(nv|mx)?fp4"), Quantization.FP4),
    (re.compile(r"w4a16|w4afp8|w4a8|int4|awq|4bit|q4"), Quantization.INT4),
    (re.compile(r"w8a8|w8a16|int8|8bit|q8"), Quantization.INT8),
    (re.compile(r"(mx)?fp8"), Quantization.FP8),
    (re.compile(r"bf16|bfloat16"), Quantization.BF16),
    (re.compile(r"fp16|float16"), Quantization.FP16),
)
# `w-mxfp4-a-fp8`: weights and activations; the weights decide.
_WEIGHTS: Final = re.compile(r"(?:^|[-_.])w[-_]([a-z0-9]+)[-_]a[-_][a-z0-9]+(?:$|[-_.])")


def quantization_of_flag(value: str) -> Quantization | None:
    """What `--quantization value` means; None where the name leaves the bits open or is unknown."""
    return _FLAGS.get(value.strip().lower())


def leaves_bits_open(value: str) -> bool:
    """The value is known, and another source must say the number of bits."""
    return value.strip().lower() in _OPEN


def quantizations_of_repository(repository: str) -> tuple[Quantization, ...]:
    """The quantizations that the name of a repository states, without its owner: none for `Qwen/Qwen3-8B`, one for
    `Qwen/Qwen3-8B-FP8`, several where a name contradicts itself. `GPTQ` counts only with its bits (`GPTQ-Int4`)."""
    name = repository.rsplit("/", 1)[-1].lower()
    weights = _WEIGHTS.search(name)
    words = [weights.group(1)] if weights else re.split(r"[-_.]+", name)
    found = [quantization for word in words for pattern, quantization in _NAMES if pattern.fullmatch(word)]
    # `AWQ-INT4` says one thing twice; `NVFP4-FP8` two things.
    return tuple(dict.fromkeys(found))
