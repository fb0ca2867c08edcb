"""Namespaces that end, and objects that go with their owners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controller.foundation import Resource
from tests.cluster.api import Api
from tests.cluster.objects import CONFIG_MAPS, GADGETS, NAMESPACES, PODS, config_map, gadget, pod
from tests.cluster.servers import RealServer, Server

ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
# The garbage collector of the real control plane looks for new kinds every thirty seconds.
SECONDS = 180.0


@pytest.fixture(autouse=True)
def controllers(server: Server) -> None:
    """What happens here is done by controllers of the control plane."""
    if isinstance(server, RealServer) and server.cluster.binaries.controller_manager is None:
        pytest.skip("there is no kube-controller-manager")


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await condition():
            await asyncio.sleep(0.05)


def owned_by(owner: dict[str, Any], obj: dict[str, Any], *, block: bool = False) -> dict[str, Any]:
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    obj["metadata"]["ownerReferences"] = [{**reference, **({"blockOwnerDeletion": True} if block else {})}]
    return obj


async def test_a_namespace_that_ends_takes_changes_but_nothing_new(api: Api):
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    (await api.create(CONFIG_MAPS, held)).ok()
    body = (await api("DELETE", NAMESPACES.path(None, api.namespace))).ok()
    assert (body["kind"], body["status"]["phase"]) == ("Namespace", "Terminating")
    for resource, obj in ((CONFIG_MAPS, config_map("late")), (GADGETS, gadget("late"))):
        answer = await api.create(resource, obj)
        assert answer.failure == (403, "Forbidden")
        assert [cause["reason"] for cause in answer.details["causes"]] == ["NamespaceTerminating"]
    assert (await api.patch(CONFIG_MAPS, "held", {"data": {"x": "1"}})).status == 200
    (await api.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}})).ok()

    async def gone() -> bool:
        return (await api("GET", NAMESPACES.path(None, api.namespace))).status == 404

    await until(gone)


async def test_what_is_in_a_namespace_goes_with_it(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    (await api.create(PODS, pod("a"))).ok()
    (await api("DELETE", NAMESPACES.path(None, api.namespace))).ok()

    async def gone() -> bool:
        return (await api("GET", NAMESPACES.path(None, api.namespace))).status == 404

    await until(gone)
    assert (await api.list(GADGETS)).names == []


async def test_dependants_go_after_their_owner(api: Api):
    owner = (await api.create(CONFIG_MAPS, config_map("owner"))).ok()
    (await api.create(PODS, owned_by(owner, pod("child")))).ok()
    (await api.create(PODS, pod("stranger"))).ok()
    (await api.delete(CONFIG_MAPS, "owner")).ok()

    async def gone() -> bool:
        return (await api.read(PODS, "child")).status == 404

    await until(gone)
    assert (await api.read(PODS, "stranger")).status == 200


async def test_a_custom_resource_is_an_owner_like_any(api: Api):
    owner = (await api.create(GADGETS, gadget("owner"))).ok()
    (await api.create(PODS, owned_by(owner, pod("child")))).ok()
    (await api.delete(GADGETS, "owner")).ok()

    async def gone() -> bool:
        return (await api.read(PODS, "child")).status == 404

    await until(gone)


async def test_in_the_foreground_the_owner_waits_for_those_that_block_it(api: Api):
    owner = (await api.create(CONFIG_MAPS, config_map("owner"))).ok()
    child = owned_by(owner, config_map("child"), block=True)
    child["metadata"]["finalizers"] = ["example.com/hold"]
    (await api.create(CONFIG_MAPS, child)).ok()
    (await api.delete(CONFIG_MAPS, "owner", {"propagationPolicy": "Foreground"})).ok()

    async def child_is_going() -> bool:
        return "deletionTimestamp" in (await api.read(CONFIG_MAPS, "child")).ok()["metadata"]

    await until(child_is_going)
    assert (await api.read(CONFIG_MAPS, "owner")).ok()["metadata"]["finalizers"] == ["foregroundDeletion"]
    (await api.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})).ok()

    async def owner_is_gone() -> bool:
        return (await api.read(CONFIG_MAPS, "owner")).status == 404

    await until(owner_is_gone)


async def test_orphans_lose_their_reference_and_stay(api: Api):
    owner = (await api.create(CONFIG_MAPS, config_map("owner"))).ok()
    (await api.create(CONFIG_MAPS, owned_by(owner, config_map("child")))).ok()
    (await api.delete(CONFIG_MAPS, "owner", {"propagationPolicy": "Orphan"})).ok()

    async def owner_is_gone() -> bool:
        return (await api.read(CONFIG_MAPS, "owner")).status == 404

    await until(owner_is_gone)
    assert "ownerReferences" not in (await api.read(CONFIG_MAPS, "child")).ok()["metadata"]


async def test_slices_refuse_loopback_addresses_and_take_those_of_the_test_range(api: Api):
    for address, status in (("127.0.0.1", 422), ("198.18.0.1", 201)):
        name = f"s-{address.replace('.', '-')}"
        body = {"metadata": {"name": name}, "addressType": "IPv4", "endpoints": [{"addresses": [address]}], "ports": []}
        answer = await api.create(ENDPOINT_SLICES, body)
        assert answer.status == status
        assert status == 201 or answer.causes["endpoints[0].addresses[0]"].endswith("(127.0.0.0/8, ::1/128)")
