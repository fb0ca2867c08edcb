"""Objects that are nested deeper than a decoder goes end no watch and stay in the cache."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube import BadAnswer, Informer, KubeClient, StreamingSupport
from controller.kube.envelopes import EventDecoder, Modified
from controller.kube.listdecoder import ListDecoder
from controller.kube.nesting import MAX_DEPTH, ValueEnd, without_depths
from tests.kube.scripted_client import THING, ScriptedClient, Thing, bookmark, event, thing, thing_list
from tests.kube.scripted_server import ScriptedServer, answer
from tests.kube.support import running

MARK = b'"depths"'


def deep(levels: int = 9000) -> bytes:
    """As deep as an API server stores: its limit is ten thousand."""
    return b'[{"a":' * (levels // 2) + b"1" + b"}]" * (levels // 2)


def abyss(data: bytes) -> bytes:
    assert MARK in data
    return data.replace(MARK, deep())


def bottomless(name: str, version: int, size: int = 5) -> dict[str, Any]:
    return thing(name, version, size=size, more="depths")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=30,
)


def cut(value: Any, levels: int) -> Any:
    if isinstance(value, dict | list) and levels == 0:
        return None
    if isinstance(value, dict):
        return {key: cut(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [cut(inner, levels - 1) for inner in value]
    return value


@given(json_values, st.integers(0, 4), st.booleans())
def test_what_is_too_deep_becomes_null_and_the_rest_stays(value: Any, levels: int, escaped: bool) -> None:
    data = json.dumps(value, ensure_ascii=escaped).encode()
    shallow = without_depths(data, levels)
    assert shallow is not None
    assert json.loads(shallow) == cut(value, levels)
    assert without_depths(data) == data


@given(st.lists(json_values, max_size=3) | st.dictionaries(st.text(max_size=4), json_values, max_size=3), st.data())
def test_the_end_of_a_value_is_found_however_it_arrives(value: Any, data: st.DataObject) -> None:
    body = json.dumps(value).encode()
    buffer = bytearray(b'"before"')
    start, rest = len(buffer), body + b',{"next":1}'
    search = ValueEnd()
    found = None
    while found is None and rest:
        size = data.draw(st.integers(1, 9))
        buffer += rest[:size]
        rest = rest[size:]
        found = search.find(buffer, start)
    assert found == len(body)


@given(json_values.filter(lambda value: isinstance(value, dict | list)), st.data())
def test_half_a_document_has_no_shallow_form(value: Any, data: st.DataObject) -> None:
    body = json.dumps(value).encode()
    assert without_depths(body[: data.draw(st.integers(1, len(body) - 1))]) is None


def test_the_limit_is_deeper_than_any_object_that_is_read() -> None:
    assert without_depths(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH


@pytest.mark.parametrize(
    "line",
    [
        event("MODIFIED", bottomless("a", 7)),
        json.dumps({"object": bottomless("a", 7), "type": "MODIFIED"}).encode(),
    ],
    ids=["as a server writes it", "in another order"],
)
def test_a_deep_object_in_a_watch_is_read_as_far_as_it_goes(line: bytes) -> None:
    decoded = EventDecoder(THING, Thing).decode(abyss(line))
    assert isinstance(decoded, Modified)
    assert decoded.object.metadata.resource_version == "7"
    assert decoded.object.spec is not None
    assert decoded.object.spec.size == 5


def test_half_a_deep_line_breaks_the_stream() -> None:
    with pytest.raises(BadAnswer):
        EventDecoder(THING, Thing).decode(abyss(event("MODIFIED", bottomless("a", 7)))[:-10])


@pytest.mark.parametrize("size", [100, 5000, 10**6], ids=["small chunks", "larger ones", "all at once"])
def test_a_deep_object_in_a_list_is_read_as_far_as_it_goes(size: int) -> None:
    body = abyss(thing_list(9, thing("a", 1), bottomless("b", 2), thing("c", 3)))
    parser = ListDecoder(THING, Thing).parser()
    names = []
    for at in range(0, len(body), size):
        names += [obj.metadata.name for obj in parser.feed(body[at : at + size]).objects]
    end = parser.finish()
    assert names + [obj.metadata.name for obj in end.objects] == ["a", "b", "c"]
    assert end.skipped == []


def test_half_a_deep_list_is_no_list() -> None:
    with pytest.raises(BadAnswer):
        ListDecoder(THING, Thing).decode(abyss(thing_list(9, bottomless("b", 2)))[:-10])


async def test_an_informer_survives_it_in_lists_streams_and_events() -> None:
    """One user's object must not end the process that serves everybody."""
    for streaming in (False, True):
        client = ScriptedClient(streaming=StreamingSupport(refused=not streaming))
        later = [abyss(event("MODIFIED", bottomless("a", 12))), event("ADDED", thing("z", 13)), 1e6]
        if streaming:
            client.watches.append([abyss(event("ADDED", bottomless("a", 1))), bookmark(10, "true"), *later])
        else:
            client.lists.append(abyss(thing_list(10, bottomless("a", 1))))
            client.watches.append(later)
        informer = Informer(client, THING, Thing)
        async with running(informer.run()):
            await asyncio.sleep(1)
            assert sorted(informer.store) == ["ns/a", "ns/z"]
            assert informer.resource_version() == "13"
            stored = informer.store.get("ns/a")
            assert stored is not None
            assert stored.metadata.resource_version == "12"


CALLS: list[tuple[str, Callable[[KubeClient], Any]]] = [
    ("typed", lambda client: client.get(THING, "a", "ns", type_=Thing)),
    ("as a dictionary", lambda client: client.get(THING, "a", "ns")),
    ("a list", lambda client: client.list(THING, "ns", type_=Thing)),
]


@pytest.mark.parametrize("call", [row[1] for row in CALLS], ids=[row[0] for row in CALLS])
async def test_a_deep_answer_to_a_request_is_an_error_of_that_request(
    server: ScriptedServer, client: KubeClient, call: Callable[[KubeClient], Any]
) -> None:
    server.script(answer(text=abyss(json.dumps(bottomless("a", 7)).encode()).decode()))
    with pytest.raises(BadAnswer, match=r"nested too deeply|cannot be read"):
        await call(client)


async def test_a_deep_error_body_is_text(server: ScriptedServer, client: KubeClient) -> None:
    server.script(answer(text=deep().decode(), status=422))
    with pytest.raises(Exception, match="the server answered 422"):
        await client.get(THING, "a", "ns")
