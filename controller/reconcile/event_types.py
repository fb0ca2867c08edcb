"""Which reasons of a scaler's conditions are a Warning event, and which are told as news.

A Warning is what does not mend itself: counts are held or nobody plans, and a person has to do something about it. All
else is Normal. Every reason stands here, so that a new one is not news by oversight.

Conditions that are absent here have no events of their own: `ScalingLimited` comes and goes in normal operation, and of
`MetricsAvailable` an outage is told after three intervals of silence (`Reporter.silence`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.api import (
    ActiveReason,
    BoundReason,
    ConditionType,
    ConflictReason,
    PriorReason,
    RetirementReason,
)
from controller.kube import EventType

_NORMAL, _WARNING = EventType.NORMAL, EventType.WARNING

EVENT_TYPES: Final[Mapping[ConditionType, Mapping[str, EventType]]] = {
    ConditionType.BOUND: {
        BoundReason.ACQUIRED: _NORMAL,
        BoundReason.SHADOW: _NORMAL,
        BoundReason.SUSPENDED: _NORMAL,
        BoundReason.TARGET_NOT_FOUND: _WARNING,
        BoundReason.TARGET_TERMINATING: _NORMAL,
        BoundReason.HELD_BY_ANOTHER_SCALER: _WARNING,
        BoundReason.DEPOSED: _WARNING,
    },
    ConditionType.CAPACITY_PRIOR_RESOLVED: {
        PriorReason.CATALOG_RESOLVED: _NORMAL,
        PriorReason.CONFIG_MAP_NOT_FOUND: _WARNING,
        PriorReason.CATALOG_INVALID: _WARNING,
        PriorReason.ROLE_IDENTITY_UNRESOLVED: _WARNING,
        PriorReason.PROFILE_NOT_FOUND: _WARNING,
        PriorReason.NO_POINT_WITHIN_LATENCY_TARGET: _WARNING,
    },
    ConditionType.SCALING_ACTIVE: {
        ActiveReason.DECIDING: _NORMAL,
        ActiveReason.SUSPENDED: _NORMAL,
        ActiveReason.INVALID_SPEC: _WARNING,
        ActiveReason.NO_CAPACITY: _WARNING,
        # At every first start, and for a moment at any time: they become a Warning when they last (`Reporter.silence`).
        ActiveReason.NO_READY_REPLICAS: _NORMAL,
        ActiveReason.METRICS_UNAVAILABLE: _NORMAL,
        ActiveReason.TARGET_UNSUPPORTED: _WARNING,
        ActiveReason.WEIGHTS_NOT_READY: _WARNING,
        ActiveReason.ROUTER_NOT_READY: _WARNING,
    },
    ConditionType.REPLICAS_CONFLICT: {
        ConflictReason.FOREIGN_WRITER: _WARNING,
        ConflictReason.RESOLVED: _NORMAL,
    },
    ConditionType.RETIREMENT_BLOCKED: {
        RetirementReason.RETIREMENT_ABORTED: _WARNING,
        RetirementReason.RETIREMENT_IN_PROGRESS: _NORMAL,
        RetirementReason.NONE: _NORMAL,
    },
}
