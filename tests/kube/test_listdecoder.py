"""Lists that are decoded while they arrive give what decoding them whole gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube.envelopes import Skipped
from controller.kube.errors import BadAnswer, Expired
from controller.kube.listdecoder import ListDecoder, ListParser, _Mode
from tests.kube.scripted_client import THING, Thing, thing
from tests.kube.scripted_server import status_body

DECODER = ListDecoder(THING, Thing)

# Contents that look like borders between items.
DECOYS: list[dict[str, Any]] = [
    {"a": [{"apiVersion": 1}, {"apiVersion": 2}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "X"}, {"apiVersion": "v1", "kind": "Y"}]},
    {"text": '},{"apiVersion":"example.org/v1"'},
    {"text": '"items":[{"kind":"Thing"}]'},
    {"templates": [{"kind": "Thing", "apiVersion": "x", "metadata": {"name": "inner"}}] * 3},
    {"kind": [{"kind": "Thing"}, {"kind": "Thing", "apiVersion": "}"}]},
    {"many": [{"kind": "Thing", "apiVersion": "}", "text": '"},{"kind":"Thing"'}] * 40},
    {"unicode": 'ä語😀\\"}]{['},
    {},
]

names = st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True), unique=True, max_size=12)


def parse(parser: ListParser[Thing], body: bytes, cuts: list[int]) -> tuple[list[Thing], list[Skipped], Any]:
    objects: list[Thing] = []
    skipped: list[Skipped] = []
    position = 0
    for cut in [*cuts, len(body)]:
        part = parser.feed(body[position : position + cut])
        objects += part.objects
        skipped += part.skipped
        position += cut
    end = parser.finish()
    return objects + end.objects, skipped + end.skipped, end.meta


def body_of(items: list[dict[str, Any]], *, metadata_first: bool = True, indent: int | None = None) -> bytes:
    head: dict[str, Any] = {"kind": "ThingList", "apiVersion": "example.org/v1"}
    meta = {"resourceVersion": "77", "continue": "token"}
    ordered = (
        {**head, "metadata": meta, "items": items} if metadata_first else {"items": items, **head, "metadata": meta}
    )
    separators = None if indent else (",", ":")
    return json.dumps(ordered, separators=separators, indent=indent).encode()


@given(
    found=names,
    decoys=st.lists(st.sampled_from(DECOYS), min_size=12, max_size=12),
    broken=st.sets(st.integers(0, 11)),
    cuts=st.lists(st.integers(1, 600)),
    metadata_first=st.booleans(),
    indent=st.sampled_from([None, None, 2]),
)
def test_any_chunks_give_the_whole_list(
    *,
    found: list[str],
    decoys: list[dict[str, Any]],
    broken: set[int],
    cuts: list[int],
    metadata_first: bool,
    indent: int | None,
) -> None:
    items = []
    for number, name in enumerate(found):
        item = thing(name, number + 1, size=number)
        item["status"] = decoys[number]
        if number in broken:
            item["spec"] = {"size": "big"}
        items.append(item)
    body = body_of(items, metadata_first=metadata_first, indent=indent)
    objects, skipped, meta = parse(DECODER.parser(), body, cuts)
    expected = DECODER.decode(body)
    assert [obj.metadata.name for obj in objects] == [n for i, n in enumerate(found) if i not in broken]
    assert objects == expected.objects
    assert sorted(one.key for one in skipped) == sorted(f"ns/{n}" for i, n in enumerate(found) if i in broken)
    assert (meta.resource_version, meta.continue_) == ("77", "token")


@pytest.mark.parametrize("metadata_first", [True, False], ids=["as core lists have it", "as custom resources have it"])
def test_items_come_out_before_the_body_ends(metadata_first: bool) -> None:
    body = body_of([thing(f"t{number}", number) for number in range(100)], metadata_first=metadata_first)
    parser = DECODER.parser()
    early = sum(len(parser.feed(body[at : at + 500]).objects) for at in range(0, len(body) - 500, 500))
    assert early > 90
    assert len(parser._rest) < 2000


def test_an_item_is_not_held_back_by_one_that_does_not_fit() -> None:
    """I23."""
    items = [thing("a", 1), {**thing("b", 2), "spec": {"size": "x"}}, {}, thing("c", 3), thing("d", 4)]
    parser = DECODER.parser()
    first = parser.feed(body_of(items))
    end = parser.finish()
    assert [obj.metadata.name for obj in first.objects + end.objects] == ["a", "c", "d"]
    assert sorted(one.key for one in first.skipped + end.skipped) == ["", "ns/b"]


def test_an_item_full_of_borders_costs_one_pass() -> None:
    """16,000 owner references begin like the next custom resource: trying each took 14 s, longer than a lease."""
    owners = [{"kind": "Thing", "apiVersion": "v1", "uid": str(number)} for number in range(16_000)]
    body = body_of([thing("a", 1, owners=owners), thing("b", 2), thing("c", 3)])
    tries = []

    class Counting(ListDecoder[Thing]):
        def decode_item(self, body: bytes | bytearray) -> Thing | Skipped | None:
            tries.append(len(body))
            return super().decode_item(body)

    objects, _, _ = parse(Counting(THING, Thing).parser(), body, [60_000] * 20)
    assert [obj.metadata.name for obj in objects] == ["a", "b", "c"]
    assert len(tries) < 20
    assert sum(tries) < 2 * len(body)


def test_a_body_without_items_in_sight_is_not_searched_for_ever() -> None:
    parser = DECODER.parser()
    parser.feed(b'{"kind":"ThingList","padding":"' + b"x" * 70_000)
    assert parser._mode is _Mode.WHOLE
    parser.feed(b'","metadata":{"resourceVersion":"5"},"items":[' + json.dumps(thing("a", 1)).encode() + b"]}")
    end = parser.finish()
    assert [obj.metadata.name for obj in end.objects] == ["a"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", BadAnswer),
        (b"<html>" + b"x" * 100, BadAnswer),
        (body_of([thing("a", 1), thing("b", 2)])[:-20], BadAnswer),
        (body_of([thing("a", 1)]).replace(b"ThingList", b"OtherList"), BadAnswer),
        (json.dumps(status_body(410, "Expired")).encode(), Expired),
    ],
    ids=["nothing", "HTML", "half a list", "another kind", "a Status"],
)
def test_what_is_no_complete_list_fails_at_its_end(body: bytes, kind: type[Exception]) -> None:
    parser = DECODER.parser()
    parser.feed(body)
    with pytest.raises(kind):
        parser.finish()


def test_null_and_empty_items_are_an_empty_list() -> None:
    for items in (b"null", b"[]", b"[ ]"):
        parser = DECODER.parser()
        parser.feed(b'{"kind":"ThingList","metadata":{"resourceVersion":"5"},"items":' + items + b"}")
        end = parser.finish()
        assert end.objects == []
        assert end.meta is not None
        assert end.meta.resource_version == "5"
