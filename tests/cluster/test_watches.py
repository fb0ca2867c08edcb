"""Watches: where they begin, what they deliver, how they end."""

from __future__ import annotations

import time

import orjson
import pytest

from tests.cluster.api import JSON_PATCH, Api
from tests.cluster.objects import CONFIG_MAPS, GADGETS, GADGETS_ALPHA, PODS, config_map, gadget, pod

STREAMED = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


async def test_without_a_version_a_watch_begins_with_what_is_there(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    for query in ({}, {"resourceVersion": "0"}, {"resourceVersion": ""}):
        assert await (await api.watch(GADGETS, **query)).take(1) == [("ADDED", "a")]


async def test_a_watch_continues_after_a_version_in_the_order_of_the_writes(api: Api):
    version = (await api.create(GADGETS, gadget("a"))).version
    watch = await api.watch(GADGETS, resourceVersion=version)
    (await api.create(GADGETS, gadget("b"))).ok()
    (await api.patch(GADGETS, "b", {"spec": {"interval": 20}})).ok()
    (await api.delete(GADGETS, "a")).ok()
    assert await watch.take(3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]


async def test_watch_objects_carry_kind_and_the_version_that_was_asked_for(api: Api):
    watches = [
        await api.watch(GADGETS_ALPHA),
        await api.watch(GADGETS),
        await api.watch(CONFIG_MAPS, fieldSelector="metadata.name=a"),
    ]
    (await api.create(GADGETS, gadget("a"))).ok()
    (await api.create(CONFIG_MAPS, config_map("a"))).ok()
    found = [(await watch.next())["object"] for watch in watches]
    assert [(each["kind"], each["apiVersion"]) for each in found] == [
        ("Gadget", GADGETS_ALPHA.api_version),
        ("Gadget", GADGETS.api_version),
        ("ConfigMap", "v1"),
    ]


async def test_a_deletion_carries_the_last_state_and_a_version_of_its_own(api: Api):
    stored = (await api.create(GADGETS, gadget("a", interval=33))).ok()
    watch = await api.watch(GADGETS, resourceVersion=stored["metadata"]["resourceVersion"])
    (await api.delete(GADGETS, "a")).ok()
    event = await watch.next()
    assert (event["type"], event["object"]["spec"]["interval"]) == ("DELETED", 33)
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(stored["metadata"]["resourceVersion"])


async def test_an_object_enters_and_leaves_a_selector(api: Api):
    """Leaving is DELETED with the OLD object, under the version of the new write."""
    watch = await api.watch(GADGETS, labelSelector="on=yes", resourceVersion=await api.newest(GADGETS))
    (await api.create(GADGETS, gadget("a", labels={"on": "no"}))).ok()
    (await api.patch(GADGETS, "a", {"metadata": {"labels": {"on": "yes", "n": "1"}}})).ok()
    (await api.patch(GADGETS, "a", {"metadata": {"labels": {"n": "2"}}})).ok()
    left = (await api.patch(GADGETS, "a", {"metadata": {"labels": {"on": "no", "n": "3"}}})).ok()
    events = [await watch.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[2]["object"]["metadata"]["labels"] == {"on": "yes", "n": "2"}
    assert events[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_late_watch_with_a_selector_sees_the_same(api: Api):
    start = await api.newest(GADGETS)
    (await api.create(GADGETS, gadget("a", labels={"on": "no"}))).ok()
    (await api.patch(GADGETS, "a", {"metadata": {"labels": {"on": "yes"}}})).ok()
    (await api.patch(GADGETS, "a", {"metadata": {"labels": {"on": "no"}}})).ok()
    watch = await api.watch(GADGETS, labelSelector="on=yes", resourceVersion=start)
    assert await watch.take(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_other_namespaces_and_names_stay_out(api: Api):
    version = await api.newest(CONFIG_MAPS)
    watch = await api.watch(CONFIG_MAPS, fieldSelector="metadata.name=a", resourceVersion=version)
    (await api.create(CONFIG_MAPS, config_map("b"))).ok()
    (await api("POST", CONFIG_MAPS.path("default"), config_map(f"a-{api.namespace}"))).ok()
    (await api.create(CONFIG_MAPS, config_map("a"))).ok()
    assert await watch.take(1) == [("ADDED", "a")]


async def test_a_watch_by_a_selectable_field_sees_objects_come_and_go(api: Api):
    watch = await api.watch(GADGETS, fieldSelector="spec.mode=Active", resourceVersion=await api.newest(GADGETS))
    (await api.create(GADGETS, gadget("a"))).ok()
    (await api.patch(GADGETS, "a", {"spec": {"mode": "Active"}})).ok()
    (await api.patch(GADGETS, "a", {"spec": {"mode": "Shadow"}})).ok()
    assert await watch.take(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_write_that_changes_nothing_is_no_event(api: Api):
    stored = (await api.create(GADGETS, gadget("a"))).ok()
    watch = await api.watch(GADGETS, resourceVersion=stored["metadata"]["resourceVersion"])
    same = (await api.patch(GADGETS, "a", {"spec": {"interval": 15}})).ok()
    assert same["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert (await api.update(GADGETS, same)).version == stored["metadata"]["resourceVersion"]
    (await api.create(GADGETS, gadget("b"))).ok()
    assert await watch.take(1) == [("ADDED", "b")]


async def test_a_watch_of_all_namespaces_sees_this_one(api: Api):
    version = await api.newest(GADGETS)
    watch = await api.watch(GADGETS.path(), resourceVersion=version)
    (await api.create(GADGETS, gadget(api.namespace))).ok()
    event = await watch.next()
    assert event["object"]["metadata"]["namespace"] == api.namespace


# ---- beginnings that fail --------------------------------------------------------------------------------------------


async def test_a_version_that_is_too_old_is_an_error_event_in_a_good_answer(api: Api):
    await api.server.compact()
    watch = await api.watch(GADGETS, resourceVersion="1")
    assert watch.status == 200
    event = await watch.next()
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")
    assert await watch.rest() == b""


async def test_a_version_that_is_no_number_is_500_without_a_reason(api: Api):
    watch = await api.watch(GADGETS, resourceVersion="x")
    assert watch.status == 500


async def test_a_watch_from_the_future_is_silent(api: Api):
    watch = await api.watch(GADGETS, resourceVersion="9000000000")
    assert watch.status == 200
    (await api.create(GADGETS, gadget("a"))).ok()
    assert await watch.is_silent()


async def test_an_unknown_resource_cannot_be_watched(api: Api):
    assert (await api.watch(f"/apis/conformance.example.com/v1/namespaces/{api.namespace}/nonesuch")).status == 404


async def test_a_match_without_initial_events_is_invalid(api: Api):
    assert (await api.watch(GADGETS, resourceVersion="1", resourceVersionMatch="NotOlderThan")).status == 422


async def test_a_selector_that_cannot_be_read_is_a_bad_request(api: Api):
    assert (await api.watch(GADGETS, labelSelector="a in b")).status == 400


async def test_watching_the_path_of_one_object_returns_the_object(api: Api):
    (await api.create(CONFIG_MAPS, config_map("a"))).ok()
    answer = await api.read(CONFIG_MAPS, "a", watch="true")
    assert answer.ok()["metadata"]["name"] == "a"


# ---- endings and bookmarks -------------------------------------------------------------------------------------------


async def test_a_watch_ends_in_good_order_at_its_time(api: Api):
    started = time.monotonic()
    watch = await api.watch(GADGETS, resourceVersion=await api.newest(GADGETS), timeoutSeconds=1)
    assert await watch.rest() == b""
    assert time.monotonic() - started >= 0.9


async def test_a_last_bookmark_comes_two_seconds_before_the_end(api: Api):
    version = (await api.create(GADGETS, gadget("a"))).version
    # The change has to come before the time of the bookmark: where that was too slow, a longer watch is asked for.
    for seconds in (3, 10, 60):
        started = time.monotonic()
        watch = await api.watch(GADGETS, resourceVersion=version, timeoutSeconds=seconds, allowWatchBookmarks="true")
        version = newest = (await api.patch(GADGETS, "a", {"spec": {"interval": 20 + seconds}})).version
        if time.monotonic() - started < seconds - 2:
            break
    assert await watch.take(1) == [("MODIFIED", "a")]
    event = await watch.next()
    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) >= int(newest)
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("Gadget", GADGETS.api_version)
    assert set(event["object"]) == {"kind", "apiVersion", "metadata"}


async def test_a_watch_that_nothing_happens_on_gets_no_bookmark_not_even_the_last(api: Api):
    """A bookmark is sent only when it is newer than what the watch began with: an idle watch may be silent for ever."""
    version = (await api.create(GADGETS, gadget("a"))).version
    watch = await api.watch(GADGETS, resourceVersion=version, timeoutSeconds=3, allowWatchBookmarks="true")
    assert await watch.rest() == b""


async def test_nobody_gets_a_bookmark_unasked(api: Api):
    version = (await api.create(GADGETS, gadget("a"))).version
    (await api.patch(GADGETS, "a", {"spec": {"interval": 20}})).ok()
    watch = await api.watch(GADGETS, resourceVersion=version, timeoutSeconds=3)
    assert await watch.take(1) == [("MODIFIED", "a")]
    (await api.patch(GADGETS, "a", {"spec": {"interval": 30}})).ok()
    rest = (await watch.rest()).splitlines()  # of nothing where the change came after the end
    assert {orjson.loads(line)["type"] for line in rest} <= {"MODIFIED"}


async def test_a_watch_may_start_from_a_bookmark(api: Api):
    watch = await api.watch(GADGETS, **STREAMED)
    _, mark = await watch.until_marked()
    (await api.create(GADGETS, gadget("a"))).ok()
    version = mark["object"]["metadata"]["resourceVersion"]
    assert await (await api.watch(GADGETS, resourceVersion=version)).take(1) == [("ADDED", "a")]


# ---- streamed lists --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["", "0", "1"])
async def test_a_streamed_list_ends_with_a_marked_bookmark_and_goes_on(api: Api, version: str):
    for name in ("a", "b"):
        (await api.create(GADGETS, gadget(name))).ok()
    newest = await api.newest(GADGETS)
    query = {**STREAMED, **({"resourceVersion": version} if version else {})}
    watch = await api.watch(GADGETS, **query)
    events, mark = await watch.until_marked()
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
    ]
    assert int(mark["object"]["metadata"]["resourceVersion"]) >= int(newest)
    (await api.create(GADGETS, gadget("c"))).ok()
    assert await watch.take(1) == [("ADDED", "c")]


async def test_a_streamed_list_of_nothing_is_its_end_mark(api: Api):
    events, mark = await (await api.watch(GADGETS, **STREAMED)).until_marked()
    assert events == []
    assert mark["object"]["metadata"]["resourceVersion"].isdigit()


async def test_the_end_mark_of_typed_kinds_is_an_empty_object_with_nulls(api: Api):
    _, mark = await (await api.watch(PODS, **STREAMED)).until_marked()
    assert mark["object"]["kind"] == "Pod"
    assert mark["object"]["spec"] == {"containers": None}


async def test_the_end_mark_of_custom_resources_is_metadata_alone(api: Api):
    _, mark = await (await api.watch(GADGETS, **STREAMED)).until_marked()
    assert set(mark["object"]) == {"kind", "apiVersion", "metadata"}


async def test_a_streamed_list_obeys_selectors(api: Api):
    (await api.create(GADGETS, gadget("a", labels={"on": "yes"}))).ok()
    (await api.create(GADGETS, gadget("b"))).ok()
    events, _ = await (await api.watch(GADGETS, labelSelector="on=yes", **STREAMED)).until_marked()
    assert [event["object"]["metadata"]["name"] for event in events] == ["a"]


async def test_a_streamed_list_without_bookmarks_has_no_end_mark(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    query = {**STREAMED, "allowWatchBookmarks": "false"}
    watch = await api.watch(GADGETS, **query)
    assert await watch.take(1) == [("ADDED", "a")]
    (await api.create(GADGETS, gadget("b"))).ok()
    assert await watch.take(1) == [("ADDED", "b")]


@pytest.mark.parametrize("value", ["true", "false"])
async def test_initial_events_need_a_match(api: Api, value: str):
    assert (await api.watch(GADGETS, sendInitialEvents=value, allowWatchBookmarks="true")).status == 422


async def test_declined_initial_events_make_an_ordinary_watch(api: Api):
    version = (await api.create(GADGETS, gadget("a"))).version
    watch = await api.watch(
        GADGETS, resourceVersion=version, sendInitialEvents="false", resourceVersionMatch="NotOlderThan"
    )
    (await api.create(GADGETS, gadget("b"))).ok()
    assert await watch.take(1) == [("ADDED", "b")]


# ---- deletion in two steps -------------------------------------------------------------------------------------------


async def test_a_deletion_held_by_a_finalizer_is_a_change_and_then_a_deletion(api: Api):
    """Removing the last finalizer: the answer keeps its version, DELETED still shows the finalizer and a higher one."""
    made = gadget("a")
    made["metadata"]["finalizers"] = ["example.com/hold"]
    version = (await api.create(GADGETS, made)).version
    watch = await api.watch(GADGETS, resourceVersion=version)
    (await api.delete(GADGETS, "a")).ok()
    held = await watch.next()
    assert (held["type"], held["object"]["metadata"]["finalizers"]) == ("MODIFIED", ["example.com/hold"])
    assert held["object"]["metadata"]["deletionTimestamp"]
    released = await api.patch(GADGETS, "a", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
    assert released.version == held["object"]["metadata"]["resourceVersion"]
    gone = await watch.next()
    assert (gone["type"], gone["object"]["metadata"]["finalizers"]) == ("DELETED", ["example.com/hold"])
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(released.version)


async def test_a_pod_on_a_node_is_deleted_in_two_steps(api: Api):
    version = (await api.create(PODS, pod("a", node="n1"))).version
    watch = await api.watch(PODS, resourceVersion=version)
    (await api.delete(PODS, "a", {"gracePeriodSeconds": 5})).ok()
    first = await watch.next()
    assert (first["type"], first["object"]["metadata"]["deletionGracePeriodSeconds"]) == ("MODIFIED", 5)
    (await api.delete(PODS, "a", {"gracePeriodSeconds": 0})).ok()
    while (event := await watch.next())["type"] == "MODIFIED":
        pass
    assert event["type"] == "DELETED"
