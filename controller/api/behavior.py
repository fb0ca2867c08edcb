"""How fast counts may change: `spec.behavior`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from controller.api.contract import MAX_REPLICAS
from controller.api.limits import MAX_WINDOW_SECONDS
from controller.api.members import ApiStruct, Member


class PolicyType(StrEnum):
    """What the value of a scaling policy counts."""

    REPLICAS = "Replicas"
    PERCENT = "Percent"


class PolicySelect(StrEnum):
    """Which of several policies holds."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class ScalingPolicy(ApiStruct, frozen=True, kw_only=True):
    """How much a role may change within a period."""

    type: Annotated[PolicyType, Member("Replicas: a count. Percent: of the count at the start of the period.")]
    value: Annotated[int, Member("Replicas, or percent.", at_least=1, at_most=100_000)]
    period_seconds: Annotated[int, Member("Length of the period.", at_least=1, at_most=1800)]


class ScaleUp(ApiStruct, frozen=True, kw_only=True):
    """How fast a role may grow."""

    stabilization_window_seconds: Annotated[
        int, Member("Growth waits until recommended this long.", at_least=0, at_most=MAX_WINDOW_SECONDS)
    ] = 0
    max_step_replicas: Annotated[
        int | None, Member("The most replicas added in one step.", at_least=1, at_most=MAX_REPLICAS)
    ] = None
    policies: Annotated[tuple[ScalingPolicy, ...], Member("Limits per period.", max_items=8)] = ()
    select_policy: Annotated[
        PolicySelect, Member("Which policy holds: Max the most permissive, Min the strictest, Disabled: no growth.")
    ] = PolicySelect.MAX


class ScaleDown(ApiStruct, frozen=True, kw_only=True):
    """How fast a role may shrink."""

    stabilization_window_seconds: Annotated[
        int,
        Member("A shrink goes no lower than any recommendation this recent.", at_least=0, at_most=MAX_WINDOW_SECONDS),
    ] = 300
    max_step_replicas: Annotated[
        int | None, Member("The most replicas removed in one step.", at_least=1, at_most=MAX_REPLICAS)
    ] = None
    policies: Annotated[tuple[ScalingPolicy, ...], Member("Limits per period.", max_items=8)] = ()
    select_policy: Annotated[
        PolicySelect, Member("Which policy holds: Max the most permissive, Min the strictest, Disabled: no shrinking.")
    ] = PolicySelect.MAX


class Behavior(ApiStruct, frozen=True, kw_only=True):
    """How fast counts may change."""

    scale_up: Annotated[ScaleUp, Member("How fast a role may grow.")] = msgspec.field(default_factory=ScaleUp)
    scale_down: Annotated[ScaleDown, Member("How fast a role may shrink.")] = msgspec.field(default_factory=ScaleDown)
