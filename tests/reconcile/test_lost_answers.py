"""Writes whose answer is lost, and writes that arrive late."""

from __future__ import annotations

import aiohttp
import pytest

from controller.embedded.apiserver.faults import Drop, LoseResponse
from controller.kube.patches import JSON_PATCH
from controller.reconcile import committer
from tests.reconcile.harness import World


async def _deliver(team: World, patch: bytes) -> int:
    """Send a captured count write as if it had been on its way all the time; the HTTP status."""
    path = f"{team.server.url}/apis/worker.gpustack.ai/v1alpha1/namespaces/team/modeldeployments/chat"
    async with aiohttp.ClientSession() as session:
        answer = await session.patch(path, data=patch, headers={"Content-Type": JSON_PATCH})
        return answer.status


@pytest.fixture
def sent(monkeypatch) -> list[bytes]:
    """The bodies of all count writes, in order."""
    bodies: list[bytes] = []
    build = committer.fence_patch

    def capture(*args):
        patch = build(*args)
        bodies.append(patch.body)
        return patch

    monkeypatch.setattr(committer, "fence_patch", capture)
    return bodies


async def test_within_one_leadership_a_lost_count_write_is_overtaken_by_a_higher_term(team: World, sent: list[bytes]):
    engine = await team.loaded()
    team.faults.add(Drop(), verb="patch", resource="modeldeployments", nth=2)
    await team.controller()
    await team.until(lambda: team.count() == 3, "written at the second try")
    engine.load(200, 100)
    await team.until(lambda: team.count() == 1, "and shrunk: the counts are those of the lost write again")
    assert await _deliver(team, sent[0]) == 422
    assert team.count() == 1


async def test_a_count_write_whose_answer_is_lost_is_not_made_twice(team: World, sent: list[bytes]):
    await team.loaded()
    team.faults.add(LoseResponse(), verb="patch", resource="modeldeployments", nth=2)
    await team.controller()
    await team.until(lambda: team.count() == 3, "written")
    await team.ticks(4)
    assert team.counts() == [1, 3]
    assert len(sent) == 1
    assert team.reason("ReplicasConflict") != "ForeignWriter"


async def test_a_claim_whose_answer_is_lost_is_raised_once(team: World):
    await team.loaded()
    team.faults.add(LoseResponse(), verb="patch", resource="modeldeployments", nth=1)
    await team.controller()
    await team.until(lambda: team.count() == 3, "bound and grown")
    await team.ticks(4)
    assert team.annotations()["term"] == "2"
