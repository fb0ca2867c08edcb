"""The watch of the scalers stands still: what a person asked for meanwhile holds all the same."""

from __future__ import annotations

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS
from controller.embedded.apiserver.faults import Cut, CutStream, Respond
from tests.reconcile.harness import World


def _suspend(team: World) -> None:
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=True))


def _delete(team: World) -> None:
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["metadata"].update(finalizers=[]))
    team.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")


@pytest.mark.parametrize("change", [_suspend, _delete], ids=["suspended", "deleted"])
async def test_a_scaler_that_the_cache_still_shows_as_it_was_raises_nothing(team: World, change):
    """While its status can be written, the conflict tells; here it cannot."""
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    status = {"verb": "patch", "resource": "modeldeploymentscalers", "subresource": "status"}
    broken = team.faults.add(Respond(500, b"boom", "text/plain"), times=None, **status)
    await team.until(lambda: broken.fired, "no status is written any more")
    still = team.faults.add(CutStream(Cut.STALL), verb="watch", resource="modeldeploymentscalers", times=None)
    team.cut_watches()
    await team.until(lambda: still.fired, "the watch is back and stands still")
    change(team)
    engine.load(36_000, 12_000)
    await team.quiet(60)
    assert team.count() == 3
