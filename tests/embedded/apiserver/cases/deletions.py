"""Delete: preconditions, grace, finalizers, collections."""

from __future__ import annotations

from tests.embedded.apiserver.cases.steps import (
    DELETION,
    HOLD,
    MAP,
    MAPS,
    ONE,
    PODS,
    WIDGETS,
    Step,
    case,
    config_map,
    delete,
    get,
    patch,
    pod,
    post,
    watch,
    widget,
)

DELETIONS = (
    case("delete a widget", post(WIDGETS, widget()), delete(ONE), delete(ONE)),
    case("delete a config map", post(MAPS, config_map()), delete(MAP), get(MAP)),
    case(
        "delete a pod",
        post(PODS, pod(), only=DELETION),
        delete(f"{PODS}/one", only=DELETION),
        get(f"{PODS}/one"),
        Step(
            "GET",
            PODS,
            query={"watch": "1", "timeoutSeconds": "3", "resourceVersion": "${0:metadata.resourceVersion}"},
            events=1,
            only=("0.type", *(f"0.object.{path}" for path in DELETION)),
        ),
    ),
    case(
        "delete a scheduled pod",
        post(PODS, pod(nodeName="n"), only=DELETION),
        delete(f"{PODS}/one", only=DELETION),
        delete(f"{PODS}/one", only=DELETION),
        delete(f"{PODS}/one", {"gracePeriodSeconds": 100}, only=DELETION),
        delete(f"{PODS}/one", {"gracePeriodSeconds": 10}, only=DELETION),
        delete(f"{PODS}/one", {"gracePeriodSeconds": 0}, only=DELETION),
        get(f"{PODS}/one"),
        Step(
            "GET",
            PODS,
            query={"watch": "1", "timeoutSeconds": "3", "resourceVersion": "${0:metadata.resourceVersion}"},
            events=3,
            only=tuple(f"{n}.{path}" for n in range(3) for path in ("type", *(f"object.{path}" for path in DELETION))),
        ),
    ),
    case(
        "delete a pod with a finalizer",
        post(PODS, pod(metadata=HOLD), only=DELETION),
        delete(f"{PODS}/one", only=DELETION),
        delete(f"{PODS}/one", only=DELETION),
        patch(f"{PODS}/one", {"metadata": {"finalizers": []}}, only=DELETION),
        get(f"{PODS}/one"),
    ),
    case(
        "delete a finished pod",
        post(PODS, pod(nodeName="n"), only=DELETION),
        patch(f"{PODS}/one/status", {"status": {"phase": "Succeeded"}}, only=DELETION),
        delete(f"{PODS}/one", only=DELETION),
        get(f"{PODS}/one"),
    ),
    case(
        "delete a pod at once",
        post(PODS, pod(nodeName="n"), only=DELETION),
        delete(f"{PODS}/one", query={"gracePeriodSeconds": "0"}, only=DELETION),
        get(f"{PODS}/one"),
    ),
    case(
        "delete with a grace that is none", post(MAPS, config_map()), delete(MAP, {"gracePeriodSeconds": 20}), get(MAP)
    ),
    case("a dry deletion", post(MAPS, config_map()), delete(MAP, query={"dryRun": "All"}), get(MAP)),
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
    case(
        "delete options",
        post(MAPS, config_map()),
        delete(
            MAP,
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "${0:metadata.uid}"},
            },
        ),
        delete(MAP, {"kind": "Pod", "apiVersion": "v1"}, only=("code", "reason")),
    ),
    case("delete with an orphan policy", post(WIDGETS, widget()), delete(ONE, query={"propagationPolicy": "Orphan"})),
)
