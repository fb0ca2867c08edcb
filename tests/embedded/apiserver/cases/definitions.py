"""Definitions that are refused, and in which words: their schemas, their other parts, their rules."""

from __future__ import annotations

from typing import Any

from tests.embedded.apiserver.cases.steps import CRDS, SAID, case, post

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
FAULTS: tuple[tuple[tuple[str | int, ...], Any], ...] = (
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


DEFINITIONS = (
    case(
        "schemas that are refused",
        *(post(CRDS, definition(number, schema), only=SAID) for number, schema in enumerate(SCHEMAS)),
    ),
    case(
        "definitions that are refused",
        *(post(CRDS, spoilt(number, *fault), only=SAID) for number, fault in enumerate(FAULTS)),
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
