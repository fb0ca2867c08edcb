"""A replica leaves under streaming clients: nobody loses a request, and it goes when it is idle, not when it looks so."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.engine.clients import Clients
from tests.engine.conftest import Figures
from tests.engine.spectator import Spectator
from tests.engine.world import MODEL, World

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Answers of several seconds, so that a replica which is withdrawn has something to bring to its end.
LONG = (800, 1600)


async def test_no_request_is_lost_while_the_count_goes_from_one_to_two_and_back(team: World, figures: Figures):
    await team.at(1)
    clients = Clients(team.clock, team.router.url, MODEL, output=LONG)
    async with AsyncExitStack() as streams:
        # Few while the second engine starts: it needs the cores.
        await streams.enter_async_context(clients.streams(2))
        grown = await team.at(2)
        await streams.enter_async_context(clients.streams(6))
        leaving = team.engines()[1]
        assert leaving.ordinal == 1
        await team.until(lambda: _under_way(team, leaving.metadata.uid) >= 2, "the new replica answers clients")
        spectator = Spectator(team, leaving)
        watching = asyncio.create_task(spectator.run())
        before = clients.ledger.completed
        shrunk = await team.at(1)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        # The one that stays goes on as ever.
        await team.until(lambda: clients.ledger.completed > before + 8, "clients are answered after the retirement")

    (ending,) = [each for each in team.kubelet.endings if each.address == leaving.status.pod_ip]
    draining = [sight for sight in spectator.sights if sight.state == "Draining"]
    busy = [sight for sight in draining if sight.held or sight.under_way]
    figures.add(
        f"1 → 2 in {grown:.0f} s, 2 → 1 in {shrunk:.0f} s with {len(clients.ledger.requests)} streams of "
        f"{LONG[0]} to {LONG[1]} tokens: {len(clients.ledger.failures)} failed. When it was withdrawn the replica held "
        f"{max((sight.held or 0.0 for sight in draining), default=0.0):.0f}; its last answer ended "
        f"{busy[-1].at - draining[0].at:.1f} s later, its deletion came after {ending.asked_at - busy[-1].at:.1f} s more; "
        f"hook {ending.hook_ended_at - ending.asked_at:.1f} s, exit {ending.exit_status} in "
        f"{ending.ended_at - ending.hook_ended_at:.1f} s"
    )
    assert clients.ledger.failures == []
    assert all(request.tokens == request.asked_tokens for request in clients.ledger.requests)
    assert busy, "it was idle when it was withdrawn: nothing was drained"
    # Idle by everybody's account from before the deletion to the end.
    after = [
        sight for sight in spectator.sights if sight.state in ("Deleting", "Settling") or sight.at >= ending.asked_at
    ]
    assert after
    assert [sight for sight in after if sight.held or sight.under_way] == []
    # Both looks of the drain were made after the last answer.
    assert ending.asked_at - busy[-1].at > 2.0
    # Nothing new was sent to it once it was withdrawn.
    assert not any(sight.eligible for sight in draining)
    assert ending.hook_status == 0
    assert not ending.killed
    states = _states(team)
    assert "Draining" in states
    assert "Aborted" not in states


def _under_way(team: World, uid: str) -> int:
    return sum(view.in_flight for view in team.router.members if view.member.uid == uid)


def _states(team: World) -> set[str]:
    return {((body.get("status") or {}).get("retirement") or {}).get("state", "") for body in team.targets()}
