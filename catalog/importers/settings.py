"""Settings of the engine that stand in a result: the overrides of a sweep, a server's own account of its arguments, the
arguments in a report.

They say what was measured better than any name does. A setting that no identity states makes the run another engine's
(`engine_settings`); degrees and quantization go into the identity, where they must agree with what a person states.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from catalog.engine_settings import changed_setting
from catalog.identity import MAX_DEGREE, Quantization
from catalog.importers.rules import Refused, Rule
from catalog.quantization import quantization_of_flag

_DEGREES: Final = {
    **dict.fromkeys(("tensor_parallel_size", "tp", "tp_size"), "tp"),
    **dict.fromkeys(("pipeline_parallel_size", "pp", "pp_size"), "pp"),
    **dict.fromkeys(("data_parallel_size", "dp", "dp_size"), "dp"),
    **dict.fromkeys(("expert_parallel_size", "ep_size"), "ep"),
}
_SPECULATIVE: Final = frozenset(
    (
        *("speculative_config", "sc", "speculative_model", "num_speculative_tokens"),
        *("speculative_algorithm", "speculative_algo"),
    )
)
_OFF: Final = ("", "0", "none", "null", "false", "{}", "[]")


def settings_of(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, value as text) of what may be a setting: the name without dashes in front, with underscores, and without
    the member of a dotted one. None is no value, and neither is a list of measurements."""
    for key, value in record.items():
        name = str(key).lstrip("-").replace("-", "_").partition(".")[0].lower()
        if isinstance(value, str | bool | int | float):
            yield name, str(value).lower() if isinstance(value, bool) else str(value)
        elif isinstance(value, Mapping | list) and name in (*_SPECULATIVE, "lora_paths"):
            yield name, json.dumps(value, default=str)


def refuse_other_engine(settings: Mapping[str, Any]) -> None:
    """Raises Refused where the engine decoded speculatively or had a setting that no identity states."""
    for name, value in settings_of(settings):
        if name in _SPECULATIVE and value.strip().lower() not in _OFF:
            raise Refused(Rule.SPECULATIVE, f"the engine was started with --{name.replace('_', '-')}")
        changed = changed_setting(name, value)
        if changed is not None:
            raise Refused(
                Rule.ENGINE_SETTING,
                f"the run had {changed.what} ({changed.name}), which no identity states: measure with "
                f"{changed.wanted}, or state the capacity of such a role in the scaler",
            )


def degrees_of_settings(settings: Mapping[str, Any]) -> dict[str, int]:
    """The parallel degrees among settings; what is no degree is left to the rules of the tool."""
    degrees: dict[str, int] = {}
    experts = False
    for name, value in settings_of(settings):
        degree = _DEGREES.get(name)
        if degree and value.isascii() and value.isdigit() and len(value) <= 5 and 1 <= int(value) <= MAX_DEGREE:
            degrees[degree] = int(value)
        experts = experts or (name == "enable_expert_parallel" and value in ("true", "1"))
    if experts and "tp" in degrees:
        # vLLM spreads the experts over all tensor- and data-parallel ranks.
        degrees["ep"] = degrees["tp"] * degrees.get("dp", 1)
    return degrees


def quantization_of_settings(settings: Mapping[str, Any]) -> Quantization | None:
    """The quantization among settings, None where none is stated or its name leaves the bits open."""
    for name, value in settings_of(settings):
        if name in ("quantization", "q"):
            return quantization_of_flag(value)
    return None
