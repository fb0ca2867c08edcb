"""Settings of an engine that change its speed and that no identity states.

One table for both sides: a role that runs with such a setting is not served by a profile that was measured without it,
and a run that was measured with it does not become a profile of the plain engine. Gains and losses are of the order of
tens of per cent and differ by model and card, so none is corrected for:

- the KV cache in another type than the computation (capacity-data §5.5: it changes the capacity),
- CUDA graphs switched off (`--enforce-eager`, `--disable-cuda-graph`, optimization level 0),
- weights that are fetched from the host in every step (`--cpu-offload-gb`),
- a KV cache that reaches into the memory of the host,
- adapters (LoRA),
- computation in 32 bits.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_OFF: Final = frozenset(("", "none", "null", "false", "{}", "[]"))
_SIXTEEN_BITS: Final = frozenset(("auto", "bfloat16", "bf16", "float16", "fp16", "half"))
_THIRTY_TWO_BITS: Final = frozenset(("float", "float32", "fp32"))
# In JSON and as members: {"cudagraph_mode": "NONE"}, cudagraph_mode=NONE, mode=0.
_UNCOMPILED: Final = re.compile(r'(?<![a-z_])(?:cudagraph_mode|mode|level)["\s]*[:=]["\s]*(?:none|0)(?![a-z0-9_])')


class ChangedSetting(NamedTuple):
    """A setting by its long name, what a measured engine has there, and what was found, without its value where that
    may be long."""

    name: str
    wanted: str
    what: str


def changed_setting(name: str, value: str) -> ChangedSetting | None:
    """What a setting changes, None where it leaves the engine as profiles measure it. `name` is the long flag with or
    without its dashes, in dashes or underscores; `value` is empty for a switch that is on."""
    flag = "--" + name.lstrip("-").replace("_", "-").lower()
    text = value.strip().lower()
    if flag == "--kv-cache-dtype" and text not in _OFF | _SIXTEEN_BITS:
        return ChangedSetting(flag, "auto", "another type of the KV cache than that of the computation")
    if flag == "--dtype" and text in _THIRTY_TWO_BITS:
        return ChangedSetting(flag, "auto", "computation in 32 bits")
    if flag in ("--enforce-eager", "--disable-cuda-graph") and text not in ("false", "none", "null", "0"):
        return ChangedSetting(flag, "CUDA graphs", "an engine without CUDA graphs")
    if flag in ("--compilation-config", "--optimization-level") and (text == "0" or _UNCOMPILED.search(text)):
        return ChangedSetting(flag, "an optimized engine", "an engine without compilation or CUDA graphs")
    if flag == "--cpu-offload-gb" and text not in _OFF and not _is_zero(text):
        return ChangedSetting(flag, "0", "weights in the memory of the host")
    if flag == "--kv-offloading-size" and text not in _OFF and not _is_zero(text):
        return ChangedSetting(flag, "none", "a KV cache in the memory of the host")
    if flag == "--enable-hierarchical-cache" and text not in ("false", "none", "null", "0"):
        return ChangedSetting(flag, "none", "a KV cache in the memory of the host")
    if flag == "--enable-lora" and text not in ("false", "none", "null", "0"):
        return ChangedSetting(flag, "the model as its repository has it", "adapters (LoRA)")
    if flag == "--lora-paths" and text not in _OFF:
        return ChangedSetting(flag, "the model as its repository has it", "adapters (LoRA)")
    return None


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0.0
    except ValueError:
        return False
