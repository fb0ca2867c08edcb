"""Which tokens count: the demand of a role is in the unit that its capacity was measured in.

| kind    | tokens                                              | why                                    |
|---------|-----------------------------------------------------|----------------------------------------|
| Server  | prompt not served from the prefix cache, generation | catalogs are measured all-miss         |
| Prefill | prompt not served from the prefix cache             | it generates one token a request       |
| Decode  | generation                                          | it repeats the prompt counts of prefill |
| Encode  | none                                                | it follows a ratio, or its requests    |
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from controller.scaling.samples import Increase
from controller.scaling.types import RoleKind

Count = Callable[[Increase], float | None]


def demand_of(kind: RoleKind, prompt_weight: float) -> Count:
    """How to count the demand of a role in what its members did: tokens, or None where a part of them is unknown.

    A prompt token of a Server counts `prompt_weight` generated ones.
    """

    def both(increase: Increase) -> float | None:
        prompt, generation = increase.computed_prompt_tokens, increase.generation_tokens
        return None if prompt is None or generation is None else prompt_weight * prompt + generation

    match kind:
        case RoleKind.SERVER:
            return both
        case RoleKind.PREFILL:
            return attrgetter("computed_prompt_tokens")
        case RoleKind.DECODE:
            return attrgetter("generation_tokens")
        case RoleKind.ENCODE:
            return _nothing


def _nothing(_: Increase) -> None:
    return None
