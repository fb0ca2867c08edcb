"""What a scaler asks of the API server while nothing happens, and while something is refused for ever."""

from __future__ import annotations

from collections import Counter

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS
from controller.embedded.apiserver.faults import Cut, CutStream, Respond
from controller.operations import ReconcileMetrics
from controller.reconcile import reconciler
from controller.wiring import Controller
from tests.reconcile.harness import World


def _writes(team: World) -> Counter[str]:
    """The writes so far, by resource (and subresource)."""
    return Counter(
        f"{record.info.resource}/{record.info.subresource}".strip("/")
        for record in team.server.requests
        if record.info.verb in ("patch", "update", "create")
    )


LOADS = [("a steady load", 300, 100), ("a panic that lasts, and raises that nobody admits", 36_000, 12_000)]


@pytest.mark.parametrize(("prompt", "generated"), [c[1:] for c in LOADS], ids=[c[0] for c in LOADS])
async def test_a_scaler_whose_counts_stand_still_writes_its_status_about_once_a_minute(
    team: World, prompt: float, generated: float
):
    engine = await team.loaded()
    engine.load(prompt, generated)
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    await team.ticks(12)
    before = _writes(team)
    await team.ticks(36)  # three minutes
    after = _writes(team) - before
    assert after["modeldeploymentscalers/status"] <= 4
    assert after["modeldeployments"] == after["modeldeploymentscalers"] == 0


def _reconciles(controller: Controller) -> float:
    (loop,) = controller._loops
    metrics = loop.observer
    assert isinstance(metrics, ReconcileMetrics)
    return sum(counter._value.get() for counter in metrics._total.values())


async def test_while_the_watch_stands_still_a_scaler_waits_longer_each_time(team: World):
    await team.loaded()
    # The list and its end mark arrive, and nothing after them: our own status is never seen.
    team.faults.add(CutStream(Cut.STALL, 2), verb="watch", resource="modeldeploymentscalers", times=None)
    controller = await team.controller()
    await team.until(lambda: team.status().binding, "a status was written")
    before = _reconciles(controller)
    await team.quiet(150)
    assert _reconciles(controller) - before < 12


async def test_a_server_that_went_back_in_time_is_not_waited_for_for_ever(team: World, monkeypatch):
    monkeypatch.setattr(reconciler, "LAG_GIVEN_UP", 4)
    engine = await team.loaded()
    controller = await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    # As after the restoration of an etcd: what was written last has a version that the caches are far from.
    uid = team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team")["metadata"]["uid"]
    controller._consistency.wrote("team/chat", uid, MODEL_DEPLOYMENT_SCALERS, "team", "999999999")
    engine.load(36_000, 12_000)
    await team.until(lambda: team.count() == 5, "grown again")


async def test_a_release_that_is_refused_for_ever_is_tried_less_and_less_often(team: World):
    await team.loaded()
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    refused = team.faults.add(Respond(409, b"{}"), verb="patch", resource="modeldeployments", times=None)
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=True))
    await team.until(lambda: refused.fired, "refused")
    await team.quiet(150)
    assert refused.fired < 7
    team.faults.clear()
    await team.until(lambda: "bound-by" not in team.annotations(), "released in the end")


async def test_an_invalid_scaler_asks_for_nothing(team: World):
    await team.loaded()
    roles = [{"name": "nosuch", "maxReplicas": 2}]
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(roles=roles))
    await team.controller()
    await team.until(lambda: team.reason("ScalingActive") == "InvalidSpec", "said")
    await team.until(lambda: "InvalidSpec" in team.event_reasons(), "and told")
    before = len(team.server.requests)
    await team.quiet(150)
    assert len(team.server.requests) == before


async def test_a_claim_that_met_another_writer_does_not_wait_for_the_next_interval(team: World):
    await team.loaded()
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"]["sampling"].update(intervalSeconds=300))
    team.faults.add(Respond(409, b"{}"), verb="patch", resource="modeldeployments", times=2)
    await team.controller()
    started = team.clock.now()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    assert team.clock.now() - started < 200
