"""Whether an applied configuration fits its schema at all: server-side apply reads it as a typed object before anything
else and answers 500 where that fails, long before validation would answer 422."""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.errors import Object

_IDENTITY = frozenset(("apiVersion", "kind", "metadata"))
_EXPECTED = {
    "object": ("map", dict),
    "array": ("list", list),
    "string": ("string", str),
    "boolean": ("boolean", bool),
    "integer": ("numeric (int or float)", int | float),
    "number": ("numeric (int or float)", int | float),
}


def untyped(configuration: Object, schema: Object) -> str:
    """What does not fit, in the words of the real server; the empty text where everything does."""
    problems: list[str] = []
    for name, value in configuration.items():
        if name not in _IDENTITY:
            _member(value, schema, name, "", problems)
    if len(problems) > 1:
        return "errors:\n  " + "\n  ".join(problems)
    return problems[0] if problems else ""


def _member(value: Any, schema: Object, name: str, path: str, problems: list[str]) -> None:
    node = (schema.get("properties") or {}).get(name)
    extra = schema.get("additionalProperties")
    if node is None and isinstance(extra, dict):
        node = extra
    if node is not None:
        _check(value, node, f"{path}.{name}", problems)
    elif extra is not True and not schema.get("x-kubernetes-preserve-unknown-fields"):
        problems.append(f"{path}.{name}: field not declared in schema")


def _check(value: Any, node: Object, path: str, problems: list[str]) -> None:
    if value is None or node.get("x-kubernetes-int-or-string"):
        return
    words, expected = _EXPECTED.get(node.get("type", ""), ("", object))
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool and words):
        problems.append(f"{path}: expected {words}, got &{{{value}}}")
    elif isinstance(value, dict):
        for name, member in value.items():
            _member(member, node, name, path, problems)
    elif isinstance(value, list) and isinstance(node.get("items"), dict):
        for index, item in enumerate(value):
            _check(item, node["items"], f"{path}[{index}]", problems)
