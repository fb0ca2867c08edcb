"""Operators and macros of CEL, as closures over an environment. All raise CelError for values that do not fit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from controller.embedded.apiserver.cel_functions import CelError, equal, type_of

Env = Mapping[str, Any]
Node = Callable[[Env], Any]
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def boolean(value: Any) -> bool:
    """The value as a condition."""
    if not isinstance(value, bool):
        raise CelError(f"no such overload: a condition of type {type_of(value)}")
    return value


def number(value: Any) -> Any:
    """The value as a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelError(f"no such overload: arithmetic on {type_of(value)}")
    return value


def operation(name: str, left: Node, right: Node) -> Node:
    """A binary operation on two closures."""
    if name in ("&&", "||"):
        return _logic(left, right, decisive=name == "||")
    if name == "in":
        return lambda env: _contains(right(env), left(env))
    if name in ("==", "!="):
        return lambda env: equal(left(env), right(env)) is (name == "==")
    if name in _COMPARE:
        return lambda env: _compare(name, left(env), right(env))
    return lambda env: _arithmetic(name, left(env), right(env))


def _logic(left: Node, right: Node, *, decisive: bool) -> Node:
    def evaluate(env: Env) -> bool:
        try:
            if boolean(left(env)) is decisive:
                return decisive
        except CelError:
            if boolean(right(env)) is decisive:  # the other side decides: the error does not matter
                return decisive
            raise
        return boolean(right(env))

    return evaluate


def _contains(container: Any, item: Any) -> bool:
    if not isinstance(container, dict | list):
        raise CelError(f"no such overload: in {type_of(container)}")
    return any(equal(item, found) for found in container)


def _compare(name: str, left: Any, right: Any) -> bool:
    plain = type(left), type(right)
    if plain not in ((str, str), (bool, bool)) and not all(kind in (int, float) for kind in plain):
        raise CelError(f"no such overload: {type_of(left)} {name} {type_of(right)}")
    return bool(_COMPARE[name](left, right))


def _arithmetic(name: str, left: Any, right: Any) -> Any:
    if name == "+" and type(left) is type(right) and isinstance(left, str | list):
        return left + right
    if type(number(left)) is not type(number(right)):
        raise CelError(f"no such overload: {type_of(left)} {name} {type_of(right)}")
    if name in "/%" and right == 0 and isinstance(left, int):
        raise CelError("division by zero" if name == "/" else "modulus by zero")
    if name == "/":
        if isinstance(left, int):
            quotient = abs(left) // abs(right)  # towards zero, unlike Python
            return quotient if (left < 0) is (right < 0) else -quotient
        return left / right if right else float("inf") * (left or 1)
    if name == "%":
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    return {"+": left + right, "-": left - right, "*": left * right}[name]


def loop(macro: str, holder: Node, variable: str, body: Node) -> Node:
    """A macro over the items of a list or the keys of a map."""

    def items(env: Env) -> list[Any]:
        value = holder(env)
        if not isinstance(value, dict | list):
            raise CelError(f"no such overload: {macro}() over {type_of(value)}")
        return list(value)

    def bound(env: Env, item: Any) -> Any:
        return body({**env, variable: item})

    def quantified(env: Env, *, decisive: bool) -> bool:
        failure: CelError | None = None
        for item in items(env):
            try:
                if boolean(bound(env, item)) is decisive:
                    return decisive
            except CelError as error:
                failure = error
        if failure is not None:
            raise failure
        return not decisive

    if macro == "all":
        return lambda env: quantified(env, decisive=False)
    if macro == "exists":
        return lambda env: quantified(env, decisive=True)
    if macro == "exists_one":
        return lambda env: sum(boolean(bound(env, item)) for item in items(env)) == 1
    if macro == "filter":
        return lambda env: [item for item in items(env) if boolean(bound(env, item))]
    return lambda env: [bound(env, item) for item in items(env)]
