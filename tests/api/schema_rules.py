"""What the API server asks of a structural schema, and what it then does with an object.

For the tests: written from the Kubernetes documentation, independent of the generator.
"""

from __future__ import annotations

import re

SCALARS = {"string", "integer", "boolean"}
ALLOWED = {
    "object": {"properties", "required"},
    "array": {"items", "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"},
    "string": {"enum", "minLength", "maxLength", "pattern", "format"},
    "integer": {"format", "minimum", "maximum"},
    "boolean": set(),
    "int-or-string": {
        "x-kubernetes-int-or-string",
        "pattern",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
    },
}
EVERYWHERE = {"type", "description", "default", "x-kubernetes-validations"}


def structural_problems(schema, path="", *, described=True):
    """Every way in which a schema is not structural, or lacks a bound or description that we ask for beyond that."""
    kind = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type")
    if kind not in ALLOWED:
        return [f"{path}: no type"]
    problems = []
    if kind == "int-or-string" and "type" in schema:
        problems.append(f"{path}: int-or-string with a type")
    problems += [f"{path}: keyword {key}" for key in schema if key not in ALLOWED[kind] | EVERYWHERE]
    if described and not schema.get("description"):
        problems.append(f"{path}: no description")
    bounded = {"enum", "maxLength", "format"} & set(schema) or path in (".apiVersion", ".kind")
    if kind in ("string", "int-or-string") and not bounded:
        problems.append(f"{path}: a string without a bound")
    if "pattern" in schema:
        re.compile(schema["pattern"])
    if "default" in schema:
        problems += [f"{path}: bad default: {p}" for p in instance_problems(schema, schema["default"])]
    if abs(schema.get("maximum", 0)) > 2**53 or abs(schema.get("minimum", 0)) > 2**53:
        problems.append(f"{path}: a bound that no float64 holds")
    problems += _rule_problems(schema, path)
    if kind == "object":
        problems += _object_problems(schema, path)
    if kind == "array":
        problems += _array_problems(schema, path)
    return problems


def _rule_problems(schema, path):
    problems = []
    for rule in schema.get("x-kubernetes-validations", []):
        if not rule.get("rule") or not rule.get("message") or "\n" in rule["message"]:
            problems.append(f"{path}: a rule needs an expression and a message of one line")
        field = rule.get("fieldPath", "").removeprefix(".")
        if field and field not in schema.get("properties", {}):
            problems.append(f"{path}: fieldPath {field} does not exist")
    return problems


def _object_problems(schema, path):
    properties = schema.get("properties")
    if not properties and path:
        return [f"{path}: an object without properties"]
    problems = [
        f"{path}: required {name} does not exist" for name in schema.get("required", []) if name not in properties
    ]
    for name, member in (properties or {}).items():
        if not (path == "" and name == "metadata"):
            problems += structural_problems(member, f"{path}.{name}")
        elif set(member) != {"type"}:
            problems.append("metadata: only its type may be given")
    return problems


def _array_problems(schema, path):
    items, keys = schema.get("items"), schema.get("x-kubernetes-list-map-keys", [])
    problems = []
    if not isinstance(items, dict):
        return [f"{path}: no items"]
    if not schema.get("maxItems"):
        problems.append(f"{path}: no maxItems")
    if schema.get("x-kubernetes-list-type") not in ("atomic", "set", "map"):
        problems.append(f"{path}: no list type")
    if (schema.get("x-kubernetes-list-type") == "map") != bool(keys):
        problems.append(f"{path}: list type and keys disagree")
    for key in keys:
        member = items.get("properties", {}).get(key, {})
        if member.get("type") not in SCALARS:
            problems.append(f"{path}: key {key} is no scalar member")
        if key not in items.get("required", []) and "default" not in member:
            problems.append(f"{path}: key {key} is neither required nor defaulted")
    return problems + structural_problems(items, f"{path}[]", described=items.get("type") == "object")


def instance_problems(schema, value, path=""):
    """Why the API server would refuse a value, CEL rules aside."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            return [f"{path}: neither integer nor string"]
        return _scalar_problems(schema, value, path)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if not isinstance(value, kinds[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return [f"{path}: not of type {schema['type']}"]
    if schema["type"] == "object":
        properties = schema.get("properties", {})
        given = {name: member for name, member in value.items() if member is not None}
        problems = [f"{path}.{name}: required" for name in schema.get("required", []) if name not in given]
        for name, member in given.items():
            if name in properties:
                problems += instance_problems(properties[name], member, f"{path}.{name}")
        return problems
    if schema["type"] == "array":
        problems = []
        if not schema.get("minItems", 0) <= len(value) <= schema["maxItems"]:
            problems.append(f"{path}: number of elements")
        keys = schema.get("x-kubernetes-list-map-keys", [])
        seen = [[element.get(key) for key in keys] for element in value if isinstance(element, dict)] if keys else []
        if any(entry in seen[:index] for index, entry in enumerate(seen)):
            problems.append(f"{path}: duplicate key")
        for index, element in enumerate(value):
            problems += instance_problems(schema["items"], element, f"{path}[{index}]")
        return problems
    return _scalar_problems(schema, value, path)


def _scalar_problems(schema, value, path):
    problems = []
    if "enum" in schema and value not in schema["enum"]:
        problems.append(f"{path}: not in enum")
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9):
            problems.append(f"{path}: length")
        # RE2's `$` matches only at the very end.
        if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
            problems.append(f"{path}: pattern")
    elif not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is not None and (value < low or (value == low and schema.get("exclusiveMinimum"))):
            problems.append(f"{path}: minimum")
        if high is not None and (value > high or (value == high and schema.get("exclusiveMaximum"))):
            problems.append(f"{path}: maximum")
    return problems


def with_defaults(schema, value):
    """The value as the API server stores it: nulls dropped, defaults filled in where the parent is given."""
    if isinstance(value, dict) and "properties" in schema:
        filled = {name: with_defaults(schema["properties"].get(name, {}), member)
                  for name, member in value.items() if member is not None}  # fmt: skip
        for name, member in schema["properties"].items():
            if "default" in member:
                filled.setdefault(name, member["default"])
        return filled
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(schema["items"], element) for element in value]
    return value


def unknown_members(schema, value, path=""):
    """Members that the API server would prune."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        unknown = [f"{path}.{name}" for name in value if name not in properties]
        return unknown + [
            found
            for name, member in value.items()
            if name in properties and not (path == "" and name == "metadata")
            for found in unknown_members(properties[name], member, f"{path}.{name}")
        ]
    if isinstance(value, list):
        return [found for element in value for found in unknown_members(schema.get("items", {}), element, f"{path}[]")]
    return []
