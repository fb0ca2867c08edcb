"""A controller dies between any two of its writes; the next one goes on from what is stored."""

from __future__ import annotations

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from controller.embedded.apiserver.faults import Delay, Drop, LoseResponse
from tests.reconcile.harness import World

FIRST = "model-deployment-scaler/first"
# Finalizer, claim, status, counts, and what follows.
WRITES = 6


@pytest.mark.parametrize("last", [Drop(), LoseResponse()], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, WRITES + 1))
async def test_killed_at_its_nth_write_it_leaves_nothing_that_the_next_one_cannot_take_over(
    team: World, number: int, last
):
    engine = await team.loaded()
    dying = team.faults.add(last, verb="patch", user_agent=FIRST, nth=number)
    team.faults.add(Drop(), verb="patch", user_agent=FIRST, nth=number + 1, times=None)
    first = await team.controller("first")
    await team.until(lambda: dying.fired, "it dies")
    terms = int(team.annotations().get("term", "0"))
    await team.controller("second")
    await team.until(lambda: team.count() >= 3, "the next one grows it")
    await team.until(lambda: int(team.annotations()["term"]) > terms, "under a higher term")
    engine.load(300, 100)
    await team.until(lambda: team.count() == 1, "and shrinks it")
    counts = team.counts()
    peak = counts.index(max(counts))
    assert counts == sorted(counts[:peak]) + sorted(counts[peak:], reverse=True), "up once, and down once"
    assert team.status().binding.term == int(team.annotations()["term"])
    team.audit()
    team.faults.clear()
    await team.stop_controller(first)


async def test_killed_between_the_memory_and_the_shrink_the_next_one_waits_for_its_own_samples(team: World):
    engine = await team.loaded()
    first = await team.controller("first")
    await team.until(lambda: team.count() == 3, "grown")
    team.faults.add(Drop(), verb="patch", resource="modeldeployments", user_agent=FIRST, times=None)
    engine.load(300, 100)
    await team.until(lambda: team.status().summary.desired == "server=1", "the shrink is stored and not made")
    started = team.clock.now()
    await team.controller("second")
    await team.until(lambda: team.count() == 1, "made by the next one")
    assert team.clock.now() - started >= 20  # one stable window
    team.audit()
    team.faults.clear()
    await team.stop_controller(first)


async def test_a_count_write_that_was_held_up_until_the_next_leader_came_is_refused(team: World):
    await team.loaded()
    # Claim, then counts: the second patch of the target waits until the next leader has raised the term and written its own.
    team.faults.add(Delay(2.0), verb="patch", resource="modeldeployments", user_agent=FIRST, nth=2)
    await team.controller("first")
    await team.until(lambda: team.annotations().get("term") == "1", "claimed")
    await team.until(lambda: team.status().summary and team.status().summary.desired == "server=3", "about to write")
    await team.controller("second")
    await team.until(lambda: team.annotations()["term"] == "2", "the next leader has it")
    await team.until(lambda: team.count() == 3, "and grows it")
    assert team.answers("patch", "modeldeployments", FIRST) == [200], "the first one's counts are still on their way"
    await team.until(lambda: len(team.answers("patch", "modeldeployments", FIRST)) > 1, "they arrive")
    assert team.answers("patch", "modeldeployments", FIRST) == [200, 422]
    await team.quiet(100)
    assert team.counts() == [1, 3]
    assert team.annotations()["term"] == "2", "whoever was overtaken never raises again"
    team.audit()


async def test_a_target_and_a_scaler_restored_from_a_backup_are_bound_anew_above_all_that_was(team: World):
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations() and team.status().binding, "bound")
    backup = [team.server.get(resource, "chat", "team") for resource in (MODEL_DEPLOYMENTS, MODEL_DEPLOYMENT_SCALERS)]
    await team.until(lambda: team.count() == 3, "grown")
    for term in ("7", "8"):
        team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=True))
        await team.until(lambda: "bound-by" not in team.annotations(), "given back")
        team.edit(
            MODEL_DEPLOYMENTS,
            "chat",
            lambda obj, term=term: obj["metadata"]["annotations"].update({"scaling.worker.gpustack.ai/term": term}),
        )
        team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=False))
        await team.until(lambda: "bound-by" in team.annotations(), "bound again")
    highest = int(team.annotations()["term"])
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj.update(backup[0]))
    engine.load(36_000, 12_000)
    await team.until(lambda: team.count() == 5, "grown")
    assert int(team.annotations()["term"]) > highest
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj.update(backup[1]))
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj.update(backup[0]))
    await team.until(lambda: team.count() == 5, "and again")
    assert int(team.annotations()["term"]) > highest
