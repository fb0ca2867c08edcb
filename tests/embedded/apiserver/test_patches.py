"""JSON, merge and strategic patches: the laws of the RFCs and the departures of the real server."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.embedded.apiserver import ApiError
from controller.embedded.apiserver.patch_json import MAX_OPERATIONS, apply_json_patch
from controller.embedded.apiserver.patch_merge import apply_merge_patch, apply_strategic_patch
from controller.embedded.apiserver.shapes import Shape
from tests.embedded.apiserver.conftest import (
    APPLY_PATCH,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE_PATCH,
    PODS,
    STRATEGIC_PATCH,
    WIDGETS,
    Client,
    config_map,
    widget,
)

DOCUMENT: dict[str, Any] = {"a": {"b": 1, "c~d": {"e/f": 2}}, "list": [1, 2, 3], "null": None}

APPLIED = [
    ("add a member", [{"op": "add", "path": "/a/x", "value": 5}], ("a", "x"), 5),
    ("add replaces a member", [{"op": "add", "path": "/a/b", "value": 5}], ("a", "b"), 5),
    ("add inserts into a list", [{"op": "add", "path": "/list/1", "value": 9}], ("list",), [1, 9, 2, 3]),
    ("add at - appends", [{"op": "add", "path": "/list/-", "value": 9}], ("list",), [1, 2, 3, 9]),
    ("add at -1 appends", [{"op": "add", "path": "/list/-1", "value": 9}], ("list",), [1, 2, 3, 9]),
    ("remove a list item", [{"op": "remove", "path": "/list/0"}], ("list",), [2, 3]),
    ("remove at -1 takes the last", [{"op": "remove", "path": "/list/-1"}], ("list",), [1, 2]),
    ("replace of a missing member adds it", [{"op": "replace", "path": "/a/new", "value": 1}], ("a", "new"), 1),
    ("escapes in a path", [{"op": "replace", "path": "/a/c~0d/e~1f", "value": 7}], ("a", "c~d", "e/f"), 7),
    ("test of a missing member against null passes", [{"op": "test", "path": "/gone", "value": None}], ("null",), None),
    (
        "test that holds",
        [{"op": "test", "path": "/a/b", "value": 1}, {"op": "remove", "path": "/a/b"}],
        ("a",),
        {"c~d": {"e/f": 2}},
    ),
    ("copy", [{"op": "copy", "from": "/list", "path": "/a/list"}], ("a", "list"), [1, 2, 3]),
    ("move", [{"op": "move", "from": "/a/b", "path": "/b"}], ("b",), 1),
    ("copy from nowhere copies null", [{"op": "copy", "from": "/x", "path": "/y"}], ("y",), None),
    ("what precedes the first slash is ignored", [{"op": "add", "path": "a/b", "value": 5}], ("b",), 5),
    ("the empty path replaces the document", [{"op": "replace", "path": "", "value": {"z": 1}}], ("z",), 1),
]


@pytest.mark.parametrize(("patch", "path", "expected"), [row[1:] for row in APPLIED], ids=[row[0] for row in APPLIED])
def test_json_patch(patch: Any, path: tuple[str, ...], expected: Any) -> None:
    found = apply_json_patch(copy.deepcopy(DOCUMENT), patch)
    for name in path:
        found = found[name]
    assert found == expected


REFUSED = [
    ("test of another value", [{"op": "test", "path": "/a/b", "value": 2}]),
    ("test of 1 against 1.0", [{"op": "test", "path": "/a/b", "value": 1.0}]),
    ("test of 1 against true", [{"op": "test", "path": "/a/b", "value": True}]),
    ("remove of a missing member", [{"op": "remove", "path": "/a/x"}]),
    ("add below a missing member", [{"op": "add", "path": "/x/y", "value": 1}]),
    ("replace beyond a list", [{"op": "replace", "path": "/list/3", "value": 1}]),
    ("an index that is no number", [{"op": "add", "path": "/list/x", "value": 1}]),
    ("an unknown operation", [{"op": "frob", "path": "/a"}]),
    ("an operation without path", [{"op": "add", "value": 1}]),
    ("move from nowhere", [{"op": "move", "from": "/x", "path": "/y"}]),
    ("a path without any slash", [{"op": "add", "path": "a", "value": 1}]),
    ("the empty path for add", [{"op": "add", "path": "", "value": {}}]),
    ("test of an item beyond a list against null", [{"op": "test", "path": "/list/9", "value": None}]),
    ("into a scalar", [{"op": "add", "path": "/a/b/c", "value": 1}]),
]


@pytest.mark.parametrize("patch", [row[1] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_json_patch_fails_as_a_whole_on(patch: Any) -> None:
    with pytest.raises(ApiError) as failure:
        apply_json_patch(copy.deepcopy(DOCUMENT), patch)
    assert (failure.value.code, failure.value.reason, failure.value.details) == (422, "Invalid", {})


def test_more_than_ten_thousand_operations_are_too_many() -> None:
    with pytest.raises(ApiError) as failure:
        apply_json_patch({}, [{"op": "test", "path": "/x"}] * (MAX_OPERATIONS + 1))
    assert failure.value.code == 413


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", min_size=1, max_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("xyz", min_size=1, max_size=1), JSON_VALUES, max_size=3)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return value


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_idempotent(document: Any, patch: Any) -> None:
    once = apply_merge_patch(copy.deepcopy(document), copy.deepcopy(patch))
    assert apply_merge_patch(copy.deepcopy(once), copy.deepcopy(patch)) == once


@given(OBJECTS)
def test_a_merge_patch_onto_nothing_is_the_patch_without_nulls(patch: Any) -> None:
    assert apply_merge_patch({}, copy.deepcopy(patch)) == without_nulls(patch)


POD_SPEC = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}], "nodeName": "n"}
STRATEGIC = [
    (
        "merges containers by name",
        {"containers": [{"name": "b", "image": "3"}]},
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "3"}], "nodeName": "n"},
    ),
    (
        "adds a container",
        {"containers": [{"name": "c", "image": "3"}]},
        {"containers": [*POD_SPEC["containers"], {"name": "c", "image": "3"}], "nodeName": "n"},
    ),
    (
        "deletes a container",
        {"containers": [{"name": "a", "$patch": "delete"}]},
        {"containers": [{"name": "b", "image": "2"}], "nodeName": "n"},
    ),
    (
        "follows an order",
        {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "9"}]},
        {"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "9"}], "nodeName": "n"},
    ),
    ("replaces a map", {"$patch": "replace", "nodeName": "m"}, {"nodeName": "m"}),
    ("deletes a member by null", {"nodeName": None}, {"containers": POD_SPEC["containers"]}),
    ("keeps only retained keys", {"$retainKeys": ["nodeName"], "nodeName": "m"}, {"nodeName": "m"}),
    ("replaces an atomic list", {"tolerations": [{"key": "x"}]}, {**POD_SPEC, "tolerations": [{"key": "x"}]}),
]


@pytest.mark.parametrize(("patch", "expected"), [row[1:] for row in STRATEGIC], ids=[row[0] for row in STRATEGIC])
def test_a_strategic_patch(patch: Any, expected: Any) -> None:
    assert apply_strategic_patch(copy.deepcopy(POD_SPEC), patch, Shape(None)) == expected


async def test_a_failed_test_is_indistinguishable_from_a_malformed_patch(api: Client) -> None:
    api.server.put(widget())
    failed = await api.patch(WIDGETS, "one", [{"op": "test", "path": "/spec/mode", "value": "x"}], JSON_PATCH)
    malformed = await api.patch(WIDGETS, "one", [{"op": "nonsense", "path": "/spec"}], JSON_PATCH)
    assert failed.status == malformed.status == 422
    assert failed.json == malformed.json
    assert failed.json["message"] == "the server rejected our request due to an error in our request"
    assert failed.json["details"] == {}


async def test_a_fenced_patch_changes_everything_or_nothing(api: Client) -> None:
    api.server.put(widget(roles=[{"name": "p", "replicas": 1}, {"name": "d", "replicas": 2}]))
    fence = [
        {"op": "test", "path": "/spec/roles/0/replicas", "value": 1},
        {"op": "replace", "path": "/spec/roles/0/replicas", "value": 4},
        {"op": "test", "path": "/spec/roles/1/replicas", "value": 9},
        {"op": "replace", "path": "/spec/roles/1/replicas", "value": 5},
    ]
    assert (await api.patch(WIDGETS, "one", fence, JSON_PATCH)).status == 422
    assert [role["replicas"] for role in (await api.read(WIDGETS, "one")).json["spec"]["roles"]] == [1, 2]


PATCH_ANSWERS = [
    (
        "a merge patch with an old resourceVersion is a conflict",
        {"metadata": {"resourceVersion": "1"}},
        MERGE_PATCH,
        409,
    ),
    ("a strategic patch of a custom resource is not supported", {}, STRATEGIC_PATCH, 415),
    ("plain JSON is no patch", {}, "application/json", 415),
    ("a merge patch must be an object", [], MERGE_PATCH, 400),
    ("a JSON patch must be a list", {}, JSON_PATCH, 400),
    ("a body that is no JSON", b"{", MERGE_PATCH, 400),
    ("renaming is refused", {"metadata": {"name": "two"}}, MERGE_PATCH, 400),
    ("an apply without manager", {"apiVersion": "example.com/v1", "kind": "Widget"}, APPLY_PATCH, 422),
]


@pytest.mark.parametrize(
    ("body", "content_type", "status"), [row[1:] for row in PATCH_ANSWERS], ids=[row[0] for row in PATCH_ANSWERS]
)
async def test_patch_answers(api: Client, body: Any, content_type: str, status: int) -> None:
    api.server.put(widget())
    assert (await api.patch(WIDGETS, "one", body, content_type)).status == status


async def test_a_patch_of_a_missing_object_is_not_found(api: Client) -> None:
    answer = await api.patch(WIDGETS, "none", {})
    assert (answer.status, answer.json["details"]["kind"]) == (404, "widgets")


async def test_a_strategic_patch_of_a_pod_merges_by_name(api: Client) -> None:
    api.server.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": POD_SPEC})
    answer = await api.patch(PODS, "p", {"spec": {"containers": [{"name": "b", "image": "9"}]}}, STRATEGIC_PATCH)
    assert [(c["name"], c["image"]) for c in answer.json["spec"]["containers"]] == [("a", "1"), ("b", "9")]


async def test_a_patch_may_remove_the_managers_and_the_next_does_not_bring_them_back(api: Client) -> None:
    await api.create(CONFIG_MAPS, config_map(a="b"))
    stripped = await api.patch(CONFIG_MAPS, "one", {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in stripped.json["metadata"]
    after = await api.patch(CONFIG_MAPS, "one", {"data": {"c": "d"}})
    assert "managedFields" not in after.json["metadata"]
