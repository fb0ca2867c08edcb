"""Server-side apply: ownership, conflicts, removal."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.embedded.apiserver.apply import Author, Manager, apply_configuration, read_managers, write_managers
from controller.embedded.apiserver.field_sets import field_set, from_fields_v1, to_fields_v1
from controller.embedded.apiserver.shapes import Shape, root_shape
from controller.foundation import ManualClock
from tests.embedded.apiserver.conftest import (
    APPLY_PATCH,
    JSON_PATCH,
    PODS,
    WIDGET_CRD,
    WIDGETS,
    Answer,
    Client,
    Start,
    widget,
)


async def apply(api: Client, body: dict[str, Any], manager: str, **query: Any) -> Answer:
    return await api.patch(WIDGETS, "one", body, APPLY_PATCH, fieldManager=manager, **query)


def applied(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": spec}


def role(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, **members}


async def test_apply_creates_what_is_missing_and_owns_what_it_states(api: Client) -> None:
    answer = await apply(api, applied(mode="Shadow", roles=[role("d", replicas=1)]), "gitops")
    assert answer.status == 201
    (entry,) = answer.json["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("gitops", "Apply")
    assert entry["fieldsV1"] == {
        "f:spec": {"f:mode": {}, "f:roles": {'k:{"name":"d"}': {".": {}, "f:name": {}, "f:replicas": {}}}}
    }
    assert answer.json["spec"]["interval"] == 15


async def test_the_same_apply_again_writes_nothing(start: Start) -> None:
    clock = ManualClock()
    api = await start(clock=clock)
    first = (await apply(api, applied(mode="Shadow"), "gitops")).json
    clock.advance(60)
    assert (await apply(api, applied(mode="Shadow"), "gitops")).json == first


async def test_a_field_of_another_manager_is_a_conflict_unless_forced(api: Client) -> None:
    await apply(api, applied(mode="Shadow", roles=[role("d", replicas=1)]), "gitops")
    wanted = applied(roles=[role("d", replicas=3)])
    refused = await apply(api, wanted, "scaler")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.json["message"] == (
        'Apply failed with 1 conflict: conflict with "gitops": .spec.roles[name="d"].replicas'
    )
    assert refused.json["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "gitops"',
            "field": '.spec.roles[name="d"].replicas',
        }
    ]
    forced = await apply(api, wanted, "scaler", force=True)
    assert forced.json["spec"]["roles"] == [role("d", replicas=3)]
    owners = {entry["manager"]: entry["fieldsV1"] for entry in forced.json["metadata"]["managedFields"]}
    assert "f:replicas" not in owners["gitops"]["f:spec"]["f:roles"]['k:{"name":"d"}']


async def test_stating_the_present_value_shares_the_field(api: Client) -> None:
    await apply(api, applied(mode="Shadow"), "a")
    shared = await apply(api, applied(mode="Shadow"), "b")
    assert shared.status == 200
    released = await apply(api, applied(interval=20), "a", force=True)
    assert released.json["spec"]["mode"] == "Shadow", "the other manager still owns it"


async def test_what_is_no_longer_stated_goes(api: Client) -> None:
    await apply(api, applied(mode="Shadow", low=3, roles=[role("d", replicas=1), role("p", replicas=2)]), "a")
    answer = await apply(api, applied(mode="Shadow", roles=[role("p", replicas=2)]), "a")
    assert "low" not in answer.json["spec"]
    assert answer.json["spec"]["roles"] == [role("p", replicas=2)]


async def test_an_item_with_a_field_of_another_manager_stays(api: Client) -> None:
    await apply(api, applied(mode="Shadow", roles=[role("d")]), "a")
    await apply(api, applied(roles=[role("d", replicas=5)]), "scaler", force=True)
    answer = await apply(api, applied(mode="Shadow"), "a")
    assert answer.json["spec"]["roles"] == [role("d", replicas=5)]


async def test_an_update_takes_over_and_then_conflicts_by_its_name(api: Client) -> None:
    await apply(api, applied(mode="Shadow", roles=[role("d", replicas=1)]), "a")
    patch = [{"op": "replace", "path": "/spec/roles/0/replicas", "value": 2}]
    await api.patch(WIDGETS, "one", patch, JSON_PATCH, fieldManager="kubectl-edit")
    answer = await apply(api, applied(mode="Shadow", roles=[role("d", replicas=1)]), "a")
    assert answer.status == 409
    assert 'conflict with "kubectl-edit" using example.com/v1: .spec.roles[name="d"].replicas' in answer.json["message"]


FAILURES: list[tuple[str, dict[str, Any], int]] = [
    ("managedFields in the body", {**applied(), "metadata": {"name": "one", "managedFields": [{"manager": "x"}]}}, 400),
    ("duplicate list keys", applied(mode="Shadow", roles=[role("d"), role("d")]), 500),
    ("an item without its key", applied(mode="Shadow", roles=[{"replicas": 1}]), 500),
    ("a value outside the schema", applied(mode="Loud"), 422),
    ("an old resourceVersion", {**applied(), "metadata": {"name": "one", "resourceVersion": "1"}}, 409),
]


async def test_apply_refuses(api: Client) -> None:
    api.server.put(widget())
    for name, body, status in FAILURES:
        assert (await apply(api, body, "a", force=True)).status == status, name


async def test_apply_to_the_status_leaves_the_rest(api: Client) -> None:
    await api.create(WIDGETS, widget())
    body = {**applied(mode="Active"), "status": {"ready": 2}}
    answer = await apply(api, body, "kubelet", subresource="status")
    assert answer.json["status"] == {"ready": 2}
    assert answer.json["spec"]["mode"] == "Shadow"


async def test_apply_takes_yaml_and_builtin_types(api: Client) -> None:
    text = b"""
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {on: "2026-01-01"}}
spec:
  containers:
    - name: c
      image: i
      env: [{name: A, value: "1"}]
"""
    answer = await api("PATCH", PODS.path("default", "p"), text, content_type=APPLY_PATCH, fieldManager="a")
    assert answer.status == 201
    fields = answer.json["metadata"]["managedFields"][0]["fieldsV1"]
    assert 'k:{"name":"A"}' in fields["f:spec"]["f:containers"]['k:{"name":"c"}']["f:env"]


SHAPE = root_shape(WIDGET_CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["Shadow", "Active"]),
        "low": st.integers(0, 3),
        "tags": st.lists(st.sampled_from("abc"), unique=True, max_size=3),
        "labels": st.dictionaries(st.sampled_from("xy"), st.sampled_from("pq"), max_size=2),
        "roles": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"replicas": st.integers(0, 3)}),
            unique_by=lambda item: item["name"],
            max_size=3,
        ),
    },
)


@given(SPECS)
def test_field_sets_survive_their_wire_form(spec: dict[str, Any]) -> None:
    fields = field_set({"spec": spec}, SHAPE)
    assert from_fields_v1(to_fields_v1(fields)) == fields


def apply_all(history: list[tuple[str, dict[str, Any]]], shape: Shape) -> dict[str, Any]:
    live: dict[str, Any] = {"metadata": {}}
    for manager, spec in history:
        author = Author(Manager("Apply", manager, "v1"), shape, "now")
        stated = {"spec": spec}
        result = apply_configuration(live, stated, stated, read_managers(live), author, force=True)
        live = {**result.object, "metadata": {}}
        write_managers(live, result.managers)
    return live


# An empty map states nothing about what is in it.
EMPTY = {("f:spec",), ("f:spec", "f:labels")}


@given(SPECS, SPECS)
def test_one_manager_always_gets_exactly_its_last_statement(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = apply_all([("a", first), ("a", second)], SHAPE)
    assert field_set(live, SHAPE) >= field_set({"spec": second}, SHAPE) - EMPTY
    leftover = field_set(live, SHAPE) - field_set({"spec": second}, SHAPE)
    assert all(path not in field_set({"spec": first}, SHAPE) for path in leftover)


@given(SPECS, SPECS, SPECS)
def test_a_forced_apply_always_wins(first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]) -> None:
    live = apply_all([("a", first), ("b", second), ("a", third)], SHAPE)
    assert field_set(live, SHAPE) >= field_set({"spec": third}, SHAPE) - EMPTY
    for name in ("mode", "low"):
        if name in third:
            assert live["spec"][name] == third[name]
