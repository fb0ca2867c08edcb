"""Untrusted JSON values into typed objects, and back.

Two ways of reading, for two kinds of authors:

* `read_exact` is for what a person wrote to us. Every finding is returned, with path, value and way out. A member that
  was refused is None in the object, whatever its type says, so that rules over several members can go on with the rest;
  such an object is never handed out.
* `read_tolerant` is for what programs wrote (foreign objects, our own older status). A member of a wrong type becomes
  its default, an element without its required members is left out, and each is noted; the notes name types, never
  values, because a value may be a secret. Bounds are checked only where the writer is ours: a foreign count of 0 is a
  fact.

In both, null means absent and unknown members are ignored. Neither raises, whatever the value is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_UP, Decimal
from enum import StrEnum
from functools import cache
from typing import TypeVar, cast

import msgspec

from controller.api.members import Form, MemberOf, Shape, TimeFormat, members_of, shape_of
from controller.foundation import (
    FieldError,
    describe,
    format_micro_time,
    format_quantity,
    format_time,
    parse_quantity,
    parse_time,
)

S = TypeVar("S", bound=msgspec.Struct)

# As fine as a Kubernetes quantity gets.
_NANO = Decimal("1e-9")
# The last second of the year 9999: what RFC 3339 can write.
_LAST_SECOND = 253_402_300_799.0
# Bounds of the representation, which nobody needs to read.
_MACHINE_LIMITS = (2**31 - 1, 2**63 - 1)
# Enough to see what is wrong with an object, short enough for a log line.
_MAX_NOTES = 8


class _Bad:
    """Marks a value that was refused."""


_BAD = _Bad()


def read_exact(struct: type[S], value: object, path: str) -> tuple[S | None, list[FieldError]]:
    """The object, and every finding. With findings, refused members of the object are None."""
    reader = _Reader(exact=True)
    result = reader.read(Shape(Form.OBJECT, shape_of(struct).member, python=struct), value, path)
    return (None if isinstance(result, _Bad) else cast("S", result)), reader.problems


def read_tolerant(struct: type[S], value: object, path: str) -> tuple[S | None, str]:
    """The object as far as it can be read, and a note on what could not (empty: all was read).

    None where not even an object with its required members is there."""
    reader = _Reader(exact=False)
    result = reader.read(Shape(Form.OBJECT, shape_of(struct).member, python=struct), value, path)
    return (None if isinstance(result, _Bad) else cast("S", result)), note_of(reader.problems)


def read_member_tolerant(field: MemberOf, value: object) -> tuple[object, list[FieldError]]:
    """One member of a foreign object, without bounds: None where it cannot be read at all."""
    reader = _Reader(exact=False, bounded=False)
    result = reader.read(field.shape, value, field.json_name)
    return (None if isinstance(result, _Bad) else result), reader.problems


def note_of(problems: list[FieldError]) -> str:
    """Findings of a tolerant reading in one line, bounded."""
    shown = "; ".join(str(problem) if problem.path else problem.message for problem in problems[:_MAX_NOTES])
    rest = len(problems) - _MAX_NOTES
    return f"{shown}; and {rest} more" if rest > 0 else shown


def render(struct: msgspec.Struct) -> dict[str, object]:
    """The JSON object that stands for a typed one. Members equal to their default are left out, unless the schema
    requires them (an ordinal of 0 must be seen)."""
    rendered: dict[str, object] = {}
    for field in members_of(type(struct)):
        value = getattr(struct, field.name)
        always = field.required or field.member.required
        if value is not None and (always or value != field.default):
            rendered[field.json_name] = render_value(field.shape, value)
    return rendered


def render_value(shape: Shape, value: object) -> object:
    """The JSON value of one member."""
    match shape.form:
        case Form.OBJECT:
            return render(cast("msgspec.Struct", value))
        case Form.LIST:
            item = cast("Shape", shape.item)
            return [render_value(item, element) for element in cast("tuple[object, ...]", value)]
        case Form.MAP:
            item = cast("Shape", shape.item)
            return {key: render_value(item, element) for key, element in cast("dict[str, object]", value).items()}
        case Form.QUANTITY:
            return format_quantity(value) if isinstance(value, Decimal) else value
        case Form.TIME:
            seconds = cast("float", value)
            micro = shape.time_format is TimeFormat.MICROSECONDS and seconds != int(seconds)
            return format_micro_time(seconds) if micro else format_time(seconds)
        case Form.STRING | Form.ENUM:
            return str(value)
        case _:
            return value


class _Reader:
    def __init__(self, *, exact: bool, bounded: bool = True) -> None:
        self.exact = exact
        self.bounded = bounded
        self.problems: list[FieldError] = []

    def refuse(self, path: str, expected: str, value: object) -> _Bad:
        found = describe(value) if self.exact else _type_of(value)
        self.problems.append(FieldError(path, f"must be {expected}, found {found}"))
        return _BAD

    def read(self, shape: Shape, value: object, path: str) -> object:
        match shape.form:
            case Form.STRING:
                return self._string(shape, value, path)
            case Form.INTEGER:
                return self._integer(shape, value, path)
            case Form.BOOLEAN:
                return value if isinstance(value, bool) else self.refuse(path, "true or false", value)
            case Form.QUANTITY:
                return self._quantity(shape, value, path)
            case Form.TIME:
                return self._time(value, path)
            case Form.ENUM:
                return self._enum(shape, value, path)
            case Form.LIST:
                return self._list(shape, value, path)
            case Form.MAP:
                return self._map(shape, value, path)
            case Form.OBJECT:
                return self._object(shape, value, path)
            case Form.ANY:
                return value

    def _bounds(self, shape: Shape) -> str:
        return bounds_in_words(shape) if self.bounded else ""

    def _string(self, shape: Shape, value: object, path: str) -> object:
        member = shape.member
        if not isinstance(value, str):
            return self.refuse(path, member.says or "a string", value)
        if self.exact:
            too_long = 0 < member.max_length < len(value)
            if too_long or len(value) < member.min_length or not _matches(member.pattern, value):
                return self.refuse(path, member.says or _lengths(member.min_length, member.max_length), value)
        return value

    def _integer(self, shape: Shape, value: object, path: str) -> object:
        if isinstance(value, bool) or not isinstance(value, int) or (self.bounded and not _within(shape, value)):
            return self.refuse(path, f"a whole number{self._bounds(shape)}", value)
        return value

    def _quantity(self, shape: Shape, value: object, path: str) -> object:
        try:
            number = parse_quantity(value)
        except ValueError as error:
            if not self.exact:
                return self.refuse(path, "a quantity", value)
            self.problems.append(FieldError(path, str(error)))
            return _BAD
        if self.bounded and not _within(shape, number):
            return self.refuse(path, f"a quantity{self._bounds(shape)}", value)
        if shape.raw:
            return value
        exponent = number.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -9:
            number = number.quantize(_NANO, rounding=ROUND_UP)
        return number

    def _time(self, value: object, path: str) -> object:
        try:
            seconds = parse_time(value) if isinstance(value, str) else -1.0
        except (ValueError, OverflowError):
            seconds = -1.0
        if 0.0 <= seconds <= _LAST_SECOND:
            return seconds
        return self.refuse(path, "an RFC 3339 time such as 2026-11-29T15:49:15Z", value)

    def _enum(self, shape: Shape, value: object, path: str) -> object:
        for option in cast("type[StrEnum]", shape.python):
            if option == value:
                return option
        names = ", ".join(cast("type[StrEnum]", shape.python))
        return self.refuse(path, f"one of {names}", value)

    def _list(self, shape: Shape, value: object, path: str) -> object:
        member, item = shape.member, cast("Shape", shape.item)
        if not isinstance(value, list):
            return self.refuse(path, "a list", value)
        if self.exact and len(value) < member.min_items:
            self.problems.append(FieldError(path, f"must have at least {member.min_items} element, found none"))
            return _BAD
        if self.exact and 0 < member.max_items < len(value):
            self.problems.append(FieldError(path, f"must have at most {member.max_items} elements, found {len(value)}"))
            return _BAD
        elements = [self.read(item, element, f"{path}[{index}]") for index, element in enumerate(value)]
        if self.exact:
            return tuple(None if isinstance(element, _Bad) else element for element in elements)
        return tuple(element for element in elements if not isinstance(element, _Bad))

    def _map(self, shape: Shape, value: object, path: str) -> object:
        item = cast("Shape", shape.item)
        if not isinstance(value, Mapping):
            return self.refuse(path, "an object", value)
        read = {str(key): self.read(item, element, f"{path}.{key}") for key, element in value.items()}
        return {key: element for key, element in read.items() if not isinstance(element, _Bad)}

    def _object(self, shape: Shape, value: object, path: str) -> object:
        if not isinstance(value, Mapping):
            return self.refuse(path, "an object", value)
        struct = cast("type[msgspec.Struct]", shape.python)
        members: dict[str, object] = {}
        complete = True
        for field in members_of(struct):
            given = value.get(field.json_name)
            if given is None:
                if field.required:
                    self.problems.append(FieldError(f"{path}.{field.json_name}", _required(field)))
                    members[field.name] = None
                    complete = False
                continue
            read = self.read(field.shape, given, f"{path}.{field.json_name}")
            if not isinstance(read, _Bad):
                members[field.name] = read
            elif self.exact:
                members[field.name] = None
            elif field.required:
                complete = False
        if not complete and not self.exact:
            return _BAD
        return struct(**members)


def _required(field: MemberOf) -> str:
    member = field.member
    what = member.says or member.description
    return f"is required: {what[:1].lower()}{what[1:].rstrip('.')}" if what else "is required"


def _matches(pattern: str, value: str) -> bool:
    # `$` of Python also matches before a last newline, that of RE2 (the API server) does not.
    return not pattern or (_compiled(pattern).search(value) is not None and not value.endswith("\n"))


_compiled = cache(re.compile)


def _within(shape: Shape, number: int | Decimal) -> bool:
    member = shape.member
    return not (
        (member.at_least is not None and number < Decimal(member.at_least))
        or (member.at_most is not None and number > Decimal(member.at_most))
        or (member.above is not None and number <= Decimal(member.above))
        or (member.below is not None and number >= Decimal(member.below))
    )


def bounds_in_words(shape: Shape) -> str:
    """` from 1 to 5`, ` above 0 and at most 1`, or nothing."""
    member = shape.member
    if member.at_most in _MACHINE_LIMITS:
        return "" if member.at_least is None else f" of at least {member.at_least}"
    if member.at_least is not None and member.at_most is not None:
        return f" from {member.at_least} to {member.at_most}"
    parts = [
        f"{word} {bound}"
        for word, bound in (
            ("above", member.above),
            ("of at least", member.at_least),
            ("at most", member.at_most),
            ("below", member.below),
        )
        if bound is not None
    ]
    return f" {' and '.join(parts)}" if parts else ""


def _lengths(shortest: int, longest: int) -> str:
    return (
        f"a string of {shortest} to {longest} characters" if longest else f"a string of at least {shortest} characters"
    )


def _type_of(value: object) -> str:
    kinds = (
        (bool, "a boolean"),
        (int, "a whole number"),
        (float, "a float"),
        (str, "a string"),
        (Mapping, "an object"),
        (list, "a list"),
        (type(None), "null"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "something else")
