"""Tables and partial metadata: what `kubectl get` and lean clients ask for."""

from __future__ import annotations

from tests.cluster.api import PARTIAL_LIST, TABLE, Api
from tests.cluster.objects import CONFIG_MAPS, GADGETS, PODS, config_map, gadget, pod


async def test_a_table_of_custom_resources_has_the_columns_of_the_definition(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    table = (await api.list(GADGETS, headers={"Accept": TABLE})).ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [(column["name"], column["type"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [("Name", "string", 0), ("Mode", "string", 0), ("Interval", "integer", 1), ("Age", "date", 0)]
    (row,) = table["rows"]
    assert row["cells"][:3] == ["a", "Shadow", 15]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "a")


async def test_a_table_of_pods_shows_readiness_and_restarts(api: Api):
    (await api.create(PODS, pod("a", node="n1"))).ok()
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "main", "ready": True, "restartCount": 2, "image": "i", "imageID": "", "state": {"running": {}}}
        ],
    }
    (await api.patch(PODS, "a", {"status": status}, subresource="status")).ok()
    table = (await api.list(PODS, headers={"Accept": TABLE})).ok()
    assert [column["name"] for column in table["columnDefinitions"]][:5] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    assert table["rows"][0]["cells"][:4] == ["a", "1/1", "Running", "2"]


async def test_what_comes_with_a_row_is_asked_for(api: Api):
    (await api.create(CONFIG_MAPS, config_map("a", x="1"))).ok()
    selector = "metadata.name=a"
    for include, expected in (("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")):
        table = (
            await api.list(CONFIG_MAPS, headers={"Accept": TABLE}, includeObject=include, fieldSelector=selector)
        ).ok()
        found = table["rows"][0]["object"]
        assert (found or {}).get("kind") == expected


async def test_one_object_as_a_table_is_one_row(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    table = (await api.read(GADGETS, "a", headers={"Accept": TABLE})).ok()
    assert [row["cells"][0] for row in table["rows"]] == ["a"]


async def test_only_the_first_table_of_a_watch_defines_the_columns(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    watch = await api.watch(GADGETS, accept=TABLE)
    first = await watch.next()
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert first["object"]["columnDefinitions"]
    (await api.create(GADGETS, gadget("b"))).ok()
    second = await watch.next()
    assert not second["object"]["columnDefinitions"]
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_a_list_of_metadata_leaves_the_rest_out(api: Api):
    (await api.create(GADGETS, gadget("a", labels={"x": "1"}))).ok()
    body = (await api.list(GADGETS, headers={"Accept": PARTIAL_LIST})).ok()
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    (item,) = body["items"]
    assert item["metadata"]["labels"] == {"x": "1"}
    assert not {"spec", "status"} & set(item)


async def test_a_client_that_prefers_a_table_and_takes_json_gets_the_table(api: Api):
    accept = f"{TABLE},application/json"
    assert (await api.list(GADGETS, headers={"Accept": accept})).ok()["kind"] == "Table"
