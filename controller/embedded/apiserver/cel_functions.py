"""Functions and methods of CEL as far as `cel` covers them, and its notion of equality."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from controller.foundation import parse_quantity


class CelError(Exception):
    """A rule that cannot be evaluated on this object: a missing member, a type that does not fit."""


class _Quantity(Decimal):
    """A parsed quantity; a type of its own, so that it is never mistaken for a number."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value that does not fit its schema's type; whatever touches it fails with this problem."""

    problem: str


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """CEL's optional: the `oldSelf` of a rule with `optionalOldSelf`."""

    present: bool
    value: Any


def type_of(value: Any) -> str:
    """The CEL type of a value."""
    if isinstance(value, bool):
        return "bool"
    names = {int: "int", float: "double", str: "string", list: "list", dict: "map", type(None): "null_type"}
    return names.get(type(value), "quantity")


def equal(left: Any, right: Any) -> bool:
    """CEL equality: numbers by value whatever their type, everything else by type and value."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    return bool(left == right)


def _size(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise CelError(f"no such overload: size({type_of(value)})")
    return len(value)


def _int(value: Any) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise CelError(f"no such overload: int({type_of(value)})")
        return int(value)
    except (ValueError, OverflowError):
        raise CelError(f"type conversion error from '{type_of(value)}' to 'int'") from None


def _double(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise CelError(f"type conversion error from '{type_of(value)}' to 'double'") from None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    raise CelError(f"no such overload: string({type_of(value)})")


def _quantity(value: Any) -> _Quantity:
    try:
        return _Quantity(parse_quantity(value))
    except ValueError as error:
        raise CelError(f"quantity {error}") from None


def _is_quantity(value: Any) -> bool:
    try:
        parse_quantity(value)
    except ValueError:
        return False
    return isinstance(value, str)


def _boolean_of(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise CelError(f"type conversion error from '{type_of(value)}' to 'bool'")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": _size,
    "int": _int,
    "uint": _int,
    "double": _double,
    "string": _text,
    "bool": _boolean_of,
    "type": type_of,
    "dyn": lambda value: value,
    "quantity": _quantity,
    "isQuantity": _is_quantity,
}


def _on_text(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(value: Any, *arguments: Any) -> Any:
        if not isinstance(value, str):
            raise CelError(f"no such overload: a text function on {type_of(value)}")
        return function(value, *arguments)

    return method


def _on_list(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(value: Any, *arguments: Any) -> Any:
        if not isinstance(value, list):
            raise CelError(f"no such overload: a list function on {type_of(value)}")
        try:
            return function(value, *arguments)
        except (TypeError, ValueError):
            raise CelError("no such overload: the items do not fit the function") from None

    return method


def _on_quantity(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(value: Any, *arguments: Any) -> Any:
        if not isinstance(value, _Quantity) or not all(isinstance(item, _Quantity | int) for item in arguments):
            raise CelError(f"no such overload: a quantity function on {type_of(value)}")
        return function(value, *arguments)

    return method


def _matches(value: str, pattern: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error as error:
        raise CelError(f"bad pattern: {error}") from None


def _index_of(value: Any, item: Any) -> int:
    if isinstance(value, str):
        return value.find(item)
    if isinstance(value, list):
        return next((at for at, found in enumerate(value) if equal(found, item)), -1)
    raise CelError(f"no such overload: indexOf() on {type_of(value)}")


def _optional(value: Any) -> OptionalValue:
    if not isinstance(value, OptionalValue):
        raise CelError(f"no such overload: an optional function on {type_of(value)}")
    return value


def _value(optional: Any) -> Any:
    if not _optional(optional).present:
        raise CelError("optional.none() dereference")
    return optional.value


METHODS: dict[str, Callable[..., Any]] = {
    "hasValue": lambda optional: _optional(optional).present,
    "value": _value,
    "orValue": lambda optional, other: optional.value if _optional(optional).present else other,
    "size": _size,
    "indexOf": _index_of,
    "startsWith": _on_text(str.startswith),
    "endsWith": _on_text(str.endswith),
    "contains": _on_text(lambda value, part: part in value),
    "matches": _on_text(_matches),
    "lowerAscii": _on_text(str.lower),
    "upperAscii": _on_text(str.upper),
    "trim": _on_text(str.strip),
    "split": _on_text(lambda value, separator: value.split(separator) if separator else list(value)),
    "replace": _on_text(str.replace),
    "substring": _on_text(lambda value, start, end=None: value[start:end]),
    "join": _on_list(lambda value, separator="": separator.join(value)),
    "sum": _on_list(sum),
    "min": _on_list(min),
    "max": _on_list(max),
    "isSorted": _on_list(lambda value: all(a <= b for a, b in pairwise(value))),
    "compareTo": _on_quantity(lambda left, right: (left > right) - (left < right)),
    "isLessThan": _on_quantity(lambda left, right: left < right),
    "isGreaterThan": _on_quantity(lambda left, right: left > right),
    "sign": _on_quantity(lambda value: (value > 0) - (value < 0)),
    "add": _on_quantity(lambda left, right: _Quantity(left + right)),
    "sub": _on_quantity(lambda left, right: _Quantity(left - right)),
    "isInteger": _on_quantity(lambda value: value == value.to_integral_value()),
    "asInteger": _on_quantity(int),
    "asApproximateFloat": _on_quantity(float),
}
