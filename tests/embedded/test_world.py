"""The whole embedded world with the controller of standalone mode in it; the counts are those that a test asks for."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import yaml

from controller.api import MODEL_DEPLOYMENT_SCALERS, model_deployment_crd, scaler_crd
from controller.embedded.apiclient import ApiClient
from controller.embedded.contract import MODEL_DEPLOYMENTS
from controller.embedded.engine import EngineServer
from controller.embedded.world import World
from controller.embedded.world_config import WorldConfig, WorldRole
from controller.foundation import Clock, OperationFailed
from controller.plant import RequestTrace
from tests.embedded.conftest import SERVICE
from tests.embedded.standalone import Standalone
from tests.embedded.waiting import until

SCALER: dict[str, Any] = {
    "apiVersion": "worker.gpustack.ai/v1alpha1",
    "kind": "ModelDeploymentScaler",
    "metadata": {"name": "chat"},
    "spec": {
        "targetRef": {"name": "chat"},
        "mode": "Active",
        "roles": [{"name": "server", "minReplicas": 1, "maxReplicas": 4}],
        "algorithm": {"type": "TokenThroughput", "tokenThroughput": {"targetTokensPerSecond": "100"}},
    },
}


def trace(count: int = 240, spacing: float = 0.5) -> RequestTrace:
    ones = np.ones(count, dtype=np.int64)
    return RequestTrace(np.arange(count) * spacing, 100 * ones, 40 * ones, count * spacing)


CONFIG = WorldConfig(
    trace=trace(),
    roles=[WorldRole(SERVICE, max_num_seqs=4)],
    crds=[scaler_crd(), model_deployment_crd()],
    objects=[SCALER],
    model_name="m",
    startup_seconds=5.0,
    frame_tokens=8,
    engine_port=18003,
    router_port=18103,
)


async def scale(world: World, replicas: int) -> None:
    client = ApiClient(world.api.url)
    deployment = world.api.get(MODEL_DEPLOYMENTS, "chat", "demo")
    assert deployment is not None
    roles = [deployment["spec"]["roles"][0] | {"replicas": replicas}]
    await client.merge_patch(MODEL_DEPLOYMENTS, "demo", "chat", {"spec": {"roles": roles}})
    await client.close()


@pytest.fixture
async def world(clock: Clock, tmp_path: Path) -> AsyncIterator[World]:
    """A world whose first replica serves."""
    world = World(CONFIG, clock)
    await world.start()
    controller = Standalone(world.write_kubeconfig(tmp_path / "kubeconfig"), clock, "demo")
    await controller.start()
    await world.wait_ready()
    yield world
    await controller.kill()
    await world.stop()


async def test_a_run_serves_its_trace_and_reports_its_course(world: World, clock: Clock, tmp_path: Path) -> None:
    before = world.snapshot()
    assert (before.replicas["server"].ready, before.requests, before.ttft_p50_seconds) == (1, 0, None)
    assert before.t_seconds < 0
    assert world.api.get(MODEL_DEPLOYMENT_SCALERS, "chat", "demo") is not None
    kubeconfig = yaml.safe_load(world.write_kubeconfig(tmp_path / "kubeconfig").read_text())
    assert kubeconfig["clusters"][0]["cluster"]["server"] == world.api.url

    run = asyncio.create_task(world.run())
    await clock.sleep(1.0)  # the count that it began with shows
    await scale(world, 3)
    await until(lambda: 3 in world.results().series.ready_replicas, clock)
    during = world.snapshot()
    await scale(world, 1)
    await run
    await until(lambda: world.census.now.total.created == 1, clock)
    results = world.results()

    assert during.demand_tokens_per_second > 0
    assert during.ttft_p50_seconds is not None
    assert during.requests > 0
    assert (results.requests, results.completed, results.lost, results.abandoned) == (240, 240, 0, 0)
    assert results.tokens == 240 * 140
    assert results.loss_reasons == {}
    server = results.roles["server"]
    assert (server.max_ready_replicas, server.max_desired_replicas, server.replica_changes) == (3, 3, 2)
    assert results.replica_changes == 2
    assert results.cut_requests == 0
    assert results.retirements is not None
    assert (results.retirements.admitted, results.retirements.aborted) == (2, 0)
    assert results.writers is not None
    assert results.writers.effective_writers == 0  # no scaler wrote; the test did
    assert [write.after["server"] for write in results.writers.foreign] == [3, 1]
    assert results.duration_seconds >= 119.5
    # At least one replica all the time, three at most, and as Ready as they were declared except for the start-up.
    assert results.duration_seconds * 0.99 <= results.ready_replica_seconds <= 3 * results.duration_seconds
    ttft = results.ttft_milliseconds
    assert ttft.p50 is not None
    assert ttft.p95 is not None
    assert ttft.p99 is not None
    assert 0 < ttft.p50 <= ttft.p95 <= ttft.p99
    series = results.series
    plain = set(series.__slots__) - {"interval_seconds", "replicas"}
    lengths = {len(getattr(series, name)) for name in plain} | {len(series.replicas["server"])}
    assert len(lengths) == 1
    assert series.t_seconds[:3] == [0, 10, 20]
    assert sum(series.requests) == 240
    assert sum(series.demand_tokens_per_second) * 10 == pytest.approx(240 * 140)
    assert (max(series.ready_replicas), max(series.desired_replicas)) == (3, 3)
    assert all(value is None or math.isfinite(value) for value in series.ttft_p50_seconds)


async def test_ports_that_are_taken_everywhere_give_replicas_and_router_the_next_ones(
    clock: Clock, tmp_path: Path
) -> None:
    with socket.socket() as everywhere, socket.socket() as another:
        for listener in (everywhere, another):
            listener.bind(("0.0.0.0", 0))
            listener.listen()
        engines, routers = everywhere.getsockname()[1], another.getsockname()[1]
        world = World(replace(CONFIG, engine_port=engines, router_port=routers), clock)
        controller = Standalone(tmp_path / "kubeconfig", clock, "demo")
        try:
            await world.start()
            world.write_kubeconfig(tmp_path / "kubeconfig")
            await controller.start()
            await world.wait_ready()
            (engine,) = (cast("EngineServer", container) for container in world.kubelet.containers.values())
            assert engines < engine.port <= engines + 15
            assert routers < int(world.router.url.rpartition(":")[2]) <= routers + 15
            deployment = world.api.get(MODEL_DEPLOYMENTS, "chat", "demo")
            assert deployment is not None
            assert deployment["spec"]["roles"][0]["ports"][0]["port"] == engine.port
            # The controller finds the router by its Pod, whatever its port, or no retirement would ever go on.
            await scale(world, 2)
            await until(lambda: world.census.now.total.ready == 2, clock)
            await scale(world, 1)
            await until(lambda: world.census.now.total.created == 1, clock)
        finally:
            await controller.kill()
            await world.stop()


async def test_a_world_whose_first_replica_never_becomes_ready_says_so(clock: Clock) -> None:
    world = World(replace(CONFIG, patience_wall_seconds=0.5), clock)
    try:
        await world.start()
        with pytest.raises(OperationFailed, match="not ready in time"):
            await world.wait_ready()
    finally:
        await world.stop()


async def test_a_run_ends_with_the_failure_of_the_kubelet(world: World) -> None:
    run = asyncio.create_task(world.run())
    await asyncio.sleep(0)
    world.kubelet.failure.set_exception(OperationFailed("no address"))
    with pytest.raises(OperationFailed, match="no address"):
        await run


async def test_a_cancelled_run_abandons_its_requests_and_still_has_results(world: World, clock: Clock) -> None:
    run = asyncio.create_task(world.run())
    await until(lambda: world.snapshot().completed >= 5, clock)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    results = world.results()
    assert results.lost == 0
    assert results.requests == results.completed + results.abandoned < 240


async def test_results_before_a_run_and_a_snapshot_before_the_start_are_clear_errors(clock: Clock) -> None:
    world = World(CONFIG, clock)
    with pytest.raises(OperationFailed, match="has not run"):
        world.results()
    with pytest.raises(OperationFailed, match="not been started"):
        world.snapshot()
    await world.stop()
