"""Create, replace and the status subresource: what is stored, what is refused, and with which words."""

from __future__ import annotations

import re

import pytest

from tests.cluster.api import Api
from tests.cluster.objects import CONFIG_MAPS, GADGETS, GADGETS_ALPHA, LEASES, PODS, config_map, gadget, lease, pod

# ---- create ----------------------------------------------------------------------------------------------------------


async def test_a_new_object_gets_its_metadata_from_the_server(api: Api):
    answer = await api.create(GADGETS, gadget("a"))
    assert answer.status == 201
    metadata = answer.json["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert metadata["namespace"] == api.namespace
    assert metadata["generation"] == 1
    assert "selfLink" not in metadata


async def test_generations_are_for_kinds_with_a_spec_that_somebody_works_on(api: Api):
    assert "generation" not in (await api.create(CONFIG_MAPS, config_map())).ok()["metadata"]
    assert (await api.create(PODS, pod())).ok()["metadata"]["generation"] == 1


async def test_what_a_client_says_about_server_owned_metadata_is_overruled(api: Api):
    made = gadget("a")
    made["metadata"] |= {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 77,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }
    metadata = (await api.create(GADGETS, made)).ok()["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert metadata["generation"] == 1
    assert "deletionTimestamp" not in metadata


async def test_a_generated_name_is_the_prefix_and_five_characters(api: Api):
    made = gadget()
    made["metadata"] = {"generateName": "x-"}
    name = (await api.create(GADGETS, made)).ok()["metadata"]["name"]
    assert re.fullmatch(r"x-[a-z0-9]{5}", name)


async def test_the_status_of_a_new_object_is_dropped(api: Api):
    assert "status" not in (await api.create(GADGETS, {**gadget("a"), "status": {"phase": "x"}})).ok()


async def test_a_name_that_is_taken_is_409_already_exists_with_the_plural(api: Api):
    for resource, obj in ((GADGETS, gadget("a")), (CONFIG_MAPS, config_map("a"))):
        (await api.create(resource, obj)).ok()
        answer = await api.create(resource, obj)
        assert answer.failure == (409, "AlreadyExists")
        assert (answer.details["name"], answer.details["kind"]) == ("a", resource.plural)


async def test_creating_with_a_resource_version_is_500_without_a_reason(api: Api):
    for resource, obj in ((GADGETS, gadget("a")), (CONFIG_MAPS, config_map("a"))):
        obj["metadata"]["resourceVersion"] = "5"
        answer = await api.create(resource, obj)
        assert answer.failure == (500, "")
        assert answer.message == "resourceVersion should not be set on objects to be created"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"metadata": {}}, (422, "Invalid"), id="no name"),
        pytest.param({"metadata": {"name": "A"}}, (422, "Invalid"), id="a name in capitals"),
        pytest.param({"metadata": {"name": "a", "namespace": "other"}}, (400, "BadRequest"), id="another namespace"),
        pytest.param({"metadata": {"name": "a", "labels": {"x y": "1"}}}, (422, "Invalid"), id="a label that is none"),
        pytest.param(
            {"metadata": {"name": "a", "labels": {"x": 1}}}, (400, "BadRequest"), id="a label that is a number"
        ),
        pytest.param(
            {"metadata": {"name": "a", "finalizers": ["bad finalizer"]}},
            (422, "Invalid"),
            id="a finalizer with a space",
        ),
        pytest.param(
            {"metadata": {"name": "a", "ownerReferences": [{"name": "x"}]}},
            (422, "Invalid"),
            id="half an owner reference",
        ),
        pytest.param({"kind": "Widget"}, (422, "Invalid"), id="another kind"),
        pytest.param({"apiVersion": "conformance.example.com/v9"}, (400, "BadRequest"), id="another version"),
    ],
)
async def test_bad_metadata_is_refused(api: Api, change: dict[str, object], expected: tuple[int, str]):
    assert (await api.create(GADGETS, {**gadget("a"), **change})).failure == expected


async def test_a_body_that_is_no_json_is_a_bad_request(api: Api):
    for resource in (GADGETS, CONFIG_MAPS):
        assert (await api.create(resource, b"{nonsense")).failure == (400, "BadRequest")
        assert (await api.create(resource, b"")).failure == (400, "BadRequest")


async def test_kind_and_api_version_may_be_left_out_for_core_kinds(api: Api):
    stored = (await api.create(CONFIG_MAPS, {"metadata": {"name": "a"}})).ok()
    assert (stored["kind"], stored["apiVersion"]) == ("ConfigMap", "v1")


async def test_an_unknown_media_type_is_415(api: Api):
    answer = await api.create(CONFIG_MAPS, b"x: 1", content_type="application/x-nonsense")
    assert answer.failure == (415, "UnsupportedMediaType")


async def test_yaml_is_as_good_as_json(api: Api):
    body = b"apiVersion: conformance.example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec: {targetRef: {name: t}}\n"
    assert (await api.create(GADGETS, body, content_type="application/yaml")).status == 201


async def test_a_namespace_that_does_not_exist_is_404_by_its_own_name(api: Api):
    answer = await api("POST", CONFIG_MAPS.path("no-such-namespace"), config_map())
    assert answer.failure == (404, "NotFound")
    assert (answer.details["kind"], answer.details["name"]) == ("namespaces", "no-such-namespace")


async def test_a_dry_run_answers_and_stores_nothing(api: Api):
    assert (await api.create(GADGETS, gadget("a"), dryRun="All")).status == 201
    answer = await api.read(GADGETS, "a")
    assert answer.failure == (404, "NotFound")
    assert (answer.details["name"], answer.details["kind"], answer.details["group"]) == ("a", "gadgets", GADGETS.group)
    assert answer.message == 'gadgets.conformance.example.com "a" not found'


async def test_an_unknown_dry_run_is_refused(api: Api):
    assert (await api.create(GADGETS, gadget("a"), dryRun="Some")).status in (400, 422)


async def test_posting_to_the_path_of_a_custom_object_acts_as_create(api: Api):
    assert (await api("POST", api.path(GADGETS, "a"), gadget("a"))).status == 201


async def test_verbs_that_a_path_does_not_have(api: Api):
    (await api.create(CONFIG_MAPS, config_map("a"))).ok()
    (await api.create(GADGETS, gadget("a"))).ok()
    for method in ("PUT", "PATCH"):
        assert (
            await api(method, api.path(CONFIG_MAPS), config_map("a"), content_type="application/json")
        ).status == 405
    for method, kind in (("PUT", "application/json"), ("PATCH", "application/merge-patch+json")):
        assert (await api(method, api.path(GADGETS), gadget("a"), content_type=kind)).failure == (400, "BadRequest")
    assert (await api("POST", api.path(CONFIG_MAPS, "a"), config_map("a"))).status == 405
    assert (await api("HEAD", api.path(CONFIG_MAPS, "a"))).status == 405
    assert (await api("HEAD", api.path(GADGETS, "a"))).status == 200


async def test_too_large_a_body_is_413_and_too_large_an_object_is_an_error(api: Api):
    assert (await api.create(CONFIG_MAPS, config_map("a", x="x" * 3_200_000))).status == 413
    assert (await api.create(GADGETS, gadget("a", free={"x": "x" * 2_100_000}))).status in (413, 500)
    assert (await api.create(CONFIG_MAPS, config_map("b", x="x" * 1_100_000))).failure == (422, "Invalid")


# ---- unknown fields --------------------------------------------------------------------------------------------------


async def test_an_unknown_field_is_dropped_with_a_warning(api: Api):
    answer = await api.create(GADGETS, gadget("a", nonsense=1))
    assert "nonsense" not in answer.ok()["spec"]
    assert answer.warnings == ['unknown field "spec.nonsense"']


async def test_strict_validation_refuses_it(api: Api):
    answer = await api.create(GADGETS, gadget("a", nonsense=1), fieldValidation="Strict")
    assert answer.failure == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.nonsense"' in answer.message
    (await api.create(GADGETS, gadget("a"))).ok()
    patched = await api.patch(GADGETS, "a", {"spec": {"nonsense": 1}}, fieldValidation="Strict")
    assert patched.failure == (422, "Invalid")
    assert list(patched.causes) == ["patch"]


async def test_validation_may_be_turned_off(api: Api):
    answer = await api.create(GADGETS, gadget("a", nonsense=1), fieldValidation="Ignore")
    assert answer.status == 201
    assert answer.warnings == []


# ---- replace ---------------------------------------------------------------------------------------------------------


async def test_a_replacement_under_the_right_version_moves_it(api: Api):
    stored = (await api.create(GADGETS, gadget("a"))).ok()
    stored["spec"]["interval"] = 20
    answer = await api.update(GADGETS, stored)
    assert answer.status == 200
    assert int(answer.version) > int(stored["metadata"]["resourceVersion"])
    assert answer.json["metadata"]["generation"] == 2


async def test_a_replacement_under_a_stale_version_is_a_conflict(api: Api):
    for resource, obj in ((GADGETS, gadget("a")), (CONFIG_MAPS, config_map("a"))):
        stale = (await api.create(resource, obj)).ok()
        (await api.patch(resource, "a", {"metadata": {"labels": {"x": "1"}}})).ok()
        answer = await api.update(resource, stale)
        assert answer.failure == (409, "Conflict")
        assert (answer.details["name"], answer.details["kind"]) == ("a", resource.plural)
        assert "the object has been modified" in answer.message


async def test_without_a_version_custom_resources_are_refused_and_config_maps_are_not(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    answer = await api.update(GADGETS, gadget("a"))
    assert answer.failure == (422, "Invalid")
    assert answer.causes == {"metadata.resourceVersion": "Invalid value: 0: must be specified for an update"}
    (await api.create(CONFIG_MAPS, config_map("a"))).ok()
    assert (await api.update(CONFIG_MAPS, config_map("a", x="1"))).ok()["data"] == {"x": "1"}


async def test_replacing_what_does_not_exist_is_404(api: Api):
    for resource, obj in ((GADGETS, gadget("a")), (CONFIG_MAPS, config_map("a"))):
        obj["metadata"]["resourceVersion"] = "1"
        assert (await api.update(resource, obj)).failure == (404, "NotFound")


async def test_a_lease_that_does_not_exist_is_created_by_its_replacement(api: Api):
    made = lease("a", holderIdentity="x")
    made["metadata"]["resourceVersion"] = "7"
    assert (await api.update(LEASES, made)).status == 201
    answer = await api.update(LEASES, lease("a", holderIdentity="y"))
    assert answer.failure == (422, "Invalid")
    assert list(answer.causes) == ["metadata.resourceVersion"]


async def test_another_uid_is_a_conflict(api: Api):
    stored = (await api.create(GADGETS, gadget("a"))).ok()
    stored["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    answer = await api.update(GADGETS, stored)
    assert answer.failure == (409, "Conflict")


async def test_another_name_than_in_the_path_is_a_bad_request(api: Api):
    stored = (await api.create(GADGETS, gadget("a"))).ok()
    stored["metadata"]["name"] = "b"
    assert (await api("PUT", api.path(GADGETS, "a"), stored)).failure == (400, "BadRequest")


async def test_a_version_that_is_no_number_is_500(api: Api):
    stored = (await api.create(GADGETS, gadget("a"))).ok()
    stored["metadata"]["resourceVersion"] = "x"
    assert (await api.update(GADGETS, stored)).status == 500


async def test_both_versions_show_one_object(api: Api):
    stored = (await api.create(GADGETS, gadget("a", interval=20))).ok()
    seen = (await api.read(GADGETS_ALPHA, "a")).ok()
    assert seen["apiVersion"] == GADGETS_ALPHA.api_version
    assert (seen["metadata"]["uid"], seen["spec"]) == (stored["metadata"]["uid"], stored["spec"])
    seen["spec"]["interval"] = 30
    (await api.update(GADGETS_ALPHA, seen)).ok()
    assert (await api.read(GADGETS, "a")).ok()["spec"]["interval"] == 30


# ---- generation and status -------------------------------------------------------------------------------------------


async def test_the_generation_counts_changes_of_the_spec_and_nothing_else(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    generations = [
        (await api.patch(GADGETS, "a", body, subresource=subresource)).ok()["metadata"]["generation"]
        for body, subresource in (
            ({"metadata": {"labels": {"x": "1"}}}, None),
            ({"status": {"phase": "Ready"}}, "status"),
            ({"spec": {"interval": 20}}, None),
            ({"spec": {"interval": 20}}, None),
        )
    ]
    assert generations == [1, 1, 2, 2]


async def test_a_status_write_ignores_spec_and_metadata(api: Api):
    stored = (await api.create(GADGETS, gadget("a", labels={"x": "1"}))).ok()
    stored["spec"]["interval"] = 99
    stored["metadata"]["labels"] = {"x": "2"}
    stored["metadata"]["finalizers"] = ["example.com/x"]
    stored["status"] = {"phase": "Ready", "count": 3}
    answer = (await api.update(GADGETS, stored, "status")).ok()
    assert answer["status"] == {"phase": "Ready", "count": 3}
    assert (answer["spec"]["interval"], answer["metadata"]["labels"]) == (15, {"x": "1"})
    assert "finalizers" not in answer["metadata"]


async def test_a_main_write_ignores_the_status(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    (await api.patch(GADGETS, "a", {"status": {"phase": "Ready"}}, subresource="status")).ok()
    stored = (await api.patch(GADGETS, "a", {"spec": {"interval": 20}, "status": {"phase": "Lost"}})).ok()
    assert (stored["spec"]["interval"], stored["status"]) == (20, {"phase": "Ready"})
    assert (await api.patch(GADGETS, "a", {"status": None})).ok()["status"] == {"phase": "Ready"}


async def test_a_stale_status_write_is_a_conflict(api: Api):
    stale = (await api.create(GADGETS, gadget("a"))).ok()
    (await api.patch(GADGETS, "a", {"spec": {"interval": 20}})).ok()
    assert (await api.update(GADGETS, {**stale, "status": {"phase": "x"}}, "status")).failure == (409, "Conflict")
    body = {"metadata": {"resourceVersion": stale["metadata"]["resourceVersion"]}, "status": {"phase": "x"}}
    assert (await api.patch(GADGETS, "a", body, subresource="status")).failure == (409, "Conflict")


async def test_an_invalid_status_is_refused(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    answer = await api.patch(GADGETS, "a", {"status": {"count": "three"}}, subresource="status")
    assert answer.failure == (422, "Invalid")
    assert list(answer.causes) == ["status.count", "<nil>"], "and a note that rules were not checked"


async def test_the_status_subresource_reads_the_whole_object(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    assert (await api.read(GADGETS, "a", "status")).ok()["spec"]["interval"] == 15


async def test_a_kind_without_the_subresource_has_no_such_path(api: Api):
    (await api.create(CONFIG_MAPS, config_map("a"))).ok()
    assert (await api.read(CONFIG_MAPS, "a", "status")).status == 404
