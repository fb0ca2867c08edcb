"""Events live for an hour after their last write."""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.expiry import Expiry
from controller.foundation import ManualClock, Resource
from tests.embedded.apiserver.conftest import Client

EVENTS = Resource("", "v1", "events", "Event")


def event(name: str, count: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "count": count,
    }


async def test_an_event_goes_an_hour_after_its_last_write(api: Client) -> None:
    server, clock = api.server, ManualClock()
    events = server.store.collection(("", "events"))
    expiry = Expiry(events, now=clock.now)
    events.listeners[expiry] = expiry.observe

    def names() -> list[str]:
        return [item["metadata"]["name"] for item in server.list(EVENTS)]

    server.put(event("once"))
    server.put(event("again"))
    watch = await api.watch(EVENTS.path(), resourceVersion=str(server.store.resource_version))
    clock.advance(1800)
    server.put(event("again", 2))
    clock.advance(1799)
    expiry.sweep()
    assert names() == ["again", "once"]
    clock.advance(1)
    expiry.sweep()
    assert names() == ["again"]
    assert (await watch.next())["type"] == "MODIFIED"
    gone = await watch.next()
    assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "once")
    clock.advance(1800)
    expiry.sweep()
    assert names() == []


async def test_a_running_server_sweeps_until_it_is_stopped(api: Client) -> None:
    timer = api.server._expiry._timer
    assert timer is not None
    assert not timer.cancelled()
    await api.server.stop()
    assert timer.cancelled()
