"""How many endpoints requests can reach, as routers and EndpointSlices have it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.api import RoleEndpoints, ServingEndpoints
from controller.deployment.kinds import Endpoint, EndpointConditions, EndpointSlice, TargetRef
from controller.deployment.serving import RouterView, eligible_members, role_endpoints, settled
from controller.foundation import ObjectMeta
from tests.deployment.builders import group, pod, single
from tests.deployment.routers import FakeRouter
from tests.deployment.world import TWO, World

MEMBERS = [pod(f"chat-server-{n}", ordinal=n, address=f"198.18.0.{n + 1}") for n in range(3)]
ALL = frozenset(member.metadata.uid for member in MEMBERS)
TWO_OF_THEM = frozenset(sorted(ALL)[:2])


def _slice(*uids: str, service: str = "chat-server", ready: bool | None = None) -> EndpointSlice:
    meta = ObjectMeta(name="x", namespace="team", labels={"kubernetes.io/service-name": service})
    conditions = EndpointConditions(ready)
    return EndpointSlice(
        metadata=meta,
        endpoints=tuple(Endpoint(target_ref=TargetRef("Pod", "", uid), conditions=conditions) for uid in uids),
    )


def _endpoints(*views: RouterView, router: bool = True, slices: tuple[EndpointSlice, ...] = ()) -> RoleEndpoints:
    return role_endpoints(MEMBERS, router=router, views=views, slices=slices, service="chat-server")


ROUTED = [
    ("every router holds all of them", (RouterView(ALL), RouterView(ALL)), "Confirmed", 3, True),
    ("a new one is in nobody's view yet", (RouterView(TWO_OF_THEM),), "Confirmed", 2, False),
    ("one that is on its way out is no supply", (RouterView(ALL | {"leaving"}),), "Confirmed", 3, True),
    ("one router is ahead of the other", (RouterView(ALL), RouterView(TWO_OF_THEM)), "NotConverged", None, False),
    ("a router does not say", (RouterView(ALL), RouterView(None)), "Unknown", None, False),
    ("a router that is declared is not there yet", (), "Unknown", None, False),
    ("a router holds none", (RouterView(frozenset()),), "Confirmed", 0, False),
]


@pytest.mark.parametrize(
    ("views", "state", "value", "done"), [row[1:] for row in ROUTED], ids=[row[0] for row in ROUTED]
)
def test_with_a_router(views: tuple[RouterView, ...], state: str, value: int | None, done: bool):
    found = _endpoints(*views, slices=(_slice(),))
    assert found == RoleEndpoints(eligible=3, serving=ServingEndpoints(state=state, value=value))
    assert settled(found) is done


SLICED = [
    ("nobody writes slices", (), 3),
    ("they list all", (_slice(*ALL),), 3),
    ("a new one is not listed yet", (_slice(*TWO_OF_THEM),), 2),
    ("several slices are one list", (_slice(*TWO_OF_THEM), _slice(*ALL - TWO_OF_THEM)), 3),
    ("what is not ready gets nothing", (_slice(*ALL, ready=False),), 0),
    ("a Service that was just made", (_slice(),), 0),
    ("another Service's", (_slice(service="chat"),), 3),
]


@pytest.mark.parametrize(("slices", "eligible"), [row[1:] for row in SLICED], ids=[row[0] for row in SLICED])
def test_without_a_router_the_slices_of_the_role_decide(slices: tuple[EndpointSlice, ...], eligible: int):
    found = _endpoints(router=False, slices=slices)
    assert found == RoleEndpoints(eligible=eligible, serving=ServingEndpoints(state="NotConfigured"))


def test_only_members_that_answer_and_may_be_asked_count():
    replicas = [
        group(0, {}, {}),
        single(1, eligible=False),
        single(2, deleting=True),
        single(0, role="other"),
        single(3, scraped=False),
    ]
    assert [each.metadata.name for each in eligible_members(replicas, "server")] == [
        "chat-server-0-m0",
        "chat-server-3",
    ]


@pytest.fixture
async def router() -> AsyncIterator[FakeRouter]:
    made = FakeRouter()
    await made.start()
    yield made
    await made.stop()


def _serving(world: World) -> tuple[Any, ...]:
    (role,) = world.deployment.status.roles or ()
    assert role.endpoints is not None
    assert role.endpoints.serving is not None
    return role.endpoints.eligible, role.endpoints.serving.state, role.endpoints.serving.value


async def test_the_status_follows_the_routers_view(router: FakeRouter):
    world = World()
    world.routers.append(router.url)
    world.declare(TWO, router={"name": "vllm-router"})
    await world.rest()
    assert _serving(world) == (2, "Confirmed", 0)
    urls = [f"http://{member.status.pod_ip}:8000" for member in world.pods()]
    router.holds({"url": urls[0]})
    await world.run(2)
    assert _serving(world) == (2, "Confirmed", 1)
    router.holds(*({"url": url} for url in urls))
    await world.run(2)
    assert _serving(world) == (2, "Confirmed", 2)
    versions = len(world.client.writes)
    await world.run(60)
    assert len(world.client.writes) == versions, "a view that stands still costs no write"
    router.status = 500
    await world.run(12)
    assert _serving(world) == (2, "Unknown", None)
    await world.views.close()


async def test_without_a_router_nobody_is_asked(chat: World):
    assert _serving(chat) == (2, "NotConfigured", None)
    assert await chat.turn() is None
