"""JSON patches, merge patches, strategic merges: what a fenced write relies on, and the quirks around it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.api import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api
from tests.cluster.objects import CONFIG_MAPS, GADGETS, PODS, config_map, gadget, pod

REFUSED = "the server rejected our request due to an error in our request"


async def _stored(api: Api, **spec: Any) -> dict[str, Any]:
    made = gadget("a", **spec)
    made["metadata"]["annotations"] = {"example.com/term": "3"}
    return (await api.create(GADGETS, made)).ok()


async def _json_patch(api: Api, *operations: dict[str, Any]) -> Any:
    return await api.patch(GADGETS, "a", list(operations), JSON_PATCH)


# ---- JSON patch ------------------------------------------------------------------------------------------------------


async def test_a_patch_whose_tests_hold_is_applied_as_a_whole(api: Api):
    await _stored(api, roles=[{"name": "x", "max": 4}])
    answer = await _json_patch(
        api,
        {"op": "test", "path": "/metadata/annotations/example.com~1term", "value": "3"},
        {"op": "test", "path": "/spec/roles/0/name", "value": "x"},
        {"op": "replace", "path": "/spec/roles/0/max", "value": 5},
        {"op": "add", "path": "/metadata/annotations/example.com~1written", "value": "x=5"},
    )
    stored = answer.ok()
    assert stored["spec"]["roles"] == [{"name": "x", "min": 1, "max": 5}]
    assert stored["metadata"]["annotations"]["example.com/written"] == "x=5"


async def test_a_failed_test_is_422_invalid_that_says_nothing_and_changes_nothing(api: Api):
    """Indistinguishable from a malformed patch: recognised by re-reading, never by the message."""
    before = await _stored(api)
    answer = await _json_patch(
        api,
        {"op": "replace", "path": "/spec/interval", "value": 99},
        {"op": "test", "path": "/metadata/annotations/example.com~1term", "value": "4"},
    )
    assert answer.failure == (422, "Invalid")
    assert answer.message == REFUSED
    assert answer.details == {}
    assert (await api.read(GADGETS, "a")).ok() == before


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "remove", "path": "/spec/nonsense"}, id="remove of a missing member"),
        pytest.param({"op": "add", "path": "/spec/no/such/parent", "value": 1}, id="add below a missing parent"),
        pytest.param({"op": "test", "path": "/spec/tags", "value": []}, id="test of a missing member against a value"),
        pytest.param({"op": "replace", "path": "/spec/roles/7", "value": {}}, id="replace beyond the end of a list"),
        pytest.param({"op": "move", "from": "/spec/none", "path": "/spec/interval"}, id="move of a missing member"),
    ],
)
async def test_an_operation_that_cannot_be_done_looks_like_a_failed_test(api: Api, operation: dict[str, Any]):
    await _stored(api, roles=[])
    answer = await _json_patch(api, operation)
    assert (answer.failure, answer.message) == ((422, "Invalid"), REFUSED)


async def test_replacing_a_missing_member_adds_it(api: Api):
    await _stored(api)
    answer = await _json_patch(api, {"op": "replace", "path": "/spec/ratio", "value": "1.5"})
    assert answer.ok()["spec"]["ratio"] == "1.5"


async def test_a_missing_member_tests_equal_to_null(api: Api):
    await _stored(api)
    answer = await _json_patch(
        api,
        {"op": "test", "path": "/spec/ratio", "value": None},
        {"op": "replace", "path": "/spec/interval", "value": 30},
    )
    assert answer.ok()["spec"]["interval"] == 30


async def test_one_is_not_one_point_zero(api: Api):
    await _stored(api, interval=30)
    answer = await api.patch(GADGETS, "a", b'[{"op": "test", "path": "/spec/interval", "value": 30.0}]', JSON_PATCH)
    assert answer.failure == (422, "Invalid")


async def test_an_index_of_minus_one_appends(api: Api):
    await _stored(api, tags=["a", "b"])
    answer = await _json_patch(api, {"op": "add", "path": "/spec/tags/-1", "value": "c"})
    assert sorted(answer.ok()["spec"]["tags"]) == ["a", "b", "c"]


async def test_lists_are_addressed_by_index_and_dash(api: Api):
    await _stored(api, tags=["a", "c"])
    answer = await _json_patch(
        api,
        {"op": "add", "path": "/spec/tags/1", "value": "b"},
        {"op": "add", "path": "/spec/tags/-", "value": "d"},
        {"op": "remove", "path": "/spec/tags/0"},
        {"op": "copy", "from": "/spec/tags/0", "path": "/spec/ratio"},
    )
    assert (answer.ok()["spec"]["tags"], answer.json["spec"]["ratio"]) == (["b", "c", "d"], "b")


async def test_a_path_without_its_slash_is_accepted_and_does_nothing(api: Api):
    before = await _stored(api)
    answer = await _json_patch(api, {"op": "replace", "path": "spec/interval", "value": 99})
    assert answer.ok() == before


async def test_more_than_ten_thousand_operations_are_413(api: Api):
    await _stored(api)
    operation = {"op": "test", "path": "/spec/interval", "value": 15}
    assert (await _json_patch(api, *[operation] * 10_001)).status == 413


@pytest.mark.parametrize(
    "body",
    [b"{nonsense", b'{"op": "add"}', b'"text"', b'[{"op": "nonsense", "path": "/x"}]', b'[{"path": "/spec"}]'],
)
async def test_a_patch_that_cannot_be_read(api: Api, body: bytes):
    await _stored(api)
    assert (await api.patch(GADGETS, "a", body, JSON_PATCH)).status in (400, 422)


async def test_a_patch_may_test_the_resource_version(api: Api):
    before = await _stored(api)
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": before["metadata"]["resourceVersion"]}
    change = {"op": "replace", "path": "/spec/interval", "value": 20}
    (await _json_patch(api, test, change)).ok()
    assert (await _json_patch(api, test, {**change, "value": 30})).failure == (422, "Invalid")


async def test_a_patch_that_sets_another_version_is_a_conflict(api: Api):
    await _stored(api)
    answer = await _json_patch(
        api,
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "replace", "path": "/spec/interval", "value": 20},
    )
    assert answer.failure == (409, "Conflict")


async def test_an_invalid_result_names_the_field(api: Api):
    await _stored(api)
    answer = await _json_patch(api, {"op": "replace", "path": "/spec/interval", "value": 1})
    assert answer.failure == (422, "Invalid")
    assert list(answer.causes) == ["spec.interval"]
    assert answer.details["kind"] == "Gadget"


# ---- merge patch -----------------------------------------------------------------------------------------------------


async def test_a_merge_patch_sets_members_and_removes_those_that_are_null(api: Api):
    await _stored(api, ratio=1)
    answer = await api.patch(
        GADGETS, "a", {"spec": {"interval": 20, "ratio": None}, "metadata": {"annotations": {"x": "1"}}}
    )
    stored = answer.ok()
    assert (stored["spec"]["interval"], "ratio" in stored["spec"]) == (20, False)
    assert stored["metadata"]["annotations"] == {"example.com/term": "3", "x": "1"}


async def test_a_merge_patch_replaces_lists_whole(api: Api):
    await _stored(api, roles=[{"name": "x"}, {"name": "y"}])
    answer = await api.patch(GADGETS, "a", {"spec": {"roles": [{"name": "z"}]}})
    assert answer.ok()["spec"]["roles"] == [{"name": "z", "min": 1}]


async def test_removing_a_member_with_a_default_brings_the_default_back(api: Api):
    await _stored(api, interval=99)
    assert (await api.patch(GADGETS, "a", {"spec": {"interval": None}})).ok()["spec"]["interval"] == 15


async def test_a_merge_patch_under_a_stale_version_is_a_conflict(api: Api):
    before = await _stored(api)
    body = {"metadata": {"resourceVersion": before["metadata"]["resourceVersion"]}, "spec": {"interval": 20}}
    (await api.patch(GADGETS, "a", body)).ok()
    answer = await api.patch(GADGETS, "a", {**body, "spec": {"interval": 30}})
    assert answer.failure == (409, "Conflict")
    assert (answer.details["name"], answer.details["kind"]) == ("a", "gadgets")


async def test_a_merge_patch_with_another_uid_is_invalid_and_no_precondition(api: Api):
    await _stored(api)
    answer = await api.patch(GADGETS, "a", {"metadata": {"uid": "other", "labels": {"x": "1"}}})
    assert answer.failure == (422, "Invalid")
    assert answer.causes == {"metadata.uid": 'Invalid value: "other": field is immutable'}


async def test_an_empty_patch_changes_nothing(api: Api):
    before = await _stored(api)
    assert (await api.patch(GADGETS, "a", {})).ok() == before


async def test_a_stale_version_in_a_patch_that_would_change_nothing_is_still_a_conflict(api: Api):
    before = await _stored(api)
    (await api.patch(GADGETS, "a", {"spec": {"interval": 20}})).ok()
    body = {"metadata": {"resourceVersion": before["metadata"]["resourceVersion"]}, "spec": {"interval": 20}}
    assert (await api.patch(GADGETS, "a", body)).failure == (409, "Conflict")


async def test_patching_what_does_not_exist_is_404(api: Api):
    for content_type, body in ((MERGE_PATCH, {"spec": {}}), (JSON_PATCH, [])):
        assert (await api.patch(GADGETS, "none", body, content_type)).failure == (404, "NotFound")


async def test_a_patch_cannot_rename(api: Api):
    await _stored(api)
    assert (await api.patch(GADGETS, "a", {"metadata": {"name": "b"}})).failure[0] in (400, 422)


async def test_a_merge_patch_that_is_no_object_is_a_bad_request(api: Api):
    await _stored(api)
    for body in (b"[]", b"{nonsense", b"7"):
        assert (await api.patch(GADGETS, "a", body)).status in (400, 422)


async def test_a_dry_run_patch_answers_and_stores_nothing(api: Api):
    before = await _stored(api)
    assert (await api.patch(GADGETS, "a", {"spec": {"interval": 20}}, dryRun="All")).ok()["spec"]["interval"] == 20
    assert (await api.read(GADGETS, "a")).ok() == before


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/nonsense"])
async def test_an_unknown_kind_of_patch_is_415(api: Api, content_type: str):
    await _stored(api)
    assert (await api.patch(GADGETS, "a", {}, content_type)).failure == (415, "UnsupportedMediaType")


# ---- strategic merge -------------------------------------------------------------------------------------------------


async def test_a_strategic_merge_is_for_built_in_kinds_only(api: Api):
    await _stored(api)
    assert (await api.patch(GADGETS, "a", {"spec": {}}, STRATEGIC_PATCH)).failure == (415, "UnsupportedMediaType")


async def test_a_strategic_merge_merges_lists_by_their_key(api: Api):
    made = pod("a")
    made["metadata"]["finalizers"] = ["example.com/x"]
    made["spec"]["containers"].append({"name": "side", "image": "s"})
    (await api.create(PODS, made)).ok()
    body = {"metadata": {"finalizers": ["example.com/y"]}, "spec": {"containers": [{"name": "side", "image": "s2"}]}}
    stored = (await api.patch(PODS, "a", body, STRATEGIC_PATCH)).ok()
    assert {each["name"]: each["image"] for each in stored["spec"]["containers"]} == {"main": "i", "side": "s2"}
    assert sorted(stored["metadata"]["finalizers"]) == ["example.com/x", "example.com/y"]
    delete = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/x", "example.com/y"]}}
    assert "finalizers" not in (await api.patch(PODS, "a", delete, STRATEGIC_PATCH)).ok()["metadata"]


async def test_a_strategic_merge_sets_conditions_of_a_pod_by_type(api: Api):
    (await api.create(PODS, pod("a", node="n1"))).ok()
    for condition in ("Ready", "Initialized"):
        body = {"status": {"conditions": [{"type": condition, "status": "True"}]}}
        (await api.patch(PODS, "a", body, STRATEGIC_PATCH, "status")).ok()
    stored = (await api.read(PODS, "a")).ok()
    assert {"Ready", "Initialized"} <= {condition["type"] for condition in stored["status"]["conditions"]}


async def test_a_strategic_merge_replaces_a_map_on_demand(api: Api):
    (await api.create(CONFIG_MAPS, config_map("a", x="1", y="2"))).ok()
    body = {"data": {"$patch": "replace", "z": "3"}}
    assert (await api.patch(CONFIG_MAPS, "a", body, STRATEGIC_PATCH)).ok()["data"] == {"z": "3"}
