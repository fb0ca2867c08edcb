"""A scaler in charge of real engines: it follows their load, and it keeps its count when they die and say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controller.planning import Record, replay
from tests.engine.clients import Clients, Ledger
from tests.engine.conftest import Figures
from tests.engine.world import MODEL, World

pytestmark = pytest.mark.asyncio(loop_scope="session")

CAPACITY = 500  # tokens/s that a replica is declared to be good for; a real one makes more than twice as many
PROMPT, OUTPUT = (150, 250), (150, 250)  # 400 tokens a request in the mean
MUCH, LITTLE = 2.0, 0.5  # requests/s: 800 and 200 tokens/s
STEADY_SECONDS = 45.0  # the scaler's stable window is 30 s
SHARE = 0.10  # its window and the ledger's do not end at the same moment


async def test_a_scaler_follows_the_load_and_keeps_its_count_when_all_engines_die(team: World, figures: Figures):
    await team.at(1)
    clients = Clients(team.clock, team.router.url, MODEL, prompt=PROMPT, output=OUTPUT)
    ledger = clients.ledger
    async with team.scaler(CAPACITY):
        async with clients.paced(MUCH):
            raised = await team.until(lambda: _count(team.target) == 2, "800 tokens/s need two replicas of 500")
            await team.until(lambda: team.settled(2), "both serve")
            await team.clock.sleep(STEADY_SECONDS)
            last = team.decisions()[-1]
            by_clients = _work(ledger, last.now - 30.0, last.now)
            by_scaler = _demand(last)
            figures.add(
                f"{MUCH:g} requests/s: count 2 after {raised:.0f} s; demand {by_scaler:.0f} tokens/s by the scaler, "
                f"{by_clients:.0f} by the clients ({by_scaler / by_clients - 1:+.1%})"
            )
            assert by_scaler == pytest.approx(by_clients, rel=SHARE)
            assert ledger.failures == []

            versions, decisions = len(team.targets()), len(team.decisions()) - 1
            killed = team.clock.now()
            died = await _kill_all(team)
            await team.until(lambda: not team.settled(2), "the loss is seen")
            back = await team.until(lambda: team.settled(2), "both serve again")
            await team.clock.sleep(STEADY_SECONDS)
            meanwhile = team.decisions()[decisions:]
            written = {_count(body) for body in team.targets()[versions:]}
        blind = [record for record in meanwhile if _demand_or_none(record) is None]
        caught = [each for each in ledger.requests if each.sent_at <= died and (each.ended_at or killed) >= killed]
        lost = [each for each in caught if each.failure]
        late = sum(request.sent_at > died for request in ledger.requests)
        failed = len(ledger.failures)
        figures.add(
            f"both engines killed with {len(caught)} answers under way: {len(lost)} lost, and {failed - len(lost)} of the "
            f"{late} others that were sent until both were back, {back:.0f} s later; "
            f"{len(blind)} of {len(meanwhile)} decisions without any sample, counts written {sorted(written)}, wanted "
            f"{sorted(_wanted(meanwhile))}"
        )
        assert written <= {2}
        assert _wanted(meanwhile) == {2}
        assert [container.restarts for container in _containers(team)] == [1, 1]
        assert failed == len(lost)  # those that the engines held when they died, and no other
        assert _resets(meanwhile) == 2
        assert all((_demand_or_none(record) or 0.0) >= 0.0 for record in meanwhile)
        assert all(replay(record) == record.decision for record in meanwhile)

        async with clients.paced(LITTLE):
            lowered = await team.until(lambda: _count(team.target) == 1, "200 tokens/s need one")
            gone = await team.until(lambda: team.settled(1), "the other one is retired")
        figures.add(f"{LITTLE:g} requests/s: count 1 after {lowered:.0f} s, retired after {gone:.0f} s more")
        assert len(ledger.failures) == failed
        assert len(ledger.requests) == ledger.completed + failed


async def _kill_all(team: World) -> float:
    """SIGKILL to every engine; when the last one was dead."""
    for container in _containers(team):
        assert container.process is not None
        await container.process.kill()
    return team.clock.now()


def _containers(team: World) -> list[Any]:
    return [team.kubelet.containers[pod.metadata.uid] for pod in team.engines()]


def _count(target: dict[str, Any]) -> int:
    count: int = target["spec"]["roles"][0]["replicas"]
    return count


def _demand_or_none(record: Record) -> float | None:
    return record.decided.role("server").observed.demand_tokens_per_second


def _demand(record: Record) -> float:
    demand = _demand_or_none(record)
    assert demand is not None, record.decided
    return demand


def _wanted(records: Sequence[Record]) -> set[int]:
    return {record.decided.role("server").desired for record in records}


def _resets(records: Sequence[Record]) -> int:
    """How often a member came back as another process."""
    seen: dict[str, str] = {}
    resets = 0
    for record in records:
        for member in record.observation.roles[0].members:
            if member.reading is None:
                continue
            resets += member.key in seen and seen[member.key] != member.incarnation
            seen[member.key] = member.incarnation
    return resets


def _work(ledger: Ledger, start: float, end: float) -> float:
    """What engines had to compute for the clients, tokens/s: what came from a prefix cache is no work."""
    seen = ledger.between(start, end)
    cached = sum(
        request.cached_tokens or 0
        for request in ledger.requests
        if request.first_at is not None and start < request.first_at <= end
    )
    return (seen.prompt_tokens - cached + seen.generation_tokens) / (end - start)
