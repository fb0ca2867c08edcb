"""Which tokens count: the demand of a role is in the unit that its capacity was measured in.

| kind    | tokens                                              | why                                    |
|---------|-----------------------------------------------------|----------------------------------------|
| Server  | prompt not served from the prefix cache, generation | catalogs are measured all-miss         |
| Prefill | prompt not served from the prefix cache             | it generates one token a request       |
| Decode  | generation                                          | it repeats the prompt counts of prefill |
| Encode  | none                                                | it follows a ratio, or its requests    |
"""

from __future__ import annotations

from controller.scaling.samples import MemberSample
from controller.scaling.types import RoleKind


def demand_tokens(kind: RoleKind, prompt_weight: float, seen: MemberSample) -> float | None:
    """The tokens of one member's interval that count; None where it has no interval, or a part of them is unknown.

    A prompt token of a Server counts `prompt_weight` generated ones.
    """
    if not seen.elapsed_seconds > 0.0:
        return None
    if kind is RoleKind.DECODE:
        return seen.generation_tokens
    if kind is RoleKind.ENCODE or seen.computed_prompt_tokens is None:
        return None
    if kind is RoleKind.PREFILL:
        return seen.computed_prompt_tokens
    if seen.generation_tokens is None:
        return None
    return prompt_weight * seen.computed_prompt_tokens + seen.generation_tokens
