"""Structural schemas, rules, field validation, definitions."""

from __future__ import annotations

from tests.embedded.apiserver.cases.steps import (
    CAUSE,
    CRDS,
    MAPS,
    ONE,
    WIDGETS,
    WIDGETS_ALPHA,
    case,
    config_map,
    get,
    patch,
    post,
    widget,
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
    case(
        "owners",
        post(
            MAPS,
            config_map(metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]}),
            only=CAUSE,
        ),
        post(
            MAPS,
            config_map(
                metadata={
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True},
                        {"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": "2", "controller": True},
                    ]
                }
            ),
            only=CAUSE,
        ),
    ),
    case(
        "empty metadata",
        post(WIDGETS, widget(metadata={"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []})),
    ),
    case(
        "definitions",
        get(
            f"{CRDS}/widgets.example.com",
            only=(
                "status.acceptedNames",
                "status.storedVersions",
                "spec.names",
                "spec.conversion",
                "status.conditions.0.type",
                "status.conditions.0.status",
                "status.conditions.0.reason",
                "status.conditions.1.type",
                "status.conditions.1.reason",
            ),
        ),
        post(
            CRDS,
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "x"},
                "spec": {},
            },
            only=("code", "reason"),
        ),
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
