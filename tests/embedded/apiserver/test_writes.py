"""Create and update as the real server does them (control-plane.md §5)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from controller.foundation import Resource
from tests.embedded.apiserver.conftest import (
    CONFIG_MAPS,
    LEASES,
    MERGE_PATCH,
    NAMESPACES,
    PODS,
    WIDGETS,
    Client,
    Start,
    config_map,
    pod,
    widget,
)


def lease(name: str = "l", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


async def test_a_created_object_gets_identity_generation_and_defaults(api: Client) -> None:
    answer = await api.create(WIDGETS, widget())
    assert answer.status == 201
    metadata = answer.json["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert metadata["generation"] == 1
    assert int(metadata["resourceVersion"]) > 0
    assert answer.json["spec"]["interval"] == 15
    assert (await api.read(WIDGETS, "one")).json == answer.json


async def test_one_counter_numbers_the_writes_of_all_resources(api: Client) -> None:
    first = (await api.create(CONFIG_MAPS, config_map("a"))).json
    second = (await api.create(WIDGETS, widget())).json
    third = (await api.create(CONFIG_MAPS, config_map("b"))).json
    numbers = [int(obj["metadata"]["resourceVersion"]) for obj in (first, second, third)]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


async def test_an_object_is_read_at_every_served_version(api: Client) -> None:
    await api.create(
        Resource("example.com", "v1alpha1", "widgets", "Widget"), widget(api_version="example.com/v1alpha1")
    )
    found = (await api.read(WIDGETS, "one")).json
    assert found["apiVersion"] == "example.com/v1"
    assert found["spec"]["mode"] == "Shadow"


CREATE_FAILURES = [
    ("a name that is taken", WIDGETS, widget("taken"), 409, "AlreadyExists", "widgets"),
    ("a namespace that does not exist", CONFIG_MAPS, config_map(namespace="nowhere"), 404, "NotFound", "namespaces"),
    ("a resourceVersion", WIDGETS, {**widget(), "metadata": {"name": "x", "resourceVersion": "3"}}, 500, "", None),
    ("no name at all", WIDGETS, {**widget(), "metadata": {}}, 422, "Invalid", "Widget"),
    ("a name with capitals", CONFIG_MAPS, config_map("Bad"), 422, "Invalid", "ConfigMap"),
    ("a body of another kind", WIDGETS, {**widget(), "kind": "Gadget"}, 422, "Invalid", "Gadget"),
    ("a body of another version", WIDGETS, widget(api_version="example.com/v2"), 400, "BadRequest", None),
    ("a custom resource without kind", WIDGETS, {"metadata": {"name": "x"}}, 400, "BadRequest", None),
    ("a label that is a number", CONFIG_MAPS, {"metadata": {"name": "x", "labels": {"a": 1}}}, 400, "BadRequest", None),
    ("a Pod without containers", PODS, pod(containers=[]), 422, "Invalid", "Pod"),
]


@pytest.mark.parametrize(
    ("resource", "body", "expected"),
    [(row[1], row[2], row[3:]) for row in CREATE_FAILURES],
    ids=[row[0] for row in CREATE_FAILURES],
)
async def test_create_refuses(
    api: Client, resource: Resource, body: Any, expected: tuple[int, str, str | None]
) -> None:
    status, reason, kind = expected
    api.server.put(widget("taken"))
    answer = await api.create(resource, body)
    assert (answer.status, answer.reason) == (status, reason)
    assert answer.json["kind"] == "Status"
    assert answer.json["code"] == status
    assert answer.json.get("details", {}).get("kind") == kind


async def test_a_generated_name_keeps_its_prefix_and_is_unique(api: Client) -> None:
    bodies = [{**config_map(), "metadata": {"generateName": "run-"}} for _ in range(20)]
    names = {(await api.create(CONFIG_MAPS, body)).json["metadata"]["name"] for body in bodies}
    assert len(names) == 20
    assert all(re.fullmatch(r"run-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_a_missing_namespace_is_made_where_that_is_wanted(start: Start) -> None:
    api = await start(create_namespaces=True)
    assert (await api.create(CONFIG_MAPS, config_map(namespace="nowhere"))).status == 201
    assert (await api.get(NAMESPACES.path(name="nowhere"))).json["status"]["phase"] == "Active"


async def test_a_dry_run_answers_as_if_and_stores_nothing(api: Client) -> None:
    answer = await api.create(WIDGETS, widget(), dryRun="All")
    assert answer.status == 201
    assert answer.json["spec"]["interval"] == 15
    assert (await api.read(WIDGETS, "one")).status == 404


async def test_an_update_needs_the_stored_resource_version(api: Client) -> None:
    created = (await api.create(WIDGETS, widget())).json
    created["spec"]["mode"] = "Active"
    updated = await api.update(WIDGETS, created)
    assert updated.status == 200
    assert updated.json["metadata"]["generation"] == 2
    stale = await api.update(WIDGETS, created)
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert stale.json["message"] == (
        'Operation cannot be fulfilled on widgets.example.com "one": the object has been modified; please apply your '
        "changes to the latest version and try again"
    )


UPDATE_RULES = [
    ("a custom resource without resourceVersion", WIDGETS, widget(), "", 422),
    ("a Lease without resourceVersion", LEASES, lease(holderIdentity="b"), "", 422),
    ("a ConfigMap without resourceVersion", CONFIG_MAPS, config_map(a="b"), "", 200),
    ("a resourceVersion that is no number", WIDGETS, widget(), "abc", 500),
    ("a resourceVersion of the past", CONFIG_MAPS, config_map(a="b"), "1", 409),
]


@pytest.mark.parametrize(
    ("resource", "body", "version", "status"), [row[1:] for row in UPDATE_RULES], ids=[row[0] for row in UPDATE_RULES]
)
async def test_update_with(api: Client, resource: Resource, body: Any, version: str, status: int) -> None:
    api.server.put(body)
    changed = {**body, "metadata": {**body["metadata"], "resourceVersion": version, "labels": {"x": "y"}}}
    assert (await api.update(resource, changed)).status == status


async def test_an_update_of_a_missing_object_creates_a_lease_but_no_widget(api: Client) -> None:
    body = lease(holderIdentity="a")
    body["metadata"]["resourceVersion"] = "77"
    assert (await api.update(LEASES, body)).status == 201
    assert (await api.update(WIDGETS, widget("missing"))).status == 404


async def test_an_update_for_another_uid_is_a_conflict(api: Client) -> None:
    created = (await api.create(WIDGETS, widget())).json
    created["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    assert (await api.update(WIDGETS, created)).status == 409


async def test_a_write_that_changes_nothing_moves_no_resource_version(api: Client) -> None:
    created = (await api.create(WIDGETS, widget())).json
    again = await api.update(WIDGETS, created)
    assert again.json == created
    patched = await api.patch(WIDGETS, "one", {"spec": {"mode": "Shadow"}})
    assert patched.json == created
    assert len(api.server.history(WIDGETS, "one")) == 1


async def test_status_and_main_part_are_written_apart(api: Client) -> None:
    created = (await api.create(WIDGETS, {**widget(), "status": {"ready": 9}})).json
    assert "status" not in created
    both = {**created, "status": {"ready": 3}, "spec": {**created["spec"], "mode": "Active"}}
    both["metadata"] = {**created["metadata"], "labels": {"x": "y"}}
    status = (await api.update(WIDGETS, both, "status")).json
    assert status["status"] == {"ready": 3}
    assert status["spec"]["mode"] == "Shadow"
    assert "labels" not in status["metadata"]
    assert status["metadata"]["generation"] == 1
    main = {**status, "status": {"ready": 4}, "spec": {**status["spec"], "mode": "Active"}}
    written = (await api.update(WIDGETS, main)).json
    assert written["status"] == {"ready": 3}
    assert written["spec"]["mode"] == "Active"
    assert written["metadata"]["generation"] == 2


async def test_labels_do_not_move_the_generation(api: Client) -> None:
    await api.create(WIDGETS, widget())
    answer = await api.patch(WIDGETS, "one", {"metadata": {"labels": {"a": "b"}}})
    assert answer.json["metadata"]["generation"] == 1


METHODS = [
    ("PUT on a collection of widgets", "PUT", WIDGETS.path("default"), 400),
    ("PUT on a collection of config maps", "PUT", CONFIG_MAPS.path("default"), 405),
    ("HEAD on a widget", "HEAD", WIDGETS.path("default", "one"), 200),
    ("HEAD on a config map", "HEAD", CONFIG_MAPS.path("default", "one"), 405),
    ("POST to the path of a config map", "POST", CONFIG_MAPS.path("default", "one"), 405),
    ("GET of an unknown resource", "GET", "/api/v1/namespaces/default/gadgets", 404),
    ("GET of an unknown subresource", "GET", WIDGETS.path("default", "one", "scale"), 404),
    ("GET of a group that is not served", "GET", "/apis/none.example.com/v1/things", 404),
]


@pytest.mark.parametrize(("method", "path", "status"), [r[1:] for r in METHODS], ids=[r[0] for r in METHODS])
async def test_method(api: Client, method: str, path: str, status: int) -> None:
    api.server.put(widget())
    api.server.put(config_map())
    body: dict[str, Any] | None = {} if method in ("PUT", "POST") else None
    assert (await api(method, path, body)).status == status


async def test_post_to_the_path_of_a_widget_creates_it(api: Client) -> None:
    body = widget("posted")
    del body["metadata"]["name"]
    assert (await api("POST", WIDGETS.path("default", "posted"), body)).status == 201


MICRO_TIMES = [
    ("six digits and Z", "2026-11-29T15:49:15.250000Z", 201, "2026-11-29T15:49:15.250000Z"),
    (
        "six digits and an offset come back as UTC",
        "2026-11-29T15:49:15.000000+02:00",
        201,
        "2026-11-29T13:49:15.000000Z",
    ),
    ("no fraction", "2026-11-29T15:49:15Z", 400, ""),
    ("three digits", "2026-11-29T15:49:15.250Z", 400, ""),
]


@pytest.mark.parametrize(("text", "status", "stored"), [r[1:] for r in MICRO_TIMES], ids=[r[0] for r in MICRO_TIMES])
async def test_a_micro_time_has_exactly_six_fraction_digits(api: Client, text: str, status: int, stored: str) -> None:
    answer = await api.create(LEASES, lease(renewTime=text))
    assert answer.status == status
    if status == 201:
        assert answer.json["spec"]["renewTime"] == stored


async def test_leases_are_stamped_with_wall_time_where_the_clock_stands_still(api: Client) -> None:
    stamped = (await api.create(LEASES, lease())).json["metadata"]["creationTimestamp"]
    assert stamped > "2025"


SIZES = [
    ("a body over 3 MiB is too large to be read", 3 * 1024 * 1024 + 1, 413),
    ("an object of 2 MiB is too large to be stored", 2 * 1024 * 1024, 500),
    ("an object of 1 MiB is stored", 1024 * 1024, 201),
]


@pytest.mark.parametrize(("size", "status"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
async def test_size(api: Client, size: int, status: int) -> None:
    assert (await api.create(WIDGETS, widget(free={"blob": "x" * size}))).status == status


async def test_a_config_map_holds_one_mebibyte(api: Client) -> None:
    assert (await api.create(CONFIG_MAPS, config_map(blob="x" * 1024 * 1024))).status == 201
    assert (await api.create(CONFIG_MAPS, config_map("two", blob="x" * (1024 * 1024 + 1)))).status == 422


LOOPBACK = [
    ("Endpoints", "v1", "endpoints", {"subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]}),
    (
        "EndpointSlice",
        "discovery.k8s.io/v1",
        "endpointslices",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["127.1.2.3"]}]},
    ),
]


@pytest.mark.parametrize(("kind", "version", "plural", "body"), LOOPBACK, ids=[row[0] for row in LOOPBACK])
async def test_loopback_addresses_are_refused_in(api: Client, kind: str, version: str, plural: str, body: Any) -> None:
    group, _, number = version.rpartition("/")
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **body}
    answer = await api.create(Resource(group, number, plural, kind), obj)
    assert answer.status == 422
    assert "may not be in the loopback range" in answer.json["message"]


async def test_a_pod_may_carry_a_loopback_address(api: Client) -> None:
    api.server.put(pod())
    answer = await api.patch(PODS, "p", {"status": {"podIP": "127.1.2.3"}}, subresource="status")
    assert answer.json["status"]["podIP"] == "127.1.2.3"


async def test_core_and_newer_events_are_one_store_under_two_groups(api: Client) -> None:
    newer = Resource("events.k8s.io", "v1", "events", "Event")
    core = Resource("", "v1", "events", "Event")
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-11-29T15:49:15.250000Z",
        "reportingController": "c",
        "reportingInstance": "c-1",
        "action": "Scale",
        "reason": "Scaled",
        "type": "Normal",
        "note": "raised",
        "regarding": {"kind": "Widget", "name": "one", "namespace": "default"},
    }
    assert (await api.create(newer, event)).status == 201
    seen = (await api.read(core, "e")).json
    assert (seen["apiVersion"], seen["message"], seen["reportingComponent"]) == ("v1", "raised", "c")
    assert seen["involvedObject"]["name"] == "one"
    patched = await api.patch(newer, "e", {"series": {"count": 2, "lastObservedTime": "2026-11-29T15:50:15.000000Z"}})
    assert patched.json["series"]["count"] == 2
    found = await api.get(core.path("default"), fieldSelector="involvedObject.name=one,reason=Scaled")
    assert len(found.json["items"]) == 1
    bad = {**event, "metadata": {"name": "f"}, "action": ""}
    assert (await api.create(newer, bad)).status == 422


async def test_managers_of_a_status_write_are_named(api: Client) -> None:
    await api.create(WIDGETS, widget(roles=[{"name": "decode", "replicas": 2}]))
    await api.patch(WIDGETS, "one", {"status": {"ready": 1}}, MERGE_PATCH, subresource="status", fieldManager="kubelet")
    await api.patch(
        WIDGETS,
        "one",
        [{"op": "replace", "path": "/spec/roles/0/replicas", "value": 3}],
        "application/json-patch+json",
        fieldManager="scaler",
    )
    entries = (await api.read(WIDGETS, "one")).json["metadata"]["managedFields"]
    owners = {entry["manager"]: entry for entry in entries}
    assert owners["kubelet"]["subresource"] == "status"
    roles = owners["scaler"]["fieldsV1"]["f:spec"]["f:roles"]
    assert roles == {'k:{"name":"decode"}': {"f:replicas": {}}}
    assert "f:replicas" not in owners["tests"]["fieldsV1"]["f:spec"]["f:roles"]['k:{"name":"decode"}']
