"""Leaving managedFields out before decoding loses nothing else, whatever stands around it and in it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert (short is not None) is found
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
        pytest.param('[{"fieldsV1":{"f:a":[1,2]}}]', id="a list within the list"),
        pytest.param('[["]"],[]]', id="both"),
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
class Own:
    text: str


@pytest.mark.parametrize(
    ("type_", "reads"),
    [
        pytest.param(Thing, False, id="an ordinary view"),
        pytest.param(Recursive, False, id="a type that contains itself"),
        pytest.param(Nested, True, id="a field of that name"),
        pytest.param(dict[str, list[Nested | None]], True, id="a field of that name, deep within"),
        pytest.param(Loose, True, id="raw JSON, which may hold anything"),
        pytest.param(dict[str, Any], True, id="a dictionary of anything"),
        pytest.param(list[Own], True, id="a type that is not looked into"),
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
