"""Conditions: stable reasons, and a transition time that tells when the status changed."""

from __future__ import annotations

import re

import pytest

from controller.api import (
    ActiveReason,
    BoundReason,
    Condition,
    ConditionStatus,
    ConditionType,
    ConflictReason,
    LimitedReason,
    MetricsReason,
    PriorReason,
    RetirementReason,
    drop_condition,
    find_condition,
    set_condition,
)

REASONS = {
    "Bound": "Acquired Shadow Suspended TargetNotFound TargetTerminating HeldByAnotherScaler Deposed",
    "MetricsAvailable": "Sampled PartialCoverage NoReadyReplicas AllScrapesFailed StaleSamples",
    "CapacityPriorResolved": "CatalogResolved ConfigMapNotFound CatalogInvalid RoleIdentityUnresolved ProfileNotFound "
    "NoPointWithinLatencyTarget",
    "ScalingActive": "Deciding Suspended InvalidSpec NoCapacity NoReadyReplicas MetricsUnavailable TargetUnsupported "
    "WeightsNotReady RouterNotReady",
    "ReplicasConflict": "ForeignWriter Resolved",
    "RetirementBlocked": "RetirementAborted RetirementInProgress None",
}
ENUMS = {
    "Bound": BoundReason,
    "MetricsAvailable": MetricsReason,
    "CapacityPriorResolved": PriorReason,
    "ScalingActive": ActiveReason,
    "ReplicasConflict": ConflictReason,
    "RetirementBlocked": RetirementReason,
}
STAGES = ["coverage", "ratio", "bounds", "stabilization", "step", "consolidation", "quota", "settling", "joint"]


def bound(status=ConditionStatus.TRUE, reason=BoundReason.ACQUIRED, **changes):
    return Condition(type=ConditionType.BOUND, status=status, reason=reason, **changes)


@pytest.mark.parametrize("type_", REASONS)
def test_reasons_are_those_of_the_stable_api(type_):
    assert [str(reason) for reason in ENUMS[type_]] == REASONS[type_].split()


def test_every_planner_stage_is_a_reason_of_scaling_limited():
    assert [LimitedReason.of_stage(stage) for stage in STAGES] == list(LimitedReason)[1:]
    assert LimitedReason.of_stage("") is LimitedReason.WITHIN_LIMITS
    with pytest.raises(ValueError, match="Whim"):
        LimitedReason.of_stage("whim")


def test_types_are_those_of_the_stable_api():
    assert {str(type_) for type_ in ConditionType} == {*REASONS, "ScalingLimited"}


def test_reasons_match_the_pattern_that_kubernetes_asks_for():
    pattern = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    for reasons in (*ENUMS.values(), LimitedReason):
        assert all(pattern.match(reason) for reason in reasons)


def test_the_transition_time_moves_only_with_the_status():
    conditions = set_condition((), bound(), now=100.0)
    assert conditions[0].last_transition_time == 100.0
    conditions = set_condition(conditions, bound(message="again", observed_generation=2), now=200.0)
    assert (conditions[0].last_transition_time, conditions[0].message, conditions[0].observed_generation) == (
        100.0,
        "again",
        2,
    )
    conditions = set_condition(conditions, bound(ConditionStatus.FALSE, BoundReason.DEPOSED), now=300.0)
    assert (conditions[0].last_transition_time, conditions[0].reason) == (300.0, "Deposed")


def test_a_condition_whose_time_was_lost_gets_one():
    assert set_condition((bound(),), bound(), now=5.0)[0].last_transition_time == 5.0


def test_conditions_keep_their_order():
    conditions = set_condition((), bound(), now=1.0)
    conditions = set_condition(conditions, Condition(type="ScalingActive", status=ConditionStatus.TRUE), now=1.0)
    conditions = set_condition(conditions, bound(ConditionStatus.FALSE), now=2.0)
    assert [condition.type for condition in conditions] == ["Bound", "ScalingActive"]
    assert find_condition(conditions, "Bound").status is ConditionStatus.FALSE
    assert drop_condition(conditions, "Bound") == conditions[1:]
    assert find_condition(conditions[1:], "Bound") is None
    assert find_condition(None, "Bound") is None


def test_a_message_longer_than_kubernetes_takes_is_cut():
    assert len(set_condition((), bound(message="x" * 50_000), now=1.0)[0].message) == 32768
