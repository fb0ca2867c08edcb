"""A seeded storm of faults on every way: the server's, the watches', the engines', the controllers'.

Whatever happens, no count is written but under the fence, no new process shrinks anything before it has sampled for a
stable window, every decision replays from its record, and once the storm is over the counts follow the load again.
"""

from __future__ import annotations

import random

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from controller.embedded.apiserver.faults import (
    Cut,
    CutStream,
    Delay,
    Drop,
    LoseResponse,
    RepeatLines,
    Reset,
    Respond,
    bad_gateway,
    expired_event,
    expired_response,
    gone_event,
    gone_response,
    too_many_requests,
)
from controller.planning import read_records, replay
from tests.reconcile.harness import World

WRITES = [Drop(), Reset(), LoseResponse(), Delay(0.05), Respond(500, b"boom", "text/plain"), bad_gateway()]
WRITES += [Respond(200, b"<html>", "text/html"), Respond(409, b"{}"), Respond(422, b"{}"), Respond(403, b"no")]
READS = [expired_response(), gone_response(), Drop(), Reset(), bad_gateway(), Respond(500, b"{}"), Respond(200, b"[")]
STREAMS = [CutStream(how, lines) for how in (Cut.END, Cut.DROP, Cut.RESET, Cut.HALF_LINE) for lines in (0, 1, 3)]
STREAMS += [expired_event(1), gone_event(0), RepeatLines(), too_many_requests(1), bad_gateway()]
STABLE_WINDOW = 20.0
ENGINES = ["ok", "ok", "garbage", "error", "hang", "restart"]


def _disturb(team: World, rng: random.Random) -> None:
    """One thing goes wrong, or is put right."""
    resource = rng.choice(["modeldeploymentscalers", "modeldeployments", "pods"])
    match rng.randrange(6):
        case 0 | 1:
            team.faults.add(rng.choice(WRITES), verb="patch", resource=resource, nth=rng.randint(1, 3), times=2)
        case 2:
            team.faults.add(rng.choice(READS), verb="list", resource=resource, times=2)
        case 3:
            team.faults.add(rng.choice(STREAMS), verb="watch", resource=resource, times=1)
            team.cut_watches()
        case 4:
            for engine in team.engines:
                mode = rng.choice(ENGINES)
                engine.resume()
                engine.mode = mode if mode in ("garbage", "error") else "ok"
                if mode == "hang":
                    engine.hang()
                if mode == "restart":
                    engine.restart()
        case 5:
            team.faults.clear()


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_that_can_go_wrong_breaks_a_promise(team: World, seed: int):
    rng = random.Random(seed)
    engine = await team.loaded()
    controller = await team.controller("process-0")
    for step in range(40):
        _disturb(team, rng)
        if step % 8 == 4:
            engine.load(*rng.choice([(1800, 600), (300, 100), (900, 300), (36_000, 12_000)]))
        if step % 13 == 12:
            await team.stop_controller(controller)
            controller = await team.controller(f"process-{step}")
        await team.quiet(rng.choice([2, 5, 20]))
    team.faults.clear()
    team.cut_watches()
    for each in team.engines:
        each.resume()
        each.mode = "ok"
    engine.load(36_000, 12_000)
    await team.until(lambda: team.count() == 5, "the load is followed again")
    await team.until(lambda: team.reason("ScalingActive") == "Deciding", "and reported")
    engine.load(300, 100)
    await team.until(lambda: team.count() == 1, "down as well")
    team.audit()
    path = team.directory / "records" / "team_chat.jsonl"
    with path.open("rb") as lines:
        records = list(read_records(lines, str(path)))
    assert [replay(record) for record in records] == [record.decision for record in records]
    first: dict[str, float] = {}
    for record in records:
        age = record.now - first.setdefault(record.process, record.now)
        for role in record.decision.roles:
            assert role.desired >= role.current or age >= STABLE_WINDOW, "a new process shrank before it knew"


async def test_the_server_is_away_for_a_while(team: World):
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    team.faults.add(Drop(), times=None)
    team.cut_watches()
    engine.load(36_000, 12_000)
    await team.quiet(100)
    assert team.count() == 3
    team.faults.clear()
    await team.until(lambda: team.count() == 5, "the load is followed when it is back")
    engine.load(300, 100)
    await team.until(lambda: team.count() == 1, "both ways")
    team.audit()


async def test_objects_that_change_while_no_watch_runs_are_found_again(team: World):
    await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    rule = team.faults.add(bad_gateway(), verb="watch", times=None)
    team.cut_watches()
    await team.until(lambda: rule.fired >= 3, "no watch comes back")
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(suspend=True))

    def set_two(obj):
        obj["spec"]["roles"][0]["replicas"] = 2

    team.edit(MODEL_DEPLOYMENTS, "chat", set_two)
    team.faults.clear()
    await team.until(lambda: "bound-by" not in team.annotations(), "the suspension is seen")
    await team.quiet(20)
    assert team.count() == 2
