"""Namespaces that empty themselves, and dependants that follow their owners."""

from __future__ import annotations

import asyncio
from typing import Any

from controller.embedded.apiserver import ApiServer
from controller.foundation import ManualClock
from tests.embedded.apiserver.conftest import CONFIG_MAPS, NAMESPACES, WIDGETS, Client, Start, config_map, widget


async def settle() -> None:
    """Let the work behind the commits happen."""
    for _ in range(10):
        await asyncio.sleep(0)


def owned(name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    references = [
        {"apiVersion": "v1", "kind": o["kind"], "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]}
        for o in owners
    ]
    return {**config_map(name), "metadata": {"name": name, "ownerReferences": references}}


def names(api: Client) -> list[str]:
    return [item["metadata"]["name"] for item in api.server.list(CONFIG_MAPS)]


async def test_a_deleted_namespace_goes_with_what_is_in_it(api: Client) -> None:
    api.server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    api.server.put(config_map("a", "n"))
    deleted = await api("DELETE", NAMESPACES.path(name="n"))
    assert deleted.json["status"]["phase"] == "Terminating"
    await settle()
    assert api.server.list(CONFIG_MAPS, "n") == []
    assert (await api.get(NAMESPACES.path(name="n"))).status == 404


async def test_a_namespace_waits_for_the_finalizers_in_it_and_takes_nothing_new(api: Client) -> None:
    api.server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    held = widget()
    held["metadata"] = {"name": "one", "namespace": "n", "finalizers": ["example.com/hold"]}
    api.server.put(held)
    await api("DELETE", NAMESPACES.path(name="n"))
    await settle()
    refused = await api.create(CONFIG_MAPS, config_map("late", "n"))
    assert refused.status == 403
    assert refused.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    path = WIDGETS.path("n", "one")
    await api("PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
    await settle()
    assert (await api.get(NAMESPACES.path(name="n"))).status == 404


async def test_the_default_namespace_stays(api: Client) -> None:
    assert (await api("DELETE", NAMESPACES.path(name="default"))).status == 403


async def test_without_collection_dependants_are_left_alone(api: Client) -> None:
    owner = api.server.put(config_map("owner"))
    api.server.put(owned("child", owner))
    await api.delete(CONFIG_MAPS, "owner", {"propagationPolicy": "Foreground"})
    await settle()
    assert names(api) == ["child"]


async def test_dependants_follow_their_last_owner(start: Start) -> None:
    api = await start(garbage_collection=True)
    first, second = api.server.put(config_map("o1")), api.server.put(config_map("o2"))
    api.server.put(owned("both", first, second))
    child = api.server.put(owned("child", first))
    api.server.put(owned("grandchild", child))
    await api.delete(CONFIG_MAPS, "o1")
    await settle()
    assert names(api) == ["both", "o2"]
    (reference,) = (await api.read(CONFIG_MAPS, "both")).json["metadata"]["ownerReferences"]
    assert reference["name"] == "o2"
    await api.delete(CONFIG_MAPS, "o2")
    await settle()
    assert names(api) == []


async def test_a_foreground_deletion_waits_for_the_dependants(start: Start) -> None:
    api = await start(garbage_collection=True)
    owner = api.server.put(config_map("owner"))
    child = owned("child", owner)
    child["metadata"]["finalizers"] = ["example.com/hold"]
    api.server.put(child)
    await api.delete(CONFIG_MAPS, "owner", {"propagationPolicy": "Foreground"})
    await settle()
    waiting = (await api.read(CONFIG_MAPS, "owner")).json["metadata"]
    assert waiting["finalizers"] == ["foregroundDeletion"]
    await api.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})
    await settle()
    assert names(api) == []


async def test_an_orphaning_deletion_leaves_the_dependants_without_owner(start: Start) -> None:
    api = await start(garbage_collection=True)
    owner = api.server.put(config_map("owner"))
    api.server.put(owned("child", owner))
    await api.delete(CONFIG_MAPS, "owner", {"propagationPolicy": "Orphan"})
    await settle()
    assert names(api) == ["child"]
    assert "ownerReferences" not in (await api.read(CONFIG_MAPS, "child")).json["metadata"]


async def test_what_fixtures_leave_behind_before_the_start_is_done_at_the_start() -> None:
    server = await asyncio.to_thread(_prepared)
    await server.start()
    try:
        assert server.get(NAMESPACES, "n") is None
    finally:
        await server.stop()


def _prepared() -> ApiServer:
    """A server made where no event loop runs."""
    server = ApiServer(clock=ManualClock())
    server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    server.delete(NAMESPACES, "n")
    return server
