"""What a scaler holds it gives back: when it is deleted, also when nobody can read its spec any more."""

from __future__ import annotations

from itertools import groupby

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from tests.reconcile.direct import PREFIX, Pair
from tests.reconcile.harness import World

FINALIZER = "scaling.worker.gpustack.ai/binding"


INVALID = [
    ("a role has bounds that cannot be", lambda spec: spec.update(roles=[{"name": "server", "maxReplicas": 0}])),
    ("the target's name is gone", lambda spec: spec.update(targetRef={})),
    ("the target's name is a number", lambda spec: spec.update(targetRef={"name": 5})),
    ("the spec is empty", lambda spec: spec.clear()),
]


@pytest.mark.parametrize("damage", [c[1] for c in INVALID], ids=[c[0] for c in INVALID])
async def test_a_scaler_that_became_invalid_still_gives_its_target_back_when_it_is_deleted(lax: World, damage):
    await lax.loaded()
    await lax.controller()
    await lax.until(lambda: "bound-by" in lax.annotations(), "bound")
    lax.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: damage(obj["spec"]))
    await lax.until(lambda: lax.reason("ScalingActive") == "InvalidSpec", "refused")
    lax.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await lax.until(lambda: lax.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None, "gone")
    assert "bound-by" not in lax.annotations()


async def test_a_scaler_that_only_waited_takes_the_target_from_nobody(lax: World):
    await lax.loaded()
    await lax.controller()
    await lax.until(lambda: lax.count() == 3, "grown")
    held = lax.annotations()["bound-by"], lax.annotations()["term"]
    later = lax.scaler("later")
    lax.edit(MODEL_DEPLOYMENT_SCALERS, "later", lambda obj: obj["metadata"].update(finalizers=[FINALIZER]))
    await lax.until(lambda: lax.reason("Bound", "later") == "HeldByAnotherScaler", "it waits")
    lax.server.delete(MODEL_DEPLOYMENT_SCALERS, later["metadata"]["name"], "team")
    await lax.until(lambda: lax.server.get(MODEL_DEPLOYMENT_SCALERS, "later", "team") is None, "gone")
    await lax.quiet(20)
    assert (lax.annotations()["bound-by"], lax.annotations()["term"]) == held


async def test_a_suspended_holder_gives_back_before_an_older_scaler_takes():
    world = Pair()
    world.declare([{"name": "server", "replicas": 1}])
    world.scaler("chat", suspend=True)
    world.clock.advance(2)  # creation has whole seconds
    world.scaler("younger")
    world.load(400)
    world.start()
    await world.until(lambda: world.note("bound-by").startswith("younger/"), "bound")
    world.edit_scaler(lambda obj: obj["spec"].update(suspend=True), "younger")
    world.edit_scaler(lambda obj: obj["spec"].update(suspend=False))  # its pass comes first
    await world.until(lambda: world.note("bound-by").startswith("chat/"), "bound anew")
    versions = world.server.history(MODEL_DEPLOYMENTS, "chat", "team")
    holders = [
        (version.object["metadata"].get("annotations") or {}).get(PREFIX + "bound-by", "/") for version in versions
    ]
    assert [name for name, _ in groupby(holder.partition("/")[0] for holder in holders)] == ["", "younger", "", "chat"]


async def test_a_scaler_sent_to_another_target_gives_the_first_one_back(lax: World):
    await lax.loaded()
    lax.target("other")
    (await lax.replica(0, "other")).load(1800, 600)
    await lax.controller()
    await lax.until(lambda: lax.count() == 3, "grown")
    lax.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(targetRef={"name": "other"}))
    await lax.until(lambda: lax.count("other") == 3, "the other one is scaled")
    await lax.until(lambda: "bound-by" not in lax.annotations(), "the first one is free")


async def test_a_scaler_copied_with_its_finalizer_and_an_impossible_target_can_be_deleted(lax: World):
    await lax.controller()
    made = lax.scaler(target="no/such\\name")
    made["metadata"]["finalizers"] = [FINALIZER]
    lax.server.put(made)
    lax.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await lax.until(lambda: lax.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None, "gone")
