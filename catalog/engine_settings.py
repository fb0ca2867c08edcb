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
from collections.abc import Callable
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


class _Setting(NamedTuple):
    """`changes`: whether this value, stripped and in lower case, makes it another engine."""

    changes: Callable[[str], bool]
    wanted: str
    what: str


def _switched_on(text: str) -> bool:
    return text not in ("false", "none", "null", "0")


def _given(text: str) -> bool:
    return text not in _OFF


def _above_zero(text: str) -> bool:
    return text not in _OFF and not _is_zero(text)


def _other_kv_type(text: str) -> bool:
    return text not in _OFF | _SIXTEEN_BITS


def _thirty_two_bits(text: str) -> bool:
    return text in _THIRTY_TWO_BITS


def _not_compiled(text: str) -> bool:
    return text == "0" or _UNCOMPILED.search(text) is not None


_NO_GRAPHS: Final = _Setting(_switched_on, "CUDA graphs", "an engine without CUDA graphs")
_NOT_OPTIMIZED: Final = _Setting(_not_compiled, "an optimized engine", "an engine without compilation or CUDA graphs")
_HOST_CACHE: Final = "a KV cache in the memory of the host"
_PLAIN_MODEL: Final = "the model as its repository has it"
_ADAPTERS: Final = "adapters (LoRA)"
_SETTINGS: Final = {
    "--kv-cache-dtype": _Setting(_other_kv_type, "auto", "another type of the KV cache than that of the computation"),
    "--dtype": _Setting(_thirty_two_bits, "auto", "computation in 32 bits"),
    "--enforce-eager": _NO_GRAPHS,
    "--disable-cuda-graph": _NO_GRAPHS,
    "--compilation-config": _NOT_OPTIMIZED,
    "--optimization-level": _NOT_OPTIMIZED,
    "--cpu-offload-gb": _Setting(_above_zero, "0", "weights in the memory of the host"),
    "--kv-offloading-size": _Setting(_above_zero, "none", _HOST_CACHE),
    "--enable-hierarchical-cache": _Setting(_switched_on, "none", _HOST_CACHE),
    "--enable-lora": _Setting(_switched_on, _PLAIN_MODEL, _ADAPTERS),
    "--lora-paths": _Setting(_given, _PLAIN_MODEL, _ADAPTERS),
}


def changed_setting(name: str, value: str) -> ChangedSetting | None:
    """What a setting changes, None where it leaves the engine as profiles measure it. `name` is the long flag with or
    without its dashes, in dashes or underscores; `value` is empty for a switch that is on."""
    flag = "--" + name.lstrip("-").replace("_", "-").lower()
    setting = _SETTINGS.get(flag)
    if setting is None or not setting.changes(value.strip().lower()):
        return None
    return ChangedSetting(flag, setting.wanted, setting.what)


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0.0
    except ValueError:
        return False
