"""Leaving managedFields out before decoding loses nothing else, whatever stands around it and in it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.api import ConfigMap, InstanceType, MdsView, ModelArtifact, ModelDeployment, Node, Pod
from controller.deployment.kinds import EndpointSlice, Service
from controller.foundation import ObjectMeta
from controller.kube.envelopes import Added, EventDecoder, Skipped
from controller.kube.listdecoder import ListDecoder
from controller.kube.managed_fields import may_read_managed_fields, without_managed_fields
from tests.kube.scripted_client import THING, Thing

# What would fool a search that took the inside of a string for structure.
treacherous = st.lists(
    st.sampled_from([',"managedFields":[', "managedFields", "[", "]", "{", "}", '"', "\\", ":", ",", "a", "é", "]},"]),
    max_size=4,
).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | treacherous,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(treacherous, inner, max_size=3),
    max_leaves=12,
)


def without_first(value: Any) -> tuple[Any, bool]:
    """The value without the first list of that name that is not the first member of its object, and whether one was."""
    if isinstance(value, dict):
        for position, (key, inner) in enumerate(value.items()):
            if position and key == "managedFields" and isinstance(inner, list):
                return {other: kept for other, kept in value.items() if other != key}, True
            changed, found = without_first(inner)
            if found:
                return value | {key: changed}, True
    for position, inner in enumerate(value if isinstance(value, list) else ()):
        changed, found = without_first(inner)
        if found:
            return [*value[:position], changed, *value[position + 1 :]], True
    return value, False


@given(st.dictionaries(treacherous, values, max_size=3), values, st.dictionaries(treacherous, values, max_size=3))
def test_what_can_be_decoded_after_the_cut_lacks_nothing_else(
    before: dict[str, Any], fields: Any, after: dict[str, Any]
) -> None:
    whole = {"name": "x", **before} | {"managedFields": [fields]} | after
    value = {"object": {"metadata": whole}, "more": [after]}
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    expected, found = without_first(value)
    short = without_managed_fields(data)
    assert found or short is None
    if short is not None:
        with contextlib.suppress(msgspec.DecodeError):
            assert msgspec.json.decode(short) == expected


def metadata(managed: str) -> bytes:
    return f'{{"metadata":{{"name":"a"{managed},"uid":"u"}},"spec":{{"managedFields":[1]}}}}'.encode()


@pytest.mark.parametrize(
    ("managed", "expected"),
    [
        pytest.param(
            ',"managedFields":[{"manager":"m","fieldsV1":{"f:a":{".":{},"k:{\\"x\\":1}":{}}}}]',
            '{"metadata":{"name":"a","uid":"u"},"spec":{"managedFields":[1]}}',
            id="as an API server writes it, only the first is taken",
        ),
        pytest.param(
            ',"managedFields":[]',
            '{"metadata":{"name":"a","uid":"u"},"spec":{"managedFields":[1]}}',
            id="an empty list",
        ),
        pytest.param(
            ',"managedFields":null', None, id="null has nothing to cut, nor has a key that comes first elsewhere"
        ),
        pytest.param(', "managedFields": [{}]', None, id="blanks between the tokens: left to the decoder"),
        pytest.param(',"note":",\\"managedFields\\":[]"', None, id="its name in a string is no key"),
        pytest.param(',"managedFields":[{"fieldsV1":{"f:a":[1,2]}}]', None, id="a list within the list"),
        pytest.param(',"managedFields":[{"fieldsV1":{"v:[1]":{}}}]', None, id="both brackets in a string"),
    ],
)
def test_the_list_is_cut_out(managed: str, expected: str | None) -> None:
    short = without_managed_fields(metadata(managed))
    assert short == (expected.encode() if expected else None)


@pytest.mark.parametrize(
    "managed",
    [
        pytest.param('[{"fieldsV1":{"v:]":{}}}]', id="a bracket in a string"),
        pytest.param('[{"fieldsV1":{"v:]}}]},":{}}}]', id="a string that ends like the list"),
    ],
)
def test_a_cut_in_the_wrong_place_is_seen_and_the_whole_is_decoded(managed: str) -> None:
    text = (
        f'{{"kind":"Thing","apiVersion":"example.org/v1","metadata":{{"name":"a","managedFields":{managed},"uid":"u"}}'
    )
    item = (text + "}").encode()
    short = without_managed_fields(item)
    assert short is not None
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(short)
    expected = Thing(metadata=ObjectMeta(name="a", uid="u"))
    event = EventDecoder(THING, Thing).decode(b'{"type":"ADDED","object":' + item + b"}")
    assert event == Added(expected)
    assert ListDecoder(THING, Thing).decode_item(item) == expected


def test_an_item_that_is_cut_off_within_the_list_is_not_complete() -> None:
    item = b'{"metadata":{"name":"a","managedFields":[{"manager":"m"}'
    assert ListDecoder(THING, Thing).decode_item(item) is None
    assert ListDecoder(THING, Thing).decode_item(item + b"]") is None
    assert not isinstance(ListDecoder(THING, Thing).decode_item(item + b"]}}"), Skipped | None)


@given(st.lists(values, max_size=3), st.integers(1, 60))
@example([], 20)
def test_a_list_that_comes_in_pieces_holds_the_same(managed: list[Any], size: int) -> None:
    """Entries of managedFields begin like a custom resource, so the parser asks whether the item ends there."""
    begin: dict[str, Any] = {"apiVersion": "example.org/v1"}
    fields = [*managed, begin, {"fieldsV1": {"f:a": managed}}, begin]
    items = [
        {**begin, "kind": "Thing", "metadata": {"name": name, "managedFields": fields, "namespace": "ns", "uid": "u"}}
        for name in "abc"
    ]
    page = {"kind": "ThingList", "metadata": {"resourceVersion": "1"}, "items": items}
    data = json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()
    decoder = ListDecoder(THING, Thing)
    parser = decoder.parser()
    pieces = [parser.feed(data[at : at + size]) for at in range(0, len(data), size)] + [parser.finish()]
    assert [obj for piece in pieces for obj in piece.objects] == decoder.decode(data).objects
    assert not [skipped for piece in pieces for skipped in piece.skipped]


class Entry(msgspec.Struct, frozen=True):
    manager: str = ""


class Nested(msgspec.Struct, frozen=True, rename="camel"):
    managed_fields: tuple[Entry, ...] | None = None
    again: Nested | None = None


class Loose(msgspec.Struct, frozen=True):
    template: msgspec.Raw = msgspec.Raw()


class Recursive(msgspec.Struct, frozen=True):
    name: Annotated[str, msgspec.Meta(max_length=5)] = ""
    mode: Literal["a", "b"] = "a"
    children: tuple[Recursive, ...] = ()
    labels: dict[str, str] | None = None
    pair: tuple[int, str] | None = None


@dataclass
class Note:
    text: str


@dataclass
class Kept:
    managedFields: list[Entry]  # noqa: N815 - as it is in JSON


class Own:
    pass


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = ""


class Pair(msgspec.Struct, frozen=True, array_like=True):
    name: str = ""


@pytest.mark.parametrize(
    ("type_", "reads"),
    [
        pytest.param(Thing, False, id="an ordinary view"),
        pytest.param(Recursive, False, id="a type that contains itself"),
        pytest.param(Nested, True, id="a field of that name"),
        pytest.param(dict[str, list[Nested | None]], True, id="a field of that name, deep within"),
        pytest.param(Loose, True, id="raw JSON, which may hold anything"),
        pytest.param(dict[str, Any], True, id="a dictionary of anything"),
        pytest.param(dict[str, list[str]], True, id="a dictionary in which the list may be the value of any key"),
        pytest.param(dict[str, str | tuple[str, ...]], True, id="a dictionary of texts or lists"),
        pytest.param(dict[str, Pair], True, id="a dictionary of objects that are written as lists"),
        pytest.param(dict[str, Thing], False, id="a dictionary of objects"),
        pytest.param(Strict, True, id="a type that refuses what it does not know"),
        pytest.param(list[Note], False, id="a dataclass without that field"),
        pytest.param(list[Kept], True, id="a dataclass with that field"),
        pytest.param(list[Own], True, id="a type that is not looked into"),
        # What the caches of the controller hold, most of it in the thousands.
        pytest.param(Pod, False, id="Pods"),
        pytest.param(Node, False, id="Nodes"),
        pytest.param(ConfigMap, False, id="ConfigMaps"),
        pytest.param(InstanceType, False, id="InstanceTypes"),
        pytest.param(ModelArtifact, False, id="ModelArtifacts"),
        pytest.param(Service, False, id="Services"),
        pytest.param(EndpointSlice, False, id="EndpointSlices"),
        pytest.param(ModelDeployment, True, id="ModelDeployments, whose managers of counts are read"),
        pytest.param(MdsView, True, id="scalers, whose spec is kept as it came"),
    ],
)
def test_a_projection_that_may_read_the_list_is_recognised(type_: type, reads: bool) -> None:
    assert may_read_managed_fields(type_) is reads


class FullMeta(ObjectMeta, frozen=True, rename="camel"):
    managed_fields: tuple[Entry, ...] | None = None


class Full(msgspec.Struct, frozen=True):
    metadata: FullMeta = FullMeta()


def test_a_projection_that_reads_the_list_gets_it() -> None:
    item = b'{"kind":"Thing","apiVersion":"example.org/v1","metadata":{"name":"a","managedFields":[{"manager":"m"}]}}'
    view = ListDecoder(THING, Full).decode_item(item)
    assert isinstance(view, Full)
    assert view.metadata.managed_fields == (Entry("m"),)
    event = EventDecoder(THING, Full).decode(b'{"type":"MODIFIED","object":' + item + b"}")
    assert event.object.metadata.managed_fields == (Entry("m"),)  # type: ignore[union-attr]
