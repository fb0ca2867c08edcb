"""Lists: order, shape, pages, resourceVersions, selectors."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.api import Api
from tests.cluster.conftest import make_namespace
from tests.cluster.objects import CONFIG_MAPS, GADGETS, GADGETS_ALPHA, PODS, config_map, gadget, pod

FUTURE = "9000000000"
# The real server looks every fifteen seconds whether the snapshots of its watch caches have been compacted away; the
# rest is for slow machines.
SNAPSHOT_SECONDS = 120.0


async def _five(api: Api) -> None:
    for name in "abcde":
        (await api.create(CONFIG_MAPS, config_map(name, labels={"parity": "odd" if name in "ace" else "even"}))).ok()


async def _caught_up(api: Api) -> None:
    """Version zero is as old as the watch cache, which follows the store: wait until it has what there is now."""
    (await api.list(CONFIG_MAPS, resourceVersion=await api.newest(CONFIG_MAPS))).ok()


async def test_a_list_has_a_kind_and_a_version_and_its_items_of_core_kinds_have_neither(api: Api):
    await _five(api)
    pods = [item for item in (await api.list(CONFIG_MAPS)).ok()["items"] if item["metadata"]["name"] == "a"]
    body = (await api.list(CONFIG_MAPS)).json
    assert (body["kind"], body["apiVersion"]) == ("ConfigMapList", "v1")
    assert body["metadata"]["resourceVersion"].isdigit()
    assert not {"kind", "apiVersion"} & set(pods[0])


async def test_items_of_custom_resources_carry_kind_and_the_version_that_was_asked_for(api: Api):
    (await api.create(GADGETS, gadget())).ok()
    for resource in (GADGETS, GADGETS_ALPHA):
        body = (await api.list(resource)).ok()
        assert body["kind"] == "GadgetList"
        (item,) = body["items"]
        assert (item["kind"], item["apiVersion"]) == ("Gadget", resource.api_version)


async def test_lists_sort_by_namespace_slash_name_so_that_a_longer_namespace_may_come_first(api: Api):
    """ "x-b/…" sorts before "x/…", because "-" comes before "/"."""
    longer = f"{api.namespace}-b"
    await make_namespace(api, longer)
    label = {"case": api.namespace}
    for namespace in (api.namespace, longer):
        for name in ("b", "a"):
            (await api("POST", CONFIG_MAPS.path(namespace), config_map(name, labels=label))).ok()
    listed = (await api("GET", CONFIG_MAPS.path(), labelSelector=f"case={api.namespace}")).ok()["items"]
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed]
    assert found == [(longer, "a"), (longer, "b"), (api.namespace, "a"), (api.namespace, "b")]


async def test_a_complete_list_has_no_token_but_one_of_custom_resources_says_so(api: Api):
    assert "continue" not in (await api.list(CONFIG_MAPS)).ok()["metadata"]
    assert (await api.list(GADGETS)).ok()["metadata"]["continue"] == ""


async def test_a_list_of_a_namespace_that_does_not_exist_is_empty(api: Api):
    body = (await api("GET", CONFIG_MAPS.path("no-such-namespace"))).ok()
    assert body["items"] == []


async def test_an_unknown_resource_is_404_without_details_of_an_object(api: Api):
    answer = await api("GET", f"/apis/conformance.example.com/v1/namespaces/{api.namespace}/nonesuch")
    assert answer.status == 404
    assert b"404 page not found" in answer.raw or answer.failure == (404, "NotFound")


# ---- pages -----------------------------------------------------------------------------------------------------------


async def test_pages_share_one_version_and_count_what_remains(api: Api):
    for name in "abcde":
        (await api.create(GADGETS, gadget(name))).ok()
    pages = [(await api.list(GADGETS, limit=2)).ok()]
    while token := pages[-1]["metadata"].get("continue"):
        pages.append((await api.list(GADGETS, limit=2, continue_=token)).ok())
    assert [[item["metadata"]["name"] for item in page["items"]] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [3, 1, None]


async def test_later_pages_show_the_moment_of_the_first(api: Api):
    await _five(api)
    first = (await api.list(CONFIG_MAPS, limit=2, fieldSelector="metadata.name!=kube-root-ca.crt")).ok()
    (await api.create(CONFIG_MAPS, config_map("cc"))).ok()
    (await api.delete(CONFIG_MAPS, "d")).ok()
    token = first["metadata"]["continue"]
    rest = await api.list(CONFIG_MAPS, continue_=token, fieldSelector="metadata.name!=kube-root-ca.crt")
    assert rest.names == ["c", "d", "e"]


async def test_with_a_selector_nobody_counts_what_remains(api: Api):
    await _five(api)
    page = (await api.list(CONFIG_MAPS, limit=1, labelSelector="parity=odd")).ok()
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_limit_is_ignored_at_version_zero(api: Api):
    await _five(api)
    await _caught_up(api)
    page = await api.list(CONFIG_MAPS, limit=2, resourceVersion="0", labelSelector="parity")
    assert page.names == list("abcde")
    assert "continue" not in page.json["metadata"]


async def test_a_damaged_continue_token_is_a_bad_request(api: Api):
    assert (await api.list(CONFIG_MAPS, limit=1, continue_="nonsense")).failure == (400, "BadRequest")


async def test_a_continue_token_goes_with_no_resource_version(api: Api):
    await _five(api)
    token = (await api.list(CONFIG_MAPS, limit=1)).ok()["metadata"]["continue"]
    answer = await api.list(CONFIG_MAPS, limit=1, continue_=token, resourceVersion="5")
    assert answer.failure == (400, "BadRequest")


async def test_an_expired_continue_token_is_410_and_brings_one_that_goes_on_inconsistently(api: Api):
    for name in "abcde":
        (await api.create(GADGETS, gadget(name))).ok()
    token = (await api.list(GADGETS, limit=2)).ok()["metadata"]["continue"]
    (await api.create(GADGETS, gadget("ccc"))).ok()
    await api.server.compact()
    answer = await api.list(GADGETS, limit=2, continue_=token)
    async with asyncio.timeout(SNAPSHOT_SECONDS):
        while answer.status == 200:
            await asyncio.sleep(0.5)
            answer = await api.list(GADGETS, limit=2, continue_=token)
    assert answer.failure == (410, "Expired")
    fresh = answer.json["metadata"]["continue"]
    assert (await api.list(GADGETS, continue_=fresh)).names == ["c", "ccc", "d", "e"]


# ---- versions --------------------------------------------------------------------------------------------------------


async def test_a_bare_version_means_at_least_as_new(api: Api):
    version = (await api.create(CONFIG_MAPS, config_map("a"))).version
    (await api.create(CONFIG_MAPS, config_map("b"))).ok()
    assert set((await api.list(CONFIG_MAPS, resourceVersion=version)).names) >= {"a", "b"}
    assert set((await api.list(CONFIG_MAPS, resourceVersion="1")).names) >= {"a", "b"}, "never 410"


async def test_exact_shows_the_past(api: Api):
    version = (await api.create(CONFIG_MAPS, config_map("a"))).version
    (await api.create(CONFIG_MAPS, config_map("b"))).ok()
    answer = await api.list(CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")
    assert "a" in answer.names
    assert "b" not in answer.names
    assert answer.version == version


async def test_a_limit_with_a_bare_version_means_exact(api: Api):
    version = (await api.create(GADGETS, gadget("a"))).version
    (await api.create(GADGETS, gadget("b"))).ok()
    answer = await api.list(GADGETS, resourceVersion=version, limit=10)
    assert (answer.names, answer.version) == (["a"], version)


async def test_a_limit_at_a_compacted_version_is_410(api: Api):
    await api.server.compact()
    answer = await api.list(GADGETS, resourceVersion="1", limit=10)
    assert answer.failure == (410, "Expired")


async def test_a_limit_at_a_version_with_not_older_than_is_served(api: Api):
    await _five(api)
    answer = await api.list(
        CONFIG_MAPS, resourceVersion="1", resourceVersionMatch="NotOlderThan", limit=2, labelSelector="parity"
    )
    assert answer.ok()["items"]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({"resourceVersionMatch": "Exact"}, id="a match without a version"),
        pytest.param({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, id="exactly version zero"),
        pytest.param({"resourceVersionMatch": "Nonsense", "resourceVersion": "5"}, id="an unknown match"),
        pytest.param(
            {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, id="a streamed list that is no watch"
        ),
    ],
)
async def test_a_combination_that_makes_no_sense_is_invalid(api: Api, query: dict[str, str]):
    assert (await api.list(CONFIG_MAPS, **query)).failure == (422, "Invalid")


async def test_a_version_that_is_no_number_is_a_bad_request(api: Api):
    assert (await api.list(CONFIG_MAPS, resourceVersion="x")).failure == (400, "BadRequest")


async def test_a_version_from_the_future_times_out_with_a_cause(api: Api):
    (await api.create(GADGETS, gadget())).ok()
    requests = (
        api.list(GADGETS, resourceVersion=FUTURE),
        api.read(GADGETS, "one", resourceVersion=FUTURE),
        api.list(CONFIG_MAPS, resourceVersion=FUTURE, resourceVersionMatch="NotOlderThan"),
    )
    for answer in await asyncio.gather(*requests):
        assert answer.failure == (504, "Timeout")
        assert [cause["reason"] for cause in answer.details["causes"]] == ["ResourceVersionTooLarge"]
        assert answer.details["retryAfterSeconds"] == 1
        assert answer.message.startswith("Timeout: Too large resource version")


async def test_a_read_at_an_old_version_is_served_and_at_no_number_is_500(api: Api):
    version = (await api.create(GADGETS, gadget())).version
    assert (await api.read(GADGETS, "one", resourceVersion=version)).version == version
    assert (await api.read(GADGETS, "one", resourceVersion="x")).failure == (500, "")


# ---- selectors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("parity=odd", "ace", id="equal"),
        pytest.param("parity==odd", "ace", id="equal, spelled twice"),
        pytest.param("parity!=odd", "bd", id="not equal"),
        pytest.param("parity in (odd, even)", "abcde", id="in a set"),
        pytest.param("parity notin (odd),parity", "bd", id="not in a set, and present"),
        pytest.param("parity", "abcde", id="present"),
        pytest.param("!parity,x!=1", "", id="absent, though an absent label is not equal to anything"),
        pytest.param("parity=odd,parity!=odd", "", id="contradicting"),
    ],
)
async def test_label_selectors(api: Api, selector: str, expected: str):
    await _five(api)
    found = [name for name in (await api.list(CONFIG_MAPS, labelSelector=selector)).names if len(name) == 1]
    assert "".join(found) == expected


@pytest.mark.parametrize("selector", ["a in b", "a=b=c", "=x", "a,,b", "a in ("])
async def test_a_label_selector_that_cannot_be_read_is_a_bad_request(api: Api, selector: str):
    assert (await api.list(CONFIG_MAPS, labelSelector=selector)).failure == (400, "BadRequest")


async def test_field_selectors_by_name_and_namespace(api: Api):
    await _five(api)
    assert (await api.list(CONFIG_MAPS, fieldSelector="metadata.name=b")).names == ["b"]
    everywhere = await api(
        "GET", CONFIG_MAPS.path(), fieldSelector=f"metadata.namespace={api.namespace},metadata.name=c"
    )
    assert everywhere.names == ["c"]


async def test_pods_are_selected_by_phase_and_node(api: Api):
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "n1")):
        (await api.create(PODS, pod(name, node=node))).ok()
    assert (await api.list(PODS, fieldSelector="spec.nodeName=n1")).names == ["a", "c"]
    assert (await api.list(PODS, fieldSelector="spec.nodeName=n1,status.phase!=Running")).names == ["a", "c"]
    assert (await api.list(PODS, fieldSelector="status.phase=Running")).names == []


async def test_custom_resources_are_selected_by_the_fields_that_their_definition_names(api: Api):
    (await api.create(GADGETS, gadget("a", mode="Active"))).ok()
    (await api.create(GADGETS, gadget("b"))).ok()
    assert (await api.list(GADGETS, fieldSelector="spec.mode=Active")).names == ["a"]


async def test_a_field_that_is_not_selectable_is_a_bad_request(api: Api):
    for resource in (GADGETS, CONFIG_MAPS):
        assert (await api.list(resource, fieldSelector="spec.interval=15")).failure == (400, "BadRequest")


# ---- representation --------------------------------------------------------------------------------------------------


async def test_a_large_list_is_compressed_and_a_watch_is_not(api: Api):
    for name in "abcd":
        (await api.create(CONFIG_MAPS, config_map(name, text="x" * 60_000))).ok()
    compressed = {"Accept-Encoding": "gzip"}
    assert (await api.list(CONFIG_MAPS, headers=compressed)).headers.get("Content-Encoding") == "gzip"
    assert (await api.list(CONFIG_MAPS, headers=compressed, limit=1)).headers.get("Content-Encoding") is None
    watch = await api.watch(CONFIG_MAPS)
    assert watch.response.headers.get("Content-Encoding") is None


async def test_an_accept_header_that_cannot_be_served_is_406(api: Api):
    answer = await api.list(CONFIG_MAPS, headers={"Accept": "text/html"})
    assert answer.status == 406
