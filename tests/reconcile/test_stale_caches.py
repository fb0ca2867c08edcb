"""A watch stands still: what a person asked for meanwhile holds all the same, and nothing is done twice."""

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
    await _stand_still(team, "modeldeploymentscalers")
    change(team)
    engine.load(36_000, 12_000)
    await team.quiet(60)
    assert team.count() == 3


async def test_a_scaler_that_was_suspended_before_its_raise_was_taken_is_not_raised_though_the_status_is_written(
    team: World,
):
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    refused = team.faults.add(
        Respond(500, b"boom", "text/plain"), verb="patch", resource="modeldeployments", times=None
    )
    engine.load(36_000, 12_000)
    await team.until(lambda: team.status().roles[0].recommended_replicas == 5, "the status tells of a raise")
    await team.until(lambda: refused.fired >= 2, "that is not taken")
    await _stand_still(team, "modeldeploymentscalers")
    _suspend(team)
    team.faults.clear()
    await team.quiet(40)
    assert team.count() == 3


async def test_a_count_is_written_once_though_the_cache_does_not_show_it(team: World):
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    await _stand_still(team, "modeldeployments")
    engine.load(36_000, 12_000)
    await team.until(lambda: team.count() == 5, "grown again")
    before = team.answers("patch", "modeldeployments")
    await team.quiet(100)
    assert team.answers("patch", "modeldeployments") == before


async def test_a_target_is_claimed_once_though_the_cache_does_not_show_it(team: World):
    (await team.loaded()).load(300, 100)
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(mode="Shadow"))
    await team.controller()
    await team.until(lambda: team.reason("Bound") == "Shadow", "looked at")
    await _stand_still(team, "modeldeployments")
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(mode="Active"))
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    await team.quiet(100)
    assert team.answers("patch", "modeldeployments") == [200]


async def test_the_status_of_a_process_that_leads_now_is_not_written_over(team: World):
    """Its claim has not reached this cache of targets yet, its status has reached that of scalers."""
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    await _stand_still(team, "modeldeployments")
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["status"]["binding"].update(term=9))
    engine.load(36_000, 12_000)
    await team.quiet(60)
    assert team.status().binding.term == 9
    assert team.count() == 3


async def _stand_still(team: World, resource: str) -> None:
    """From now on the cache of this resource shows nothing new."""
    still = team.faults.add(CutStream(Cut.STALL), verb="watch", resource=resource, times=None)
    team.cut_watches()
    await team.until(lambda: still.fired, "the watch is back and stands still")
