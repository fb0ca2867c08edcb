"""A prior that does not describe its replicas is told of once it lasts, and is never corrected in silence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from catalog import RolePrior, ScalerPriors
from controller.api import EVENTS, PriorReason, find_condition
from controller.reconcile.drift import Drift, DriftState, drifts
from controller.scaling import Decision, RoleDecision
from tests.reconcile.harness import World
from tests.reconcile.prior_world import catalog_of, config_map_of, local_prior, prior_world, target

WINDOW = 180.0
CAPACITY = SimpleNamespace()  # some capacity; what it is does not matter
RESOLVED = ScalerPriors(
    True, PriorReason.CATALOG_RESOLVED, "", (RolePrior("server", PriorReason.CATALOG_RESOLVED, "", capacity=CAPACITY),)
)
UNRESOLVED = ScalerPriors(
    False, PriorReason.PROFILE_NOT_FOUND, "", (RolePrior("server", PriorReason.PROFILE_NOT_FOUND, ""),)
)


def _decision(now: float, factor: float | None) -> Decision:
    role = RoleDecision(name="server", current=1, raw=1, desired=1, limited_by=None, capacity_factor=factor)
    return Decision(now=now, roles=(role,))


S, D, R = DriftState.SUSPECTED, DriftState.DRIFTED, DriftState.RECOVERING

#    sentence, (seconds, κ) … → states after each
WALKS = [
    ("inside the band there is nothing", [(0, 0.7), (60, 1.0), (120, 1.4)], [None, None, None]),
    ("too slow for a window", [(0, 0.69), (100, 0.5), (180, 0.6)], [S, S, D]),
    ("too fast for a window", [(0, 1.41), (180, 2.9)], [S, D]),
    ("back inside before the window is over", [(0, 0.5), (170, 0.8), (180, 0.5), (350, 0.5)], [S, None, S, S]),
    ("inside again for a window", [(0, 0.5), (180, 0.5), (190, 0.9), (370, 0.9)], [S, D, R, None]),
    ("inside again for a moment", [(0, 0.5), (180, 0.5), (190, 0.9), (200, 0.5), (300, 0.9)], [S, D, R, D, R]),
    ("nothing measured any more", [(0, 0.5), (180, 0.5), (190, None), (200, 0.5)], [S, D, None, S]),
    ("a clock that is set back", [(1000, 0.5), (0, 0.5), (180, 0.5)], [S, S, D]),
]  # fmt: skip


@pytest.mark.parametrize(("walk", "expected"), [c[1:] for c in WALKS], ids=[c[0] for c in WALKS])
def test_the_alarm_needs_a_stable_window_both_ways(walk, expected):
    known: dict[str, Drift] = {}
    seen = []
    for now, factor in walk:
        known = drifts(known, _decision(now, factor), RESOLVED, WINDOW)
        seen.append(known["server"].state if known else None)
    assert seen == expected


def test_a_role_without_a_resolved_prior_has_no_drift():
    assert drifts({}, _decision(0, 0.1), None, WINDOW) == {}
    assert drifts({"server": Drift(D, 0.0, 0.1)}, _decision(9, 0.1), UNRESOLVED, WINDOW) == {}


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with prior_world(tmp_path) as made:
        target(made)
        yield made


def _notes(team: World, reason: str) -> list[str]:
    return [event["note"] for event in team.server.list(EVENTS, "team") if event["reason"] == reason]


def _message(team: World) -> str:
    condition = find_condition(team.status().conditions, "CapacityPriorResolved")
    return "" if condition is None else condition.message


async def test_replicas_slower_than_their_prior_are_told_of_and_the_number_stays(team: World):
    # Four requests run on the replica; the prior gives 1,333 tokens/s for that, the engine 600.
    config_map_of(team, catalog_of({2: "1000", 8: "2000"}))
    (await team.replica(0)).load(450, 150)
    team.scaler(algorithm=local_prior())
    controller = await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == "CatalogResolved", "resolved")
    assert "serves" not in _message(team)
    await team.until(lambda: _notes(team, "CapacityPriorDrifted"), "told")
    (note,) = _notes(team, "CapacityPriorDrifted")
    assert note.startswith("role server serves 0.")
    assert "nothing is corrected" in note
    await team.until(lambda: "of what its prior says at the same concurrency" in _message(team), "in the condition")
    assert team.reason("CapacityPriorResolved") == "CatalogResolved"
    capacity = team.status().roles[0].capacity
    assert float(capacity.measured_factor) < 0.7
    assert str(capacity.effective_tokens_per_second) == "1500"
    metrics = controller._reconciler._metrics
    assert metrics.drifted.labels("team", "chat", "server")._value.get() == 1
    assert metrics.capacity_factor.labels("team", "chat", "server")._value.get() < 0.7
    await team.ticks(10)
    assert len(_notes(team, "CapacityPriorDrifted")) == 1
    assert team.count() == 1

    config_map_of(team, catalog_of({2: "450", 8: "900"}))  # measured again
    await team.until(lambda: _notes(team, "CapacityPriorAgrees"), "over")
    await team.until(lambda: "same concurrency" not in _message(team), "out of the condition")
    assert metrics.drifted.labels("team", "chat", "server")._value.get() == 0
