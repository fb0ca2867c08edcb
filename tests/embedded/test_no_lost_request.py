"""No accepted request is lost while replicas come and go: streaming clients, sockets, and the real deployment side, all
on virtual time, so that what is lost does not depend on the machine.

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

import orjson
import pytest
from aiohttp import web

from controller.api import ModelDeployment, Pod
from controller.deployment import Load, MemberLoad
from controller.embedded.apiclient import ApiClient
from controller.embedded.containers import Container, EngineRuntime, Runtime, engine_config
from controller.embedded.cycling import Cycles, cycle_counts, steady_traffic
from controller.embedded.engine import EngineConfig, EngineKind, EngineServer
from controller.embedded.httpserver import HttpServer
from controller.embedded.pods import AssignedPod
from controller.embedded.results import WorldResults
from controller.embedded.router import Router
from controller.embedded.world import World
from controller.embedded.world_config import WorldRole
from controller.foundation import Clock
from controller.testing import LoopClock, VirtualTimeLoop
from tests.embedded.conftest import SERVICE
from tests.embedded.standalone import Standalone
from tests.embedded.test_world import CONFIG

SERVER = (WorldRole(SERVICE, max_num_seqs=8, grace_seconds=15),)
PREFILL_AND_DECODE = (
    WorldRole(SERVICE, "prefill", EngineKind.PREFILL, max_num_seqs=8, grace_seconds=15),
    WorldRole(SERVICE, "decode", EngineKind.DECODE, max_num_seqs=8, grace_seconds=15),
)
# One answer in five lasts 16 to 32 s, the others 2 to 4 s.
TRAFFIC = dict(requests_per_second=0.5, prompt_tokens=200, short_tokens=200, long_tokens=1600, long_share=0.2)
# Fewer, and longer than a retirement by itself takes: one in three lasts one to two minutes.
LONG_ANSWERS = dict(requests_per_second=0.15, prompt_tokens=200, short_tokens=200, long_tokens=5000, long_share=0.35)
LONGEST_STALL_SECONDS = 10.0
# Two seconds. Each frame is a jump of the clock, which costs a millisecond.
FRAME_TOKENS = 100


@dataclass(frozen=True)
class Ran:
    results: WorldResults
    kills: int


class _Silent:
    """The view of a router that shows whom it holds, and not how many answers it passes on: as real ones do."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._http = HttpServer(self._handle)

    async def start(self) -> list[str]:
        """Listen; the addresses of the routers, for the controller."""
        await self._http.start("127.0.0.1", 0)
        return [self._http.url]

    async def stop(self) -> None:
        await self._http.stop()

    async def _handle(self, _: web.BaseRequest) -> web.Response:
        workers = [{"url": view.member.url} for view in self._router.members if view.eligible]
        return web.Response(body=orjson.dumps({"workers": workers}), content_type="application/json")


async def ran(
    directory: Path,
    *,
    cycles: int,
    roles: Sequence[WorldRole] = SERVER,
    cycled: Sequence[str] | None = None,
    kill_every_seconds: float | None = None,
    traffic: Mapping[str, Any] = TRAFFIC,
    silent: bool = False,
    runtime: Callable[[Clock], Callable[[Any], Runtime]] | None = None,
    **options: Any,
) -> Ran:
    """Cycle the counts under load. `silent`: the controller is not told of answers under way; `options` are the
    deployment side's."""
    clock = LoopClock()
    config = replace(CONFIG, roles=roles, frame_tokens=FRAME_TOKENS)
    world = World(config, clock, runtime=None if runtime is None else runtime(clock))
    view = _Silent(world.router)
    if silent:
        urls = await view.start()
        options["routers"] = lambda _: urls
    controller = Standalone(directory / "kubeconfig", clock, "demo", **options)
    done = False
    async with _stopped(world, controller, view):
        await world.start()
        world.write_kubeconfig(directory / "kubeconfig")
        await controller.start()
        await world.wait_ready()
        api = ApiClient(world.api.url)
        running = asyncio.create_task(world.run(steady_traffic(**traffic, seed=1, done=lambda: done)))
        killer = asyncio.create_task(_kill(controller, clock, kill_every_seconds))
        try:
            await clock.sleep(1.0)  # the counts that it began with show
            await cycle_counts(
                api,
                clock,
                world.census,
                namespace="demo",
                deployment="chat",
                roles=[role.name for role in roles] if cycled is None else cycled,
                cycles=Cycles(cycles),
                routed=lambda: sum(member.eligible for member in world.router.members),
            )
            done = True
            return Ran(await running, await _ended(killer))
        finally:
            running.cancel()
            killer.cancel()
            await asyncio.gather(running, killer, return_exceptions=True)
            await api.close()


@asynccontextmanager
async def _stopped(world: World, controller: Standalone, view: _Silent) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await controller.kill()
        await view.stop()
        await world.stop()


async def _kill(controller: Standalone, clock: Clock, every_seconds: float | None) -> int:
    """Let everything stand still for a while, kill the controller and start another one, at random moments, until
    cancelled; how often."""
    rng, kills = random.Random(1), 0
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    try:
        while every_seconds is not None:
            await clock.sleep(rng.uniform(0.25, 0.75) * every_seconds)
            loop.stall(rng.uniform(0.0, LONGEST_STALL_SECONDS))
            await clock.sleep(rng.uniform(0.25, 0.75) * every_seconds)
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
    """1 → 4 → 1, twenty times over, while the controller is killed and the machine stalls, again and again."""
    found = await ran(tmp_path, cycles=20, kill_every_seconds=120.0)
    results = found.results
    assert results.requests > 300
    assert (results.lost, results.rejected, results.abandoned) == (0, 0, 0), results.loss_reasons
    assert results.completed == results.requests
    assert results.cut_requests == 0
    assert results.roles["server"].replica_changes >= 40
    assert results.retirements is not None
    assert results.retirements.completed >= 60
    assert found.kills >= 5


async def test_no_request_is_lost_while_prefill_and_decode_take_turns_to_go_up_and_down(tmp_path: Path) -> None:
    """1 → 4 → 1, twenty times over, one role after the other."""
    found = await ran(tmp_path, cycles=20, roles=PREFILL_AND_DECODE, kill_every_seconds=600.0)
    results = found.results
    assert results.requests > 300
    assert (results.lost, results.rejected, results.abandoned) == (0, 0, 0), results.loss_reasons
    assert results.completed == results.requests
    assert results.cut_requests == 0
    assert all(role.replica_changes >= 20 for role in results.roles.values())
    assert results.retirements is not None
    assert results.retirements.completed >= 60
    assert found.kills >= 5


class _SlowToShow(EngineServer):
    """Takes a request and shows it a second later, as a server does that tokenizes a long prompt first."""

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            await self._clock.sleep(1.0)
        return await super()._handle(request)


def _slow_to_show(clock: Clock) -> Callable[[Mapping[EngineKind, EngineConfig]], Runtime]:
    def runtime(engines: Mapping[EngineKind, EngineConfig]) -> Runtime:
        def container(pod: AssignedPod, on_change: Callable[[], None]) -> Container:
            return _SlowToShow(engine_config(engines[EngineKind.SERVER], pod), clock, on_change=lambda _: on_change())

        return container

    return runtime


async def test_a_request_that_nobody_shows_yet_is_not_lost(tmp_path: Path) -> None:
    """The router has handed it over and says nothing; the engine does not show it yet."""
    found = await ran(tmp_path, cycles=4, runtime=_slow_to_show, silent=True)
    assert (found.results.lost, found.results.cut_requests) == (0, 0), found.results.loss_reasons


# --- what would not -------------------------------------------------------------------------------------------------


class _Idle:
    """Gauges that are always zero."""

    async def read(self, deployment: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        del deployment
        return [MemberLoad(Load.IDLE, "idle", 0.0) for _ in pods]


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param(SERVER, id="server"),
        pytest.param(PREFILL_AND_DECODE, id="prefill and decode"),
    ],
)
async def test_without_a_drain_requests_are_lost(
    tmp_path: Path, roles: Sequence[WorldRole], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.deployment.retirement.HANDOFF_SECONDS", 0.0)
    found = await ran(
        tmp_path,
        cycles=4,
        roles=roles,
        traffic=LONG_ANSWERS,
        gauges=_Idle(),
        silent=True,
    )
    assert found.results.lost > 0
    assert found.results.cut_requests > 0


def _slow_transfers(clock: Clock) -> Callable[[Mapping[EngineKind, EngineConfig]], Runtime]:
    """Blocks are on their way for fifty seconds."""

    def runtime(engines: Mapping[EngineKind, EngineConfig]) -> Runtime:
        slow = {kind: replace(engine, kv_transfer_tokens_per_second=4.0) for kind, engine in engines.items()}
        return EngineRuntime(clock, slow)

    return runtime


@pytest.mark.parametrize(
    ("grace_seconds", "lost"),
    [
        pytest.param(60.0, False, id="with the grace of hand-overs"),
        pytest.param(0.0, True, id="without it"),
    ],
)
async def test_a_prefill_replica_is_needed_until_its_blocks_have_been_fetched(
    tmp_path: Path, grace_seconds: float, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gauges do not show them, and neither does a router that counts as the real ones do; a router that begins
    every request anew would hide it."""
    monkeypatch.setattr("controller.deployment.retirement.HANDOFF_SECONDS", grace_seconds)
    monkeypatch.setattr("controller.embedded.router._MOST_TRIES", 1)
    found = await ran(
        tmp_path,
        cycles=2,
        roles=PREFILL_AND_DECODE,
        cycled=("prefill",),
        runtime=_slow_transfers,
        silent=True,
    )
    assert bool(found.results.lost) is lost, found.results.loss_reasons
