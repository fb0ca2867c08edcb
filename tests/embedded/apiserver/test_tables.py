"""Table output and the JSONPath of its columns."""

from __future__ import annotations

from typing import Any

import pytest

from controller.embedded.apiserver.jsonpath import BadPath, find
from controller.embedded.apiserver.table import human_duration
from controller.foundation import ManualClock, Resource
from tests.embedded.apiserver.conftest import WIDGETS, Start, widget

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
OBJECT: dict[str, Any] = {
    "status": {"conditions": [{"type": "Ready", "reason": "Good", "n": 1}, {"type": "Idle", "reason": "Bad", "n": 2}]},
    "labels": {"app.kubernetes.io/name": "x", "a b": "y"},
    "list": [1, 2, 3],
}

PATHS = [
    ("a member", ".list", [[1, 2, 3]]),
    ("a filter by text", '.status.conditions[?(@.type=="Ready")].reason', ["Good"]),
    ("a filter with single quotes", ".status.conditions[?(@.type=='Idle')].reason", ["Bad"]),
    ("a filter by inequality", '.status.conditions[?(@.type!="Ready")].reason', ["Bad"]),
    ("a filter by number", ".status.conditions[?(@.n>1)].type", ["Idle"]),
    ("a filter by presence", ".status.conditions[?(@.reason)].type", ["Ready", "Idle"]),
    ("a filter that finds nothing", '.status.conditions[?(@.type=="None")].reason', []),
    ("an index", ".list[1]", [2]),
    ("an index from the end", ".list[-1]", [3]),
    ("a range", ".list[0:2]", [1, 2]),
    ("a wildcard", ".status.conditions[*].type", ["Ready", "Idle"]),
    ("an escaped dot", r".labels.app\.kubernetes\.io/name", ["x"]),
    ("a quoted member", ".labels['a b']", ["y"]),
    ("braces around it", "{.list[0]}", [1]),
    ("an absent member", ".nothing.at.all", []),
    ("any depth", "..reason", ["Good", "Bad"]),
]


@pytest.mark.parametrize(("path", "expected"), [row[1:] for row in PATHS], ids=[row[0] for row in PATHS])
def test_jsonpath(path: str, expected: list[Any]) -> None:
    assert find(OBJECT, path) == expected


def test_a_path_outside_the_grammar_says_what_it_could_not_read() -> None:
    with pytest.raises(BadPath, match=r"\[\?\(@\.a"):
        find(OBJECT, ".list[?(@.a")


DURATIONS = [
    (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (600, "10m"), (3 * 3600 - 1, "179m"), (3 * 3600, "3h"),
    (7 * 3600 + 60, "7h1m"), (8 * 3600 + 60, "8h"), (47 * 3600, "47h"), (2 * 86400 + 3 * 3600, "2d3h"),
    (9 * 86400, "9d"), (800 * 86400, "2y70d"), (9 * 365 * 86400, "9y"), (-1, "0s"), (-5, "<invalid>"),
]  # fmt: skip


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_an_age_is_written_as_kubernetes_writes_it(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


async def test_a_custom_resource_shows_its_columns_with_ages_at_the_servers_clock(start: Start) -> None:
    clock = ManualClock()
    api = await start(clock=clock)
    api.server.put({**widget(), "status": {"conditions": [{"type": "Ready", "reason": "AllGood"}]}})
    api.server.put(widget("two"))
    clock.advance(200)
    table = (await api.get(WIDGETS.path("default"), headers=TABLE)).json
    assert [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Mode", "string", 0),
        ("Ready", "string", 0),
        ("Interval", "integer", 1),
        ("Age", "date", 0),
    ]
    assert [row["cells"] for row in table["rows"]] == [
        ["one", "Shadow", "AllGood", 15, "3m20s"],
        ["two", "Shadow", None, 15, "3m20s"],
    ]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = (await api.read(WIDGETS, "one", headers=TABLE)).json
    assert one["rows"][0]["cells"][0] == "one"
    whole = (await api.read(WIDGETS, "one", headers=TABLE, includeObject="Object")).json
    assert whole["rows"][0]["object"]["kind"] == "Widget"


BUILTIN: list[tuple[str, Resource, dict[str, Any], list[Any]]] = [
    (
        "pods",
        Resource("", "v1", "pods", "Pod"),
        {
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
            "status": {
                "phase": "Running",
                "podIP": "127.1.2.3",
                "containerStatuses": [{"ready": True, "restartCount": 2}],
            },
        },
        ["x", "1/1", "Running", "2", "0s", "127.1.2.3", "n"],
    ),
    (
        "pods that wait",
        Resource("", "v1", "pods", "Pod"),
        {
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
        },
        ["x", "0/1", "CrashLoopBackOff", "0", "0s", "<none>", "<none>"],
    ),
    (
        "nodes",
        Resource("", "v1", "nodes", "Node", namespaced=False),
        {
            "metadata": {"labels": {"node-role.kubernetes.io/gpu": ""}},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.36.3"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            },
        },
        ["x", "Ready", "gpu", "0s", "v1.36.3", "10.0.0.1"],
    ),
    (
        "services",
        Resource("", "v1", "services", "Service"),
        {"spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}},
        ["x", "ClusterIP", "10.96.0.9", "<none>", "80/TCP,53/UDP", "0s"],
    ),
    (
        "config maps",
        Resource("", "v1", "configmaps", "ConfigMap"),
        {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
        ["x", 2, "0s"],
    ),
    (
        "deployments",
        Resource("apps", "v1", "deployments", "Deployment"),
        {"spec": {"replicas": 3}, "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}},
        ["x", "2/3", "3", "2", "0s"],
    ),
    (
        "endpoint slices",
        Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
        {
            "addressType": "IPv4",
            "ports": [{"port": 80}],
            "endpoints": [{"addresses": [f"10.0.0.{n}"]} for n in range(5)],
        },
        ["x", "IPv4", "80", "10.0.0.0,10.0.0.1,10.0.0.2 + 2 more...", "0s"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "body", "cells"), [row[1:] for row in BUILTIN], ids=[row[0] for row in BUILTIN])
async def test_builtin_columns_of(start: Start, resource: Resource, body: Any, cells: list[Any]) -> None:
    api = await start()
    metadata = {**body.get("metadata", {}), "name": "x"}
    api.server.put({"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata})
    answer = await api.get(resource.path("default", "x"), headers=TABLE)
    assert answer.json["rows"][0]["cells"] == cells


async def test_leases_and_events_show_holder_and_message(start: Start) -> None:
    api = await start()
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me"},
    }
    api.server.put(lease)
    table = (await api.get("/apis/coordination.k8s.io/v1/leases", headers=TABLE)).json
    assert table["rows"][0]["cells"][:2] == ["l", "me"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Widget", "name": "one", "namespace": "default"},
        "type": "Warning",
        "reason": "Odd",
        "message": "something\n",
        "lastTimestamp": "2023-11-14T22:13:10Z",
    }
    api.server.put(event)
    for path in ("/api/v1/events", "/apis/events.k8s.io/v1/events"):
        table = (await api.get(path, headers=TABLE)).json
        cells = dict(zip((c["name"] for c in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
        assert cells["Last Seen"] == "10s"
        assert (cells["Type"], cells["Reason"], cells["Object"]) == ("Warning", "Odd", "widget/one")
        assert cells["Message"] == "something"
