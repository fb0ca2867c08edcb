"""Lists: selectors, pages, resourceVersion rules, orders and shapes."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import aiohttp
import pytest

from controller.embedded.apiserver.storage import Store
from tests.embedded.apiserver.conftest import CONFIG_MAPS, SECONDS, WIDGETS, Client, Start, config_map, widget


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def fill(api: Client, count: int) -> None:
    for number in range(count):
        api.server.put(config_map(f"m{number}"))


async def test_items_of_core_lists_lack_their_type_and_those_of_custom_lists_have_it(api: Client) -> None:
    api.server.put(config_map(a="b"))
    api.server.put(widget())
    (core,) = (await api.get(CONFIG_MAPS.path("default"))).json["items"]
    assert "kind" not in core
    assert "apiVersion" not in core
    assert core["data"] == {"a": "b"}
    (custom,) = (await api.get(WIDGETS.path("default"))).json["items"]
    assert (custom["kind"], custom["apiVersion"]) == ("Widget", "example.com/v1")


async def test_lists_sort_by_namespace_slash_name(api: Client) -> None:
    for namespace in ("x", "x-b"):
        api.server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        api.server.put(config_map("b", namespace))
        api.server.put(config_map("a", namespace))
    answer = await api.get(CONFIG_MAPS.path())
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in answer.json["items"]]
    assert found == [("x-b", "a"), ("x-b", "b"), ("x", "a"), ("x", "b")]
    assert names(await api.get(CONFIG_MAPS.path("x"))) == ["a", "b"]


LABELS = [
    ("equality", "tier=web", ["a", "b"]),
    ("double equality", "tier==web", ["a", "b"]),
    ("inequality also matches without the label", "tier!=web", ["c", "d"]),
    ("a set", "tier in (web, db)", ["a", "b", "c"]),
    ("outside a set", "tier notin (web)", ["c", "d"]),
    ("presence", "stage", ["a"]),
    ("absence", "!stage", ["b", "c", "d"]),
    ("all of several", "tier=web,!stage", ["b"]),
    ("the empty value", "stage=", []),
    ("nothing", "", ["a", "b", "c", "d"]),
]


@pytest.mark.parametrize(("selector", "expected"), [row[1:] for row in LABELS], ids=[row[0] for row in LABELS])
async def test_label_selector(api: Client, selector: str, expected: list[str]) -> None:
    labels = {"a": {"tier": "web", "stage": "x"}, "b": {"tier": "web"}, "c": {"tier": "db"}, "d": {}}
    for name, given in labels.items():
        api.server.put({**config_map(name), "metadata": {"name": name, "labels": given}})
    assert names(await api.get(CONFIG_MAPS.path("default"), labelSelector=selector)) == expected


BAD_SELECTORS = [
    ("an unclosed set", "labelSelector", "a in (b"),
    ("an operator alone", "labelSelector", "=a"),
    ("an unknown field", "fieldSelector", "spec.colour=red"),
    ("no operator", "fieldSelector", "metadata.name"),
]


@pytest.mark.parametrize(("option", "text"), [row[1:] for row in BAD_SELECTORS], ids=[row[0] for row in BAD_SELECTORS])
async def test_a_selector_is_refused_with(api: Client, option: str, text: str) -> None:
    assert (await api.get(WIDGETS.path("default"), **{option: text})).status == 400


async def test_field_selectors_take_names_and_the_fields_that_a_definition_offers(api: Client) -> None:
    api.server.put(widget("a"))
    api.server.put(widget("b", mode="Active"))
    assert names(await api.get(WIDGETS.path("default"), fieldSelector="metadata.name=a")) == ["a"]
    assert names(await api.get(WIDGETS.path("default"), fieldSelector="metadata.name!=a")) == ["b"]
    assert names(await api.get(WIDGETS.path(), fieldSelector="spec.mode=Active")) == ["b"]


async def test_pages_hold_the_state_of_the_first_page(api: Client) -> None:
    await fill(api, 5)
    first = await api.get(CONFIG_MAPS.path("default"), limit=2)
    assert names(first) == ["m0", "m1"]
    assert first.json["metadata"]["remainingItemCount"] == 3
    api.server.put(config_map("m9"))
    api.server.delete(CONFIG_MAPS, "m3")
    second = await api.get(CONFIG_MAPS.path("default"), limit=2, continue_=first.json["metadata"]["continue"])
    assert names(second) == ["m2", "m3"]
    assert second.json["metadata"]["resourceVersion"] == first.json["metadata"]["resourceVersion"]
    third = await api.get(CONFIG_MAPS.path("default"), limit=2, continue_=second.json["metadata"]["continue"])
    assert names(third) == ["m4"]
    assert "continue" not in third.json["metadata"]


async def test_with_a_selector_nobody_counts_what_remains(api: Client) -> None:
    await fill(api, 3)
    answer = await api.get(CONFIG_MAPS.path("default"), limit=1, labelSelector="!x")
    assert "remainingItemCount" not in answer.json["metadata"]
    assert answer.json["metadata"]["continue"]


async def test_an_expired_continue_token_comes_with_one_that_goes_on(api: Client) -> None:
    await fill(api, 4)
    first = await api.get(CONFIG_MAPS.path("default"), limit=2)
    api.server.put(config_map("m5"))
    api.server.store.compact()
    expired = await api.get(CONFIG_MAPS.path("default"), limit=2, continue_=first.json["metadata"]["continue"])
    assert (expired.status, expired.reason) == (410, "Expired")
    token = expired.json["metadata"]["continue"]
    assert names(await api.get(CONFIG_MAPS.path("default"), continue_=token)) == ["m2", "m3", "m5"]


async def test_a_token_that_is_none_is_refused(api: Client) -> None:
    assert (await api.get(CONFIG_MAPS.path("default"), limit=2, continue_="nonsense")).status == 400


async def test_zero_ignores_the_limit(api: Client) -> None:
    await fill(api, 3)
    assert len(names(await api.get(CONFIG_MAPS.path("default"), resourceVersion="0", limit=1))) == 3


async def test_a_bare_resource_version_is_exact_with_a_limit_and_a_floor_without(api: Client) -> None:
    old = api.server.put(config_map("a"))["metadata"]["resourceVersion"]
    api.server.put(config_map("b"))
    path = CONFIG_MAPS.path("default")
    assert names(await api.get(path, resourceVersion=old, limit=10)) == ["a"]
    assert names(await api.get(path, resourceVersion=old)) == ["a", "b"]
    assert names(await api.get(path, resourceVersion=old, resourceVersionMatch="Exact")) == ["a"]
    assert names(await api.get(path, resourceVersion=old, resourceVersionMatch="NotOlderThan", limit=10)) == ["a", "b"]
    api.server.store.compact()
    assert (await api.get(path, resourceVersion=old, limit=10)).status == 410
    assert (await api.get(path, resourceVersion=old)).status == 200


COMBINATIONS: list[tuple[str, dict[str, Any], int]] = [
    ("a match without resourceVersion", {"resourceVersionMatch": "Exact"}, 422),
    ("an unknown match", {"resourceVersion": "1", "resourceVersionMatch": "Roughly"}, 422),
    ("Exact of 0", {"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
    ("sendInitialEvents on a list", {"sendInitialEvents": "true"}, 422),
    ("a resourceVersion that is no number", {"resourceVersion": "x"}, 400),
    ("a limit that is no number", {"limit": "x"}, 400),
]


@pytest.mark.parametrize(("query", "status"), [row[1:] for row in COMBINATIONS], ids=[row[0] for row in COMBINATIONS])
async def test_a_list_refuses(api: Client, query: dict[str, Any], status: int) -> None:
    assert (await api.get(CONFIG_MAPS.path("default"), **query)).status == status


async def test_the_future_is_too_large_a_resource_version(api: Client) -> None:
    api.server.put(config_map())
    for path in (CONFIG_MAPS.path("default"), CONFIG_MAPS.path("default", "one")):
        answer = await api.get(path, resourceVersion=10_000)
        assert (answer.status, answer.reason) == (504, "Timeout")
        assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
        assert answer.headers["Retry-After"] == "1"


async def test_a_read_waits_for_a_resource_version_that_is_about_to_come(start: Start) -> None:
    api = await start(future_wait_seconds=SECONDS)
    wanted = api.server.store.resource_version + 1
    reading = asyncio.ensure_future(api.get(CONFIG_MAPS.path("default"), resourceVersion=wanted))
    await asyncio.sleep(0.02)
    assert not reading.done()
    api.server.put(config_map())
    assert names(await reading) == ["one"]


async def test_a_get_with_a_resource_version_that_is_no_number_fails_with_500(api: Client) -> None:
    api.server.put(config_map())
    assert (await api.read(CONFIG_MAPS, "one", resourceVersion="x")).status == 500


async def test_watch_on_the_path_of_an_object_answers_the_object(api: Client) -> None:
    api.server.put(widget())
    assert (await api.read(WIDGETS, "one", watch="true")).json["kind"] == "Widget"


async def test_a_large_list_is_compressed_where_that_is_accepted(api: Client) -> None:
    api.server.put(config_map(blob="x" * 200_000))
    headers = {"Accept-Encoding": "gzip"}
    url = api.server.url + CONFIG_MAPS.path("default")
    async with aiohttp.ClientSession(auto_decompress=False) as session, session.get(url, headers=headers) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert len(gzip.decompress(await response.read())) > 200_000
    plain = await api.get(CONFIG_MAPS.path("default"), headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers


async def test_metadata_alone_and_yaml_are_to_be_had(api: Client) -> None:
    api.server.put(config_map(a="b"))
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    partial = (await api.get(CONFIG_MAPS.path("default"), headers=accept)).json
    assert (partial["kind"], partial["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert set(partial["items"][0]) == {"kind", "apiVersion", "metadata"}
    text = await api.read(CONFIG_MAPS, "one", headers={"Accept": "application/yaml"})
    assert text.raw.startswith(b"kind: ConfigMap\napiVersion: v1\n")
    refused = await api.read(CONFIG_MAPS, "one", headers={"Accept": "application/xml"})
    assert refused.status == 406


def test_a_snapshot_of_the_past_undoes_every_later_event() -> None:
    collection = Store(history_limit=100).collection(("", "things"))
    states: dict[int, dict[str, int]] = {}
    present: dict[str, int] = {}
    for number in range(60):
        name = f"n{number * 7 % 5}"
        if number % 4 == 3 and name in present:
            del present[name]
            version = collection.remove(name).resource_version
        else:
            present[name] = number
            version = collection.commit({"metadata": {"name": name}, "value": number}).resource_version
        states[version] = dict(present)
    for version, state in states.items():
        found = {stored.name: stored.object["value"] for stored in collection.scan_at(version)}
        assert found == state, version
