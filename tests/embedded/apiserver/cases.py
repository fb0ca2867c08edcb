"""Conversations with an API server, as data: what is sent, in which order. They are played against the embedded server
and compared with what a real kube-apiserver answered to the very same (`transcripts.json`, see `transcripts`).

In paths and bodies `$N` stands for the namespace of the case, and `${i:a.b}` for the member `a.b` of the i-th answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

WIDGETS = "/apis/example.com/v1/namespaces/$N/widgets"
WIDGETS_ALPHA = "/apis/example.com/v1alpha1/namespaces/$N/widgets"
MAPS = "/api/v1/namespaces/$N/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$N/leases"
PODS = "/api/v1/namespaces/$N/pods"
EVENTS = "/api/v1/namespaces/$N/events"
NEWER_EVENTS = "/apis/events.k8s.io/v1/namespaces/$N/events"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Step:
    """One request. `events` > 0 makes it a watch that is read until so many events have come."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    query: dict[str, str] = field(default_factory=dict)
    accept: str = "application/json"
    events: int = 0
    only: tuple[str, ...] = ()  # dotted paths of the answer that are compared; empty: everything


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[Step, ...]


def widget(
    name: str = "one", /, *, version: str = "v1", metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"mode": "Shadow", **spec},
    }


def config_map(name: str = "one", metadata: dict[str, Any] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})}, "data": data}


def lease(name: str = "one", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **(metadata or {})},
        "spec": spec,
    }


def pod(name: str = "one", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def newer_event(name: str = "one", **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2026-11-29T15:49:15.250000Z",
        "reportingController": "c",
        "reportingInstance": "c-1",
        "action": "Scale",
        "reason": "Scaled",
        "type": "Normal",
        "note": "raised",
        "regarding": {"apiVersion": "example.com/v1", "kind": "Widget", "name": "one", "namespace": "$N"},
        **changes,
    }


def get(path: str, **options: Any) -> Step:
    return Step("GET", path, **options)


def post(path: str, body: Any, **options: Any) -> Step:
    return Step("POST", path, body, **options)


def put(path: str, body: Any, **options: Any) -> Step:
    return Step("PUT", path, body, **options)


def delete(path: str, body: Any = None, **options: Any) -> Step:
    return Step("DELETE", path, body, **options)


def patch(path: str, body: Any, content_type: str = MERGE_PATCH, **options: Any) -> Step:
    return Step("PATCH", path, body, content_type, **options)


def watch(path: str, events: int, **query: str) -> Step:
    return Step("GET", path, query={"watch": "1", "timeoutSeconds": "3", **query}, events=events)


def apply(path: str, body: Any, manager: str | None = "a", **query: str) -> Step:
    return Step("PATCH", path, body, APPLY_PATCH, {**({"fieldManager": manager} if manager else {}), **query})


def case(name: str, *steps: Step) -> Case:
    return Case(name, steps)


ONE = f"{WIDGETS}/one"
MAP = f"{MAPS}/one"
HOLD = {"finalizers": ["example.com/hold"]}

WRITES = (
    case("create and read a widget", post(WIDGETS, widget(interval=20)), get(ONE), get(WIDGETS)),
    case("create and read a config map", post(MAPS, config_map(a="b")), get(MAP), get(MAPS)),
    case("create a name that is taken", post(WIDGETS, widget()), post(WIDGETS, widget())),
    case("create a config map that is taken", post(MAPS, config_map()), post(MAPS, config_map())),
    case("create in a missing namespace", post("/api/v1/namespaces/missing-namespace/configmaps", config_map())),
    case("create with a resourceVersion", post(WIDGETS, widget(metadata={"resourceVersion": "5"}))),
    case("create without name", post(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})),
    case("create a widget without name", post(WIDGETS, {**widget(), "metadata": {}})),
    case("create with a bad name", post(MAPS, config_map("Bad_Name")), post(WIDGETS, widget("Bad_Name"))),
    case("create with generateName", post(WIDGETS, {**widget(), "metadata": {"generateName": "run-"}})),
    case("create another kind", post(WIDGETS, {**widget(), "kind": "Gadget"})),
    case("create another version", post(WIDGETS, widget(version="v1alpha1"))),
    case("create for another namespace", post(MAPS, config_map(metadata={"namespace": "default"}))),
    case("create without kind", post(WIDGETS, {"metadata": {"name": "one"}, "spec": {"mode": "Shadow"}})),
    case("a config map without kind", post(MAPS, {"metadata": {"name": "one"}, "data": {"a": "b"}})),
    case("a body that is no JSON", post(MAPS, b"{oops")),
    case("a body of an unknown format", post(MAPS, b"x", content_type="text/plain")),
    case("a dry run", post(WIDGETS, widget(), query={"dryRun": "All"}), get(ONE)),
    case("an unknown dry run", post(WIDGETS, widget(), query={"dryRun": "Some"})),
    case(
        "bad labels",
        post(MAPS, config_map(metadata={"labels": {"a b": "c"}})),
        post(MAPS, config_map(metadata={"labels": {"a": "b c"}})),
    ),
    case("labels of a wrong type", post(MAPS, config_map(metadata={"labels": {"a": 1}}))),
    case(
        "update",
        post(WIDGETS, widget()),
        put(
            ONE,
            {**widget(mode="Active"), "metadata": {"name": "one", "resourceVersion": "${0:metadata.resourceVersion}"}},
        ),
    ),
    case("update without resourceVersion", post(WIDGETS, widget()), put(ONE, widget())),
    case("update a config map without resourceVersion", post(MAPS, config_map()), put(MAP, config_map(a="b"))),
    case(
        "update a lease without resourceVersion", post(LEASES, lease()), put(f"{LEASES}/one", lease(holderIdentity="b"))
    ),
    case(
        "update with a stale resourceVersion",
        post(WIDGETS, widget()),
        put(ONE, widget(metadata={"resourceVersion": "1"})),
    ),
    case(
        "update with a resourceVersion that is no number",
        post(WIDGETS, widget()),
        put(ONE, widget(metadata={"resourceVersion": "x"})),
    ),
    case(
        "update another uid",
        post(MAPS, config_map()),
        put(MAP, config_map(metadata={"uid": "11111111-1111-4111-8111-111111111111"})),
    ),
    case("update under another name", post(MAPS, config_map()), put(MAP, config_map("two"))),
    case("update what is missing", put(ONE, widget(metadata={"resourceVersion": "1"})), put(MAP, config_map())),
    case("update a lease that is missing", put(f"{LEASES}/one", lease(metadata={"resourceVersion": "77"}))),
    case(
        "update without change",
        post(WIDGETS, widget()),
        put(ONE, widget(metadata={"resourceVersion": "${0:metadata.resourceVersion}"})),
    ),
    case(
        "status and main part are apart",
        post(WIDGETS, {**widget(), "status": {"ready": 9}}),
        put(
            f"{ONE}/status",
            {
                **widget(
                    mode="Active", metadata={"resourceVersion": "${0:metadata.resourceVersion}", "labels": {"a": "b"}}
                ),
                "status": {"ready": 3},
            },
        ),
        patch(ONE, {"status": {"ready": 5}, "spec": {"mode": "Active"}}),
        get(f"{ONE}/status"),
    ),
    case(
        "status of a pod carries labels",
        post(PODS, pod(), only=("metadata.generation",)),
        patch(
            f"{PODS}/one/status",
            {"metadata": {"labels": {"a": "b"}}, "status": {"podIP": "127.1.2.3", "phase": "Running"}},
            only=("metadata.labels", "status.phase", "status.podIP", "metadata.generation"),
        ),
    ),
    case("a status that is not served", get(f"{MAP}/status")),
    case("delete a widget", post(WIDGETS, widget()), delete(ONE), delete(ONE)),
    case("delete a config map", post(MAPS, config_map()), delete(MAP), get(MAP)),
    case(
        "delete a pod",
        post(PODS, pod(), only=("kind",)),
        delete(f"{PODS}/one", only=("kind", "metadata.name", "metadata.deletionTimestamp")),
    ),
    case(
        "delete a scheduled pod",
        post(PODS, pod(nodeName="n"), only=("kind",)),
        delete(f"{PODS}/one", only=("metadata.deletionGracePeriodSeconds", "metadata.generation")),
        delete(f"{PODS}/one", {"gracePeriodSeconds": 0}, only=("kind", "metadata.deletionGracePeriodSeconds")),
        get(f"{PODS}/one"),
    ),
    case("delete with a wrong uid", post(WIDGETS, widget()), delete(ONE, {"preconditions": {"uid": "x"}})),
    case(
        "delete with a wrong resourceVersion",
        post(MAPS, config_map()),
        delete(MAP, {"preconditions": {"resourceVersion": "1"}}),
    ),
    case(
        "delete with an unknown policy", post(MAPS, config_map()), delete(MAP, query={"propagationPolicy": "Sideways"})
    ),
    case(
        "a finalizer holds",
        post(WIDGETS, widget(metadata=HOLD)),
        delete(ONE),
        delete(ONE),
        patch(ONE, {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        patch(ONE, {"metadata": {"finalizers": []}}),
        get(ONE),
        watch(WIDGETS, 3, resourceVersion="${0:metadata.resourceVersion}"),
    ),
    case("a bad finalizer", post(WIDGETS, widget(metadata={"finalizers": ["nonsense"]}))),
    case(
        "delete a collection",
        post(MAPS, config_map("a", {"labels": {"x": "1"}})),
        post(MAPS, config_map("b")),
        delete(MAPS, query={"labelSelector": "x=1"}),
        get(MAPS),
    ),
    case("delete a collection of widgets", post(WIDGETS, widget("a")), delete(WIDGETS), get(WIDGETS)),
    case("PUT on collections", put(WIDGETS, widget()), put(MAPS, config_map())),
    case("POST on objects", post(f"{WIDGETS}/posted", {**widget("posted")}), post(MAP, config_map())),
    case(
        "unknown paths",
        get("/api/v1/namespaces/$N/gadgets"),
        get("/apis/none.example.com/v1/things"),
        get(f"{ONE}/scale"),
        get(f"{ONE}"),
    ),
    case(
        "micro times",
        post(LEASES, lease(renewTime="2026-11-29T15:49:15.250000+02:00")),
        post(LEASES, lease("two", renewTime="2026-11-29T15:49:15Z"), only=("code", "reason")),
    ),
    case("lease bounds", post(LEASES, lease(leaseDurationSeconds=0)), post(LEASES, lease(leaseTransitions=-1))),
    case("a large object", post(MAPS, config_map(blob="x" * (2 * 1024 * 1024)), only=("code", "reason"))),
    case("a body beyond the limit", post(MAPS, config_map(blob="x" * (3 * 1024 * 1024 + 100)))),
    case(
        "endpoints refuse loopback",
        post(
            "/api/v1/namespaces/$N/endpoints",
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {"name": "e"},
                "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 80}]}],
            },
            only=("code", "reason", "details.causes"),
        ),
    ),
    case(
        "endpoint slices refuse loopback",
        post(
            "/apis/discovery.k8s.io/v1/namespaces/$N/endpointslices",
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": "e"},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["127.0.0.1"]}],
                "ports": [],
            },
        ),
    ),
)

PATCHES = (
    case("merge patch", post(WIDGETS, widget(low=1)), patch(ONE, {"spec": {"low": None, "mode": "Active"}})),
    case("merge patch without change", post(WIDGETS, widget()), patch(ONE, {"spec": {"mode": "Shadow"}})),
    case(
        "merge patch with a stale resourceVersion",
        post(WIDGETS, widget()),
        patch(ONE, {"metadata": {"resourceVersion": "1"}}),
    ),
    case("merge patch of another name", post(WIDGETS, widget()), patch(ONE, {"metadata": {"name": "two"}})),
    case(
        "merge patch of the uid",
        post(MAPS, config_map()),
        patch(MAP, {"metadata": {"uid": "11111111-1111-4111-8111-111111111111"}}),
    ),
    case("merge patch that is a list", post(WIDGETS, widget()), patch(ONE, [], only=("code", "reason"))),
    case("patch what is missing", patch(ONE, {}), patch(ONE, [], JSON_PATCH)),
    case(
        "patch of an unknown type",
        post(WIDGETS, widget()),
        patch(ONE, {}, "application/json"),
        patch(ONE, {}, STRATEGIC_PATCH),
        patch(MAP, {}, "text/plain"),
    ),
    case(
        "json patch",
        post(WIDGETS, widget(roles=[{"name": "a", "replicas": 1}])),
        patch(
            ONE,
            [
                {"op": "test", "path": "/spec/roles/0/replicas", "value": 1},
                {"op": "replace", "path": "/spec/roles/0/replicas", "value": 2},
            ],
            JSON_PATCH,
        ),
        patch(
            ONE,
            [
                {"op": "test", "path": "/spec/roles/0/replicas", "value": 1},
                {"op": "replace", "path": "/spec/roles/0/replicas", "value": 3},
            ],
            JSON_PATCH,
        ),
        patch(ONE, [{"op": "remove", "path": "/spec/nothing"}], JSON_PATCH),
        patch(ONE, [{"op": "replace", "path": "/spec/low", "value": 4}], JSON_PATCH),
        patch(ONE, [{"op": "test", "path": "/spec/high", "value": None}], JSON_PATCH),
        patch(ONE, [{"op": "test", "path": "/spec/low", "value": 4.0}], JSON_PATCH),
        patch(ONE, [{"op": "add", "path": "/spec/roles/-1", "value": {"name": "z"}}], JSON_PATCH),
        patch(ONE, [{"op": "add", "path": "spec/low", "value": 9}], JSON_PATCH),
        patch(ONE, [{"op": "add", "path": "/spec/roles/7", "value": {"name": "y"}}], JSON_PATCH),
        patch(ONE, [{"op": "copy", "from": "/spec/low", "path": "/spec/high"}], JSON_PATCH),
        patch(ONE, [{"op": "move", "from": "/spec/low", "path": "/spec/interval"}], JSON_PATCH),
        patch(ONE, [{"op": "frob", "path": "/spec"}], JSON_PATCH),
        patch(ONE, {}, JSON_PATCH, only=("code", "reason")),
        patch(ONE, [{"op": "test", "path": "/metadata/name"}] * 10001, JSON_PATCH),
        patch(ONE, [{"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}}], JSON_PATCH),
        patch(ONE, [{"op": "add", "path": "/metadata/annotations/a~1b", "value": "c"}], JSON_PATCH),
    ),
    case(
        "json patch of a config map",
        post(MAPS, config_map(a="b")),
        patch(MAP, [{"op": "test", "path": "/data/a", "value": "x"}], JSON_PATCH),
        patch(MAP, [{"op": "remove", "path": "/data/z"}], JSON_PATCH),
    ),
    case(
        "strategic merge patch",
        post(PODS, pod(), only=("kind",)),
        patch(
            f"{PODS}/one",
            {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "j"}]}},
            STRATEGIC_PATCH,
            only=("metadata.labels", "spec.containers.0.image", "spec.containers.0.name"),
        ),
    ),
    case(
        "stripping managers",
        post(MAPS, config_map()),
        patch(MAP, {"metadata": {"managedFields": [{}]}}),
        patch(MAP, {"data": {"a": "b"}}),
    ),
    case(
        "server-side apply",
        apply(ONE, widget(roles=[{"name": "d", "replicas": 1}])),
        apply(ONE, widget(roles=[{"name": "d", "replicas": 1}])),
        apply(ONE, widget(roles=[{"name": "d", "replicas": 3}]), "b"),
        apply(ONE, widget(roles=[{"name": "d", "replicas": 3}]), "b", force="true"),
        apply(ONE, widget(), "b"),
        apply(ONE, {**widget(), "spec": {"roles": [{"name": "e"}]}}, "c"),
        apply(ONE, widget(), "a"),
    ),
    case(
        "apply conflicts with an update",
        post(WIDGETS, widget(low=1), query={"fieldManager": "u"}),
        apply(ONE, widget(low=2)),
        apply(ONE, widget(low=2, mode="Active")),
    ),
    case("apply without manager", apply(ONE, widget(), None)),
    case("apply with managed fields", apply(ONE, widget(metadata={"managedFields": [{"manager": "x"}]}))),
    case("apply duplicate keys", apply(ONE, widget(roles=[{"name": "d"}, {"name": "d"}]))),
    case("apply without key", apply(ONE, widget(roles=[{"replicas": 1}]))),
    case("apply a wrong type", apply(ONE, widget(roles="x"))),
    case("apply an invalid value", apply(ONE, widget(mode="Loud"))),
    case("apply an unknown field", apply(ONE, widget(colour="red"))),
    case("apply with a resourceVersion", apply(ONE, widget(metadata={"resourceVersion": "1"}))),
    case(
        "apply to the status",
        post(WIDGETS, widget()),
        apply(f"{ONE}/status", {**widget(mode="Active"), "status": {"ready": 1}}),
        apply(f"{WIDGETS}/none/status", {**widget("none"), "status": {"ready": 1}}),
    ),
    case(
        "apply labels and sets",
        apply(ONE, widget(metadata={"labels": {"a": "b"}}, tags=["x", "y"])),
        apply(ONE, widget(tags=["z"]), "b"),
        apply(ONE, widget(tags=["x"]), "a"),
    ),
    case("apply a config map", apply(MAP, config_map(a="b")), apply(MAP, config_map(a="c"), "b")),
    case(
        "managers of updates",
        post(
            WIDGETS, widget(roles=[{"name": "d", "replicas": 1}], labels={"x": "y"}), query={"fieldManager": "creator"}
        ),
        patch(
            ONE,
            [{"op": "replace", "path": "/spec/roles/0/replicas", "value": 2}],
            JSON_PATCH,
            query={"fieldManager": "scaler"},
        ),
        patch(f"{ONE}/status", {"status": {"ready": 1}}, query={"fieldManager": "kubelet"}),
        patch(ONE, {"metadata": {"labels": {"l": "m"}, "annotations": {"n": "o"}}}, query={"fieldManager": "labeller"}),
        patch(ONE, {"spec": {"labels": None}}, query={"fieldManager": "remover"}),
    ),
)

SCHEMAS = (
    case(
        "wrong types",
        post(WIDGETS, widget(interval="often")),
        post(WIDGETS, widget(roles={})),
        post(WIDGETS, {**widget(), "spec": "x"}),
    ),
    case(
        "bounds", post(WIDGETS, widget(interval=4)), post(WIDGETS, widget(interval=301)), post(WIDGETS, widget(ratio=0))
    ),
    case("enum", post(WIDGETS, widget(mode="Loud"))),
    case(
        "int or string",
        post(WIDGETS, widget(target=0.5)),
        post(WIDGETS, widget(target="much")),
        post(WIDGETS, widget(target=7)),
        post(WIDGETS, widget("two", target="0.75")),
    ),
    case(
        "lengths",
        post(WIDGETS, widget(note="x")),
        post(WIDGETS, widget(note="x" * 11)),
        post(WIDGETS, widget(steps=[])),
        post(WIDGETS, widget(tags=list("abcd"))),
    ),
    case(
        "required",
        post(WIDGETS, widget(targetRef={})),
        post(WIDGETS, widget(roles=[{"replicas": 1}])),
        post(WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}),
    ),
    case(
        "too many",
        post(WIDGETS, widget(roles=[{"name": str(n)} for n in range(5)])),
        post(WIDGETS, widget(labels={"a": "", "b": "", "c": ""})),
    ),
    case(
        "duplicates",
        post(WIDGETS, widget(roles=[{"name": "a"}, {"name": "a"}])),
        post(WIDGETS, widget(tags=["a", "a"])),
    ),
    case("a map of a wrong type", post(WIDGETS, widget(labels={"a": 1}))),
    case("a date", post(WIDGETS, widget(since="yesterday")), post(WIDGETS, widget(since="2026-11-29T15:49:15Z"))),
    case("a rule", post(WIDGETS, widget(low=3, high=2)), post(WIDGETS, widget(low=3, high=2, mode="Loud"))),
    case("a blocking error", post(WIDGETS, widget(low=3, high=2, interval="x"))),
    case(
        "immutability",
        post(WIDGETS, widget(targetRef={"name": "a"})),
        patch(ONE, {"spec": {"targetRef": {"name": "b"}}}),
    ),
    case("nulls", post(WIDGETS, widget(note=None, interval=None, low=None))),
    case(
        "unknown fields",
        post(WIDGETS, {**widget(colour="red", free={"any": 1}), "extra": 1}),
        patch(ONE, {"spec": {"shape": "round"}}),
    ),
    case(
        "unknown metadata",
        post(WIDGETS, widget(metadata={"colour": "red"})),
        post(WIDGETS, widget("two", metadata={"colour": "red"}), query={"fieldValidation": "Strict"}),
    ),
    case(
        "strict",
        post(WIDGETS, widget(colour="red"), query={"fieldValidation": "Strict"}),
        post(WIDGETS, widget()),
        patch(
            ONE,
            {"spec": {"colour": "red"}},
            query={"fieldValidation": "Strict"},
            only=("code", "reason", "details.name", "details.kind"),
        ),
    ),
    case(
        "duplicate members",
        post(
            WIDGETS,
            b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"one"},"spec":{"mode":"Shadow","mode":"Active"}}',
        ),
    ),
    case(
        "strict duplicate members",
        post(
            WIDGETS,
            b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"one"},"spec":{"mode":"Shadow","mode":"Active"}}',
            query={"fieldValidation": "Strict"},
        ),
    ),
    case(
        "two versions",
        post(WIDGETS_ALPHA, widget(version="v1alpha1")),
        get(ONE),
        patch(ONE, {"spec": {"mode": "Active"}}),
        get(f"{WIDGETS_ALPHA}/one"),
    ),
)

READS = (
    case("pages", *(post(MAPS, config_map(f"m{n}")) for n in range(3)), get(MAPS, query={"limit": "2"}, only=("kind", "items.0.metadata.name", "items.1.metadata.name", "metadata.remainingItemCount")), get(MAPS, query={"limit": "2", "continue": "${3:metadata.continue}"}), get(MAPS, query={"limit": "1", "labelSelector": "!x"}, only=("metadata.remainingItemCount",)), get(MAPS, query={"limit": "1", "resourceVersion": "0"}, only=("items.2.metadata.name",))),
    case("a token that is none", get(MAPS, query={"continue": "nonsense"}, only=("code", "reason"))),
    case("combinations", get(MAPS, query={"resourceVersionMatch": "Exact"}), get(MAPS, query={"resourceVersion": "1", "resourceVersionMatch": "Roughly"}), get(MAPS, query={"resourceVersion": "0", "resourceVersionMatch": "Exact"}), get(MAPS, query={"sendInitialEvents": "true"}), get(MAPS, query={"watch": "1", "sendInitialEvents": "true"}), get(MAPS, query={"watch": "1", "resourceVersionMatch": "NotOlderThan"}), get(MAPS, query={"limit": "x"}, only=("code",))),
    case("resource versions that are no number", get(MAPS, query={"resourceVersion": "x"}, only=("code", "reason")), get(MAPS, query={"resourceVersion": "x", "watch": "1"}, only=("code", "reason")), post(MAPS, config_map()), get(MAP, query={"resourceVersion": "x"}, only=("code", "reason"))),
    case("the future", get(MAPS, query={"resourceVersion": "999999999"})),
    case("exact", post(MAPS, config_map("a")), post(MAPS, config_map("b")), get(MAPS, query={"resourceVersion": "${0:metadata.resourceVersion}", "resourceVersionMatch": "Exact"}), get(MAPS, query={"resourceVersion": "${0:metadata.resourceVersion}"}), get(MAPS, query={"resourceVersion": "${0:metadata.resourceVersion}", "limit": "5"})),
    case("selectors", post(MAPS, config_map("a", {"labels": {"t": "1"}})), post(MAPS, config_map("b", {"labels": {"t": "2"}})), get(MAPS, query={"labelSelector": "t in (1,3)"}), get(MAPS, query={"labelSelector": "t!=1"}), get(MAPS, query={"labelSelector": "a in (b"}, only=("code", "reason")), get(MAPS, query={"fieldSelector": "metadata.name=a"}), get(MAPS, query={"fieldSelector": "data.x=a"}), get(WIDGETS, query={"fieldSelector": "spec.low=1"}), get(WIDGETS, query={"fieldSelector": "spec.mode=Shadow"})),
    case("watch", post(MAPS, config_map("a")), patch(f"{MAPS}/a", {"data": {"x": "y"}}), delete(f"{MAPS}/a"), watch(MAPS, 2, resourceVersion="${0:metadata.resourceVersion}")),
    case("watch from the beginning", post(WIDGETS, widget("a")), watch(WIDGETS, 1)),
    case("watch with a selector", post(MAPS, config_map("a", {"labels": {"on": "no"}})), patch(f"{MAPS}/a", {"metadata": {"labels": {"on": "yes"}}}), patch(f"{MAPS}/a", {"data": {"x": "y"}}), patch(f"{MAPS}/a", {"metadata": {"labels": {"on": "no"}}}), watch(MAPS, 3, resourceVersion="${0:metadata.resourceVersion}", labelSelector="on=yes")),
    case("watch from a compacted resourceVersion", watch(MAPS, 1, resourceVersion="1")),
    case("watch list", post(MAPS, config_map("a")), watch(MAPS, 2, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")),
    case("watch list of pods", post(PODS, pod(), only=("kind",)), Step("GET", PODS, query={"watch": "1", "timeoutSeconds": "3", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}, events=2, only=("1",))),
    case("watch list of widgets", watch(WIDGETS, 1, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")),
    case("watch on an object", post(MAPS, config_map()), get(MAP, query={"watch": "true", "timeoutSeconds": "1"})),
    case("a table of widgets", post(WIDGETS, {**widget(), "status": {}}), patch(f"{ONE}/status", {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Good"}]}}), Step("GET", WIDGETS, accept=TABLE), Step("GET", ONE, accept=TABLE, query={"includeObject": "None"})),
    case("a table of config maps", post(MAPS, config_map(a="b")), Step("GET", MAPS, accept=TABLE, only=("rows.0.cells", "kind", "apiVersion"))),
    case("a watched table", post(WIDGETS, widget("a")), Step("GET", WIDGETS, query={"watch": "1", "timeoutSeconds": "3"}, accept=TABLE, events=1)),
    case("metadata only", post(WIDGETS, widget()), Step("GET", ONE, accept=PARTIAL), Step("GET", WIDGETS, accept=PARTIAL_LIST), Step("GET", WIDGETS, accept="application/xml")),
    case("events", post(NEWER_EVENTS, newer_event()), get(f"{EVENTS}/one"), get(f"{NEWER_EVENTS}/one"), patch(f"{NEWER_EVENTS}/one", {"series": {"count": 2, "lastObservedTime": "2026-11-29T15:50:15.000000Z"}}), get(EVENTS, query={"fieldSelector": "involvedObject.name=one,reason=Scaled"}), get(NEWER_EVENTS, query={"fieldSelector": "regarding.name=one"})),
    case("event rules", post(NEWER_EVENTS, newer_event(action="")), post(NEWER_EVENTS, newer_event(type="Odd")), post(NEWER_EVENTS, newer_event(eventTime=None)), post(NEWER_EVENTS, newer_event(note="x" * 1025), only=("code", "reason"))),
    case("an older event", post(EVENTS, {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "old"}, "involvedObject": {"kind": "Widget", "name": "one", "namespace": "$N"}, "reason": "R", "message": "m", "type": "Normal", "count": 1, "firstTimestamp": "2026-11-29T15:49:15Z", "lastTimestamp": "2026-11-29T15:49:15Z", "source": {"component": "c"}}), get(f"{NEWER_EVENTS}/old")),
)  # fmt: skip

CASES = (*WRITES, *PATCHES, *SCHEMAS, *READS)
