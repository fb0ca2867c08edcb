"""Watches: where they begin, what they deliver, how they end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.embedded.apiserver.conftest import CONFIG_MAPS, PODS, SECONDS, WIDGETS, Client, Start, config_map, widget

PATH = CONFIG_MAPS.path("default")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def labelled(name: str, **labels: str) -> dict[str, Any]:
    return {**config_map(name), "metadata": {"name": name, "labels": labels}}


async def test_without_a_resource_version_a_watch_begins_with_what_is_there(api: Client) -> None:
    api.server.put(config_map("a"))
    for version in ("", "0"):
        watch = await api.watch(PATH, resourceVersion=version)
        assert await watch.take(1) == [("ADDED", "a")]
        watch.close()


async def test_a_watch_continues_after_a_resource_version(api: Client) -> None:
    first = api.server.put(config_map("a"))
    api.server.put(config_map("b"))
    watch = await api.watch(PATH, resourceVersion=first["metadata"]["resourceVersion"])
    api.server.put(config_map("b", x="y"))
    api.server.delete(CONFIG_MAPS, "a")
    assert await watch.take(3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]


async def test_a_deletion_carries_the_last_state_and_its_own_resource_version(api: Client) -> None:
    stored = api.server.put(config_map("a", x="y"))
    watch = await api.watch(PATH, resourceVersion=stored["metadata"]["resourceVersion"])
    api.server.delete(CONFIG_MAPS, "a")
    event = await watch.next()
    assert event["object"]["data"] == {"x": "y"}
    assert int(event["object"]["metadata"]["resourceVersion"]) == int(stored["metadata"]["resourceVersion"]) + 1
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("ConfigMap", "v1")


async def test_other_namespaces_and_names_stay_out(api: Client) -> None:
    watch = await api.watch(PATH, fieldSelector="metadata.name=a", resourceVersion="1")
    api.server.put(config_map("b"))
    api.server.put(config_map("a", "kube-system"))
    api.server.put(config_map("a"))
    assert await watch.take(1) == [("ADDED", "a")]


async def test_an_object_enters_and_leaves_a_selector(api: Client) -> None:
    watch = await api.watch(PATH, labelSelector="on=yes", resourceVersion="1")
    api.server.put(labelled("a", on="no"))
    api.server.put(labelled("a", on="yes", n="1"))
    api.server.put(labelled("a", on="yes", n="2"))
    left = api.server.put(labelled("a", on="no", n="3"))
    events = [await watch.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[2]["object"]["metadata"]["labels"] == {"on": "yes", "n": "2"}, "the old object"
    assert events[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_late_watch_with_a_selector_sees_the_same(api: Client) -> None:
    for labels in ({"on": "no"}, {"on": "yes"}, {"on": "no"}):
        api.server.put(labelled("a", **labels))
    watch = await api.watch(PATH, labelSelector="on=yes", resourceVersion="1")
    assert await watch.take(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_every_watcher_of_a_version_gets_the_very_same_bytes(api: Client) -> None:
    watches = [await api.watch(WIDGETS.path("default")) for _ in range(3)]
    api.server.put(widget())
    lines = [await watch.response.content.readline() for watch in watches]
    assert len(set(lines)) == 1
    (event,) = api.server.store.collection(("example.com", "widgets")).log()
    assert len(event.encoded) == 1


async def test_a_compacted_start_is_an_error_event_in_a_stream(api: Client) -> None:
    old = api.server.put(config_map("a"))["metadata"]["resourceVersion"]
    api.server.put(config_map("b"))
    api.server.store.compact()
    watch = await api.watch(PATH, resourceVersion=old)
    assert watch.response.status == 200
    event = await watch.next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {old} (")
    assert await watch.rest() == b""


async def test_the_log_keeps_the_newest_events(start: Start) -> None:
    api = await start(history_limit=3)
    versions = [api.server.put(config_map("a", n=str(n)))["metadata"]["resourceVersion"] for n in range(5)]
    kept = await api.watch(PATH, resourceVersion=versions[1])
    assert await kept.take(3) == [("MODIFIED", "a")] * 3
    lost = await api.watch(PATH, resourceVersion=versions[0])
    assert (await lost.next())["object"]["code"] == 410


async def test_a_watch_from_the_future_is_silent_until_then(api: Client) -> None:
    version = int(api.server.put(config_map("a"))["metadata"]["resourceVersion"])
    watch = await api.watch(PATH, resourceVersion=version + 1)
    api.server.put(config_map("b"))
    api.server.put(config_map("c"))
    assert await watch.take(1) == [("ADDED", "c")]


async def test_a_resource_version_that_is_no_number_fails_with_500(api: Client) -> None:
    assert (await api.watch(PATH, resourceVersion="x")).response.status == 500


async def test_bookmarks_come_on_time_and_carry_the_newest_resource_version(start: Start) -> None:
    api = await start(bookmark_interval_seconds=0.02)
    newest = api.server.put(widget())["metadata"]["resourceVersion"]
    watch = await api.watch(PATH, resourceVersion="1", allowWatchBookmarks="true")
    event = await watch.next()
    assert event["type"] == "BOOKMARK"
    assert event["object"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": newest},
    }
    assert (await watch.next())["type"] == "BOOKMARK"


async def test_a_bookmark_is_newer_than_what_the_watch_began_with(start: Start) -> None:
    api = await start(bookmark_interval_seconds=0.01)
    newest = str(api.server.store.resource_version)
    watch = await api.watch(PATH, resourceVersion=newest, allowWatchBookmarks="true")
    assert await watch.is_silent()
    api.server.put(widget())
    assert (await watch.next())["type"] == "BOOKMARK"


async def test_nobody_gets_a_bookmark_unasked(start: Start) -> None:
    api = await start(bookmark_interval_seconds=0.01)
    assert await (await api.watch(PATH, resourceVersion="1")).is_silent()


class Timers:
    """Catches the timers of the event loop that run for a second or more, so that a test fires them itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed: dict[float, Callable[[], None]] = {}
        loop = asyncio.get_running_loop()
        real = loop.call_later

        def call_later(delay: float, callback: Any, *args: Any, **options: Any) -> asyncio.TimerHandle:
            if delay >= 1:
                self.armed[delay] = callback
            return real(delay, callback, *args, **options)

        monkeypatch.setattr(loop, "call_later", call_later)


async def test_a_watch_ends_cleanly_at_its_timeout_and_a_bookmark_precedes_it(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(monkeypatch)
    watch = await api.watch(PATH, resourceVersion="1", timeoutSeconds=300, allowWatchBookmarks="true")
    timers.armed[298.0]()
    assert (await watch.next())["type"] == "BOOKMARK"
    timers.armed[300.0]()
    assert await watch.rest() == b""


async def test_a_watch_without_timeout_lasts_half_an_hour_to_an_hour(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(monkeypatch)
    await api.watch(PATH, resourceVersion="1")
    assert any(1800 <= delay <= 3600 for delay in timers.armed)


async def test_a_streamed_list_ends_with_a_marked_bookmark_and_goes_on(api: Client) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    api.server.put(pod)
    newest = api.server.store.resource_version
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = await api.watch(PODS.path("default"), **options)
    assert await watch.take(1) == [("ADDED", "p")]
    mark = await watch.next()
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["object"]["metadata"]["resourceVersion"] == str(newest)
    assert mark["object"]["spec"] == {"containers": None}
    api.server.delete(PODS, "p")
    assert await watch.take(2) == [("MODIFIED", "p"), ("DELETED", "p")]


async def test_a_streamed_list_without_bookmarks_has_no_mark(api: Client) -> None:
    api.server.put(config_map("a"))
    watch = await api.watch(PATH, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    assert await watch.take(1) == [("ADDED", "a")]
    assert await watch.is_silent()


async def test_initial_events_can_be_declined(api: Client) -> None:
    api.server.put(config_map("a"))
    watch = await api.watch(PATH, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    api.server.put(config_map("b"))
    assert await watch.take(1) == [("ADDED", "b")]


@pytest.mark.parametrize("value", ["true", "false"])
async def test_send_initial_events_needs_a_match(api: Client, value: str) -> None:
    assert (await api.watch(PATH, sendInitialEvents=value)).response.status == 422


async def test_a_client_that_goes_away_leaves_no_watcher_behind(api: Client) -> None:
    watch = await api.watch(PATH)
    collection = api.server.store.collection(("", "configmaps"))
    assert len(collection.listeners) == 1
    watch.close()
    async with asyncio.timeout(SECONDS):
        while collection.listeners:
            await asyncio.sleep(0.01)


async def test_stopping_the_server_ends_watches_cleanly(api: Client) -> None:
    watch = await api.watch(PATH)
    await api.server.stop()
    assert await watch.rest() == b""


async def test_a_watch_may_be_a_table_whose_first_event_has_the_columns(api: Client) -> None:
    api.server.put(widget())
    watch = await api.watch(WIDGETS.path("default"), accept=TABLE)
    first = (await watch.next())["object"]
    assert first["kind"] == "Table"
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Mode", "Ready", "Interval", "Age"]
    assert first["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    api.server.put(widget(mode="Active"))
    second = (await watch.next())["object"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][:2] == ["one", "Active"]


async def test_a_watch_may_carry_metadata_only(api: Client) -> None:
    watch = await api.watch(PATH, accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    api.server.put(config_map("a", x="y"))
    event = await watch.next()
    assert set(event["object"]) == {"kind", "apiVersion", "metadata"}


async def test_a_watch_is_never_compressed(api: Client) -> None:
    watch = await api.watch(PATH)
    assert "Content-Encoding" not in watch.response.headers
    assert watch.response.headers["Content-Type"] == "application/json"


async def test_a_watcher_that_does_not_keep_up_is_sent_away(api: Client) -> None:
    from controller.embedded.apiserver.watch import ObjectLines, Watcher  # noqa: PLC0415

    served = api.server.registry.find("", "v1", "configmaps")
    assert served is not None
    collection = api.server.store.of(served)
    watcher = Watcher(collection, served, ObjectLines(served))
    watcher.start((), ())
    for number in range(40):
        api.server.put(config_map("a", blob=f"{number}" * 500_000))
    assert watcher not in collection.listeners
    taken = 0
    while (lines := await watcher.next_lines()) is not None:
        taken += len(lines)
    assert 0 < taken < 40


async def test_a_watcher_that_is_gone_when_its_next_event_is_written_is_no_error(
    api: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written = asyncio.Event()

    async def closing(*_: object) -> None:
        written.set()
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    watch = await api.watch(PATH, resourceVersion=str(api.server.store.resource_version))
    monkeypatch.setattr(web.StreamResponse, "write", closing)
    with caplog.at_level(logging.ERROR):
        api.server.put(config_map("a"))
        await written.wait()
        watch.close()
        await api.get(PATH)  # several turns of the loop
    assert caplog.records == []
    assert [record.status for record in api.server.requests if record.info.verb == "watch"] == [200]
