"""Targets that no schema has checked: damage that counts do not rest on stops nothing, the rest is said and left alone."""

from __future__ import annotations

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from tests.reconcile.harness import World


def _role(**members):
    return lambda obj: obj["spec"]["roles"][0].update(members)


def _spec(**members):
    return lambda obj: obj["spec"].update(members)


def _status(value):
    return lambda obj: obj.update(status=value)


HARMLESS = [
    ("an environment that is null", _role(env=None)),
    ("a variable without a value", _role(env=[{"name": "A", "value": None}])),
    ("a variable whose value is a number", _role(env=[{"name": "A", "value": 1}])),
    ("an image that is a number", _role(image=5)),
    ("arguments that are one text", _role(extraArgs="--x")),
    ("a router of another kind of thing", _spec(router="llm-d")),
    ("a status that is null", _status(None)),
    ("a router's port beyond all numbers", _spec(router={"name": "x", "replicas": 2**63})),
]


@pytest.mark.parametrize("damage", [c[1] for c in HARMLESS], ids=[c[0] for c in HARMLESS])
async def test_damage_that_no_count_rests_on_stops_nothing(lax: World, damage):
    await lax.loaded()
    lax.edit(MODEL_DEPLOYMENTS, "chat", damage)
    await lax.controller()
    await lax.until(lambda: lax.count() == 3, "grown")
    await lax.ticks(3)
    assert lax.annotations()["term"] == "1"
    assert lax.counts()[:2] == [1, 3]


HARMFUL = [
    ("roles that are a text", _spec(roles="gone"), "TargetUnsupported"),
    ("roles that are null", _spec(roles=None), "InvalidSpec"),
    ("no roles", _spec(roles=[]), "InvalidSpec"),
    ("a role that is null", _spec(roles=[None]), "TargetUnsupported"),
    ("a count that is a text", _role(replicas="1"), "TargetUnsupported"),
    ("a count with a fraction", _role(replicas=1.5), "TargetUnsupported"),
    ("a count below zero", _role(replicas=-1), "TargetUnsupported"),
    ("a size of no Pods", _role(size=0), "TargetUnsupported"),
    ("a kind that this version does not know", _role(kind="Draft"), "TargetUnsupported"),
    ("a retirement that is a text", _status({"retirement": "soon"}), "TargetUnsupported"),
    (
        "two roles of one name",
        _spec(roles=[{"name": "server", "kind": "Server", "replicas": n, "instanceType": "h200"} for n in (1, 2)]),
        "TargetUnsupported",
    ),
]


@pytest.mark.parametrize(("damage", "reason"), [c[1:] for c in HARMFUL], ids=[c[0] for c in HARMFUL])
async def test_damage_that_counts_rest_on_is_said_and_nothing_is_written(lax: World, damage, reason: str):
    await lax.loaded()
    await lax.loaded("good")
    await lax.controller()
    await lax.until(lambda: lax.count() == 3, "grown")
    lax.edit(MODEL_DEPLOYMENTS, "chat", damage)
    await lax.until(lambda: lax.reason("ScalingActive") == reason, reason)
    await lax.until(lambda: lax.count("good") == 3, "the other scaler works")
    versions = len(lax.server.history(MODEL_DEPLOYMENTS, "chat", "team"))
    await lax.ticks(4, "good")
    assert len(lax.server.history(MODEL_DEPLOYMENTS, "chat", "team")) == versions


async def test_a_repaired_target_is_scaled_again(lax: World):
    await lax.loaded()
    lax.edit(MODEL_DEPLOYMENTS, "chat", _spec(roles="gone"))
    await lax.controller()
    await lax.until(lambda: lax.reason("ScalingActive") == "TargetUnsupported", "refused")
    lax.target()
    await lax.until(lambda: lax.count() == 3, "grown")


async def test_a_damaged_target_can_be_given_back(lax: World):
    await lax.loaded()
    await lax.controller()
    await lax.until(lambda: lax.count() == 3, "grown")
    lax.edit(MODEL_DEPLOYMENTS, "chat", _spec(roles="gone"))
    await lax.until(lambda: lax.reason("ScalingActive") == "TargetUnsupported", "refused")
    lax.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
    await lax.until(lambda: lax.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team") is None, "gone")
    assert "bound-by" not in lax.annotations()
