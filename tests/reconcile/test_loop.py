"""The whole loop against a real HTTP API server and real metrics endpoints."""

from __future__ import annotations

import pytest

from controller.api import EVENTS, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, PODS
from tests.reconcile.harness import World


async def test_an_active_scaler_grows_its_target_to_the_load_and_shrinks_it_again(team: World):
    team.target()
    engine = await team.replica(0)
    engine.load(1800, 600)
    team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "2,400 tokens/s need three replicas of 1,000")
    assert team.annotations()["written"] == "server=3"
    engine.load(300, 100)
    await team.until(lambda: team.count() == 1, "400 tokens/s need one")
    assert team.counts()[0] == 1
    assert team.counts()[-1] == 1
    assert {"Rescaled"} <= team.event_reasons()


async def test_a_shadow_scaler_recommends_and_writes_nothing(team: World):
    team.target()
    (await team.replica(0)).load(1800, 600)
    team.scaler(mode="Shadow")
    await team.controller()
    await team.until(lambda: team.status().summary and team.status().summary.desired == "server=3", "recommends 3")
    assert team.reason("Bound") == "Shadow"
    assert len(team.server.history(MODEL_DEPLOYMENTS, "chat", "team")) == 1


async def test_bad_objects_get_their_findings_and_cost_the_good_ones_nothing(team: World):
    team.target()
    (await team.replica(0)).load(1800, 600)
    team.scaler("bad", roles=[{"name": "nosuch", "minReplicas": 1, "maxReplicas": 2}])
    team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "the good scaler works")
    await team.until(lambda: team.reason("ScalingActive", "bad") == "InvalidSpec", "the bad one says why")
    message = next(c.message for c in team.status("bad").conditions if c.type == "ScalingActive")
    assert "nosuch" in message
    await team.until(lambda: "InvalidSpec" in team.event_reasons(), "an event as well")


async def test_a_corrected_spec_is_taken_up_without_a_restart(team: World):
    team.target()
    (await team.replica(0)).load(1800, 600)
    team.scaler(roles=[{"name": "nosuch", "minReplicas": 1, "maxReplicas": 2}])
    await team.controller()
    await team.until(lambda: team.reason("ScalingActive") == "InvalidSpec", "refused")
    team.scaler()
    await team.until(lambda: team.count() == 3, "works after the correction")


@pytest.mark.parametrize("fault", ["garbage", "error", "hang"])
async def test_an_engine_that_stops_answering_never_shrinks_its_role(team: World, fault: str):
    team.target()
    engine = await team.replica(0)
    engine.load(1800, 600)
    team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown under load")
    if fault == "hang":
        engine.hang()
    else:
        engine.mode = fault
    await team.until(
        lambda: team.reason("MetricsAvailable") in ("AllScrapesFailed", "StaleSamples"), "the outage is seen"
    )
    await team.until(lambda: "MetricsUnavailable" in team.event_reasons(), "and told after three intervals")
    await team.ticks(12)
    assert team.counts() == [1, 3]


async def test_replicas_that_are_still_starting_are_no_outage(team: World):
    team.target()
    await team.replica(0)

    def ready(status: str) -> None:
        team.edit(PODS, "chat-server-0", lambda obj: obj["status"]["conditions"][0].update(status=status))

    ready("False")
    team.scaler()
    await team.controller()
    await team.until(lambda: team.reason("ScalingActive") == "NoReadyReplicas", "nobody to ask")
    await team.until(lambda: "NoReadyReplicas" in team.event_reasons(), "told after three intervals")
    kinds = {event["reason"]: event["type"] for event in team.server.list(EVENTS, "team")}
    assert kinds["NoReadyReplicas"] == "Normal"
    assert "MetricsUnavailable" not in kinds
    team.engines[0].mode = "error"
    ready("True")
    await team.until(lambda: team.reason("ScalingActive") == "MetricsUnavailable", "it is Ready and does not answer")
    await team.until(lambda: "MetricsUnavailable" in team.event_reasons(), "which is news")


async def test_a_restarted_engine_is_never_a_fall_of_the_load(team: World):
    team.target()
    engine = await team.replica(0)
    engine.load(1800, 600)
    team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown under load")
    engine.restart()
    await team.ticks(12)
    assert team.counts() == [1, 3]


async def test_deleting_a_scaler_gives_the_target_back_and_keeps_the_term(team: World):
    team.target()
    await team.replica(0)
    team.scaler()
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await team.until(lambda: team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None, "gone")
    assert "bound-by" not in team.annotations()
    assert team.annotations()["term"] == "1"


async def test_deleting_a_scaler_whose_target_is_gone_does_not_hang(team: World):
    team.target()
    await team.replica(0)
    team.scaler()
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await team.until(lambda: team.reason("Bound") == "TargetNotFound", "the loss is seen")
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await team.until(lambda: team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None, "gone")


@pytest.mark.parametrize("change", [{"suspend": True}, {"mode": "Shadow"}])
async def test_suspending_gives_the_target_back(team: World, change):
    team.target()
    await team.replica(0)
    team.scaler()
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(change))
    await team.until(lambda: "bound-by" not in team.annotations(), "released")
    expected = "Suspended" if "suspend" in change else "Shadow"
    await team.until(lambda: team.reason("Bound") == expected, expected)
    sampling = "MetricsAvailable" in {condition.type for condition in team.status().conditions}
    assert sampling == (expected == "Shadow"), "nothing is said of samples while none are taken"
    if expected == "Suspended":
        await team.until(lambda: "Suspended" in team.event_reasons(), "told")
        team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=False))
        await team.until(lambda: "Acquired" in team.event_reasons(), "resumed, so every earlier event was written")
        reasons = [event["reason"] for event in team.server.list(EVENTS, "team")]
        assert reasons.count("Suspended") == 1, "once, whatever conditions say so"


async def test_of_two_scalers_on_one_target_the_older_writes_and_the_younger_follows_when_it_goes(team: World):
    team.target()
    (await team.replica(0)).load(1800, 600)
    older = team.scaler("older")
    await team.clock.sleep(2)  # creation times have whole seconds
    younger = team.scaler("younger")
    await team.controller()
    await team.until(lambda: team.reason("Bound", "younger") == "HeldByAnotherScaler", "the younger waits")
    await team.until(lambda: team.count() == 3, "the older scales")
    holders = {
        version.object["metadata"].get("annotations", {}).get("scaling.worker.gpustack.ai/bound-by")
        for version in team.server.history(MODEL_DEPLOYMENTS, "chat", "team")
        if version.object["spec"]["roles"][0]["replicas"] == 3
    }
    assert holders == {f"older/{older['metadata']['uid']}"}
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "older", "team")
    bound = f"younger/{younger['metadata']['uid']}"
    await team.until(lambda: team.annotations().get("bound-by") == bound, "the younger takes over")


async def test_a_holder_gives_way_to_an_older_scaler_that_begins_to_claim(team: World):
    team.scaler("older", suspend=True)
    await team.clock.sleep(2)  # creation has whole seconds
    await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    team.edit(MODEL_DEPLOYMENT_SCALERS, "older", lambda obj: obj["spec"].update(suspend=False))
    await team.until(lambda: team.annotations()["bound-by"].startswith("older/"), "taken over")
    await team.until(lambda: team.reason("Bound") == "HeldByAnotherScaler", "told")
    assert (team.status().binding.term, team.status().binding.acquired_time) == (1, None)
    assert team.annotations()["term"] == "2"


async def test_a_count_set_by_somebody_else_is_the_new_baseline_and_named(team: World):
    team.target()
    (await team.replica(0)).load(1800, 600)
    team.scaler(behavior={"scaleDown": {"selectPolicy": "Disabled"}})
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")

    def set_five(obj):
        obj["spec"]["roles"][0]["replicas"] = 5

    team.edit(MODEL_DEPLOYMENTS, "chat", set_five, manager="kubectl-scale")
    await team.until(lambda: team.reason("ReplicasConflict") == "ForeignWriter", "seen")
    message = next(c.message for c in team.status().conditions if c.type == "ReplicasConflict")
    assert "kubectl-scale changed server 3 → 5" in message
    await team.ticks(4)
    assert team.count() == 5


async def test_after_three_reversals_nothing_is_written_until_a_person_says_so(team: World):
    team.target()
    (await team.replica(0)).load(1800, 600)
    team.scaler()
    await team.controller()

    def set_one(obj):
        obj["spec"]["roles"][0]["replicas"] = 1

    for _ in range(3):
        await team.until(lambda: team.count() == 3, "grown again")
        await team.clock.sleep(2)  # managedFields times have whole seconds
        team.edit(MODEL_DEPLOYMENTS, "chat", set_one, manager="argocd")
        await team.until(lambda: team.reason("ReplicasConflict") == "ForeignWriter" or team.count() == 3, "seen")
    await team.until(lambda: len(team.status().foreign_reversals) == 3, "three reversals")
    await team.until(lambda: "WritesStopped" in team.event_reasons(), "told")
    await team.ticks(6)
    assert team.count() == 1

    def resume(obj):
        obj["metadata"].setdefault("annotations", {})["scaling.worker.gpustack.ai/resume"] = "1"

    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", resume)
    await team.until(lambda: team.count() == 3, "writes again")
    await team.until(lambda: len(team.status().foreign_reversals) < 3, "and counts anew")
    team.audit()


async def test_an_order_to_go_on_that_was_given_while_no_controller_ran_is_followed(team: World):
    team.target()
    (await team.replica(0)).load(1800, 600)
    team.scaler()
    first = await team.controller("first")
    for _ in range(3):
        await team.until(lambda: team.count() == 3, "grown again")
        await team.clock.sleep(2)  # managedFields times have whole seconds
        team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["spec"]["roles"][0].update(replicas=1), manager="argocd")
    await team.until(lambda: "WritesStopped" in team.event_reasons(), "stopped")
    await team.stop_controller(first)
    order = {"scaling.worker.gpustack.ai/resume": "1"}
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["metadata"].update(annotations=order))
    await team.controller("second")
    await team.until(lambda: team.count() == 3, "writes again")
    third = await team.controller("third")
    await team.ticks(4)
    assert team.status().resumed == "1"
    assert third


async def test_a_second_process_raises_the_term_and_the_first_never_writes_again(team: World):
    team.target()
    engine = await team.replica(0)
    engine.load(1800, 600)
    team.scaler()
    await team.controller("old")
    await team.until(lambda: team.count() == 3, "the first one works")
    await team.controller("new")
    await team.until(lambda: team.annotations()["term"] == "2", "the second raises the term")
    engine.load(3600, 1200)
    await team.until(lambda: team.count() == 5, "scaled by the second")
    terms = [
        version.object["metadata"]["annotations"]["scaling.worker.gpustack.ai/term"]
        for version in team.server.history(MODEL_DEPLOYMENTS, "chat", "team")
        if version.object["spec"]["roles"][0]["replicas"] == 5
    ]
    assert set(terms) == {"2"}
    await team.ticks(8)
    assert team.annotations()["term"] == "2"


async def test_a_restarted_controller_goes_on_from_status_and_does_not_shrink_early(team: World):
    team.target()
    engine = await team.replica(0)
    engine.load(1800, 600)
    team.scaler()
    first = await team.controller("first")
    await team.until(lambda: team.count() == 3, "grown")
    assert await team.stop_controller(first) == 0
    engine.load(0, 0)
    stopped = team.clock.now()
    await team.controller("second")
    await team.until(lambda: team.annotations()["term"] == "2", "bound again under a higher term")
    await team.until(lambda: team.count() < 3, "shrinks in the end")
    # One stable window of samples (20 s) and the down window (20 s) lie between.
    assert team.clock.now() - stopped >= 20


async def test_a_retirement_under_way_lets_no_count_fall(team: World):
    team.target()
    engine = await team.replica(0)
    engine.load(1800, 600)
    team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    retirement = {
        "retirement": {
            "roleName": "server",
            "replicaOrdinal": 2,
            "state": "Draining",
            "observedGeneration": 2,
            "targetWorkloadUID": "",
        }
    }
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj.update(status=retirement))
    engine.load(0, 0)
    await team.until(lambda: team.status().summary.desired == "server=1", "recommended meanwhile")
    await team.ticks(4)
    assert team.counts() == [1, 3]
    assert team.reason("RetirementBlocked") == "RetirementInProgress"
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj.update(status={}))
    await team.until(lambda: team.count() == 1, "written once it is over")


async def test_a_target_that_comes_later_is_taken_up_at_once(team: World):
    team.scaler()
    await team.controller()
    await team.until(lambda: team.reason("Bound") == "TargetNotFound", "missing")
    await team.until(lambda: "TargetNotFound" in team.event_reasons(), "told")
    assert "TargetUnsupported" not in team.event_reasons(), "and not twice"
    team.target()
    (await team.replica(0)).load(1800, 600)
    await team.until(lambda: team.count() == 3, "scaled")
