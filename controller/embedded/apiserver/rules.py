"""CEL rules of a schema (`x-kubernetes-validations`) over an object and its stored predecessor.

A transition rule (one that names `oldSelf`) runs only where the value has a predecessor, unless it asks for an optional
one. A rule whose value is unchanged is not run again unless it is a transition rule. A rule outside the covered part of
the language (see `cel`) cannot be checked: it is left out and reported as a warning, not missed in silence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controller.embedded.apiserver.cel import CelUnsupported, Rule, compile_rule
from controller.embedded.apiserver.cel_functions import CelError, Misfit, OptionalValue
from controller.embedded.apiserver.errors import Cause, Object, shown
from controller.embedded.apiserver.shapes import Shape

_RULES = "x-kubernetes-validations"
ABSENT = object()  # no stored predecessor


@dataclass(slots=True)
class _Run:
    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def has_rules(schema: Any) -> bool:
    """Whether any rule stands in this schema or below."""
    if not isinstance(schema, dict):
        return False
    if schema.get(_RULES):
        return True
    children = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(has_rules(child) for child in children)


def check_rules(obj: Object, old: Object | None, schema: Object) -> tuple[list[Cause], list[str]]:
    """(findings, warnings about rules that could not be checked)."""
    run = _Run()
    _check(_typed(obj, schema), ABSENT if old is None else _typed(old, schema), schema, "", run)
    return run.causes, run.warnings


def _typed(value: Any, schema: Object) -> Any:
    """`value` as rules see it: a float where an integer belongs is stored, but a rule that meets it fails. Shares
    everything that holds no such float."""
    if isinstance(value, float):
        if schema.get("x-kubernetes-int-or-string"):
            return Misfit("invalid data, expected XIntOrString value to be either a string or integer")
        return Misfit("invalid data, expected int, got float64") if schema.get("type") == "integer" else value
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        other = extra if isinstance(extra, dict) else {}
        typed = {name: _typed(member, properties.get(name, other)) for name, member in value.items()}
        return typed if any(typed[name] is not member for name, member in value.items()) else value
    if isinstance(value, list):
        items = [_typed(item, schema.get("items") or {}) for item in value]
        return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
    return value


def _check(value: Any, old: Any, schema: Object, path: str, run: _Run) -> None:
    if value is None:
        return
    for rule in schema.get(_RULES) or ():
        _check_rule(rule, value, old, schema, (path, run))
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for name, member in value.items():
            node = properties.get(name, extra if isinstance(extra, dict) else None)
            if node is not None:
                _check(member, before.get(name, ABSENT), node, f"{path}.{name}" if path else name, run)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, (item, predecessor) in enumerate(zip(value, correlated(value, old, schema), strict=True)):
            _check(item, predecessor, schema["items"], f"{path}[{index}]", run)


def correlated(value: list[Any], old: Any, schema: Object) -> list[Any]:
    """For each item the stored item that it continues: by key in keyed lists, ABSENT elsewhere."""
    shape = Shape(schema)
    keys = shape.keys(value)
    if not keys or not isinstance(old, list):
        return [ABSENT] * len(value)
    before = {repr(shape.key_of(item, keys)): item for item in old}
    return [before.get(repr(shape.key_of(item, keys)), ABSENT) for item in value]


def _check_rule(rule: Object, value: Any, old: Any, schema: Object, place: tuple[str, _Run]) -> None:
    path, run = place
    text = rule.get("rule", "")
    try:
        compiled = compile_rule(text)
    except CelUnsupported as error:
        where = path or "the object"
        run.warnings.append(f"a validation rule of {where} was not checked by this server: {error} in {text!r}")
        return
    environment = _environment(compiled, rule, value, old)
    if environment is None:
        return
    try:
        if compiled.evaluate(environment) is True:
            return
        message = _message(rule, environment)
    except CelError as error:
        message = f"{error} evaluating rule: {rule.get('message') or text}"
    field_path = rule.get("fieldPath", "")
    target = f"{path}{field_path}" if path else field_path.lstrip(".")
    run.causes.append(_cause(target, rule.get("reason", ""), value, schema, message))


def _environment(compiled: Rule, rule: Object, value: Any, old: Any) -> dict[str, Any] | None:
    """The variables of a rule; None where it does not apply."""
    if not compiled.uses_old:
        return None if old is not ABSENT and old == value else {"self": value}
    if rule.get("optionalOldSelf"):
        return {"self": value, "oldSelf": OptionalValue(old is not ABSENT, None if old is ABSENT else old)}
    return None if old is ABSENT else {"self": value, "oldSelf": old}


def _message(rule: Object, environment: dict[str, Any]) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            text = compile_rule(expression).evaluate(environment)
        except (CelError, CelUnsupported):
            text = None
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    return str(rule.get("message") or f"failed rule: {rule.get('rule', '').strip()}")


def _cause(path: str, reason: str, value: Any, schema: Object, message: str) -> Cause:
    if reason == "FieldValueForbidden":
        return Cause(path, reason, f"Forbidden: {message}")
    if reason == "FieldValueRequired":
        return Cause(path, reason, f"Required value: {message}")
    given = "" if schema.get("type") in ("object", "array") else f": {shown(value)}"
    if reason == "FieldValueDuplicate":
        return Cause(path, reason, f"Duplicate value{given}")
    return Cause(path, "FieldValueInvalid", f"Invalid value{given}: {message}")
