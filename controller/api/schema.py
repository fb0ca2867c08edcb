"""Structural OpenAPI schemas (apiextensions.k8s.io/v1) from the typed resources.

What the API server asks of them (Kubernetes documentation, "Specifying a structural schema"): a type at every node, no
`$ref`, no `anyOf` that defines structure, int-or-string by its extension, the keys of a list-map required or defaulted,
and bounds on everything a CEL rule iterates, or the estimated cost of the rule is refused. A default that depends on
something else is described, never stored.
"""

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from enum import StrEnum
from typing import cast

import msgspec

from controller.api.members import ApiStruct, CelRule, Form, Member, MemberOf, Shape, members_of
from controller.api.reading import render_value
from controller.foundation import QUANTITY_PATTERN

Schema = dict[str, object]

# Every quantity of ours is a count, a rate, a share or a duration: a minus sign is a typing error.
_UNSIGNED_QUANTITY = QUANTITY_PATTERN.replace("[+-]", r"\+", 1)
# As long as the parser takes.
_QUANTITY_LENGTH = 64
_INT32_MAX = 2**31 - 1
_EXACT_IN_FLOAT = 2**53


def object_schema(struct: type[msgspec.Struct], *, defaults: bool) -> Schema:
    """The schema of an object. `defaults`: store the fixed defaults (a spec), or none (a status)."""
    properties: Schema = {}
    required: list[str] = []
    for field in members_of(struct):
        schema = member_schema(field, defaults=defaults)
        properties[field.json_name] = schema
        if field.required or field.member.required:
            required.append(field.json_name)
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = sorted(required)
    rules = struct.RULES if issubclass(struct, ApiStruct) else ()
    if rules:
        schema["x-kubernetes-validations"] = [_rule(rule) for rule in rules]
    return schema


def described(struct: type[msgspec.Struct]) -> str:
    """The first paragraph of a type's docstring."""
    return inspect.cleandoc(struct.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def member_schema(field: MemberOf, *, defaults: bool) -> Schema:
    """The schema of one member, with its description."""
    schema = _shape_schema(field.shape, defaults=defaults)
    default = field.default
    if defaults and isinstance(default, str | int | Decimal) and default != "":
        schema["default"] = render_value(field.shape, default)
    return schema


def _shape_schema(shape: Shape, *, defaults: bool) -> Schema:
    member = shape.member
    schema: Schema = {}
    description = _description(shape)
    if description:
        schema["description"] = description
    schema |= _form_schema(shape, defaults=defaults)
    if member.rules:
        own = cast("list[Schema]", schema.get("x-kubernetes-validations", []))
        schema["x-kubernetes-validations"] = [*own, *(_rule(rule) for rule in member.rules)]
    return schema


def _form_schema(shape: Shape, *, defaults: bool) -> Schema:
    member = shape.member
    match shape.form:
        case Form.STRING:
            return _string(member)
        case Form.INTEGER:
            return _integer(member)
        case Form.BOOLEAN:
            return {"type": "boolean"}
        case Form.QUANTITY:
            return _quantity(member)
        case Form.TIME:
            return {"type": "string", "format": "date-time"}
        case Form.ENUM:
            return {"type": "string", "enum": [str(option) for option in cast("type[StrEnum]", shape.python)]}
        case Form.OBJECT:
            return object_schema(cast("type[msgspec.Struct]", shape.python), defaults=defaults)
        case Form.LIST:
            return _list(shape, defaults=defaults)
        case Form.MAP | Form.ANY:
            raise TypeError(f"no schema is known for {shape.form}: give the member a type")


def _string(member: Member) -> Schema:
    schema: Schema = {"type": "string"}
    if member.options:
        schema["enum"] = [str(option) for option in member.options]
        return schema
    if member.min_length:
        schema["minLength"] = member.min_length
    if member.max_length:
        schema["maxLength"] = member.max_length
    if member.pattern:
        schema["pattern"] = member.pattern
    return schema


def _integer(member: Member) -> Schema:
    small = member.at_most is not None and int(member.at_most) <= _INT32_MAX
    schema: Schema = {"type": "integer", "format": "int32" if small else "int64"}
    if member.at_least is not None:
        schema["minimum"] = int(member.at_least)
    # The API server holds bounds as float64: 2⁶³ − 1 becomes 2⁶³, and every value is refused for it.
    if member.at_most is not None and int(member.at_most) <= _EXACT_IN_FLOAT:
        schema["maximum"] = int(member.at_most)
    return schema


def _quantity(member: Member) -> Schema:
    # The pattern speaks of the strings, the bounds of the integers; the parser checks both exactly.
    schema: Schema = {"x-kubernetes-int-or-string": True, "pattern": _UNSIGNED_QUANTITY, "maxLength": _QUANTITY_LENGTH}
    lowest = member.at_least if member.above is None else member.above
    schema["minimum"] = 0 if lowest is None else math.ceil(Decimal(lowest))
    if member.above is not None:
        schema["exclusiveMinimum"] = True
    highest = member.at_most if member.below is None else member.below
    if highest is not None:
        schema["maximum"] = math.floor(Decimal(highest))
    if member.below is not None:
        schema["exclusiveMaximum"] = True
    return schema


def _list(shape: Shape, *, defaults: bool) -> Schema:
    member, item = shape.member, cast("Shape", shape.item)
    items = _shape_schema(item, defaults=defaults)
    if member.keys:
        unkeyed = [key for key in member.keys if "default" not in _property(items, key)]
        required = sorted({*cast("list[str]", items.get("required", [])), *unkeyed})
        if required:
            items["required"] = required
    schema: Schema = {"type": "array"}
    if member.min_items:
        schema["minItems"] = member.min_items
    schema["maxItems"] = member.max_items
    schema["x-kubernetes-list-type"] = "map" if member.keys else "atomic"
    if member.keys:
        schema["x-kubernetes-list-map-keys"] = list(member.keys)
    schema["items"] = items
    if not member.max_items:
        raise TypeError(f"a list needs max_items ({member.description!r}), or CEL costs have no bound")
    return schema


def _property(schema: Schema, name: str) -> Schema:
    return cast("dict[str, Schema]", schema["properties"])[name]


def _description(shape: Shape) -> str:
    member = shape.member
    text = member.description
    if not text and shape.form is Form.OBJECT:
        text = described(cast("type[msgspec.Struct]", shape.python))
    return f"{text} Unset: {member.later}." if member.later else text


def _rule(rule: CelRule) -> Schema:
    schema: Schema = {"rule": rule.rule, "message": rule.message}
    if rule.field_path:
        schema["fieldPath"] = rule.field_path
    if rule.reason:
        schema["reason"] = rule.reason
    return schema
