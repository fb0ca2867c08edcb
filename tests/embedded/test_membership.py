"""Whose Pods a router is told of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.contract import PODS
from controller.embedded.manifests import namespace_manifest
from controller.embedded.membership import Membership
from controller.embedded.pods import PodFacts, pod_status, read_pod
from controller.embedded.router import Router
from controller.foundation import Clock
from tests.embedded.pods import pod
from tests.embedded.waiting import until


@pytest.fixture
async def api(clock: Clock) -> AsyncIterator[ApiClient]:
    server = ApiServer(clock=clock)
    await server.start("127.0.0.1", 0)
    server.put(namespace_manifest("demo"))
    client = ApiClient(server.url)
    yield client
    await client.close()
    await server.stop()


async def serving(api: ApiClient, name: str, deployment: str, address: str) -> None:
    made = await api.create(PODS, "demo", pod(name, labels={"app.kubernetes.io/instance": deployment}))
    status = {"status": pod_status(read_pod(made), PodFacts(1.0, address, 1.0, True, 1.0, 0))}
    await api.merge_patch(PODS, "demo", name, status, subresource="status")


@pytest.mark.parametrize(
    ("deployment", "members"),
    [
        pytest.param("chat", {"chat-server-0"}, id="the router of a deployment sends nothing to another one's Pods"),
        pytest.param("", {"chat-server-0", "mine-server-0"}, id="without a deployment it takes every Pod"),
    ],
)
async def test_whose_pods_a_router_uses(api: ApiClient, clock: Clock, deployment: str, members: set[str]) -> None:
    await serving(api, "mine-server-0", "mine", "127.1.2.4")
    await serving(api, "chat-server-0", "chat", "127.1.2.3")
    router = Router(clock)
    following = asyncio.create_task(Membership(api, "demo", router, deployment).run())
    await until(lambda: router.members, clock)
    following.cancel()
    assert {view.member.name for view in router.members} == members
