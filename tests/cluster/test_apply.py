"""Server-side apply and managedFields: who owns what, who may take it, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.api import APPLY_PATCH, Api
from tests.cluster.objects import CONFIG_MAPS, GADGETS, config_map, gadget


def _entry(obj: dict[str, Any], manager: str, subresource: str = "") -> dict[str, Any]:
    (found,) = [
        entry
        for entry in obj["metadata"]["managedFields"]
        if entry["manager"] == manager and entry.get("subresource", "") == subresource
    ]
    return found


async def test_applying_what_does_not_exist_creates_it(api: Api):
    answer = await api.apply(GADGETS, gadget("a"), "alice")
    assert answer.status == 201
    entry = _entry(answer.json, "alice")
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Apply", GADGETS.api_version, "FieldsV1")
    assert entry["fieldsV1"] == {"f:spec": {"f:targetRef": {"f:name": {}}}}


async def test_applying_the_same_again_changes_nothing(api: Api):
    first = await api.apply(GADGETS, gadget("a"), "alice")
    second = await api.apply(GADGETS, gadget("a"), "alice")
    assert (second.status, second.version) == (200, first.version)


async def test_a_field_of_another_manager_is_a_conflict_that_names_both(api: Api):
    (await api.apply(GADGETS, gadget("a", interval=20), "alice")).ok()
    answer = await api.apply(GADGETS, gadget("a", interval=30), "bob")
    assert answer.failure == (409, "Conflict")
    (cause,) = answer.details["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".spec.interval")
    assert cause["message"].startswith('conflict with "alice"')
    assert (await api.read(GADGETS, "a")).ok()["spec"]["interval"] == 20


async def test_force_takes_the_field_over(api: Api):
    (await api.apply(GADGETS, gadget("a", interval=20), "alice")).ok()
    taken = (await api.apply(GADGETS, gadget("a", interval=30), "bob", force=True)).ok()
    assert taken["spec"]["interval"] == 30
    assert "f:interval" not in _entry(taken, "alice")["fieldsV1"]["f:spec"]
    assert "f:interval" in _entry(taken, "bob")["fieldsV1"]["f:spec"]


async def test_the_same_value_is_owned_by_both(api: Api):
    (await api.apply(GADGETS, gadget("a", interval=20), "alice")).ok()
    stored = (await api.apply(GADGETS, gadget("a", interval=20), "bob")).ok()
    for manager in ("alice", "bob"):
        assert "f:interval" in _entry(stored, manager)["fieldsV1"]["f:spec"]


async def test_a_field_that_is_left_out_is_removed_if_nobody_else_owns_it(api: Api):
    (await api.apply(GADGETS, gadget("a", tags=["x"], ratio="2"), "alice")).ok()
    (await api.apply(GADGETS, gadget("a", ratio="2"), "bob")).ok()
    stored = (await api.apply(GADGETS, gadget("a"), "alice")).ok()
    assert "tags" not in stored["spec"]
    assert stored["spec"]["ratio"] == "2"


async def test_lists_with_keys_are_merged_by_key(api: Api):
    (await api.apply(GADGETS, gadget("a", roles=[{"name": "x", "max": 2}]), "alice")).ok()
    stored = (await api.apply(GADGETS, gadget("a", roles=[{"name": "y", "max": 3}]), "bob")).ok()
    assert {role["name"]: role["max"] for role in stored["spec"]["roles"]} == {"x": 2, "y": 3}
    assert 'k:{"name":"y"}' in _entry(stored, "bob")["fieldsV1"]["f:spec"]["f:roles"]
    stored = (await api.apply(GADGETS, gadget("a"), "bob")).ok()
    assert [role["name"] for role in stored["spec"]["roles"]] == ["x"]


async def test_sets_are_merged_by_value(api: Api):
    (await api.apply(GADGETS, gadget("a", tags=["x"]), "alice")).ok()
    stored = (await api.apply(GADGETS, gadget("a", tags=["y"]), "bob")).ok()
    assert sorted(stored["spec"]["tags"]) == ["x", "y"]


async def test_an_update_by_another_manager_takes_fields_too(api: Api):
    (await api.apply(GADGETS, gadget("a", interval=20), "alice")).ok()
    stored = (await api.patch(GADGETS, "a", {"spec": {"interval": 40}}, fieldManager="carol")).ok()
    entry = _entry(stored, "carol")
    assert (entry["operation"], entry["fieldsV1"]) == ("Update", {"f:spec": {"f:interval": {}}})
    assert (await api.apply(GADGETS, gadget("a", interval=20), "alice")).failure == (409, "Conflict")


async def test_without_a_manager_an_update_is_recorded_under_the_user_agent(api: Api):
    stored = (await api.create(GADGETS, gadget("a"))).ok()
    assert _entry(stored, "tests")["operation"] == "Update"


async def test_an_update_owns_containers_and_leaves_an_apply_leaves_alone(api: Api):
    made = gadget("a", tags=["x"])
    made["metadata"] |= {"finalizers": ["example.com/x"], "labels": {"l": "1"}}
    stored = (await api.create(GADGETS, made)).ok()
    assert _entry(stored, "tests")["fieldsV1"] == {
        "f:metadata": {
            "f:finalizers": {".": {}, 'v:"example.com/x"': {}},
            "f:labels": {".": {}, "f:l": {}},
        },
        "f:spec": {
            ".": {},
            "f:interval": {},
            "f:mode": {},
            "f:tags": {".": {}, 'v:"x"': {}},
            "f:targetRef": {".": {}, "f:name": {}},
        },
    }


async def test_a_status_write_has_an_entry_of_its_own(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    (await api.patch(GADGETS, "a", {"status": {"phase": "x"}}, subresource="status", fieldManager="tests")).ok()
    stored = (await api.read(GADGETS, "a")).ok()
    assert _entry(stored, "tests", "status")["fieldsV1"] == {"f:status": {".": {}, "f:phase": {}}}
    assert "f:spec" in _entry(stored, "tests")["fieldsV1"]


async def test_the_status_may_be_applied(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    body = {"apiVersion": GADGETS.api_version, "kind": "Gadget", "metadata": {"name": "a"}, "status": {"phase": "x"}}
    stored = (await api.apply(GADGETS, body, "alice", subresource="status")).ok()
    assert stored["status"] == {"phase": "x"}
    assert _entry(stored, "alice", "status")["operation"] == "Apply"


async def test_an_apply_without_a_manager_is_invalid(api: Api):
    answer = await api.patch(GADGETS, "a", gadget("a"), APPLY_PATCH)
    assert answer.failure == (422, "Invalid")
    assert list(answer.causes) == ["fieldManager"]


async def test_an_apply_that_brings_managed_fields_is_a_bad_request(api: Api):
    made = gadget("a")
    made["metadata"]["managedFields"] = [{"manager": "x"}]
    assert (await api.apply(GADGETS, made, "alice")).failure == (400, "BadRequest")


async def test_an_apply_under_a_stale_version_is_a_conflict(api: Api):
    made = gadget("a")
    made["metadata"]["resourceVersion"] = (await api.apply(GADGETS, gadget("a"), "alice")).version
    (await api.patch(GADGETS, "a", {"spec": {"interval": 20}})).ok()
    assert (await api.apply(GADGETS, made, "alice")).failure == (409, "Conflict")


async def test_an_apply_that_creates_ignores_the_version_that_it_names(api: Api):
    made = gadget("a")
    made["metadata"]["resourceVersion"] = "5"
    assert (await api.apply(GADGETS, made, "alice")).status == 201


async def test_duplicate_keys_and_wrong_types_are_500_without_a_reason(api: Api):
    for spec in ({"roles": [{"name": "x"}, {"name": "x"}]}, {"roles": "x"}, {"interval": "x"}, {"tags": ["x", "x"]}):
        assert (await api.apply(GADGETS, gadget("a", **spec), "alice")).failure == (500, "")


async def test_an_invalid_object_is_refused_as_by_any_write(api: Api):
    answer = await api.apply(GADGETS, gadget("a", interval=1), "alice")
    assert (answer.failure, list(answer.causes)) == ((422, "Invalid"), ["spec.interval"])


async def test_yaml_can_be_applied(api: Api):
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"
    assert (await api.patch(CONFIG_MAPS, "a", body, APPLY_PATCH, fieldManager="alice")).ok()["data"] == {"x": "1"}


async def test_managed_fields_can_be_stripped_and_the_next_patch_does_not_bring_them_back(api: Api):
    (await api.create(CONFIG_MAPS, config_map("a"))).ok()
    stripped = (await api.patch(CONFIG_MAPS, "a", {"metadata": {"managedFields": [{}]}})).ok()
    assert "managedFields" not in stripped["metadata"]
    again = (await api.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, fieldManager="carol")).ok()
    assert "managedFields" not in again["metadata"]


async def test_annotations_and_labels_are_owned_one_by_one(api: Api):
    made = gadget("a")
    made["metadata"]["annotations"] = {"example.com/x": "1"}
    (await api.apply(GADGETS, made, "alice")).ok()
    stored = (
        await api.patch(GADGETS, "a", {"metadata": {"annotations": {"example.com/y": "2"}}}, fieldManager="carol")
    ).ok()
    assert _entry(stored, "carol")["fieldsV1"] == {"f:metadata": {"f:annotations": {"f:example.com/y": {}}}}


def _as(entries: list[dict[str, Any]], **changes: Any) -> list[dict[str, Any]]:
    return [entry | changes for entry in entries]


async def test_a_write_that_brings_managed_fields_says_who_owns_what(api: Api):
    """As kubectl does when an object goes over from client-side apply."""
    made = (await api.apply(CONFIG_MAPS, config_map("a", one="1"), "old")).ok()
    renamed = _as(made["metadata"]["managedFields"], manager="new")
    patched = (await api.patch(CONFIG_MAPS, "a", {"metadata": {"managedFields": renamed}})).ok()
    assert [entry["manager"] for entry in patched["metadata"]["managedFields"]] == ["new"]
    (await api.apply(CONFIG_MAPS, config_map("a"), "new")).ok()
    assert not (await api.read(CONFIG_MAPS, "a")).ok().get("data"), "what the new owner leaves out goes"


async def test_a_write_that_brings_managed_fields_and_a_change_is_counted_besides(api: Api):
    made = (await api.apply(CONFIG_MAPS, config_map("a", one="1"), "old")).ok()
    renamed = _as(made["metadata"]["managedFields"], manager="new")
    patched = (await api.patch(CONFIG_MAPS, "a", {"metadata": {"managedFields": renamed}, "data": {"two": "2"}})).ok()
    assert sorted(entry["operation"] for entry in patched["metadata"]["managedFields"]) == ["Apply", "Update"]


async def test_managed_fields_of_a_status_write_are_not_taken(api: Api):
    (await api.apply(GADGETS, gadget("a", interval=10), "old")).ok()
    made = (await api.read(GADGETS, "a")).ok()
    renamed = _as(made["metadata"]["managedFields"], manager="new")
    body = {"metadata": {"managedFields": renamed}, "status": {"phase": "Ready"}}
    patched = (await api.patch(GADGETS, "a", body, subresource="status")).ok()
    assert "new" not in [entry["manager"] for entry in patched["metadata"]["managedFields"]]


MALFORMED: list[tuple[str, dict[str, Any]]] = [
    ("an operation that does not exist", {"operation": "Guess"}),
    ("fields of a type that does not exist", {"fieldsType": "FieldsV9"}),
    ("fields that are none", {"fieldsV1": {"x": 1}}),
]


@pytest.mark.parametrize("changes", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
async def test_managed_fields_that_cannot_be_read_leave_the_stored_ones(api: Api, changes: dict[str, Any]):
    made = (await api.apply(CONFIG_MAPS, config_map("a", one="1"), "old")).ok()
    broken = _as(made["metadata"]["managedFields"], manager="new", **changes)
    patched = (await api.patch(CONFIG_MAPS, "a", {"metadata": {"managedFields": broken}})).ok()
    assert patched["metadata"]["managedFields"] == made["metadata"]["managedFields"]
