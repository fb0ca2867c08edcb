"""Any JSON object decodes into any view; only what is no JSON object does not."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api import (
    ConfigMap,
    InstanceType,
    MdsView,
    ModelArtifact,
    ModelDeployment,
    Node,
    Pod,
    UndecodableObject,
    decode_view,
)
from controller.api.decoding import split_members
from controller.api.members import Form, members_of
from tests.api.samples import BENCHMARK_SCALER, PD_DEPLOYMENT
from tests.api.test_views import POD
from tests.work import counted

VIEWS = [MdsView, ModelDeployment, Pod, InstanceType, ModelArtifact, ConfigMap, Node]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


def known_names(struct, names=None):
    """Every JSON member name of a view, at any depth."""
    names = set() if names is None else names
    for field in members_of(struct):
        names.add(field.json_name)
        shape = field.shape.item if field.shape.form in (Form.LIST, Form.MAP) else field.shape
        if shape.form is Form.OBJECT:
            known_names(shape.python, names)
    return names


def objects(view):
    """JSON objects built of the view's own member names, so that wrong types land where they are read."""
    names = st.sampled_from(sorted(known_names(view)))
    return st.recursive(
        JSON, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5), max_leaves=12
    ).flatmap(lambda value: st.dictionaries(st.sampled_from(["metadata", "spec", "status", "data"]), st.just(value)))


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_object_decodes(view, data):
    value = data.draw(objects(view))
    read = decode_view(view, json.dumps(value).encode())
    assert isinstance(read, view)
    assert isinstance(read.metadata.key, str)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), view=st.sampled_from([ModelDeployment, Pod]))
def test_damage_never_changes_what_is_undamaged(data, view):
    """Replace one member of a real object by any JSON: metadata.name survives unless it was the one."""
    value = json.loads(json.dumps(POD if view is Pod else PD_DEPLOYMENT))
    paths = [(top, key) for top in ("spec", "status", "metadata") for key in value[top] if key != "name"]
    top, key = data.draw(st.sampled_from(paths))
    value[top][key] = data.draw(JSON)
    read = decode_view(view, json.dumps(value).encode())
    assert read.metadata.name in ("qwen-pd", "qwen-pd-decode-x7k2p")


@pytest.mark.parametrize(
    ("line", "note"),
    [
        pytest.param(
            b'{"metadata":{"name":"n"},"spec":{"nodeName":"a","containers":%s}}' % (b"[" * 60_000 + b"]" * 60_000),
            "spec: is no readable JSON",
            id="nested without end",
        ),
        pytest.param(
            b'{"spec":{"nodeName":1e999},"metadata":{"name":"n"}}',
            "spec: is no readable JSON",
            id="number out of range",
        ),
        pytest.param(
            b'{"metadata":{"name":"n"},"status":{"phase":"\\ud800"}}',
            "status: is no readable JSON",
            id="half a surrogate",
        ),
        pytest.param(
            b'{"metadata":{"name":"n"},"status":{"phase":"\xff"}}', "status: is no", id="bytes that are no UTF-8"
        ),
    ],
)
def test_what_json_libraries_choke_on_costs_its_member(line, note):
    read = decode_view(Pod, line)
    assert read.metadata.name == "n"
    assert [str(finding)[: len(note)] for finding in read.malformed] == [note]


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"null", b"{", b'{"a":1', b"{}{}", b"{}x", b'x{"a":1}', b"<html>502</html>", b'{"a":[1}']
)
def test_what_is_no_object_is_refused(line):
    with pytest.raises(UndecodableObject, match="no JSON object"):
        decode_view(Pod, line)


def test_notes_on_damage_are_bounded():
    line = json.dumps({"metadata": {"labels": {f"label-{i}": i for i in range(1000)}}}).encode()
    read = decode_view(Node, line)
    assert len(read.malformed) == 65
    assert read.malformed[-1].message == "and 936 more findings"


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(max_size=6), JSON, max_size=5), st.sampled_from([None, 2]), st.booleans())
def test_members_are_split_as_a_parser_would(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        expected = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return  # half a surrogate somewhere
    split = split_members(text)
    assert {key: msgspec.json.decode(raw) for key, raw in split.items()} == expected


def test_the_last_of_equal_names_wins():
    assert split_members(b'{"a": 1, "a": {"b": ","}}') == {"a": b'{"b": ","}'}


class Weighed(bytes):
    """Bytes that know how many of them were copied."""

    copied = 0

    def __getitem__(self, key):
        part = super().__getitem__(key)
        self.copied += len(part)
        return part


def test_splitting_a_large_object_takes_linear_time():
    members = 50_000
    body = b",".join(b'"k%d":"\\"{[%d"' % (i, i) for i in range(members))
    line = Weighed(b'{"metadata":{"name":"n"},"data":{' + body + b"}}")
    split, calls = counted(lambda: split_members(line))
    assert set(split) == {"metadata", "data"}
    assert calls < 8 * members, "twice what was counted: each has a name, a colon, a text and a comma"
    assert line.copied < 2 * len(line)


def test_a_healthy_line_takes_the_fast_way(monkeypatch):
    def slow(*_):
        raise AssertionError("the tolerant reading was used")

    monkeypatch.setattr("controller.api.decoding.decode_tolerantly", slow)
    decode_view(Pod, json.dumps(POD).encode())
    decode_view(ModelDeployment, json.dumps(PD_DEPLOYMENT).encode())
    decode_view(MdsView, json.dumps(BENCHMARK_SCALER).encode())
