"""Counting replicas as the API shows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest

from controller.api import model_deployment_crd
from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.census import Census, RoleCounts
from controller.embedded.contract import MODEL_DEPLOYMENTS, PODS
from controller.embedded.manifests import RoleManifest, model_deployment_manifest, namespace_manifest
from controller.embedded.pods import router_pod
from controller.foundation import Clock
from tests.embedded.pods import pod
from tests.embedded.waiting import until


class Bench:
    def __init__(self, clock: Clock, api: ApiServer, census: Census) -> None:
        self.clock, self.api, self.census = clock, api, census

    def declare(self, prefill: int, decode: int) -> None:
        self.api.put(
            model_deployment_manifest(
                name="chat",
                namespace="demo",
                roles=[RoleManifest("prefill", prefill, "Prefill"), RoleManifest("decode", decode, "Decode")],
                model_name="m",
                engine_version="1",
                port=8000,
            )
        )

    def put(self, name: str, *, ready: bool = True) -> None:
        status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        role = {"app.kubernetes.io/component": name.split("-")[1]}
        ordinal = {"modeldeployment.gpustack.ai/pod-ordinal": name.split("-")[2]}
        self.api.put(pod(name, labels=role | ordinal) | {"status": status})

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition, self.clock)


@pytest.fixture
async def bench(clock: Clock) -> AsyncIterator[Bench]:
    api = ApiServer(clock=clock)
    await api.start()
    api.install_crd(model_deployment_crd())
    api.put(namespace_manifest("demo"))
    client = ApiClient(api.url)
    made = Bench(clock, api, Census(client, clock, "demo", "chat"))
    made.declare(1, 1)
    run = asyncio.create_task(made.census.run())
    yield made
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await client.close()
    await api.stop()


async def test_each_role_is_counted_and_every_change_is_kept(bench: Bench) -> None:
    bench.declare(2, 1)
    bench.put("chat-prefill-0")
    bench.put("chat-prefill-1", ready=False)
    bench.put("chat-decode-0")
    bench.api.put(router_pod("demo", "chat", "llm-d-router", 8081))  # no replica of anything
    bench.api.put(pod("other-decode-0", labels={"app.kubernetes.io/instance": "other"}))
    wanted = {"prefill": RoleCounts(2, 2, 1), "decode": RoleCounts(1, 1, 1)}
    await bench.until(lambda: bench.census.now.roles == wanted)
    assert bench.census.now.total == RoleCounts(3, 3, 2)
    bench.api.delete(PODS, "chat-prefill-1", "demo")
    await bench.until(lambda: bench.census.now.roles.get("prefill") == RoleCounts(2, 1, 1))
    timeline = bench.census.timeline
    assert [counts.t_seconds for counts in timeline] == sorted(counts.t_seconds for counts in timeline)
    assert all(before.roles != after.roles for before, after in pairwise(timeline))


async def test_a_replica_of_several_pods_is_ready_when_all_of_them_are(bench: Bench) -> None:
    bench.put("chat-prefill-0-m0")
    bench.put("chat-prefill-0-m1", ready=False)
    await bench.until(lambda: bench.census.now.roles.get("prefill") == RoleCounts(1, 1, 0))
    bench.put("chat-prefill-0-m1")
    await bench.until(lambda: bench.census.now.roles.get("prefill") == RoleCounts(1, 1, 1))


async def test_a_deployment_that_is_gone_declares_nothing(bench: Bench) -> None:
    bench.put("chat-decode-0")
    await bench.until(lambda: bench.census.now.roles.get("decode") == RoleCounts(1, 1, 1))
    bench.api.delete(MODEL_DEPLOYMENTS, "chat", "demo")
    await bench.until(lambda: bench.census.now.total == RoleCounts(0, 1, 1))
