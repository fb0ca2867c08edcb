"""No accepted request is lost while replicas come and go: streaming clients, sockets, and the real deployment side.

The Pods' own end protects requests only for ten seconds (the shortest grace that the contract allows), and a good part
of the answers lasts longer, so that what the drain gets wrong shows. That it would show is tested as well: each part of
the protocol is taken away in turn, and requests are lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from controller.api import ModelDeployment, Pod
from controller.deployment import Load, MemberLoad, RouterViews, Sighting
from controller.embedded.apiclient import ApiClient
from controller.embedded.containers import Container, Runtime, engine_config
from controller.embedded.cycling import Cycles, cycle_counts, steady_traffic
from controller.embedded.engine import EngineConfig, EngineKind, EngineServer
from controller.embedded.pods import AssignedPod
from controller.embedded.results import WorldResults
from controller.embedded.world import World, WorldRole
from controller.foundation import ScaledClock, wall_now
from tests.embedded.conftest import SERVICE
from tests.embedded.standalone import Standalone
from tests.embedded.test_world import CONFIG

SERVER = (WorldRole(SERVICE, max_num_seqs=8, grace_seconds=15),)
# One answer in five lasts 16 to 32 s, the others 2 to 4 s.
TRAFFIC = dict(requests_per_second=1.0, prompt_tokens=200, short_tokens=200, long_tokens=1600, long_share=0.2)
FACTOR = 60.0
WALL_SECONDS = 300.0  # for a machine with no time to spare; an idle one needs a tenth


@dataclass(frozen=True)
class Ran:
    results: WorldResults
    kills: int


async def ran(
    directory: Path,
    *,
    cycles: int,
    roles: Sequence[WorldRole] = SERVER,
    kill_every_seconds: float | None = None,
    runtime: Callable[[ScaledClock], Callable[[Any], Runtime]] | None = None,
    **options: Any,
) -> Ran:
    """Cycle the counts under load; `options` are the deployment side's."""
    clock = ScaledClock(wall_now(), FACTOR)
    world = World(replace(CONFIG, roles=roles), clock, runtime=None if runtime is None else runtime(clock))
    controller = Standalone(directory / "kubeconfig", clock, "demo", **options)
    done = False
    async with _stopped(world, controller), asyncio.timeout(WALL_SECONDS):
        await world.start()
        world.write_kubeconfig(directory / "kubeconfig")
        await controller.start()
        withdrawal = options.get("withdrawal")
        if isinstance(withdrawal, _Silent):
            withdrawal.urls.append(world.router.url)
        await world.wait_ready()
        api = ApiClient(world.api.url)
        traffic = asyncio.create_task(world.run(steady_traffic(**TRAFFIC, seed=1, done=lambda: done)))  # type: ignore[arg-type]
        killer = asyncio.create_task(_kill(controller, clock, kill_every_seconds))
        try:
            await cycle_counts(
                api,
                clock,
                world.census,
                namespace="demo",
                deployment="chat",
                roles=[role.name for role in roles],
                cycles=Cycles(cycles),
                routed=lambda: sum(member.eligible for member in world.router.members),
            )
            done = True
            return Ran(await traffic, await _ended(killer))
        finally:
            traffic.cancel()
            killer.cancel()
            await asyncio.gather(traffic, killer, return_exceptions=True)
            await api.close()


@asynccontextmanager
async def _stopped(world: World, controller: Standalone) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await controller.kill()
        await world.stop()


async def _kill(controller: Standalone, clock: ScaledClock, every_seconds: float | None) -> int:
    """Kill the controller at random moments and start another one, until cancelled; how often."""
    rng, kills = random.Random(1), 0
    try:
        while every_seconds is not None:
            await clock.sleep(rng.uniform(0.5, 1.5) * every_seconds)
            await controller.kill()
            kills += 1
            await controller.start()
    except asyncio.CancelledError:
        pass
    return kills


async def _ended(killer: asyncio.Task[int]) -> int:
    killer.cancel()
    return await killer


# --- what holds -----------------------------------------------------------------------------------------------------


async def test_no_request_is_lost_while_the_count_goes_up_and_down_twenty_times(tmp_path: Path) -> None:
    """1 → 4 → 1, twenty times over, while the controller is killed again and again."""
    found = await ran(tmp_path, cycles=20, kill_every_seconds=120.0)
    results = found.results
    assert results.requests > 500
    assert (results.lost, results.rejected, results.abandoned) == (0, 0, 0), results.loss_reasons
    assert results.completed == results.requests
    assert results.cut_requests == 0
    assert results.roles["server"].replica_changes >= 40
    assert results.retirements is not None
    assert results.retirements.completed >= 60
    assert found.kills >= 5


class _SlowToShow(EngineServer):
    """Takes a request and shows it a second later, as a server does that tokenizes a long prompt first."""

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            await self._clock.sleep(1.0)
        return await super()._handle(request)


def _slow_to_show(clock: ScaledClock) -> Callable[[Mapping[EngineKind, EngineConfig]], Runtime]:
    def runtime(engines: Mapping[EngineKind, EngineConfig]) -> Runtime:
        def container(pod: AssignedPod, on_change: Callable[[], None]) -> Container:
            return _SlowToShow(engine_config(engines[EngineKind.SERVER], pod), clock, on_change=lambda _: on_change())

        return container

    return runtime


class _Silent:
    """A router that shows whom it holds, and not how many answers it passes on."""

    def __init__(self) -> None:
        self.routers = RouterViews(lambda _: self.urls)
        self.urls: list[str] = []

    async def look(self, deployment: ModelDeployment, members: Sequence[Pod]) -> Sighting:
        sighting = await self.routers.look(deployment, members)
        return replace(sighting, in_flight=0)


async def test_a_request_that_nobody_shows_yet_is_not_lost(tmp_path: Path) -> None:
    """The router has handed it over and says nothing; the engine does not show it yet."""
    found = await ran(tmp_path, cycles=4, runtime=_slow_to_show, withdrawal=_Silent())
    assert (found.results.lost, found.results.cut_requests) == (0, 0), found.results.loss_reasons


# --- what would not -------------------------------------------------------------------------------------------------


class _Idle:
    """Gauges that are always zero."""

    async def read(self, deployment: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        del deployment
        return [MemberLoad(Load.IDLE, "idle", 0.0) for _ in pods]


async def test_without_a_drain_requests_are_lost(tmp_path: Path) -> None:
    found = await ran(tmp_path, cycles=4, gauges=_Idle(), withdrawal=_Silent())
    assert found.results.lost > 0
    assert found.results.cut_requests > 0
