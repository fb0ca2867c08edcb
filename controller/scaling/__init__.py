"""From engine metrics to replica counts: samples, windows, algorithms, planner, memory and the record that explains
it.

Pure: nothing here reads a clock, a file or a socket. `decide` is the whole of it; see `types` for its five arguments
and its result, `state` for what it remembers.
"""

from controller.scaling.decide import decide
from controller.scaling.state import PersistedRole, State, initial_state, persist, restore
from controller.scaling.types import (
    Algorithm,
    Behavior,
    Capacity,
    Decision,
    DecisionSpec,
    DirectionBehavior,
    Histogram,
    Member,
    MemberReading,
    Metric,
    MetricsStatus,
    Observation,
    Observed,
    PolicyType,
    Proportional,
    RatioSpec,
    RoleCapacity,
    RoleDecision,
    RoleKind,
    RoleObservation,
    RoleSpec,
    ScalingPolicy,
    SelectPolicy,
    Stage,
    StageRecord,
    TokenThroughput,
)

__all__ = [
    "Algorithm",
    "Behavior",
    "Capacity",
    "Decision",
    "DecisionSpec",
    "DirectionBehavior",
    "Histogram",
    "Member",
    "MemberReading",
    "Metric",
    "MetricsStatus",
    "Observation",
    "Observed",
    "PersistedRole",
    "PolicyType",
    "Proportional",
    "RatioSpec",
    "RoleCapacity",
    "RoleDecision",
    "RoleKind",
    "RoleObservation",
    "RoleSpec",
    "ScalingPolicy",
    "SelectPolicy",
    "Stage",
    "StageRecord",
    "State",
    "TokenThroughput",
    "decide",
    "initial_state",
    "persist",
    "restore",
]
