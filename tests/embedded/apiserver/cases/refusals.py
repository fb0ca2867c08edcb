"""What is refused, and in which words: metadata, events, data, definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.embedded.apiserver.cases.steps import (
    CAUSE,
    CRDS,
    EVENTS,
    HOLD,
    LEASES,
    MAP,
    MAPS,
    NEWER_EVENTS,
    ONE,
    PODS,
    WIDGETS,
    Step,
    apply,
    case,
    config_map,
    delete,
    get,
    lease,
    newer_event,
    patch,
    pod,
    post,
    put,
    widget,
)

SAID = ("code", "reason", "message", "details.causes")
MICRO = "2026-11-29T15:49:15.250000Z"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
OLDER_EVENT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "two"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$N"},
    "reason": "R",
    "message": "m",
    "type": "Normal",
    "source": {"component": "c"},
    "firstTimestamp": "2026-11-29T15:49:15Z",
    "lastTimestamp": "2026-11-29T15:49:15Z",
    "count": 1,
}

# Each is tried on a custom resource, on a core type and on a type of another group.
METADATA: tuple[dict[str, Any], ...] = (
    {"labels": {"x y": "1"}},
    {"labels": {"a/b/c": "1"}},
    {"labels": {"/b": "1"}},
    {"labels": {"": "1"}},
    {"labels": {"A.b/c": "1"}},
    {"labels": {"a": "b c"}},
    {"labels": {"a": "x" * 64}},
    {"labels": {"a" * 64: "x"}},
    {"labels": []},
    {"labels": {"a": 1}},
    {"annotations": {"x y": "1"}},
    {"ownerReferences": [{}]},
    {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
    {"ownerReferences": [{**OWNER, "kind": "Event"}]},
    {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}]},
    {"ownerReferences": "x"},
    {"ownerReferences": ["x"]},
    {"finalizers": ["bad finalizer"]},
    {"finalizers": ["x/y/z"]},
    {"finalizers": ["example.com/"]},
    {"finalizers": ["/x"]},
    {"finalizers": [""]},
    {"finalizers": ["orphan", "foregroundDeletion"]},
    {"finalizers": ["x" * 64]},
    {"finalizers": "x"},
    {"finalizers": [1]},
    {"creationTimestamp": "x"},
    {"creationTimestamp": 5},
    {"managedFields": "x"},
    {"resourceVersion": 5},
    {"name": 5},
    {"uid": 5},
    {"generation": "x"},
)
NEWER_EVENT_FAULTS: tuple[dict[str, Any], ...] = (
    {"reportingController": "x y"},
    {"reportingController": "x/y/z"},
    {"reportingController": "example.com/"},
    {"reportingController": "a" * 64},
    {"reportingController": ""},
    {"reportingInstance": ""},
    {"reportingInstance": "x" * 129},
    {"action": ""},
    {"action": "x" * 129},
    {"reason": ""},
    {"reason": "x" * 129, "type": "X", "action": ""},
    {"note": "x" * 1025},
    {"type": ""},
    {"type": "X"},
    {"eventTime": None},
    {"eventTime": "2026-11-29T15:49:15Z"},
    {"eventTime": "yesterday"},
    {"eventTime": 5},
    {"series": {"count": 1, "lastObservedTime": MICRO}},
    {"series": {"count": 2}},
    {"series": {}},
    {"series": "x"},
    {"deprecatedCount": 1},
    {"deprecatedFirstTimestamp": "2026-11-29T15:49:15Z"},
    {"deprecatedLastTimestamp": "2026-11-29T15:49:15Z"},
    {"deprecatedSource": {"component": "x"}},
    {"regarding": {"kind": "Pod", "name": "p"}},
    {"regarding": {"kind": 5}},
    {"metadata": {"name": "One"}},
)
EVENT_CHANGES: tuple[dict[str, Any], ...] = (
    {"reason": "Other"},
    {"note": "other"},
    {"action": "Other"},
    {"type": "Warning"},
    {"series": {"count": 1, "lastObservedTime": MICRO}},
    {"regarding": {"uid": "x"}},
    {"related": {"name": "x"}},
    {"reportingController": "d"},
    {"reportingInstance": "d"},
    {"eventTime": "2026-11-29T15:50:15.250000Z"},
    {"deprecatedCount": 5},
    {"note": "x", "reason": "y", "action": "z"},
    {"series": {"count": 2, "lastObservedTime": MICRO}},
    {"metadata": {"labels": {"a": "b"}}},
)
DELETE_OPTIONS: tuple[dict[str, Any], ...] = (
    {"gracePeriodSeconds": "x"},
    {"gracePeriodSeconds": 1.5},
    {"preconditions": 5},
    {"preconditions": {"uid": 5}},
    {"preconditions": {"uid": "other"}},
    {"propagationPolicy": 5},
    {"propagationPolicy": "X"},
    {"orphanDependents": "x"},
    {"orphanDependents": True, "propagationPolicy": "Orphan"},
    {"dryRun": "All"},
    {"dryRun": ["x"]},
)
POD_FAULTS: tuple[dict[str, Any], ...] = (
    {"containers": "x"},
    {"containers": ["x"]},
    {"containers": [{"name": 5}]},
    {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": "x"}]}]},
    {"terminationGracePeriodSeconds": "x"},
    {"nodeSelector": {"a": 1}},
    {"nodeName": 5},
)
INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
LIST_MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}
# Schemas of a member `a` of the spec.
SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "integer", "default": "x"},
    {"type": "integer", "minimum": 5, "default": 1},
    {"type": "string", "enum": ["x"], "default": "y"},
    {"type": "string", "pattern": "^b", "default": "y"},
    {"type": "string", "format": "date-time", "default": "x"},
    {"type": "object", "default": {"b": 1, "c": 2}, "properties": {"b": INTEGER}},
    {"type": "object", "default": {}, "required": ["b"], "properties": {"b": INTEGER}},
    {"type": "object", "default": {"b": "x"}, "properties": {"b": INTEGER}},
    {"type": "object", "properties": {"b": {}}},
    {"properties": {"b": INTEGER}},
    {"type": "array"},
    {"type": "array", "items": {}},
    {"type": "array", "items": {"type": "object", "properties": {"n": TEXT}}, **LIST_MAP},
    {"type": "array", "items": {"type": "object", "properties": {"m": TEXT}, "required": ["m"]}, **LIST_MAP},
    {"type": "array", "items": TEXT, **LIST_MAP},
    {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "object"}}}, **LIST_MAP},
    {"type": "array", "items": {"type": "object", "properties": {"n": TEXT}}, "x-kubernetes-list-type": "map"},
    {"type": "array", "items": {"type": "object", "properties": {"n": INTEGER}}, "x-kubernetes-list-type": "set"},
    {"type": "array", "items": TEXT, "x-kubernetes-list-type": "weird"},
    {"type": "string", "x-kubernetes-list-type": "set"},
    {"type": "object", "x-kubernetes-map-type": "weird"},
    {"type": "object", "properties": {"b": INTEGER}, "additionalProperties": TEXT},
    {"type": "object", "additionalProperties": {}},
    {"type": "weird"},
    {"type": "null"},
    {"type": "string", "uniqueItems": True},
    {"$ref": "#/x"},
    {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    {"type": "object", "x-kubernetes-embedded-resource": True},
    {"type": "object", "not": {"type": "object"}},
    {"type": "object", "x-kubernetes-validations": [{"rule": ""}]},
    {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "a\nb"}]},
    {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "reason": "Nope"}]},
    {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "fieldPath": ".x"}]},
    {"type": "array", "items": {**INTEGER, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}},
)
VERSION = ("spec", "versions", 0)
# (place in the definition, value; the type of the value alone takes the member away)
DEFINITIONS: tuple[tuple[tuple[str | int, ...], Any], ...] = (
    (("spec", "group"), ""),
    (("spec", "group"), "Bad_"),
    (("spec", "group"), "nodots"),
    (("spec", "group"), "x.k8s.io"),
    (("spec", "scope"), "X"),
    (("spec", "scope"), None),
    (("spec", "names", "kind"), None),
    (("spec", "names", "kind"), "bad kind"),
    (("spec", "names", "plural"), "Bad"),
    (("spec", "names", "singular"), "Bad"),
    (("spec", "names", "listKind"), "bad list"),
    (("spec", "names", "shortNames"), ["Bad"]),
    (("spec", "names", "categories"), ["Bad_"]),
    (("spec", "names"), {}),
    (("spec", "versions"), []),
    (("spec", "versions"), None),
    (("spec",), None),
    ((*VERSION, "name"), "V_1"),
    ((*VERSION, "name"), None),
    ((*VERSION, "storage"), False),
    ((*VERSION, "schema"), None),
    ((*VERSION, "schema"), {}),
    ((*VERSION, "schema", "openAPIV3Schema", "type"), "string"),
    ((*VERSION, "schema", "openAPIV3Schema", "type"), None),
    ((*VERSION, "schema", "openAPIV3Schema", "properties"), {"kind": INTEGER}),
    (
        (*VERSION, "schema", "openAPIV3Schema", "properties"),
        {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
    ),
    ((*VERSION, "subresources"), {"scale": {}}),
    ((*VERSION, "additionalPrinterColumns"), [{"name": "A"}]),
    ((*VERSION, "additionalPrinterColumns"), [{"name": "A", "type": "weird", "jsonPath": ".a"}]),
    ((*VERSION, "additionalPrinterColumns"), [{"name": "A", "type": "string", "jsonPath": "a"}]),
    ((*VERSION, "additionalPrinterColumns"), [{"name": "A", "type": "string", "format": "weird", "jsonPath": ".a"}]),
    ((*VERSION, "selectableFields"), [{"jsonPath": ".spec.zz"}]),
    ((*VERSION, "selectableFields"), [{"jsonPath": ".metadata.name"}]),
    ((*VERSION, "selectableFields"), [{}]),
    ((*VERSION, "deprecationWarning"), "x"),
    (("spec", "conversion"), {"strategy": "X"}),
    (("spec", "preserveUnknownFields"), True),
    (("metadata", "name"), "other.example.com"),
)


def definition(number: int, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """A definition that nobody minds; its group is the case's own."""
    spec = {"type": "object", "properties": {"a": schema or INTEGER}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"p{number}s.$N.example.com"},
        "spec": {
            "group": "$N.example.com",
            "scope": "Namespaced",
            "names": {"plural": f"p{number}s", "kind": f"P{number}"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }


def spoilt(number: int, place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    made = definition(number)
    holder: Any = made
    for step in place[:-1]:
        holder = holder[step]
    if value is None:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return made


def of_three_kinds(metadata: dict[str, Any]) -> tuple[Step, ...]:
    kinds: tuple[tuple[str, Callable[..., dict[str, Any]]], ...] = (
        (WIDGETS, widget),
        (MAPS, config_map),
        (LEASES, lease),
    )
    return tuple(post(path, make(metadata=metadata), only=SAID) for path, make in kinds)


REFUSALS = (
    case("metadata that is refused", *(step for metadata in METADATA for step in of_three_kinds(metadata))),
    case(
        "finalizers of core types",
        *(
            post(path, make(metadata={"finalizers": ["a"]}), only=SAID)
            for path, make in ((WIDGETS, widget), (MAPS, config_map))
        ),
        post(LEASES, lease(metadata={"finalizers": ["a"]})),
        post(LEASES, lease("two", metadata={"generation": 5})),
    ),
    case("a bad base for a name", post(MAPS, config_map(metadata={"generateName": "Bad_", "name": ""}), only=CAUSE)),
    case(
        "configurations that have no type",
        *(
            apply(path, body, only=("code", "reason", "message"))
            for path, body in (
                (MAP, config_map(metadata={"labels": {"a": 1}})),
                (MAP, config_map(metadata={"colour": "red"})),
                (MAP, {**config_map(), "colour": "red"}),
                (MAP, {**config_map(), "data": "x"}),
                (MAP, {**config_map(), "binaryData": {"a": "!"}}),
                (ONE, widget(metadata={"labels": {"a": 1}})),
                (ONE, widget(metadata={"colour": "red"})),
                (ONE, widget(metadata={"finalizers": "x"})),
                (f"{LEASES}/one", lease(colour="red")),
                (f"{LEASES}/one", lease(leaseDurationSeconds="x")),
                (f"{LEASES}/one", lease(renewTime="x")),
                (f"{LEASES}/one", {**lease(), "spec": "x"}),
                (f"{NEWER_EVENTS}/one", newer_event(colour="red")),
            )
        ),
    ),
    case("a negative generation", post(MAPS, config_map(metadata={"generation": -1}), only=SAID)),
    case("owners that stand twice", post(MAPS, config_map(metadata={"ownerReferences": [OWNER, OWNER]}))),
    case(
        "metadata that an update may not have",
        post(WIDGETS, widget()),
        post(MAPS, config_map()),
        patch(ONE, {"metadata": {"finalizers": ["bad one"]}}, only=SAID),
        patch(MAP, {"metadata": {"finalizers": ["bad one"]}}, only=("code", "reason", "message")),
        patch(MAP, {"metadata": {"generation": -1}}),
        patch(ONE, {"metadata": "x"}, only=("code", "reason")),
        put(MAP, {**config_map(), "metadata": "x"}, only=SAID),
        put(ONE, {**widget(), "metadata": "x"}, only=SAID),
        patch(ONE, {"metadata": {"ownerReferences": [OWNER, OWNER]}}),
    ),
    case(
        "a name that is being deleted",
        post(WIDGETS, widget(metadata=HOLD), only=("kind",)),
        delete(ONE, only=("kind",)),
        post(WIDGETS, widget()),
        post(WIDGETS, widget(), query={"dryRun": "All"}),
    ),
    case(
        "events that are refused",
        *(post(NEWER_EVENTS, newer_event(**fault), only=SAID) for fault in NEWER_EVENT_FAULTS),
        post(EVENTS, {**OLDER_EVENT, "eventTime": MICRO}, only=SAID),
        post(EVENTS, {**OLDER_EVENT, "involvedObject": {"namespace": "other"}}, only=SAID),
        post(EVENTS, {**OLDER_EVENT, "count": "x"}, only=SAID),
    ),
    case(
        "odd events that are accepted",
        post(NEWER_EVENTS, newer_event(note="", regarding={"namespace": "other"})),
        post(EVENTS, {**OLDER_EVENT, "reason": "", "count": 0, "type": "X", "series": {"count": 1}}),
        post(EVENTS, {**OLDER_EVENT, "metadata": {"name": "Three:1"}, "message": "x" * 2000}, only=("metadata.name",)),
    ),
    case(
        "changes of an event",
        post(NEWER_EVENTS, newer_event()),
        *(patch(f"{NEWER_EVENTS}/one", change, only=(*SAID, "series", "metadata.labels")) for change in EVENT_CHANGES),
    ),
    case(
        "an event changed through its other group",
        post(NEWER_EVENTS, newer_event()),
        patch(f"{EVENTS}/one", {"reason": "Other"}),
        post(EVENTS, OLDER_EVENT),
        patch(f"{NEWER_EVENTS}/two", {"note": "other"}, only=SAID),
        patch(f"{NEWER_EVENTS}/two", {"metadata": {"labels": {"a": "b"}}}),
        get(f"{EVENTS}/two"),
    ),
    case(
        "data that is refused",
        post(MAPS, {**config_map(), "data": {"a": 1}}, only=SAID),
        post(MAPS, {**config_map(), "data": "x"}, only=SAID),
        post(MAPS, {**config_map(), "data": {"a b": "x"}}, only=SAID),
        post(MAPS, {**config_map(), "data": {"..": "x", "..a": "y"}}, only=("code", "reason")),
        post(MAPS, {**config_map(a="b"), "binaryData": {"a": "YQ=="}}, only=SAID),
        post(MAPS, {**config_map(), "binaryData": {"a": "!"}}, only=SAID),
        post(MAPS, {**config_map(), "immutable": "x"}, only=SAID),
        post(MAPS, {**config_map(a="b"), "immutable": True}),
        patch(MAP, {"data": {"x": "y"}}, only=SAID),
        patch(MAP, {"immutable": False}, only=SAID),
        post(MAPS, {**config_map("two"), "data": {"a": None}, "colour": "red"}),
    ),
    case(
        "leases that are refused",
        post(LEASES, lease(leaseDurationSeconds="x"), only=SAID),
        post(LEASES, lease(leaseDurationSeconds=1.5), only=SAID),
        post(LEASES, lease(leaseDurationSeconds=9999999999), only=SAID),
        post(LEASES, lease(leaseDurationSeconds=0), only=SAID),
        post(LEASES, lease(holderIdentity=5), only=SAID),
        post(LEASES, lease(renewTime="2026-11-29T15:49:15Z"), only=SAID),
        post(LEASES, lease(renewTime="2026-11-29T15:49:15.250Z"), only=SAID),
        post(LEASES, lease(renewTime="2026-11-29T15:49:15.2500000Z"), only=SAID),
        post(LEASES, lease(renewTime="2026-02-30T15:49:15.250000Z"), only=SAID),
        post(LEASES, lease(renewTime="x"), only=SAID),
        post(LEASES, {**lease(), "spec": "x"}, only=SAID),
        post(LEASES, lease(colour="x", renewTime=None)),
        post(LEASES, lease("two", colour="x"), query={"fieldValidation": "Strict"}, only=SAID),
    ),
    case(
        "deletions that are refused",
        post(MAPS, config_map()),
        *(delete(MAP, options, only=SAID) for options in DELETE_OPTIONS),
        Step("GET", MAPS, query={"limit": "x"}, only=SAID),
        Step("GET", MAPS, query={"limit": "99999999999999999999"}, only=SAID),
        Step("GET", MAPS, query={"limit": "-1"}, only=("kind",)),
        Step("GET", MAPS, query={"timeoutSeconds": "1.5"}, only=SAID),
        post(MAPS, b"null", only=SAID),
        *(post(PODS, pod(**fault), only=SAID) for fault in POD_FAULTS),
    ),
    case(
        "schemas that are refused",
        *(post(CRDS, definition(number, schema), only=SAID) for number, schema in enumerate(SCHEMAS)),
    ),
    case(
        "definitions that are refused",
        *(post(CRDS, spoilt(number, *fault), only=SAID) for number, fault in enumerate(DEFINITIONS)),
    ),
    case(
        "rules that cannot be compiled",
        *(
            post(
                CRDS,
                definition(
                    number,
                    {"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {"b": INTEGER}},
                ),
                only=("code", "reason", "details.causes.0.field"),
            )
            for number, rule in enumerate(("self.b >", "self.c > 1", "has(self.c)", "self.b > 1 &&", "(self.b"))
        ),
    ),
)
