"""What is gone leaves nothing behind: no series, no memory, no work."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, PODS
from controller.embedded.apiserver.faults import Drop
from controller.wiring import Controller
from tests.reconcile.harness import World


def _metrics(controller: Controller) -> str:
    return generate_latest(controller._endpoints._registry).decode()


def _remains(controller: Controller) -> dict[str, int]:
    """How much the controller holds of scalers, targets and Pods."""
    reconciler, queue = controller._reconciler, controller._queue
    return {
        "memories": len(reconciler._memories._by_key),
        "own writes": len(controller._consistency),
        "scalers": len(controller._caches.scalers.store),
        "targets": len(controller._caches.targets.store),
        "pods": len(controller._caches.pods.store),
        "holders": len(controller._caches.targets.store.index_values("holder")),
        "waiting": len(queue._waiting),
        "failures": len(queue._backoff._failures),
    }


async def test_scalers_that_came_and_went_leave_nothing(team: World):
    controller = await team.controller()
    for round_ in range(3):
        names = [f"s{round_}-{number}" for number in range(8)]
        for name in names:
            await team.loaded(name)
        # The first write of some of them is lost, so that failures are counted too.
        team.faults.add(Drop(), verb="patch", resource="modeldeployments", name=names[0])
        for name in names:
            await team.until(lambda name=name: "bound-by" in team.annotations(name), "bound")
        for name in names:
            team.server.delete(MODEL_DEPLOYMENT_SCALERS, name, "team")
        await team.until(lambda: not team.server.list(MODEL_DEPLOYMENT_SCALERS, "team"), "scalers are gone")
        for name in names:
            team.server.delete(MODEL_DEPLOYMENTS, name, "team")
            team.server.delete(PODS, f"{name}-server-0", "team")
        for engine in team.engines:
            await engine.stop()
        team.engines.clear()
        team.faults.clear()
    await team.until(lambda: not any(_remains(controller).values()), "nothing is left")
    assert 'scaler="' not in _metrics(controller)


@pytest.mark.parametrize("change", ["suspended", "invalid", "without a target"])
async def test_a_scaler_that_plans_nothing_shows_no_figures(team: World, change: str):
    await team.loaded()
    controller = await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    await team.until(lambda: "mdscaler_role_desired_replicas{" in _metrics(controller), "figures")
    if change == "suspended":
        team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=True))
    elif change == "invalid":
        roles = [{"name": "nosuch", "maxReplicas": 2}]
        team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(roles=roles))
    else:
        team.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await team.until(lambda: "mdscaler_role_desired_replicas{" not in _metrics(controller), "no figures")
