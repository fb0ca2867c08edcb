"""Conditions: what is true of an object, since when, and why.

Types and reasons are stable API; messages are for people. `Unknown` means "not observed", never a stand-in for False.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from controller.api.members import ApiStruct, Member, Time


class ConditionStatus(StrEnum):
    """The three answers of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ConditionType(StrEnum):
    """The conditions of a ModelDeploymentScaler."""

    BOUND = "Bound"
    METRICS_AVAILABLE = "MetricsAvailable"
    CAPACITY_PRIOR_RESOLVED = "CapacityPriorResolved"  # absent when no prior is asked for
    SCALING_ACTIVE = "ScalingActive"
    SCALING_LIMITED = "ScalingLimited"
    REPLICAS_CONFLICT = "ReplicasConflict"
    RETIREMENT_BLOCKED = "RetirementBlocked"


class BoundReason(StrEnum):
    """Reasons of `Bound`."""

    ACQUIRED = "Acquired"
    SHADOW = "Shadow"
    SUSPENDED = "Suspended"
    TARGET_NOT_FOUND = "TargetNotFound"
    TARGET_TERMINATING = "TargetTerminating"
    HELD_BY_ANOTHER_SCALER = "HeldByAnotherScaler"
    DEPOSED = "Deposed"


class MetricsReason(StrEnum):
    """Reasons of `MetricsAvailable`."""

    SAMPLED = "Sampled"
    PARTIAL_COVERAGE = "PartialCoverage"
    NO_READY_REPLICAS = "NoReadyReplicas"
    ALL_SCRAPES_FAILED = "AllScrapesFailed"
    STALE_SAMPLES = "StaleSamples"


class PriorReason(StrEnum):
    """Reasons of `CapacityPriorResolved`."""

    CATALOG_RESOLVED = "CatalogResolved"
    CONFIG_MAP_NOT_FOUND = "ConfigMapNotFound"
    CATALOG_INVALID = "CatalogInvalid"
    ROLE_IDENTITY_UNRESOLVED = "RoleIdentityUnresolved"
    PROFILE_NOT_FOUND = "ProfileNotFound"
    NO_POINT_WITHIN_LATENCY_TARGET = "NoPointWithinLatencyTarget"


class ActiveReason(StrEnum):
    """Reasons of `ScalingActive`."""

    DECIDING = "Deciding"
    SUSPENDED = "Suspended"
    INVALID_SPEC = "InvalidSpec"
    NO_CAPACITY = "NoCapacity"
    NO_READY_REPLICAS = "NoReadyReplicas"  # nobody to ask: at every first start, too
    METRICS_UNAVAILABLE = "MetricsUnavailable"  # Ready replicas do not answer
    TARGET_UNSUPPORTED = "TargetUnsupported"  # elastic, unmanaged or unknown roles
    WEIGHTS_NOT_READY = "WeightsNotReady"
    ROUTER_NOT_READY = "RouterNotReady"


class LimitedReason(StrEnum):
    """Reasons of `ScalingLimited`: the binding planner stage, or none."""

    WITHIN_LIMITS = "WithinLimits"
    COVERAGE = "Coverage"
    RATIO = "Ratio"
    BOUNDS = "Bounds"
    STABILIZATION = "Stabilization"
    STEP = "Step"
    CONSOLIDATION = "Consolidation"
    QUOTA = "Quota"
    SETTLING = "Settling"
    JOINT = "Joint"

    @classmethod
    def of_stage(cls, stage: str) -> LimitedReason:
        """The reason of a planner stage (`step` → `Step`). Raises ValueError for an unknown one."""
        return cls(stage[:1].upper() + stage[1:]) if stage else cls.WITHIN_LIMITS


class ConflictReason(StrEnum):
    """Reasons of `ReplicasConflict`."""

    FOREIGN_WRITER = "ForeignWriter"
    RESOLVED = "Resolved"


class RetirementReason(StrEnum):
    """Reasons of `RetirementBlocked`."""

    RETIREMENT_ABORTED = "RetirementAborted"
    RETIREMENT_IN_PROGRESS = "RetirementInProgress"
    NONE = "None"


MAX_CONDITION_MESSAGE = 32768  # metav1.Condition


class Condition(ApiStruct, frozen=True, kw_only=True):
    """metav1.Condition."""

    type: Annotated[str, Member("Type of the condition.", min_length=1, max_length=316)]
    status: Annotated[ConditionStatus, Member("True, False or Unknown. Unknown means not observed.")]
    last_transition_time: Annotated[Time | None, Member("When the status last changed.")] = None
    observed_generation: Annotated[
        int | None, Member("Generation of the object that this was observed for.", at_least=0)
    ] = None
    reason: Annotated[
        str,
        Member(
            "Why, in one CamelCase word: stable API.",
            max_length=1024,
            pattern=r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?)?$",
        ),
    ] = ""
    message: Annotated[str, Member("Details, for people.", max_length=MAX_CONDITION_MESSAGE)] = ""


def find_condition(conditions: Iterable[Condition] | None, type_: str) -> Condition | None:
    """The condition of a type, None where it is absent."""
    return next((condition for condition in conditions or () if condition.type == type_), None)


def set_condition(conditions: Iterable[Condition], new: Condition, now: float) -> tuple[Condition, ...]:
    """`conditions` with `new` in its place: its transition time is `now` when the status changed, else the old one.
    Conditions keep their order; a new type goes to the end."""
    kept = tuple(conditions)
    old = find_condition(kept, new.type)
    unchanged = old is not None and old.status == new.status and old.last_transition_time is not None
    stamped = Condition(
        type=new.type,
        status=new.status,
        last_transition_time=old.last_transition_time if old is not None and unchanged else now,
        observed_generation=new.observed_generation,
        reason=new.reason,
        message=new.message[:MAX_CONDITION_MESSAGE],
    )
    if old is None:
        return (*kept, stamped)
    return tuple(stamped if condition.type == new.type else condition for condition in kept)


def drop_condition(conditions: Iterable[Condition], type_: str) -> tuple[Condition, ...]:
    """`conditions` without a type: for one that no longer applies."""
    return tuple(condition for condition in conditions if condition.type != type_)
