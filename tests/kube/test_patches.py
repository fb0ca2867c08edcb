"""Patches as they go over the wire."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.kube import JsonPatch, apply_patch, json_pointer, merge_patch


def test_a_json_patch_keeps_the_order_of_its_operations() -> None:
    patch = (
        JsonPatch()
        .test("/metadata/annotations", "example.org/term", value="3")
        .replace("/spec/roles", 0, "replicas", value=5)
        .add("/metadata/annotations", "example.org/written", value="decode=5")
        .remove("/metadata/labels", "a~b")
        .build()
    )
    assert patch.content_type == "application/json-patch+json"
    assert json.loads(patch.body) == [
        {"op": "test", "path": "/metadata/annotations/example.org~1term", "value": "3"},
        {"op": "replace", "path": "/spec/roles/0/replicas", "value": 5},
        {"op": "add", "path": "/metadata/annotations/example.org~1written", "value": "decode=5"},
        {"op": "remove", "path": "/metadata/labels/a~0b"},
    ]


@given(st.text())
def test_any_key_survives_escaping(key: str) -> None:
    pointer = json_pointer("/a", key)
    assert pointer.count("/") == 2
    assert pointer.removeprefix("/a/").replace("~1", "/").replace("~0", "~") == key


def test_a_pointer_without_its_slash_is_refused_here_since_the_server_would_ignore_it() -> None:
    with pytest.raises(ValueError, match="starts with '/'"):
        JsonPatch().replace("spec/replicas", value=1)


@pytest.mark.parametrize("patch", [JsonPatch(), JsonPatch().test("/a", value=1)], ids=["empty", "only tests"])
def test_a_patch_that_changes_nothing_is_refused(patch: JsonPatch) -> None:
    with pytest.raises(ValueError, match="at least one change"):
        patch.build()


def test_a_merge_patch_removes_with_null() -> None:
    patch = merge_patch({"metadata": {"resourceVersion": "7", "labels": {"a": None}}})
    assert patch.content_type == "application/merge-patch+json"
    assert json.loads(patch.body) == {"metadata": {"resourceVersion": "7", "labels": {"a": None}}}


def test_an_apply_patch_needs_to_say_what_it_applies_to() -> None:
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert apply_patch(whole).content_type == "application/apply-patch+yaml"
    for missing in ({"apiVersion": ""}, {"kind": ""}, {"metadata": {}}):
        with pytest.raises(ValueError, match="needs apiVersion"):
            apply_patch(whole | missing)
    with pytest.raises(ValueError, match="managedFields"):
        apply_patch(whole | {"metadata": {"name": "a", "managedFields": []}})


@given(st.dictionaries(st.text(), st.text()))
@example({"\u2028": "\x7f\x85\ufffe"})
def test_an_apply_patch_is_yaml_as_well_as_json(data: dict[str, str]) -> None:
    intent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
    body = apply_patch(intent).body
    assert json.loads(body) == intent
    assert not re.search("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", body.decode())
