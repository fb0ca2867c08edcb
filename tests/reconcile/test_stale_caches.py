"""A watch stands still: what a person asked for meanwhile holds all the same, and nothing is done twice."""

from __future__ import annotations

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS
from controller.embedded.apiserver.faults import Cut, CutStream, Respond
from controller.kube import Conflict
from tests.deployment.direct import Moment
from tests.reconcile.direct import KEY, Pair
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


async def test_a_raise_that_was_refused_is_not_made_for_a_scaler_that_was_suspended_since():
    """Its status is written again before the count, though nothing in it has changed: the conflict tells."""
    world, refused, shown = Pair(), 0, None
    as_it_is = world._scaler

    def refuse(now: Moment, verb: str, plural: str, name: str) -> None:
        nonlocal refused
        if now is Moment.BEFORE and verb.startswith("fence") and shown is None:
            refused += 1
            raise Conflict("somebody was faster", status=409)

    world._scaler = lambda key: shown or as_it_is(key)
    world.declare([{"name": "server", "replicas": 1}])
    world.load(2400)
    world.scaler()
    world.start(refuse)
    await world.until(lambda: refused >= 2, "a raise is told of and not taken")
    shown = as_it_is(KEY)
    world.edit_scaler(lambda obj: obj["spec"].update(suspend=True))
    await world.run(30)
    assert world.count() == 1


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
    await team.ticks(2)  # it has seen its own writes
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
