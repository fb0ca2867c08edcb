"""Structural schemas: pruning, defaults, validation with causes, CEL rules, field validation."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.embedded.apiserver.cel import CelUnsupported, compile_rule
from controller.embedded.apiserver.cel_functions import CelError
from tests.embedded.apiserver.conftest import (
    CRDS,
    JSON_PATCH,
    MERGE_PATCH,
    WIDGET_CRD,
    WIDGETS,
    Client,
    widget,
)

INVALID = [
    (
        "a wrong type",
        {"interval": "often"},
        "spec.interval",
        'Invalid value: "string": spec.interval in body must be of type integer: "string"',
    ),
    (
        "below the minimum",
        {"interval": 4},
        "spec.interval",
        "Invalid value: 4: spec.interval in body should be greater than or equal to 5",
    ),
    (
        "above the maximum",
        {"interval": 301},
        "spec.interval",
        "Invalid value: 301: spec.interval in body should be less than or equal to 300",
    ),
    (
        "at an exclusive minimum",
        {"ratio": 0},
        "spec.ratio",
        "Invalid value: 0: spec.ratio in body should be greater than 0",
    ),
    (
        "outside an enum",
        {"mode": "Loud"},
        "spec.mode",
        'Unsupported value: "Loud": supported values: "Shadow", "Active"',
    ),
    (
        "a float where int-or-string is wanted",
        {"target": 0.5},
        "spec.target",
        'Invalid value: "number": spec.target in body must be of type integer,string: "number"',
    ),
    (
        "a pattern that does not match",
        {"target": "much"},
        "spec.target",
        "Invalid value: \"much\": spec.target in body should match '^[0-9]+(\\.[0-9]+)?$'",
    ),
    (
        "a newline after the pattern's end",
        {"target": "12\n"},
        "spec.target",
        "Invalid value: \"12\\n\": spec.target in body should match '^[0-9]+(\\.[0-9]+)?$'",
    ),
    (
        "too short a text",
        {"note": "x"},
        "spec.note",
        'Invalid value: "x": spec.note in body should be at least 2 chars long',
    ),
    ("too long a text", {"note": "x" * 11}, "spec.note", "Too long: may not be more than 10 bytes"),
    ("a missing member", {"targetRef": {}}, "spec.targetRef.name", "Required value"),
    ("a missing key of a list item", {"roles": [{"replicas": 1}]}, "spec.roles[0].name", "Required value"),
    (
        "too many items",
        {"roles": [{"name": str(n)} for n in range(5)]},
        "spec.roles",
        "Too many: 5: must have at most 4 items",
    ),
    ("too few items", {"steps": []}, "spec.steps", "Invalid value: 0: spec.steps in body should have at least 1 items"),
    (
        "too many properties",
        {"labels": {"a": "", "b": "", "c": ""}},
        "spec.labels",
        "Too many: 3: must have at most 2 items",
    ),
    (
        "a wrong type in a map",
        {"labels": {"a": 1}},
        "spec.labels.a",
        'Invalid value: "integer": spec.labels.a in body must be of type string: "integer"',
    ),
    (
        "duplicates in a keyed list",
        {"roles": [{"name": "a"}, {"name": "a"}]},
        "spec.roles[1]",
        'Duplicate value: {"name":"a"}',
    ),
    ("duplicates in a set", {"tags": ["a", "b", "a"]}, "spec.tags[2]", 'Duplicate value: "a"'),
    (
        "a date that is none",
        {"since": "yesterday"},
        "spec.since",
        'Invalid value: "yesterday": spec.since in body must be of type date-time: "yesterday"',
    ),
    ("a rule that fails", {"low": 3, "high": 2}, "spec.low", "Invalid value: low must not be above high"),
]


@pytest.mark.parametrize(("spec", "field", "message"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
async def test_a_widget_is_refused_for(api: Client, spec: dict[str, Any], field: str, message: str) -> None:
    answer = await api.create(WIDGETS, widget(**spec))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes[field] == message
    assert answer.json["details"] | {"causes": []} == {
        "name": "one",
        "group": "example.com",
        "kind": "Widget",
        "causes": [],
    }
    assert answer.json["message"].startswith('Widget.example.com "one" is invalid: ')


VALID = [
    ("an integer quantity", {"target": 12}),
    ("a quoted quantity", {"target": "0.75"}),
    ("null where it is nullable", {"note": None}),
    ("a whole float where an integer is wanted", {"interval": 20.0}),
    ("an object without the optional members", {}),
    ("anything below preserved fields", {"free": {"x": [{"y": 1}]}}),
]


@pytest.mark.parametrize("spec", [row[1] for row in VALID], ids=[row[0] for row in VALID])
async def test_a_widget_is_accepted_with(api: Client, spec: dict[str, Any]) -> None:
    answer = await api.create(WIDGETS, widget(**spec))
    assert answer.status == 201, answer.json
    assert {name: answer.json["spec"][name] for name in spec} == spec


async def test_every_cause_is_reported_at_once_and_rules_wait(api: Client) -> None:
    answer = await api.create(WIDGETS, widget(mode="Loud", interval="x", low=3, high=2))
    assert set(answer.causes) == {"spec.mode", "spec.interval", "<nil>"}
    assert "some validation rules were not checked" in answer.causes["<nil>"]


async def test_unknown_members_are_pruned_with_a_warning(api: Client) -> None:
    body = {**widget(colour="red", free={"any": 1}), "extra": 1}
    body["metadata"] = {**body["metadata"], "colour": "red"}
    answer = await api.create(WIDGETS, body)
    assert sorted(answer.warnings) == [
        f'unknown field "{path}"' for path in ("extra", "metadata.colour", "spec.colour")
    ]
    assert "colour" not in answer.json["spec"]
    assert answer.json["spec"]["free"] == {"any": 1}
    quiet = await api.create(WIDGETS, {**body, "metadata": {"name": "two"}}, fieldValidation="Ignore")
    assert (quiet.status, quiet.warnings) == (201, [])


async def test_strict_field_validation_is_400_on_a_body_and_422_on_a_patch(api: Client) -> None:
    created = await api.create(WIDGETS, widget(colour="red"), fieldValidation="Strict")
    assert (created.status, created.reason) == (400, "BadRequest")
    assert created.json["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.colour"'
    )
    api.server.put(widget())
    patched = await api.patch(WIDGETS, "one", {"spec": {"colour": "red"}}, fieldValidation="Strict")
    assert (patched.status, list(patched.causes)) == (422, ["patch"])
    by_json = [{"op": "add", "path": "/spec/colour", "value": "red"}]
    assert (await api.patch(WIDGETS, "one", by_json, JSON_PATCH, fieldValidation="Strict")).status == 422


async def test_a_member_given_twice_is_reported(api: Client) -> None:
    text = (
        b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"one"},'
        b'"spec":{"mode":"Shadow","mode":"Active"}}'
    )
    answer = await api("POST", WIDGETS.path("default"), text)
    assert answer.warnings == ['duplicate field "spec.mode"']
    assert answer.json["spec"]["mode"] == "Active"
    strict = await api("POST", WIDGETS.path("default"), text, fieldValidation="Strict")
    assert strict.status == 400
    assert 'duplicate field "spec.mode"' in strict.json["message"]


async def test_defaults_reach_into_list_items_and_replace_nulls(api: Client) -> None:
    answer = await api.create(WIDGETS, widget(roles=[{"name": "a"}, {"name": "b", "replicas": None}], interval=None))
    assert answer.json["spec"]["roles"] == [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 1}]
    assert answer.json["spec"]["interval"] == 15


async def test_an_immutable_field_cannot_change_but_may_be_set(api: Client) -> None:
    await api.create(WIDGETS, widget())
    answer = await api.patch(WIDGETS, "one", {"spec": {"targetRef": {"name": "other"}}}, MERGE_PATCH)
    assert answer.status == 422
    assert answer.causes == {"spec.targetRef.name": 'Invalid value: "other": targetRef.name is immutable'}
    assert (await api.patch(WIDGETS, "one", {"spec": {"targetRef": None}}, MERGE_PATCH)).status == 200
    assert (await api.patch(WIDGETS, "one", {"spec": {"targetRef": {"name": "other"}}}, MERGE_PATCH)).status == 200


async def test_what_an_older_schema_let_in_does_not_block_other_writes(api: Client) -> None:
    api.server.put(widget(interval=200))
    narrowed = copy.deepcopy(WIDGET_CRD)
    for version in narrowed["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["interval"]["maximum"] = 100
    api.server.install_crd(narrowed)
    assert (await api.patch(WIDGETS, "one", {"spec": {"low": 1}})).status == 200
    assert (await api.patch(WIDGETS, "one", {"spec": {"interval": 150}})).status == 422
    assert (await api.create(WIDGETS, widget("two", interval=200))).status == 422


async def test_a_rule_that_cannot_be_checked_is_reported(api: Client) -> None:
    crd = copy.deepcopy(WIDGET_CRD)
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["x-kubernetes-validations"] = [{"rule": "url(self.spec.mode).getHost() == ''"}]
    api.server.install_crd(crd)
    answer = await api.create(WIDGETS, widget())
    assert answer.status == 201
    assert any("was not checked by this server" in text and "url()" in text for text in answer.warnings)


CRD_FAULTS: list[tuple[str, Any, str]] = [
    ("a name that does not follow", lambda crd: crd["metadata"].update(name="x.example.com"), "metadata.name"),
    ("two storage versions", lambda crd: crd["spec"]["versions"][1].update(storage=True), "spec.versions"),
    ("no schema", lambda crd: crd["spec"]["versions"][0].pop("schema"), "spec.versions[0].schema.openAPIV3Schema"),
    ("an unknown scope", lambda crd: crd["spec"].update(scope="World"), "spec.scope"),
    ("no kind", lambda crd: crd["spec"]["names"].pop("kind"), "spec.names.kind"),
    (
        "a node without type",
        lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].pop("type"),
        "spec.validation.openAPIV3Schema.properties[spec].type",
    ),
]


@pytest.mark.parametrize(("spoil", "field"), [row[1:] for row in CRD_FAULTS], ids=[row[0] for row in CRD_FAULTS])
async def test_a_definition_is_refused_with(api: Client, spoil: Any, field: str) -> None:
    crd = copy.deepcopy(WIDGET_CRD)
    crd["metadata"]["name"] = "gadgets.example.com"
    crd["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    spoil(crd)
    answer = await api("POST", CRDS.path(), crd)
    assert answer.status == 422
    assert field in answer.causes


async def test_a_definition_is_established_and_served_at_once_and_gone_with_its_objects(api: Client) -> None:
    crd = copy.deepcopy(WIDGET_CRD)
    crd["metadata"]["name"] = "gadgets.example.com"
    crd["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    created = (await api("POST", CRDS.path(), crd)).json
    assert {c["type"]: c["status"] for c in created["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert created["status"]["storedVersions"] == ["v1alpha1"]
    gadget = {**widget(), "kind": "Gadget"}
    path = "/apis/example.com/v1/namespaces/default/gadgets"
    assert (await api("POST", path, gadget)).status == 201
    watch = await api.watch(path)
    assert await watch.take(1) == [("ADDED", "one")]
    assert (await api("DELETE", CRDS.path(name="gadgets.example.com"))).status == 200
    assert await watch.take(1) == [("DELETED", "one")]
    assert (await api.get(path)).status == 404


RULES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("comparison", "self.a >= 3 && self.a < 5", {"self": {"a": 4}}, True),
    ("has on an absent member", "has(self.a)", {"self": {}}, False),
    ("negation", "!(has(self.a) && has(self.b))", {"self": {"a": 1}}, True),
    ("exactly one block", "[has(self.a), has(self.b)].filter(x, x).size() == 1", {"self": {"b": 1}}, True),
    ("all", "self.all(r, r.max >= r.min)", {"self": [{"max": 2, "min": 1}, {"max": 1, "min": 2}]}, False),
    ("exists", "self.exists(r, r == 'x')", {"self": ["y", "x"]}, True),
    ("exists_one", "self.exists_one(r, r == 'x')", {"self": ["x", "x"]}, False),
    ("nested macros", "self.all(a, self.exists_one(b, b.n == a.n))", {"self": [{"n": 1}, {"n": 2}]}, True),
    ("all over the keys of a map", "self.all(k, k.startsWith('a'))", {"self": {"a1": 1, "b": 2}}, False),
    ("in", "self in ['a', 'b']", {"self": "b"}, True),
    ("ternary", "self ? 1 : 2", {"self": False}, 2),
    ("int or string", "type(self) == int ? self > 0 : double(self) > 0.0", {"self": "0.5"}, True),
    ("arithmetic truncates towards zero", "-7 / 2 == -3 && -7 % 2 == -1", {}, True),
    ("text", "self.matches('^a+$') && self.size() == 3 && self + 'b' == 'aaab'", {"self": "aaa"}, True),
    ("quantities", "quantity(self).isGreaterThan(quantity('1k'))", {"self": "1.2k"}, True),
    (
        "an escaped member",
        "self.__namespace__ == 'x' && self.a__dash__b == 1",
        {"self": {"namespace": "x", "a-b": 1}},
        True,
    ),
    ("one side decides in spite of an error", "self.x == 1 || true", {"self": {}}, True),
    ("numbers of two types are equal", "self == 1.0", {"self": 1}, True),
    ("a boolean is no number", "self == 1", {"self": True}, False),
    ("index", "self[1] == 'b' && self[0] != 'b'", {"self": ["a", "b"]}, True),
    ("a map literal", "{'a': 1}[self] == 1", {"self": "a"}, True),
    ("a transition", "self == oldSelf", {"self": 1, "oldSelf": 1}, True),
]


@pytest.mark.parametrize(("text", "env", "expected"), [r[1:] for r in RULES], ids=[r[0] for r in RULES])
def test_cel(text: str, env: dict[str, Any], expected: Any) -> None:
    assert compile_rule(text).evaluate(env) == expected


CEL_ERRORS: list[tuple[str, str, dict[str, Any], str]] = [
    ("an absent member", "self.a == 1", {"self": {}}, "no such key: a"),
    ("types that cannot be compared", "self < 'a'", {"self": 1}, "no such overload"),
    ("an index out of bounds", "self[3] == 1", {"self": []}, "index out of bounds: 3"),
    ("division by zero", "1 / self == 1", {"self": 0}, "division by zero"),
    ("a number as condition", "self && true", {"self": 1}, "no such overload"),
]


@pytest.mark.parametrize(("text", "env", "message"), [r[1:] for r in CEL_ERRORS], ids=[r[0] for r in CEL_ERRORS])
def test_cel_fails_on(text: str, env: dict[str, Any], message: str) -> None:
    with pytest.raises(CelError, match=message):
        compile_rule(text).evaluate(env)


@pytest.mark.parametrize("text", ["self ==", "self.(", "foo(self)", "self.bar()", "'open", "self.all(1, true)", "a b"])
def test_cel_outside_the_language_is_unsupported(text: str) -> None:
    with pytest.raises(CelUnsupported):
        compile_rule(text)
