"""Validation against a structural schema, with the causes of the real server.

Like there, every keyword that fits the value's own type is checked, also where the type itself is wrong; of a text only
the first broken keyword is reported. Ratcheting: a part that is equal to what is stored already is not validated again
(stable since Kubernetes 1.33), so an object that an older schema let in can still be updated elsewhere; items of keyed
lists are matched by key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from controller.embedded.apiserver.errors import Cause, Object, shown
from controller.embedded.apiserver.list_types import list_causes
from controller.embedded.apiserver.rules import ABSENT, check_rules, correlated, has_rules
from controller.foundation import parse_time

# Findings after which the real server does not run CEL rules, and what it says then.
_BLOCKING = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)
_RULES_SKIPPED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
# The format that a number has by itself.
_OWN_FORMAT = {int: "int64", float: "float64"}
_INTEGER_BITS = {"int32": 31, "int64": 63, "": 63}
_NUMERIC = frozenset(("integer", "number"))


@dataclass(slots=True)
class Findings:
    """What validation collects."""

    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, path: str, reason: str, message: str) -> None:
        self.causes.append(Cause(path, reason, message))

    def invalid(self, path: str, value: Any, text: str) -> None:
        self.add(path, "FieldValueInvalid", f"Invalid value: {shown(value)}: {path} in body {text}")


def validate(obj: Object, old: Object | None, schema: Object, causes: list[Cause]) -> Findings:
    """Everything that is wrong with `obj`, after the `causes` that its metadata gave; `old` is the stored object on an
    update."""
    findings = Findings(list(causes))
    _validate(obj, ABSENT if old is None else old, schema, "", findings)
    if old is None or old != obj:
        list_causes(obj, schema, "", findings.causes)
    if any(cause.reason in _BLOCKING for cause in findings.causes):
        if has_rules(schema):
            findings.add("<nil>", "FieldValueInvalid", f"Invalid value: null: {_RULES_SKIPPED}")
    else:
        failed, warnings = check_rules(obj, old, schema)
        findings.causes += failed
        findings.warnings += warnings
    return findings


def value_causes(value: Any, schema: Object) -> list[Cause]:
    """What is wrong with a value by itself: without rules, and without the uniqueness of list items."""
    findings = Findings()
    _validate(value, ABSENT, schema, "", findings)
    return findings.causes


def type_name(value: Any) -> str:
    """The JSON type of a value, as messages name it."""
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object", type(None): "null"}
    return names[type(value)]


def _validate(value: Any, old: Any, schema: Object, path: str, findings: Findings) -> None:
    if old is not ABSENT and old == value:
        return
    if path or value is not None:
        _check_type(value, schema, path, findings)
    if isinstance(value, str):
        _check_string(value, schema, path, findings)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(value, schema, path, findings)
    elif isinstance(value, list):
        _check_list(value, old, schema, path, findings)
    elif isinstance(value, dict):
        _check_object(value, old, schema, path, findings)
    if "enum" in schema and not _is_member(value, schema["enum"]):
        supported = ", ".join(f'"{item}"' if isinstance(item, str) else f'"{shown(item)}"' for item in schema["enum"])
        text = f"Unsupported value: {shown(value)}: supported values: {supported}"
        findings.add(path, "FieldValueNotSupported", text)
    _check_combinations(value, schema, path, findings)


def _is_member(value: Any, options: list[Any]) -> bool:
    return any(isinstance(value, bool) is isinstance(option, bool) and value == option for option in options)


def _check_type(value: Any, schema: Object, path: str, findings: Findings) -> None:
    if schema.get("x-kubernetes-int-or-string"):
        types = ["integer", "string"]
    else:
        types = [schema["type"]] if schema.get("type") else []
    if not types or (value is None and schema.get("nullable")):
        return
    found, form = type_name(value), schema.get("format", "")
    whole = isinstance(value, float) and value.is_integer() and "integer" in types
    fits = found in types or whole or (found == "integer" and "number" in types)
    if form and not isinstance(value, str | list | None):
        own = "" if isinstance(value, bool) else _OWN_FORMAT.get(type(value), "")
        if not fits and own != form:
            _wrong_type(path, own, form, findings)
            return
    if form and isinstance(value, str | list) and not _NUMERIC.intersection(types):
        return  # a format alone decides about texts and, oddly, lets lists pass
    if not fits:
        _wrong_type(path, found, ",".join(types), findings)


def _wrong_type(path: str, found: str, expected: str, findings: Findings) -> None:
    text = f'Invalid value: "{found}": {path} in body must be of type {expected}: "{found}"'
    findings.add(path, "FieldValueTypeInvalid", text)


def _check_string(value: str, schema: Object, path: str, findings: Findings) -> None:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        plural = "byte" if most == 1 else "bytes"
        findings.add(path, "FieldValueTooLong", f"Too long: may not be more than {most} {plural}")
    elif least is not None and len(value) < least:
        findings.invalid(path, value, f"should be at least {least} chars long")
    elif pattern and not _compiled(pattern).search(value):
        findings.invalid(path, value, f"should match '{pattern}'")
    if schema.get("format") == "date-time":
        try:
            parse_time(value)
        except ValueError:
            given = shown(value)
            text = f"Invalid value: {given}: {path} in body must be of type date-time: {given}"
            findings.add(path, "FieldValueTypeInvalid", text)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Go's `$` matches at the very end only, Python's also before a last newline.
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern))


def _check_number(value: float, schema: Object, path: str, findings: Findings) -> None:
    form = schema.get("format", "")
    if schema.get("type") == "integer" and form in _INTEGER_BITS:
        beyond = 1 << _INTEGER_BITS[form]
        if not float(value).is_integer() or not -beyond <= value < beyond:
            text = f"Checked value must be of type integer with format {form} in {path}"
            findings.add("<nil>", "FieldValueInvalid", f'Invalid value: "": {text}')
    step = schema.get("multipleOf")
    if step and Decimal(str(value)) % Decimal(str(step)):
        findings.invalid(path, value, f"should be a multiple of {step}")
    # (keyword, its exclusive flag, words, the direction that is beyond it)
    bounds = (
        ("minimum", "exclusiveMinimum", "greater than", -1),
        ("maximum", "exclusiveMaximum", "less than", 1),
    )
    for name, exclusive_name, words, direction in bounds:
        limit = schema.get(name)
        if limit is None:
            continue
        exclusive = bool(schema.get(exclusive_name))
        if direction * (value - limit) > 0 or (exclusive and value == limit):
            relation = words if exclusive else f"{words} or equal to"
            findings.invalid(path, value, f"should be {relation} {shown(limit)}")


def _check_list(value: list[Any], old: Any, schema: Object, path: str, findings: Findings) -> None:
    items = schema.get("items")
    if isinstance(items, dict):
        for index, (item, predecessor) in enumerate(zip(value, correlated(value, old, schema), strict=True)):
            _validate(item, predecessor, items, f"{path}[{index}]", findings)
    most, least = schema.get("maxItems"), schema.get("minItems")
    if least is not None and len(value) < least:
        findings.invalid(path, len(value), f"should have at least {least} items")
    if most is not None and len(value) > most:
        findings.add(path, "FieldValueTooMany", _too_many(len(value), most))


def _too_many(found: int, most: int) -> str:
    return f"Too many: {found}: must have at most {most} {'item' if most == 1 else 'items'}"


def _check_object(value: Object, old: Any, schema: Object, path: str, findings: Findings) -> None:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if least is not None and len(value) < least:
        findings.invalid(path, len(value), f"should have at least {least} properties")
    if most is not None and len(value) > most:
        findings.add(path, "FieldValueTooMany", _too_many(len(value), most))
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    previous = old if isinstance(old, dict) else {}
    for name, member in value.items():
        node = properties.get(name)
        if node is None:
            node = extra if isinstance(extra, dict) else None
        if node is not None:
            _validate(member, previous.get(name, ABSENT), node, f"{path}.{name}" if path else name, findings)
    for name in schema.get("required") or ():
        if name not in value:
            findings.add(f"{path}.{name}" if path else name, "FieldValueRequired", "Required value")


def _check_combinations(value: Any, schema: Object, path: str, findings: Findings) -> None:
    for part in schema.get("allOf") or ():
        _validate(value, ABSENT, part, path, findings)
    options = schema.get("anyOf")
    if options and not any(_holds(value, option, path) for option in options):
        findings.invalid(path, value, "must validate at least one schema (anyOf)")
    options = schema.get("oneOf")
    if options and sum(_holds(value, option, path) for option in options) != 1:
        findings.invalid(path, value, "must validate one and only one schema (oneOf)")
    if schema.get("not") and _holds(value, schema["not"], path):
        findings.invalid(path, value, "must not validate the schema (not)")


def _holds(value: Any, schema: Object, path: str) -> bool:
    trial = Findings()
    _validate(value, ABSENT, schema, path, trial)
    return not trial.causes
