"""Standalone mode as a whole, over real sockets: no accepted request is lost while replicas come and go."""

from __future__ import annotations

import asyncio
from pathlib import Path

from controller.api import MODEL_DEPLOYMENTS
from controller.embedded.clients import OpenLoopClients
from controller.plant import Arrival
from controller.testing import run_virtual
from tests.deployment.live import Live, live

REQUEST = (200, 400)  # prompt and output tokens: about eight (model) seconds of streaming


def _states(world: Live) -> set[str]:
    operations = [
        (version.object.get("status") or {}).get("retirement") or {}
        for version in world.server.history(MODEL_DEPLOYMENTS, "chat", "team")
    ]
    return {operation.get("state", "") for operation in operations}


def test_streaming_clients_lose_nothing_while_the_count_goes_up_and_down(tmp_path: Path):
    run_virtual(_up_and_down(tmp_path))


async def _up_and_down(directory: Path) -> None:
    async with live(directory) as world:
        world.declare(1)
        await world.controller()
        await world.until(lambda: world.settled(1), "the first replica serves")
        clients = OpenLoopClients(world.clock, world.router.url, "Qwen/Qwen3-8B")
        traffic = asyncio.create_task(clients.run(Arrival(0.8 * n, *REQUEST) for n in range(100_000)))
        for _ in range(2):
            world.scale(3)
            await world.until(lambda: world.settled(3), "three replicas serve")
            world.scale(1)
            await world.until(lambda: world.settled(1), "two are retired")
        answered = clients.totals.completed
        traffic.cancel()
        await asyncio.gather(traffic, return_exceptions=True)
        assert answered > 20
        assert (clients.totals.lost, clients.totals.rejected, world.kubelet.cut) == (0, 0, 0), clients.losses
        assert "Draining" in _states(world)
        assert "Aborted" not in _states(world)
        await world.until(lambda: {"RetirementAdmitted", "RetirementCompleted"} <= world.reasons(), "it is told")


def test_a_process_that_is_killed_while_a_replica_drains_costs_nothing(tmp_path: Path):
    run_virtual(_killed_while_draining(tmp_path))


async def _killed_while_draining(directory: Path) -> None:
    async with live(directory) as world:
        world.declare(2)
        await world.controller()
        await world.until(lambda: world.settled(2), "two replicas serve")
        clients = OpenLoopClients(world.clock, world.router.url, "Qwen/Qwen3-8B")
        traffic = asyncio.create_task(clients.run([Arrival(0.1 * n, 200, 1500) for n in range(8)]))
        await world.until(lambda: clients.totals.requests == 8, "all requests are on their way")
        world.scale(1)
        for states in (("Draining",), ("Deleting", ""), ("",)):  # a deletion may be over before anybody looks
            await world.until(
                lambda states=states: (world.status.get("retirement") or {}).get("state", "") in states,  # type: ignore[misc]
                f"the retirement reached {states[0] or 'its end'}",
            )
            await world.kill_controller()
            await world.controller()
        await world.until(lambda: world.settled(1), "one replica is left")
        await traffic
        assert (clients.totals.completed, clients.totals.lost, world.kubelet.cut) == (8, 0, 0), clients.losses
