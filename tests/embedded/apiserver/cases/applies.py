"""Server-side apply and the managers of updates."""

from __future__ import annotations

from tests.embedded.apiserver.cases.steps import (
    APPLY_PATCH,
    JSON_PATCH,
    MAP,
    ONE,
    WIDGETS,
    Step,
    apply,
    case,
    config_map,
    get,
    patch,
    post,
    put,
    widget,
)

APPLIES = (
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
    case(
        "apply with a resourceVersion",
        apply(ONE, widget(metadata={"resourceVersion": "1"})),
        apply(ONE, widget(low=1, metadata={"resourceVersion": "1"})),
        apply(ONE, widget(low=1, metadata={"resourceVersion": "${0:metadata.resourceVersion}"})),
    ),
    case(
        "apply several problems",
        Step(
            "PATCH",
            ONE,
            widget(colour="red", roles="x", low="y", mode=1, tags=[1]),
            APPLY_PATCH,
            {"fieldManager": "a"},
            only=("code", "reason"),
        ),
    ),
    case("apply another kind", apply(ONE, {**widget(), "kind": "Gadget"}, "a"), apply(ONE, widget("two"))),
    case(
        "apply to a missing namespace", apply("/apis/example.com/v1/namespaces/missing-namespace/widgets/one", widget())
    ),
    case("dry apply", Step("PATCH", ONE, widget(), APPLY_PATCH, {"fieldManager": "a", "dryRun": "All"}), get(ONE)),
    case(
        "apply with finalizers and owners",
        apply(
            ONE,
            widget(
                metadata={
                    "finalizers": ["example.com/a"],
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "ConfigMap",
                            "name": "x",
                            "uid": "11111111-1111-4111-8111-111111111111",
                        }
                    ],
                }
            ),
        ),
        apply(ONE, widget(metadata={"finalizers": ["example.com/b"]}), "b"),
        apply(ONE, widget(), "a"),
    ),
    case("long manager", apply(ONE, widget(), "m" * 129), post(WIDGETS, widget(), query={"fieldManager": "m" * 129})),
    case(
        "apply a nested removal",
        apply(ONE, widget(targetRef={"name": "a"}, free={"x": {"y": 1, "z": 2}}, labels={"p": "q"}, steps=[1, 2])),
        apply(ONE, widget(free={"x": {"y": 1}}, steps=[3])),
    ),
    case(
        "an update removes a list item",
        post(
            WIDGETS,
            widget(roles=[{"name": "d", "replicas": 1}, {"name": "p", "replicas": 2}], tags=["a", "b"]),
            query={"fieldManager": "u"},
        ),
        patch(
            ONE, {"spec": {"roles": [{"name": "p", "replicas": 2}], "tags": ["b", "c"]}}, query={"fieldManager": "v"}
        ),
        patch(ONE, {"spec": {"tags": None}}, query={"fieldManager": "w"}),
    ),
    case(
        "an update of an atomic list",
        post(WIDGETS, widget(steps=[1, 2]), query={"fieldManager": "u"}),
        patch(ONE, {"spec": {"steps": [1, 3]}}, query={"fieldManager": "v"}),
    ),
    case(
        "without name",
        post(WIDGETS, widget()),
        put(ONE, {**widget(), "metadata": {"resourceVersion": "1"}}),
        apply(ONE, {**widget(low=1), "metadata": {}}),
        apply(f"{WIDGETS}/two", {**widget(low=1), "metadata": {}}),
        apply(f"{WIDGETS}/two", widget("three")),
    ),
    case(
        "apply to the status",
        post(WIDGETS, widget()),
        apply(f"{ONE}/status", {**widget(mode="Active"), "status": {"ready": 1}}),
        apply(f"{WIDGETS}/none/status", {**widget("none"), "status": {"ready": 1}}),
    ),
    case(
        "an apply that changes nothing has no time",
        post(WIDGETS, widget(low=1)),
        patch(f"{ONE}/status", {"status": {"ready": 1}}),
        apply(ONE, widget(low=1), "same"),
        apply(f"{ONE}/status", {**widget(low=1), "status": {"ready": 1}}, "same-status"),
        apply(f"{ONE}/status", {**widget(low=2), "status": {"ready": 1}}, "other-spec"),
        apply(ONE, {**widget(low=1), "status": {"ready": 2}}, "other-status"),
    ),
    case(
        "what others own stays",
        apply(ONE, widget(free={"x": {"y": 1, "z": 2}}, roles=[{"name": "d", "replicas": 1}, {"name": "p"}])),
        apply(ONE, widget(free={"x": {"z": 2}}, roles=[{"name": "d"}]), "b"),
        apply(ONE, widget(), "a"),
        apply(ONE, {**widget(), "spec": {}}, "b"),
    ),
    case(
        "the order of an applied list",
        apply(ONE, widget(roles=[{"name": "a"}, {"name": "b"}, {"name": "c"}], tags=["x", "y"])),
        apply(ONE, widget(roles=[{"name": "e"}, {"name": "c"}, {"name": "a"}], tags=["z", "y", "w"]), "b"),
        apply(ONE, widget(roles=[{"name": "c"}, {"name": "b"}], tags=["y"])),
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
