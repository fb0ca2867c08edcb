"""Get and list: pages, resourceVersions, selectors, forms."""

from __future__ import annotations

from tests.embedded.apiserver.cases.steps import (
    MAP,
    MAPS,
    ONE,
    PARTIAL,
    PARTIAL_LIST,
    TABLE,
    WIDGETS,
    Step,
    case,
    config_map,
    get,
    patch,
    post,
    widget,
)

READS = (
    case(
        "pages",
        *(post(MAPS, config_map(f"m{n}")) for n in range(3)),
        get(
            MAPS,
            query={"limit": "2"},
            only=("kind", "items.0.metadata.name", "items.1.metadata.name", "metadata.remainingItemCount"),
        ),
        get(MAPS, query={"limit": "2", "continue": "${3:metadata.continue}"}),
        get(MAPS, query={"limit": "1", "labelSelector": "!x"}, only=("metadata.remainingItemCount",)),
        get(MAPS, query={"limit": "1", "resourceVersion": "0"}, only=("items.2.metadata.name",)),
    ),
    case("a token that is none", get(MAPS, query={"continue": "nonsense"}, only=("code", "reason"))),
    case(
        "combinations",
        get(MAPS, query={"resourceVersionMatch": "Exact"}),
        get(MAPS, query={"resourceVersion": "1", "resourceVersionMatch": "Roughly"}),
        get(MAPS, query={"resourceVersion": "0", "resourceVersionMatch": "Exact"}),
        get(MAPS, query={"sendInitialEvents": "true"}),
        get(MAPS, query={"watch": "1", "sendInitialEvents": "true"}),
        get(MAPS, query={"watch": "1", "resourceVersionMatch": "NotOlderThan"}),
        get(MAPS, query={"limit": "x"}, only=("code",)),
    ),
    case(
        "resource versions that are no number",
        get(MAPS, query={"resourceVersion": "x"}, only=("code", "reason")),
        get(MAPS, query={"resourceVersion": "x", "watch": "1"}, only=("code", "reason")),
        post(MAPS, config_map()),
        get(MAP, query={"resourceVersion": "x"}, only=("code", "reason")),
    ),
    case("the future", get(MAPS, query={"resourceVersion": "999999999"})),
    case(
        "exact",
        post(MAPS, config_map("a")),
        post(MAPS, config_map("b")),
        get(MAPS, query={"resourceVersion": "${0:metadata.resourceVersion}", "resourceVersionMatch": "Exact"}),
        get(MAPS, query={"resourceVersion": "${0:metadata.resourceVersion}"}, only=("items.0.metadata.name",)),
        get(MAPS, query={"resourceVersion": "${0:metadata.resourceVersion}", "limit": "5"}),
    ),
    case(
        "selectors",
        post(MAPS, config_map("a", {"labels": {"t": "1"}})),
        post(MAPS, config_map("b", {"labels": {"t": "2"}})),
        get(MAPS, query={"labelSelector": "t in (1,3)"}),
        get(MAPS, query={"labelSelector": "t!=1"}),
        get(MAPS, query={"labelSelector": "a in (b"}, only=("code", "reason")),
        get(MAPS, query={"fieldSelector": "metadata.name=a"}),
        get(MAPS, query={"fieldSelector": "data.x=a"}),
        get(WIDGETS, query={"fieldSelector": "spec.low=1"}),
        get(WIDGETS, query={"fieldSelector": "spec.mode=Shadow"}),
    ),
    case(
        "heads", Step("HEAD", MAPS, only=("x",)), Step("HEAD", WIDGETS, only=("x",)), Step("OPTIONS", MAPS, only=("x",))
    ),
    case(
        "a table of widgets",
        post(WIDGETS, {**widget(), "status": {}}),
        patch(f"{ONE}/status", {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Good"}]}}),
        Step("GET", WIDGETS, accept=TABLE),
        Step("GET", ONE, accept=TABLE, query={"includeObject": "None"}),
    ),
    case(
        "a table of config maps",
        post(MAPS, config_map(a="b")),
        Step("GET", MAPS, accept=TABLE, only=("rows.0.cells", "kind", "apiVersion")),
    ),
    case(
        "metadata only",
        post(WIDGETS, widget()),
        Step("GET", ONE, accept=PARTIAL),
        Step("GET", WIDGETS, accept=PARTIAL_LIST),
        Step("GET", WIDGETS, accept="application/xml"),
    ),
)
