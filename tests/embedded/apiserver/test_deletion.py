"""Deletion as the real server does it: preconditions, finalizers, grace, collections (control-plane.md §5)."""

from __future__ import annotations

from controller.foundation import ManualClock
from tests.embedded.apiserver.conftest import CONFIG_MAPS, PODS, WIDGETS, Client, Start, config_map, pod, widget


async def test_a_deletion_answers_a_status_or_the_object_depending_on_the_type(api: Client) -> None:
    api.server.put(widget())
    api.server.put(pod())
    status = await api.delete(WIDGETS, "one")
    assert (status.json["kind"], status.json["status"]) == ("Status", "Success")
    assert status.json["details"]["kind"] == "widgets"
    assert (await api.delete(PODS, "p")).json["kind"] == "Pod"
    assert (await api.delete(WIDGETS, "one")).status == 404


async def test_preconditions_guard_a_deletion(api: Client) -> None:
    created = api.server.put(widget())
    wrong = await api.delete(WIDGETS, "one", {"preconditions": {"uid": "other"}})
    assert (wrong.status, wrong.json["details"]["kind"]) == (409, "Widget")
    old = await api.delete(WIDGETS, "one", {"preconditions": {"resourceVersion": "1"}})
    assert old.status == 409
    right = {"uid": created["metadata"]["uid"], "resourceVersion": created["metadata"]["resourceVersion"]}
    assert (await api.delete(WIDGETS, "one", {"preconditions": right})).status == 200


async def test_a_finalizer_holds_an_object_until_it_is_removed(api: Client) -> None:
    api.server.put({**widget(), "metadata": {"name": "one", "finalizers": ["example.com/hold"]}})
    watch = await api.watch(WIDGETS.path("default"))
    assert (await watch.next())["type"] == "ADDED"
    held = (await api.delete(WIDGETS, "one")).json
    assert held["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:20Z"
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held["metadata"]["generation"] == 2
    again = (await api.delete(WIDGETS, "one")).json
    assert again == held
    more = await api.patch(WIDGETS, "one", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    assert more.status == 422
    assert "metadata.finalizers" in more.causes
    last = (await api.patch(WIDGETS, "one", {"metadata": {"finalizers": []}})).json
    assert last["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]
    assert (await api.read(WIDGETS, "one")).status == 404
    assert (await watch.next())["type"] == "MODIFIED"
    gone = await watch.next()
    assert gone["type"] == "DELETED"
    assert gone["object"]["metadata"]["finalizers"] == ["example.com/hold"]
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(held["metadata"]["resourceVersion"])


async def test_a_scheduled_pod_terminates_until_its_kubelet_deletes_it(start: Start) -> None:
    clock = ManualClock()
    api = await start(clock=clock)
    api.server.put(pod(nodeName="n1", terminationGracePeriodSeconds=60))
    held = (await api.delete(PODS, "p")).json
    assert held["metadata"]["deletionTimestamp"] == "2023-11-14T22:14:20Z"
    assert held["metadata"]["deletionGracePeriodSeconds"] == 60
    assert (await api.read(PODS, "p")).status == 200
    await api.delete(PODS, "p", {"gracePeriodSeconds": 0})
    assert (await api.read(PODS, "p")).status == 404


async def test_a_pod_that_no_node_has_goes_at_once(api: Client) -> None:
    api.server.put(pod())
    await api.delete(PODS, "p")
    assert (await api.read(PODS, "p")).status == 404


async def test_a_collection_is_deleted_by_selector_and_answered_as_a_list(api: Client) -> None:
    for name in ("a", "b", "c"):
        api.server.put({**config_map(name), "metadata": {"name": name, "labels": {"keep": str(name == "b")}}})
    answer = await api("DELETE", CONFIG_MAPS.path("default"), labelSelector="keep=False")
    assert answer.json["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in api.server.list(CONFIG_MAPS)] == ["b"]
