"""Create and update."""

from __future__ import annotations

from tests.embedded.apiserver.cases.steps import (
    CAUSE,
    LEASES,
    MAP,
    MAPS,
    ONE,
    PODS,
    WIDGETS,
    case,
    config_map,
    delete,
    get,
    lease,
    patch,
    pod,
    post,
    put,
    widget,
)

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
    case(
        "create without kind",
        post(WIDGETS, {"metadata": {"name": "one"}, "spec": {"mode": "Shadow"}}, only=("code", "reason")),
    ),
    case("a config map without kind", post(MAPS, {"metadata": {"name": "one"}, "data": {"a": "b"}})),
    case("a body that is no JSON", post(MAPS, b"{oops", only=("code", "reason"))),
    case("a body of an unknown format", post(MAPS, b"x", content_type="text/plain")),
    case("a dry run", post(WIDGETS, widget(), query={"dryRun": "All"}), get(ONE)),
    case("an unknown dry run", post(WIDGETS, widget(), query={"dryRun": "Some"})),
    case(
        "bad labels",
        post(MAPS, config_map(metadata={"labels": {"a b": "c"}}), only=CAUSE),
        post(MAPS, config_map(metadata={"labels": {"a": "b c"}}), only=CAUSE),
        post(MAPS, config_map(metadata={"annotations": {"a b": "c"}}), only=CAUSE),
    ),
    case("labels of a wrong type", post(MAPS, config_map(metadata={"labels": {"a": 1}}), only=("code", "reason"))),
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
        put(
            MAP,
            config_map(metadata={"uid": "11111111-1111-4111-8111-111111111111"}),
            only=("code", "reason", "details"),
        ),
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
    case(
        "create with system metadata",
        post(
            WIDGETS,
            widget(
                metadata={
                    "uid": "11111111-1111-4111-8111-111111111111",
                    "generation": 7,
                    "creationTimestamp": "2026-11-29T15:49:15Z",
                    "deletionTimestamp": "2026-11-29T15:49:15Z",
                    "selfLink": "/x",
                }
            ),
        ),
    ),
    case(
        "name and generateName",
        post(MAPS, config_map(metadata={"generateName": "run-"})),
        post(MAPS, {**config_map(), "metadata": {"generateName": "Bad_"}}, only=CAUSE),
    ),
    case(
        "a stale status",
        post(WIDGETS, widget()),
        put(f"{ONE}/status", {**widget(metadata={"resourceVersion": "1"}), "status": {"ready": 1}}),
        put(f"{ONE}/status", {**widget(), "status": {"ready": 1}}),
        patch(f"{WIDGETS}/two/status", {"status": {"ready": 1}}),
        patch(
            f"{ONE}/status",
            {"status": {"ready": "x"}},
            only=("code", "details.causes.0.field", "details.causes.0.reason"),
        ),
        patch(f"{ONE}/status", {"spec": {"mode": "Loud"}}),
    ),
    case(
        "status of a missing pod",
        patch(f"{PODS}/none/status", {"status": {}}),
        put(f"{PODS}/none/status", pod("none"), only=("code", "reason")),
    ),
    case(
        "a status patch without change",
        post(WIDGETS, widget()),
        patch(f"{ONE}/status", {"status": {"ready": 1}}),
        patch(f"{ONE}/status", {"status": {"ready": 1}}),
        patch(f"{ONE}/status", {"metadata": {"labels": {"a": "b"}}}),
        patch(f"{ONE}/status", {"status": None}),
    ),
    case(
        "cluster scoped paths",
        get("/api/v1/configmaps", query={"fieldSelector": "metadata.namespace=$N"}, only=("kind", "items")),
        post("/api/v1/configmaps", config_map(), only=("code", "reason")),
        get("/api/v1/namespaces/$N/nodes", only=("code",)),
        delete("/api/v1/configmaps", only=("code", "reason")),
    ),
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
    case(
        "a large object",
        post(MAPS, config_map(blob="x" * (2 * 1024 * 1024))),
        post(WIDGETS, widget(free={"x": "x" * (2 * 1024 * 1024)}), only=("code", "reason")),
    ),
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
