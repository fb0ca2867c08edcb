"""Deletion: preconditions, finalizers, grace, and what the answers look like."""

from __future__ import annotations

from typing import Any

from tests.cluster.api import JSON_PATCH, Api
from tests.cluster.objects import CONFIG_MAPS, GADGETS, LEASES, PODS, config_map, gadget, lease, pod


def held(name: str = "a") -> dict[str, Any]:
    made = gadget(name)
    made["metadata"]["finalizers"] = ["example.com/hold"]
    return made


async def test_deleting_pods_answers_the_object_and_other_kinds_a_status(api: Api):
    (await api.create(PODS, pod("a"))).ok()
    assert (await api.delete(PODS, "a")).ok()["kind"] == "Pod"
    for resource, obj in ((GADGETS, gadget("a")), (CONFIG_MAPS, config_map("a")), (LEASES, lease("a"))):
        uid = (await api.create(resource, obj)).ok()["metadata"]["uid"]
        body = (await api.delete(resource, "a")).ok()
        assert (body["kind"], body["status"]) == ("Status", "Success")
        expected = {"name": "a", "kind": resource.plural, "uid": uid}
        assert body["details"] == (expected | {"group": resource.group} if resource.group else expected)


async def test_what_is_gone_is_404(api: Api):
    for resource in (GADGETS, CONFIG_MAPS, PODS):
        answer = await api.delete(resource, "none")
        assert answer.failure == (404, "NotFound")
        assert (answer.details["name"], answer.details["kind"]) == ("none", resource.plural)


async def test_a_precondition_on_the_uid_that_fails_is_a_conflict(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    answer = await api.delete(GADGETS, "a", {"preconditions": {"uid": "other"}})
    assert answer.failure == (409, "Conflict")
    assert answer.details["kind"] == "Gadget", "CamelCase here, unlike most conflicts"
    assert "the UID in the precondition (other) does not match the UID in record" in answer.message
    (await api.read(GADGETS, "a")).ok()


async def test_a_precondition_on_the_version_that_fails_is_a_conflict(api: Api):
    version = (await api.create(GADGETS, gadget("a"))).version
    (await api.patch(GADGETS, "a", {"spec": {"interval": 20}})).ok()
    answer = await api.delete(GADGETS, "a", {"preconditions": {"resourceVersion": version}})
    assert answer.failure == (409, "Conflict")
    assert f"the ResourceVersion in the precondition ({version}) does not match" in answer.message


async def test_preconditions_that_hold_let_it_go(api: Api):
    metadata = (await api.create(GADGETS, gadget("a"))).ok()["metadata"]
    conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    (await api.delete(GADGETS, "a", {"preconditions": conditions})).ok()
    assert (await api.read(GADGETS, "a")).status == 404


async def test_a_finalizer_holds_the_object_and_raises_its_generation_once(api: Api):
    (await api.create(GADGETS, held())).ok()
    first = (await api.delete(GADGETS, "a")).ok()
    assert first["kind"] == "Gadget", "the object, because it is still there"
    metadata = first["metadata"]
    assert (metadata["generation"], metadata["deletionGracePeriodSeconds"]) == (2, 0)
    assert metadata["deletionTimestamp"]
    again = (await api.delete(GADGETS, "a")).ok()["metadata"]
    assert (again["generation"], again["resourceVersion"]) == (2, metadata["resourceVersion"])


async def test_removing_the_last_finalizer_removes_the_object(api: Api):
    (await api.create(GADGETS, held())).ok()
    version = (await api.delete(GADGETS, "a")).version
    answer = await api.patch(GADGETS, "a", {"metadata": {"finalizers": None, "resourceVersion": version}})
    assert answer.version == version, "the answer keeps the version that was there"
    assert "finalizers" not in answer.json["metadata"]
    assert (await api.read(GADGETS, "a")).status == 404


async def test_a_terminating_object_takes_changes_but_no_new_finalizer(api: Api):
    (await api.create(GADGETS, held())).ok()
    (await api.delete(GADGETS, "a")).ok()
    assert (await api.patch(GADGETS, "a", {"spec": {"interval": 20}})).ok()["spec"]["interval"] == 20
    assert (await api.patch(GADGETS, "a", {"status": {"phase": "x"}}, subresource="status")).status == 200
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    answer = await api.patch(GADGETS, "a", more)
    assert answer.failure == (422, "Invalid")
    assert list(answer.causes) == ["metadata.finalizers"]


async def test_the_deletion_timestamp_cannot_be_taken_back(api: Api):
    (await api.create(GADGETS, held())).ok()
    before = (await api.delete(GADGETS, "a")).ok()["metadata"]["deletionTimestamp"]
    answer = await api.patch(GADGETS, "a", {"metadata": {"deletionTimestamp": None}})
    assert answer.ok()["metadata"]["deletionTimestamp"] == before


async def test_a_name_is_taken_until_the_last_finalizer_goes(api: Api):
    (await api.create(GADGETS, held())).ok()
    (await api.delete(GADGETS, "a")).ok()
    answer = await api.create(GADGETS, gadget("a"))
    assert answer.failure == (409, "AlreadyExists")
    assert "object is being deleted" in answer.message
    (await api.patch(GADGETS, "a", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)).ok()
    (await api.create(GADGETS, gadget("a"))).ok()


async def test_a_new_object_of_the_old_name_has_a_new_uid_and_generation_one(api: Api):
    first = (await api.create(GADGETS, gadget("a"))).ok()["metadata"]
    (await api.delete(GADGETS, "a")).ok()
    second = (await api.create(GADGETS, gadget("a"))).ok()["metadata"]
    assert first["uid"] != second["uid"]
    assert second["generation"] == 1


async def test_a_collection_is_deleted_by_selector_and_answers_a_list(api: Api):
    for name, on in (("a", "yes"), ("b", "no"), ("c", "yes")):
        (await api.create(GADGETS, gadget(name, labels={"on": on}))).ok()
    answer = (await api("DELETE", api.path(GADGETS), labelSelector="on=yes")).ok()
    assert answer["kind"] == "GadgetList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
    assert (await api.list(GADGETS)).names == ["b"]


async def test_a_dry_run_deletes_nothing(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    (await api.delete(GADGETS, "a", dryRun="All")).ok()
    (await api.read(GADGETS, "a")).ok()


async def test_options_may_come_in_the_query(api: Api):
    (await api.create(PODS, pod("a", node="n1"))).ok()
    (await api.delete(PODS, "a", gracePeriodSeconds=0)).ok()
    assert (await api.read(PODS, "a")).status == 404


async def test_options_that_cannot_be_read_are_a_bad_request(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    assert (await api.delete(GADGETS, "a", b"{nonsense")).failure == (400, "BadRequest")
    assert (await api.delete(GADGETS, "a", {"propagationPolicy": "Nonsense"})).failure == (422, "Invalid")


# ---- Pods ------------------------------------------------------------------------------------------------------------


async def test_a_pod_on_no_node_goes_at_once(api: Api):
    (await api.create(PODS, pod("a"))).ok()
    (await api.delete(PODS, "a")).ok()
    assert (await api.read(PODS, "a")).status == 404


async def test_a_pod_on_a_node_waits_for_its_grace_which_can_be_shortened(api: Api):
    (await api.create(PODS, pod("a", node="n1", terminationGracePeriodSeconds=50))).ok()
    metadata = (await api.delete(PODS, "a")).ok()["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 50
    assert metadata["deletionTimestamp"] > metadata["creationTimestamp"]
    assert (await api.delete(PODS, "a", {"gracePeriodSeconds": 5})).ok()["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = (await api.delete(PODS, "a", {"gracePeriodSeconds": 500})).ok()["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 5, "never longer again"
    (await api.delete(PODS, "a", {"gracePeriodSeconds": 0})).ok()
    assert (await api.read(PODS, "a")).status == 404


async def test_a_pod_that_has_ended_has_no_grace(api: Api):
    (await api.create(PODS, pod("a", node="n1"))).ok()
    (await api.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, subresource="status")).ok()
    (await api.delete(PODS, "a")).ok()
    assert (await api.read(PODS, "a")).status == 404


async def test_foreground_and_orphan_put_a_finalizer_that_a_collector_removes(api: Api):
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        made = held(policy.lower())
        (await api.create(GADGETS, made)).ok()
        metadata = (await api.delete(GADGETS, policy.lower(), {"propagationPolicy": policy})).ok()["metadata"]
        assert finalizer in metadata["finalizers"]
