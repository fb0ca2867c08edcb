"""Which events are Warnings: what waits for a person, and nothing that ends by itself."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path

import pytest

from controller.api import (
    EVENTS,
    ActiveReason,
    BoundReason,
    ConditionType,
    ConflictReason,
    PriorReason,
    RetirementReason,
)
from controller.kube import EventType
from controller.reconcile.event_types import EVENT_TYPES
from tests.reconcile.harness import World
from tests.reconcile.prior_world import config_map, config_map_of, local_prior, prior_world, target

REASONS: dict[ConditionType, type[StrEnum]] = {
    ConditionType.BOUND: BoundReason,
    ConditionType.CAPACITY_PRIOR_RESOLVED: PriorReason,
    ConditionType.SCALING_ACTIVE: ActiveReason,
    ConditionType.REPLICAS_CONFLICT: ConflictReason,
    ConditionType.RETIREMENT_BLOCKED: RetirementReason,
}
ACT: list[tuple[str, str]] = [
    ("make the target, or correct its name", "Bound/TargetNotFound"),
    ("delete or suspend one of the two scalers", "Bound/HeldByAnotherScaler"),
    ("look for a second controller under another lease", "Bound/Deposed"),
    ("make the ConfigMap", "CapacityPriorResolved/ConfigMapNotFound"),
    ("mend the catalog", "CapacityPriorResolved/CatalogInvalid"),
    ("declare the identity", "CapacityPriorResolved/RoleIdentityUnresolved"),
    ("measure the profile", "CapacityPriorResolved/ProfileNotFound"),
    ("relax the target or measure lower concurrencies", "CapacityPriorResolved/NoPointWithinLatencyTarget"),
    ("correct the spec", "ScalingActive/InvalidSpec"),
    ("give a number or a prior", "ScalingActive/NoCapacity"),
    ("change the target, or do not scale it", "ScalingActive/TargetUnsupported"),
    ("look at the artifact", "ScalingActive/WeightsNotReady"),
    ("look at the router", "ScalingActive/RouterNotReady"),
    ("take the field out of the other manifest", "ReplicasConflict/ForeignWriter"),
    ("retry the retirement", "RetirementBlocked/RetirementAborted"),
]
NEWS = {
    "Bound/Acquired",
    "Bound/Shadow",
    "Bound/Suspended",  # a person did it
    "Bound/TargetTerminating",
    "CapacityPriorResolved/CatalogResolved",
    "ScalingActive/Deciding",
    "ScalingActive/Suspended",
    "ScalingActive/NoReadyReplicas",  # a Warning of its own once it lasts
    "ScalingActive/MetricsUnavailable",
    "ReplicasConflict/Resolved",
    "RetirementBlocked/RetirementInProgress",
    "RetirementBlocked/None",
}
OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.mark.parametrize("where", [a[1] for a in ACT], ids=[a[0] for a in ACT])
def test_a_reason_that_asks_a_person_to_act_is_a_warning(where: str):
    type_, _, reason = where.partition("/")
    assert EVENT_TYPES[ConditionType(type_)][reason] is EventType.WARNING


def test_what_ends_by_itself_or_was_wanted_is_news():
    assert {where for where, kind in _flat().items() if kind is EventType.NORMAL} == NEWS


def test_every_reason_of_a_condition_that_has_events_is_one_or_the_other():
    every = {f"{type_}/{reason}" for type_, reasons in REASONS.items() for reason in reasons}
    assert set(_flat()) == every == NEWS | {where for _, where in ACT}
    quiet = {ConditionType.SCALING_LIMITED, ConditionType.METRICS_AVAILABLE}
    assert set(ConditionType) - set(EVENT_TYPES) == quiet


def test_the_manual_lists_the_same_events():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", OPERATIONS.read_text(), re.MULTILINE)
    listed = {
        f"{type_}/{reason}": kind
        for type_, warnings, news in rows
        if type_ in REASONS
        for kind, cell in ((EventType.WARNING, warnings), (EventType.NORMAL, news))
        for reason in re.findall(r"`(\w+)`", cell)
    }
    assert listed == _flat()


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with prior_world(tmp_path) as made:
        yield made


async def test_a_prior_that_stops_serving_is_a_warning_and_its_recovery_news(team: World):
    target(team)
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: "ConfigMapNotFound" in team.event_reasons(), "none yet")
    config_map_of(team, "[")
    await team.until(lambda: "CatalogInvalid" in team.event_reasons(), "a broken one")
    config_map(team, "4000")
    await team.until(lambda: "CatalogResolved" in team.event_reasons(), "one that serves")
    kinds = {event["reason"]: event["type"] for event in team.server.list(EVENTS, "team")}
    assert (kinds["ConfigMapNotFound"], kinds["CatalogInvalid"], kinds["CatalogResolved"]) == (
        "Warning",
        "Warning",
        "Normal",
    )


def _flat() -> dict[str, EventType]:
    return {f"{type_}/{reason}": kind for type_, reasons in EVENT_TYPES.items() for reason, kind in reasons.items()}
