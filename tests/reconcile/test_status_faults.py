"""The status cannot be written: growth goes on, and nothing shrinks that relies on it."""

from __future__ import annotations

import asyncio

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS
from controller.embedded.apiserver.faults import Drop, LoseResponse, Respond, bad_gateway
from tests.reconcile.harness import World

FAULTS = [
    ("forbidden", Respond(403, b"no", "text/plain")),
    ("refused by its schema", Respond(422, b"{}")),
    ("broken", Respond(500, b"boom", "text/plain")),
    ("answered by a proxy", bad_gateway()),
    ("answered by a page that calls itself a success", Respond(200, b"<html>Welcome</html>", "text/html")),
    ("lost", Drop()),
    ("in vain, for its answer is lost", LoseResponse()),
]


@pytest.mark.parametrize("fault", [c[1] for c in FAULTS], ids=[c[0] for c in FAULTS])
async def test_a_load_is_followed_though_every_write_of_the_status_is(team: World, fault):
    await team.loaded()
    team.faults.add(fault, verb="patch", resource="modeldeploymentscalers", subresource="status", times=None)
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")


async def test_nothing_shrinks_while_the_memory_of_it_cannot_be_stored(team: World):
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    team.faults.add(
        Respond(500, b"boom", "text/plain"),
        verb="patch",
        resource="modeldeploymentscalers",
        subresource="status",
        times=None,
    )
    engine.load(300, 100)
    await team.quiet(100)  # five windows
    assert team.counts() == [1, 3]
    team.faults.clear()
    await team.until(lambda: team.count() == 1, "shrunk once it can")


async def test_somebody_who_keeps_writing_the_scaler_stops_neither_growth_nor_shrinking(team: World):
    engine = await team.loaded()
    written = 0

    def write(obj):
        nonlocal written
        written += 1
        obj["metadata"].setdefault("annotations", {})["storm"] = str(written)

    async def storm():
        while True:
            team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", write)
            await asyncio.sleep(0.01)

    storming = asyncio.create_task(storm())
    try:
        await team.controller()
        await team.until(lambda: team.count() == 3, "grown")
        await team.until(lambda: written > 20, "a storm, against a handful of writes of ours")
        engine.load(300, 100)
        await team.until(lambda: team.count() == 1, "and shrunk")
    finally:
        storming.cancel()
