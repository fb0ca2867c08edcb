"""Raises that nobody has a place for, starts that take long, and Ready replicas that no request reaches yet."""

from __future__ import annotations

from typing import Any

from controller.api import MODEL_DEPLOYMENTS, PODS, scaler_crd
from controller.planning import read_records
from controller.wiring import Controller
from tests.reconcile.harness import World

TIMEOUT = 60.0
INTERVAL = 5.0
# Kueue parks what was not admitted for so long (reference §8), and nothing takes it back but a person.
PARKED_AFTER_SECONDS = 1800


def _records(team: World) -> list[Any]:
    path = team.directory / "records" / "team_chat.jsonl"
    with path.open("rb") as lines:
        return list(read_records(lines, str(path)))


async def _growing(team: World, **status: Any) -> Controller:
    """A target of one whose scaler wants three and takes back what is not admitted within a minute."""
    team.target(**status)
    (await team.replica(0)).load(1800, 600)
    team.scaler(sampling={"intervalSeconds": int(INTERVAL), "pendingTimeoutSeconds": int(TIMEOUT)})
    controller = await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    return controller


async def test_a_quota_shortfall_is_told_in_figures_taken_back_and_tried_again_later_and_later(team: World):
    await _growing(team)
    await team.until(lambda: team.status().roles[0].quota is not None, "noticed")
    quota = team.status().roles[0].quota
    assert (quota.asked, quota.granted, quota.missing) == (3, 1, 2)
    pauses = []
    for attempt in range(1, 4):
        await team.until(lambda: team.count() == 1, f"taken back {attempt}")
        taken_back = team.clock.now()
        await team.until(lambda: team.status().roles[0].quota is None, "nothing is missing")
        assert team.status().roles[0].settling.pauses == attempt
        if attempt < 3:
            await team.until(lambda: team.count() == 3, f"tried again {attempt}")
            pauses.append(team.clock.now() - taken_back)
    assert [pause >= TIMEOUT * 2**number - INTERVAL for number, pause in enumerate(pauses)] == [True, True]
    team.audit()


async def test_the_pause_after_a_raise_was_taken_back_outlasts_the_process(team: World):
    first = await _growing(team)
    await team.until(lambda: team.count() == 1, "taken back")
    taken_back = team.clock.now()
    await team.until(lambda: team.status().roles[0].quota is None, "nothing is missing")
    await team.stop_controller(first)
    await team.controller("second")
    await team.until(lambda: team.count() == 3, "tried again")
    assert team.clock.now() - taken_back >= TIMEOUT - INTERVAL


async def test_quota_that_the_operator_has_not_reserved_is_missing_though_the_pods_have_nodes(team: World):
    await _growing(team, roles=[{"name": "server", "quotaReserved": 1}])
    for ordinal in (1, 2):
        await team.replica(ordinal, ready=False)
    await team.until(lambda: team.status().roles[0].quota is not None, "noticed")
    assert team.status().roles[0].quota.missing == 2
    await team.until(lambda: team.count() == 1, "taken back all the same")


async def test_a_slow_start_is_never_rolled_back(team: World):
    await _growing(team)
    for ordinal in (1, 2):
        await team.replica(ordinal, ready=False)
    await team.until(lambda: team.status().roles[0].starting_replicas == 2, "they load")
    await team.quiet(8 * TIMEOUT)
    assert team.count() == 3
    assert team.status().roles[0].quota is None
    assert team.counts() == [1, 3]


def test_the_longest_timeout_and_interval_end_well_before_the_operator_parks_a_replica():
    schema = scaler_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    sampling = schema["properties"]["spec"]["properties"]["sampling"]["properties"]
    longest = sampling["pendingTimeoutSeconds"]["maximum"] + sampling["intervalSeconds"]["maximum"]
    assert longest <= PARKED_AFTER_SECONDS * 5 / 6


# ---- what the target has to settle first ----------------------------------------------------------------------------


async def test_while_the_weights_are_not_ready_it_recommends_and_writes_nothing(team: World):
    team.target(conditions=[{"type": "WeightsReady", "status": "False", "reason": "Downloading", "message": "40 %"}])
    (await team.replica(0)).load(1800, 600)
    team.scaler()
    await team.controller()
    await team.until(lambda: team.reason("ScalingActive") == "WeightsNotReady", "seen")
    await team.until(lambda: team.status().roles[0].recommended_replicas == 3, "recommended")
    await team.ticks(3)
    assert team.count() == 1
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["status"].update(conditions=[]), "operator")
    await team.until(lambda: team.count() == 3, "written once they are")


async def test_a_target_that_is_being_deleted_is_left_alone(team: World):
    await _growing(team)
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["metadata"].update(finalizers=["example.com/wait"]))
    team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await team.until(lambda: team.reason("Bound") == "TargetTerminating", "seen")
    states = len(team.states())
    team.engines[0].load(36_000, 12_000)
    await team.quiet(60)
    assert len(team.states()) == states
    assert team.count() == 3


# ---- who is listed ---------------------------------------------------------------------------------------------------


def _listed(team: World, number: int | None, state: str = "Confirmed") -> None:
    serving = {"state": state} | ({} if number is None else {"value": number})

    def change(obj: dict[str, Any]) -> None:
        obj["status"] = {"roles": [{"name": "server", "endpoints": {"serving": serving}}]}

    team.edit(MODEL_DEPLOYMENTS, "chat", change, "operator")


async def test_a_ready_replica_is_on_its_way_until_the_router_lists_it(team: World):
    await _growing(team)
    _listed(team, 1)
    for ordinal in (1, 2):
        (await team.replica(ordinal)).load(0, 0)
    await team.until(lambda: team.status().roles[0].unlisted_replicas == 2, "they wait to be listed")
    seen = _records(team)[-1].observation.roles[0]
    assert (seen.ready_replicas, seen.starting_replicas) == (1, 2)
    assert team.status().roles[0].ready_replicas == 3, "Ready they are, for people"
    assert team.count() == 3
    _listed(team, 3)
    await team.until(lambda: team.status().roles[0].unlisted_replicas == 0, "now they serve")


async def test_a_count_does_not_fall_onto_a_replica_that_the_router_does_not_list(team: World):
    await _growing(team)
    second, third = await team.replica(1), await team.replica(2)
    second.load(0, 0)
    third.load(0, 0)
    _listed(team, 3)
    await team.until(lambda: team.status().roles[0].ready_replicas == 3, "all serve")
    # The first one is replaced: Ready again, and not listed yet. The others take over, or the load would be gone while it
    # is away, and on a slow machine that is long enough for one replica to be all that is needed.
    _listed(team, 2)
    second.load(1200, 400)
    team.server.delete(PODS, "chat-server-0", "team")
    (await team.replica(0)).load(0, 0)
    await team.until(lambda: team.status().roles[0].unlisted_replicas == 1, "it waits to be listed")
    await team.until(lambda: team.status().roles[0].recommended_replicas == 2, "two would do")
    await team.ticks(4)
    assert team.count() == 3
    note = next(c.message for c in team.status().conditions if c.type == "RetirementBlocked")
    assert "do not serve yet" in note
    _listed(team, 3)
    await team.until(lambda: team.count() == 2, "lowered once it serves")
    team.audit()


async def test_a_router_that_lists_nobody_shrinks_nothing(team: World):
    await _growing(team)
    for ordinal in (1, 2):
        (await team.replica(ordinal)).load(0, 0)
    await team.until(lambda: team.status().roles[0].ready_replicas == 3, "all are Ready")
    _listed(team, 0)
    await team.until(lambda: team.status().roles[0].unlisted_replicas == 3, "seen")
    await team.quiet(4 * TIMEOUT)
    assert team.count() == 3
    _listed(team, None, "Unknown")
    await team.until(lambda: team.status().roles[0].unlisted_replicas == 0, "unknown is not zero")
    assert team.count() == 3
