"""Validation against a structural schema, with the causes of the real server.

Ratcheting: a part that is equal to what is stored already is not validated again (stable since Kubernetes 1.33), so an
object that an older schema let in can still be updated elsewhere. Items of keyed lists are matched by key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import orjson

from controller.embedded.apiserver.errors import Cause, Object
from controller.embedded.apiserver.rules import ABSENT, check_rules, correlated, has_rules
from controller.embedded.apiserver.shapes import Shape
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
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


@dataclass(slots=True)
class Findings:
    """What validation collects."""

    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, path: str, reason: str, message: str) -> None:
        self.causes.append(Cause(path, reason, message))


def validate(obj: Object, old: Object | None, schema: Object, causes: list[Cause]) -> Findings:
    """Everything that is wrong with `obj`, after the `causes` that its metadata gave; `old` is the stored object on an
    update."""
    findings = Findings(list(causes))
    _validate(obj, ABSENT if old is None else old, schema, "", findings)
    if any(cause.reason in _BLOCKING for cause in findings.causes):
        if has_rules(schema):
            findings.add("<nil>", "FieldValueInvalid", f"Invalid value: null: {_RULES_SKIPPED}")
    else:
        failed, warnings = check_rules(obj, old, schema)
        findings.causes += failed
        findings.warnings += warnings
    return findings


def type_name(value: Any) -> str:
    """The JSON type of a value, as messages name it."""
    if value is None:
        return "null"
    return next((name for name, check in _TYPES.items() if check(value)), "unknown")


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()


def _validate(value: Any, old: Any, schema: Object, path: str, findings: Findings) -> None:
    if old is not ABSENT and old == value:
        return
    if value is None:
        if not schema.get("nullable") and path:
            expected = schema.get("type", "object")
            findings.add(
                path,
                "FieldValueTypeInvalid",
                f'Invalid value: "null": {path} in body must be of type {expected}: "null"',
            )
        return
    if not _type_fits(value, schema, path, findings):
        return
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{item}"' if isinstance(item, str) else f'"{_shown(item)}"' for item in schema["enum"])
        findings.add(
            path, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {supported}"
        )
    if isinstance(value, str):
        _validate_string(value, schema, path, findings)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _validate_number(value, schema, path, findings)
    elif isinstance(value, list):
        _validate_list(value, old, schema, path, findings)
    elif isinstance(value, dict):
        _validate_object(value, old, schema, path, findings)
    _validate_combinations(value, schema, path, findings)


def _type_fits(value: Any, schema: Object, path: str, findings: Findings) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        expected, fits = "integer,string", isinstance(value, str) or _TYPES["integer"](value)
    else:
        expected = schema.get("type", "")
        fits = not expected or _TYPES[expected](value)
    if not fits:
        found = type_name(value)
        findings.add(
            path,
            "FieldValueTypeInvalid",
            f'Invalid value: "{found}": {path} in body must be of type {expected}: "{found}"',
        )
    return fits


def _validate_string(value: str, schema: Object, path: str, findings: Findings) -> None:
    limit = schema.get("maxLength")
    if limit is not None and len(value) > limit:
        findings.add(path, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")
    least = schema.get("minLength")
    if least is not None and len(value) < least:
        findings.add(
            path,
            "FieldValueInvalid",
            f"Invalid value: {_shown(value)}: {path} in body should be at least {least} chars long",
        )
    pattern = schema.get("pattern")
    if pattern and not _compiled(pattern).search(value):
        findings.add(
            path, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {path} in body should match '{pattern}'"
        )
    form = schema.get("format")
    if form == "date-time":
        try:
            parse_time(value)
        except ValueError:
            findings.add(
                path,
                "FieldValueTypeInvalid",
                f"Invalid value: {_shown(value)}: {path} in body must be of type date-time: {_shown(value)}",
            )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Go's `$` matches at the very end only, Python's also before a last newline.
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern))


def _validate_number(value: float, schema: Object, path: str, findings: Findings) -> None:
    # (keyword, its exclusive flag, words, the direction that is beyond it)
    bounds = (
        ("maximum", "exclusiveMaximum", "less than", 1),
        ("minimum", "exclusiveMinimum", "greater than", -1),
    )
    for name, exclusive_name, words, direction in bounds:
        limit = schema.get(name)
        if limit is None:
            continue
        exclusive = bool(schema.get(exclusive_name))
        if direction * (value - limit) > 0 or (exclusive and value == limit):
            relation = words if exclusive else f"{words} or equal to"
            text = f"Invalid value: {_shown(value)}: {path} in body should be {relation} {_shown(limit)}"
            findings.add(path, "FieldValueInvalid", text)
    step = schema.get("multipleOf")
    if step and Decimal(str(value)) % Decimal(str(step)):
        findings.add(
            path, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {path} in body should be a multiple of {step}"
        )


def _validate_list(value: list[Any], old: Any, schema: Object, path: str, findings: Findings) -> None:
    limit, least = schema.get("maxItems"), schema.get("minItems")
    if limit is not None and len(value) > limit:
        findings.add(path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {limit} items")
    if least is not None and len(value) < least:
        findings.add(
            path, "FieldValueInvalid", f"Invalid value: {len(value)}: {path} in body should have at least {least} items"
        )
    _validate_unique(value, schema, path, findings)
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    previous = correlated(value, old, schema)
    for index, item in enumerate(value):
        _validate(item, previous[index], items, f"{path}[{index}]", findings)


def _validate_unique(value: list[Any], schema: Object, path: str, findings: Findings) -> None:
    shape = Shape(schema)
    keys = shape.keys(value)
    if not keys and not shape.is_set and not schema.get("uniqueItems"):
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        if keys:
            identity = shape.key_of(item, keys)
            if identity is None:
                continue  # a missing key is reported as a required member
            shown = orjson.dumps(dict(zip(keys, identity, strict=True))).decode()
        else:
            shown = _shown(item)
        if shown in seen:
            findings.add(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {shown}")
        seen.add(shown)


def _validate_object(value: Object, old: Any, schema: Object, path: str, findings: Findings) -> None:
    for name in schema.get("required") or ():
        if name not in value:
            findings.add(f"{path}.{name}" if path else name, "FieldValueRequired", "Required value")
    limit, least = schema.get("maxProperties"), schema.get("minProperties")
    if limit is not None and len(value) > limit:
        findings.add(path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {limit} items")
    if least is not None and len(value) < least:
        findings.add(
            path,
            "FieldValueInvalid",
            f"Invalid value: {len(value)}: {path} in body should have at least {least} properties",
        )
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    previous = old if isinstance(old, dict) else {}
    for name, member in value.items():
        node = properties.get(name)
        if node is None:
            node = extra if isinstance(extra, dict) else None
        if node is not None:
            _validate(member, previous.get(name, ABSENT), node, f"{path}.{name}" if path else name, findings)


def _validate_combinations(value: Any, schema: Object, path: str, findings: Findings) -> None:
    for part in schema.get("allOf") or ():
        _validate(value, ABSENT, part, path, findings)
    options = schema.get("anyOf")
    if options and not any(_holds(value, option, path) for option in options):
        findings.add(
            path,
            "FieldValueInvalid",
            f"Invalid value: {_shown(value)}: {path} in body must validate at least one schema (anyOf)",
        )
    options = schema.get("oneOf")
    if options and sum(_holds(value, option, path) for option in options) != 1:
        findings.add(
            path,
            "FieldValueInvalid",
            f"Invalid value: {_shown(value)}: {path} in body must validate one and only one schema (oneOf)",
        )
    if schema.get("not") and _holds(value, schema["not"], path):
        findings.add(
            path,
            "FieldValueInvalid",
            f"Invalid value: {_shown(value)}: {path} in body must not validate the schema (not)",
        )


def _holds(value: Any, schema: Object, path: str) -> bool:
    trial = Findings()
    _validate(value, ABSENT, schema, path, trial)
    return not trial.causes
