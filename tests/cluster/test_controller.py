"""The whole loop on both servers: what must hold wherever the controller runs."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.api import BINDING_FINALIZER, FIELD_MANAGER, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from tests.cluster.api import Api
from tests.cluster.world import World, annotations, replicas, world


@pytest.fixture
async def team(api: Api, tmp_path: Path) -> AsyncIterator[World]:
    async with world(api, tmp_path) as made:
        yield made


async def test_a_target_grows_under_load_and_shrinks_again_by_fenced_writes_alone(team: World):
    await team.target()
    team.load(1800, 600)
    scaler = await team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "2,400 tokens/s need three replicas of 1,000")
    team.load(300, 100)
    await team.until(lambda: team.count() == 1, "400 tokens/s need one")
    written = [new for old, new in itertools.pairwise(team.targets()) if replicas(old) != replicas(new)]
    assert written
    for target in written:
        held = annotations(target)
        assert held["bound-by"] == f"chat/{scaler['metadata']['uid']}"
        assert held["term"] == "1"
        assert held["written"] == f"server={replicas(target)}"
        owners = [
            entry["manager"]
            for entry in target["metadata"]["managedFields"]
            if "f:roles" in entry["fieldsV1"].get("f:spec", {})
        ]
        assert FIELD_MANAGER in owners
    await team.until(lambda: "Rescaled" in team.event_reasons(), "an event tells")
    assert BINDING_FINALIZER in team.objects(MODEL_DEPLOYMENT_SCALERS)["chat"]["metadata"]["finalizers"]


async def test_a_shadow_scaler_recommends_and_writes_nothing(team: World):
    await team.target()
    team.load(1800, 600)
    await team.scaler(mode="Shadow")
    await team.controller()
    await team.until(lambda: team.status().summary and team.status().summary.desired == "server=3", "recommends 3")
    assert team.reason("Bound") == "Shadow"
    assert len(team.targets()) == 1


async def test_of_two_controllers_the_newer_raises_the_term_and_the_older_never_writes_again(team: World):
    await team.target()
    team.load(1800, 600)
    await team.scaler()
    await team.controller("old")
    await team.until(lambda: team.count() == 3, "the first one works")
    await team.controller("new")
    await team.until(lambda: team.annotations()["term"] == "2", "the second raises the term")
    team.load(3600, 1200)
    await team.until(lambda: team.count() == 5, "scaled by the second")
    await team.ticks(8)
    terms = [annotations(target).get("term") for target in team.targets()]
    assert set(terms[terms.index("2") :]) == {"2"}


async def test_a_leader_that_stops_hands_over_to_the_one_that_waits(team: World):
    await team.target()
    team.load(1800, 600)
    await team.scaler()
    await team.controller("first", election=True)
    await team.until(lambda: team.count() == 3, "the first one works")
    await team.controller("second", election=True)
    await team.ticks(3)
    assert team.annotations()["term"] == "1", "the second waits"
    assert await team.stop_controller("first") == 0
    team.load(3600, 1200)
    await team.until(lambda: team.count() == 5, "scaled by the second")
    assert team.annotations()["term"] == "2"


async def test_deleting_a_scaler_gives_the_target_back_and_keeps_the_term(team: World):
    await team.target()
    await team.scaler()
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    (await team.api.delete(MODEL_DEPLOYMENT_SCALERS, "chat")).ok()
    await team.until(lambda: "chat" not in team.objects(MODEL_DEPLOYMENT_SCALERS), "gone")
    await team.until(lambda: "bound-by" not in team.annotations(), "released")
    assert team.annotations()["term"] == "1"


async def test_an_invalid_scaler_says_why_and_costs_the_good_one_nothing(team: World):
    await team.target()
    team.load(1800, 600)
    await team.scaler("bad", roles=[{"name": "nosuch", "minReplicas": 1, "maxReplicas": 2}])
    await team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "the good scaler works")
    await team.until(lambda: team.reason("ScalingActive", "bad") == "InvalidSpec", "the bad one says why")
    message = next(c.message for c in team.status("bad").conditions if c.type == "ScalingActive")
    assert "nosuch" in message
    await team.until(lambda: "InvalidSpec" in team.event_reasons(), "an event as well")


async def test_a_count_set_by_somebody_else_is_the_new_baseline_and_named(team: World):
    await team.target()
    team.load(1800, 600)
    await team.scaler(behavior={"scaleDown": {"selectPolicy": "Disabled"}})
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    change = [{"op": "replace", "path": "/spec/roles/0/replicas", "value": 5}]
    await team.api.patch(MODEL_DEPLOYMENTS, "chat", change, "application/json-patch+json", fieldManager="kubectl-scale")
    await team.until(lambda: team.reason("ReplicasConflict") == "ForeignWriter", "seen")
    message = next(c.message for c in team.status().conditions if c.type == "ReplicasConflict")
    assert "kubectl-scale changed server 3 → 5" in message
    await team.ticks(4)
    assert team.count() == 5


async def test_a_target_that_goes_takes_its_pods_along_and_is_missed(team: World):
    await team.target()
    await team.scaler()
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    (await team.api.delete(MODEL_DEPLOYMENTS, "chat")).ok()
    await team.until(lambda: team.reason("Bound") == "TargetNotFound", "the loss is seen")
    (await team.api.delete(MODEL_DEPLOYMENT_SCALERS, "chat")).ok()
    await team.until(lambda: "chat" not in team.objects(MODEL_DEPLOYMENT_SCALERS), "the finalizer goes all the same")


async def test_a_server_that_was_restarted_is_taken_up_where_it_was_left(team: World):
    await team.target()
    team.load(1800, 600)
    await team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    before = len(team.targets())
    await team.api.server.forget()
    team.load(3600, 1200)
    await team.until(lambda: team.count() == 5, "grows on")
    assert all(replicas(target) >= 3 for target in team.targets()[before:]), "nothing of it is given back"
