"""Objects are read from untrusted JSON and addressed by paths that lead nowhere else."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.foundation import (
    FieldError,
    ObjectMeta,
    OperationFailed,
    Resource,
    UsageError,
    decode_object,
    split_key,
)

_META = msgspec.json.Decoder(ObjectMeta)
_FULL = {
    "name": "chat",
    "namespace": "models",
    "uid": "u-1",
    "resourceVersion": "42",
    "generation": 3,
    "creationTimestamp": "2026-11-29T15:49:15Z",
    "deletionTimestamp": "2026-11-29T15:50:15Z",
    "labels": {"app": "chat"},
    "annotations": {"note": "x"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-2", "controller": True}],
    "finalizers": ["a/b"],
}


def test_all_members_that_are_read_arrive() -> None:
    meta = _META.decode(msgspec.json.encode(_FULL))
    assert msgspec.json.decode(msgspec.json.encode(meta)) == _FULL


@pytest.mark.parametrize("member", sorted(_FULL))
def test_a_member_that_is_null_reads_like_one_that_is_missing(member: str) -> None:
    missing = {key: value for key, value in _FULL.items() if key != member}
    read = decode_object(_META, msgspec.json.encode(_FULL | {member: None}))
    assert read == _META.decode(msgspec.json.encode(missing))


_NULLS = [
    ("a null member of an owner", b'{"ownerReferences":[{"uid":null,"name":"p"}]}', "owner_references", "p"),
    ("a null label value", b'{"labels":{"a":null,"b":"p"}}', "labels", "p"),
    ("a null member beside an unknown one", b'{"name":null,"uid":"p","managedFields":[{"a":[null]}]}', "uid", "p"),
]


@pytest.mark.parametrize(("body", "field", "kept"), [row[1:] for row in _NULLS], ids=[row[0] for row in _NULLS])
def test_null_inside_a_member_costs_only_itself(body: bytes, field: str, kept: str) -> None:
    assert kept in str(getattr(decode_object(_META, body), field))


_REFUSED = [
    ("a member of the wrong type", b'{"name":null,"generation":"three"}', r"\$\.generation"),
    ("null in a list, whose indices must not shift", b'{"finalizers":["a",null]}', r"\$\.finalizers\[1\]"),
    ("a list for the object", b"[]", "Expected `object`"),
    ("null for the object", b"null", "Expected `object`"),
    ("half a line", b'{"name":"ch', "truncated"),
    ("nothing", b"", "truncated"),
    ("HTML", b"<html>502 Bad Gateway</html>", "malformed"),
    ("nesting without end", b'{"x":' + b"[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("body", "message"), [row[1:] for row in _REFUSED], ids=[row[0] for row in _REFUSED])
def test_what_does_not_fit_is_refused_with_its_path(body: bytes, message: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=message):
        decode_object(_META, body)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda key: key not in _FULL), _JSON, max_size=4))
def test_unknown_members_are_ignored(unknown: dict[str, object]) -> None:
    assert decode_object(_META, msgspec.json.encode(unknown | _FULL)) == _META.decode(msgspec.json.encode(_FULL))


@given(st.dictionaries(st.sampled_from(sorted(_FULL)), _JSON, max_size=5))
def test_any_json_is_read_or_refused(members: dict[str, object]) -> None:
    try:
        assert isinstance(decode_object(_META, msgspec.json.encode(members)), ObjectMeta)
    except msgspec.ValidationError as refused:
        assert "$" in str(refused)  # noqa: PT017 - both outcomes are right, a third is not


def test_labels_and_annotations_of_a_bare_object_are_absent() -> None:
    bare = ObjectMeta()
    assert (bare.label("a"), bare.annotation("a")) == (None, None)
    full = ObjectMeta(labels={"a": "1"}, annotations={"b": ""})
    assert (full.label("a"), full.annotation("b"), full.label("b")) == ("1", "", None)


_POD = Resource("", "v1", "pods", "Pod")
_NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
_LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")

_PATHS = [
    ("all namespaces of a core kind", _POD, (), "/api/v1/pods"),
    ("one namespace", _POD, ("models",), "/api/v1/namespaces/models/pods"),
    ("one object", _POD, ("models", "chat-0"), "/api/v1/namespaces/models/pods/chat-0"),
    ("a subresource", _POD, ("models", "chat-0", "exec"), "/api/v1/namespaces/models/pods/chat-0/exec"),
    ("a cluster-scoped kind", _NODE, (), "/api/v1/nodes"),
    ("a cluster-scoped object has no namespace in its path", _NODE, ("models", "n-1"), "/api/v1/nodes/n-1"),
    (
        "a kind of a group",
        _LEASE,
        ("models", "mdscaler"),
        "/apis/coordination.k8s.io/v1/namespaces/models/leases/mdscaler",
    ),
    ("a name with a colon, as RBAC has", _NODE, (None, "system:x"), "/api/v1/nodes/system:x"),
]


@pytest.mark.parametrize(("resource", "address", "path"), [row[1:] for row in _PATHS], ids=[row[0] for row in _PATHS])
def test_an_object_is_addressed_as_kubernetes_does(
    resource: Resource, address: tuple[str | None, ...], path: str
) -> None:
    assert resource.path(*address) == path


@pytest.mark.parametrize("bad", ["..", ".", "a/b", "a%2fb", "a?watch=1", "a#b", "a b", "a\r\nHost: x", "a\\b"])
def test_a_name_that_leads_to_another_path_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        _POD.path("models", bad)
    with pytest.raises(ValueError, match="not a name"):
        _POD.path(bad, "chat-0")


@given(st.text(min_size=1, max_size=20))
def test_every_name_stays_in_its_own_segment(name: str) -> None:
    try:
        path = _POD.path("models", name)
    except ValueError:
        return
    assert path.startswith("/api/v1/namespaces/models/pods/")
    assert urlsplit(f"http://server{path}").path.count("/") == 6


def test_an_api_version_names_the_group_where_there_is_one() -> None:
    assert (_POD.api_version, _LEASE.api_version) == ("v1", "coordination.k8s.io/v1")


@pytest.mark.parametrize(("namespace", "name"), [("models", "chat"), ("", "node-1")])
def test_a_key_is_split_into_what_it_was_made_of(namespace: str, name: str) -> None:
    assert split_key(ObjectMeta(name=name, namespace=namespace).key) == (namespace, name)


def test_findings_name_their_field_and_sort_by_it() -> None:
    findings = [FieldError("spec.b", "must be set"), FieldError("spec.a", "must be positive")]
    assert [str(finding) for finding in sorted(findings)] == ["spec.a: must be positive", "spec.b: must be set"]


def test_errors_carry_the_exit_status_of_the_command() -> None:
    assert (UsageError("bad option").exit_status, OperationFailed("port in use").exit_status) == (2, 1)
