"""Watches."""

from __future__ import annotations

from tests.embedded.apiserver.cases.steps import (
    MAP,
    MAPS,
    PODS,
    TABLE,
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

WATCHES = (
    case(
        "watch",
        post(MAPS, config_map("a")),
        patch(f"{MAPS}/a", {"data": {"x": "y"}}),
        delete(f"{MAPS}/a"),
        watch(MAPS, 2, resourceVersion="${0:metadata.resourceVersion}"),
    ),
    case("watch from the beginning", post(WIDGETS, widget("a")), watch(WIDGETS, 1)),
    case(
        "watch with a selector",
        post(MAPS, config_map("a", {"labels": {"on": "no"}})),
        patch(f"{MAPS}/a", {"metadata": {"labels": {"on": "yes"}}}),
        patch(f"{MAPS}/a", {"data": {"x": "y"}}),
        patch(f"{MAPS}/a", {"metadata": {"labels": {"on": "no"}}}),
        watch(MAPS, 3, resourceVersion="${0:metadata.resourceVersion}", labelSelector="on=yes"),
    ),
    case(
        "watch list",
        post(MAPS, config_map("a")),
        watch(MAPS, 2, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"),
    ),
    case(
        "watch list of pods",
        post(PODS, pod(), only=("kind",)),
        Step(
            "GET",
            PODS,
            query={
                "watch": "1",
                "timeoutSeconds": "3",
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
                "allowWatchBookmarks": "true",
            },
            events=2,
            only=("1",),
        ),
    ),
    case(
        "watch list of widgets",
        watch(WIDGETS, 1, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"),
    ),
    case(
        "watch a deletion by selector",
        post(MAPS, config_map("a", {"labels": {"on": "yes"}})),
        delete(f"{MAPS}/a"),
        watch(MAPS, 1, resourceVersion="${0:metadata.resourceVersion}", labelSelector="on=yes"),
    ),
    case(
        "watch by name",
        post(MAPS, config_map("a")),
        post(MAPS, config_map("b")),
        watch(MAPS, 1, fieldSelector="metadata.name=b"),
    ),
    case("watch zero", post(MAPS, config_map("a")), watch(MAPS, 1, resourceVersion="0")),
    case(
        "watch list from a resourceVersion",
        post(MAPS, config_map("a")),
        watch(
            MAPS,
            2,
            resourceVersion="${0:metadata.resourceVersion}",
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
        ),
    ),
    case("watch on an object", post(MAPS, config_map()), get(MAP, query={"watch": "true", "timeoutSeconds": "1"})),
    case(
        "a watched table",
        post(WIDGETS, widget("a")),
        Step("GET", WIDGETS, query={"watch": "1", "timeoutSeconds": "3"}, accept=TABLE, events=1),
    ),
)
