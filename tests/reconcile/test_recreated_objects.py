"""Another object under the same name is another object: nothing learnt about the first one holds for it."""

from __future__ import annotations

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, PODS
from controller.wiring import Controller
from tests.reconcile.harness import World

STABLE_WINDOW = 20.0


async def _nearly_shrunk(team: World, controller: str) -> Controller:
    """A target of three whose load fell nearly a scale-down window ago."""
    engine = await team.loaded()
    running = await team.controller(controller)
    await team.until(lambda: team.count() == 3, "grown")
    await team.ticks(6)
    engine.load(300, 100)
    await team.until(lambda: team.status().roles[0].raw_recommended_replicas == 1, "one would do")
    return running


async def _recreate(team: World) -> float:
    """The same target again; the model time of its creation."""
    team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    team.server.delete(PODS, "chat-server-0", "team")
    team.target(replicas=3)
    created = team.clock.now()
    (await team.replica(0)).load(300, 100)
    return created


async def test_a_recreated_target_is_sampled_for_a_whole_window_before_it_shrinks(team: World):
    await _nearly_shrunk(team, "first")
    created = await _recreate(team)
    await team.until(lambda: team.count() == 1, "shrunk in the end")
    assert team.clock.now() - created >= STABLE_WINDOW


async def test_the_pauses_of_a_target_that_is_gone_do_not_hold_up_the_next_one(team: World):
    await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown, and nobody has a place for the two new ones")
    await team.until(lambda: team.status().roles[0].settling is not None, "noticed")
    team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    team.server.delete(PODS, "chat-server-0", "team")
    team.target()
    (await team.replica(0)).load(1800, 600)
    await team.until(lambda: team.count() == 3, "the new one is raised at once")


async def test_the_pauses_of_a_target_that_is_gone_hold_up_no_later_process_either(team: World):
    pause = 200.0
    (await team.loaded()).load(1800, 600)
    sampling = {"intervalSeconds": 5, "pendingTimeoutSeconds": int(pause)}
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(sampling=sampling))
    first = await team.controller("first")
    await team.until(lambda: team.counts() == [1, 3, 1], "grown, not admitted and taken back")
    await team.stop_controller(first)
    team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    team.server.delete(PODS, "chat-server-0", "team")
    team.target()
    created = team.clock.now()
    (await team.replica(0)).load(1800, 600)
    await team.controller("second")
    await team.until(lambda: team.count() == 3, "the new one is raised at once")
    assert team.clock.now() - created < pause / 2


async def test_a_target_recreated_while_no_controller_ran_is_sampled_for_a_whole_window_too(team: World):
    await team.stop_controller(await _nearly_shrunk(team, "first"))
    await _recreate(team)
    started = team.clock.now()
    await team.controller("second")
    await team.until(lambda: team.count() == 1, "shrunk in the end")
    assert team.clock.now() - started >= STABLE_WINDOW
    assert team.status().binding.target_uid == team.server.get(MODEL_DEPLOYMENTS, "chat", "team")["metadata"]["uid"]


async def test_who_was_deposed_at_a_target_that_is_gone_claims_the_next_one(team: World):
    await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    term = {"scaling.worker.gpustack.ai/term": "9"}
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["metadata"]["annotations"].update(term))
    await team.until(lambda: team.reason("Bound") == "Deposed", "another process leads")
    await _recreate(team)
    await team.until(lambda: team.annotations().get("bound-by"), "bound anew")


async def test_a_recreated_scaler_claims_anew_and_starts_without_memory(team: World):
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await team.until(lambda: team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None, "gone")
    engine.load(300, 100)
    made = team.scaler()
    created = team.clock.now()
    await team.until(lambda: team.annotations().get("bound-by") == f"chat/{made['metadata']['uid']}", "bound anew")
    assert team.annotations()["term"] == "2"
    await team.until(lambda: team.count() == 1, "shrunk in the end")
    assert team.clock.now() - created >= STABLE_WINDOW
