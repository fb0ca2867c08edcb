"""The whole embedded world, with a stand-in for the controller that writes the counts a test asks for."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from controller.api import MODEL_DEPLOYMENT_SCALERS, model_deployment_crd, scaler_crd
from controller.embedded.apiclient import ApiClient
from controller.embedded.contract import MODEL_DEPLOYMENTS
from controller.embedded.engine import EngineServer
from controller.embedded.world import World, WorldConfig
from controller.foundation import OperationFailed, ScaledClock
from controller.plant import RequestTrace
from tests.embedded.conftest import SERVICE

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
    service=SERVICE,
    crds=[scaler_crd(), model_deployment_crd()],
    objects=[SCALER],
    model_name="m",
    max_num_seqs=4,
    startup_seconds=5.0,
    frame_tokens=8,
    engine_port=18003,
)


async def scale(world: World, replicas: int) -> None:
    client = ApiClient(world.api.url)
    deployment = world.api.get(MODEL_DEPLOYMENTS, "chat", "demo")
    assert deployment is not None
    roles = [deployment["spec"]["roles"][0] | {"replicas": replicas}]
    await client.merge_patch(MODEL_DEPLOYMENTS, "demo", "chat", {"spec": {"roles": roles}})
    await client.close()


@pytest.fixture
async def world(clock: ScaledClock) -> AsyncIterator[World]:
    world = World(CONFIG, clock)
    yield world
    await world.stop()


async def test_a_run_serves_its_trace_and_reports_its_course(world: World, clock: ScaledClock, tmp_path: Path) -> None:
    await world.start()
    before = world.snapshot()
    assert (before.ready_replicas, before.requests, before.ttft_p50_seconds) == (1, 0, None)
    assert before.t_seconds < 0
    assert world.api.get(MODEL_DEPLOYMENT_SCALERS, "chat", "demo") is not None
    kubeconfig = yaml.safe_load(world.write_kubeconfig(tmp_path / "kubeconfig").read_text())
    assert kubeconfig["clusters"][0]["cluster"]["server"] == world.api.url

    run = asyncio.create_task(world.run())
    await asyncio.sleep(0)
    await scale(world, 3)
    async with asyncio.timeout(8):
        while 3 not in world.results().series.ready_replicas:
            await clock.sleep(0.5)
    during = world.snapshot()
    await scale(world, 1)
    results = await run

    assert during.demand_tokens_per_second > 0
    assert during.ttft_p50_seconds is not None
    assert during.requests > 0
    assert (results.requests, results.completed, results.lost, results.abandoned) == (240, 240, 0, 0)
    assert results.tokens == 240 * 140
    assert results.loss_reasons == ()
    assert (results.max_ready_replicas, results.max_desired_replicas) == (3, 3)
    assert results.replica_changes == 2
    assert results.duration_seconds >= 119.5
    # At least one replica all the time, three at most, and as Ready as they were declared except for the start-up.
    assert results.duration_seconds * 0.99 <= results.ready_replica_seconds <= 3 * results.duration_seconds
    ttft = results.ttft_milliseconds
    assert ttft.p50 is not None
    assert ttft.p95 is not None
    assert ttft.p99 is not None
    assert 0 < ttft.p50 <= ttft.p95 <= ttft.p99
    series = results.series
    lengths = {len(getattr(series, name)) for name in series.__slots__ if name != "interval_seconds"}
    assert len(lengths) == 1
    assert series.t_seconds[:3] == [0, 10, 20]
    assert sum(series.requests) == 240
    assert sum(series.demand_tokens_per_second) * 10 == pytest.approx(240 * 140)
    assert (max(series.ready_replicas), max(series.desired_replicas)) == (3, 3)
    assert all(value is None or math.isfinite(value) for value in series.ttft_p50_seconds)


async def test_a_port_that_is_taken_everywhere_gives_the_replicas_the_next_one(clock: ScaledClock) -> None:
    with socket.socket() as everywhere:
        everywhere.bind(("0.0.0.0", 0))
        everywhere.listen()
        taken = everywhere.getsockname()[1]
        world = World(replace(CONFIG, engine_port=taken), clock)
        try:
            await world.start()
            (engine,) = world.actuator.engines
            assert taken < engine.port <= taken + 15
            deployment = world.api.get(MODEL_DEPLOYMENTS, "chat", "demo")
            assert deployment is not None
            assert deployment["spec"]["roles"][0]["ports"][0]["port"] == engine.port
        finally:
            await world.stop()


async def test_a_world_whose_first_replica_never_becomes_ready_says_so(
    clock: ScaledClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: EngineServer) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(EngineServer, "_load_model", never)
    world = World(CONFIG, clock)
    try:
        with pytest.raises(OperationFailed, match="not ready in time"):
            await world.start()
    finally:
        await world.stop()


async def test_a_run_ends_with_the_failure_of_the_operator(world: World) -> None:
    await world.start()
    run = asyncio.create_task(world.run())
    await asyncio.sleep(0)
    world.actuator.failure.set_exception(OperationFailed("no address"))
    with pytest.raises(OperationFailed, match="no address"):
        await run


async def test_a_cancelled_run_abandons_its_requests_and_still_has_results(world: World, clock: ScaledClock) -> None:
    await world.start()
    run = asyncio.create_task(world.run())
    async with asyncio.timeout(5):
        while world.snapshot().completed < 5:
            await clock.sleep(0.5)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    results = world.results()
    assert results.lost == 0
    assert results.requests == results.completed + results.abandoned < 240


async def test_results_before_a_run_and_an_operator_before_the_start_are_clear_errors(clock: ScaledClock) -> None:
    world = World(CONFIG, clock)
    with pytest.raises(OperationFailed, match="has not run"):
        world.results()
    with pytest.raises(OperationFailed, match="not been started"):
        world.snapshot()
    await world.stop()
