"""The part of CEL that schema rules are written in: a parser that turns a rule into a closure.

Covered: literals, lists and maps, members and indices, `has()`, arithmetic, comparison, `&&`, `||`, `!`, `?:`, `in`,
the macros `all`, `exists`, `exists_one`, `map`, `filter`, conversions, `size`, `type`, the string functions of the
Kubernetes libraries, `sum`/`min`/`max`/`indexOf`, and quantities. As in CEL, `&&` and `||` forgive an error on one side
where the other side decides, and 1 == 1.0. Not covered (CelUnsupported): time, extraction by patterns, URLs, IP
addresses. A missing member is CelError, not null: rules ask with `has()`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from controller.embedded.apiserver.cel_functions import FUNCTIONS, METHODS, CelError, Misfit, type_of
from controller.embedded.apiserver.cel_operators import Env, Node, boolean, loop, number, operation


class CelUnsupported(ValueError):
    """A rule outside the covered part of the language; the message says what was not understood."""


class CelSyntaxError(CelUnsupported):
    """Text that is no expression at all."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule."""

    evaluate: Node
    uses_old: bool
    paths: frozenset[tuple[str, ...]] = frozenset()  # members that it names below `self` and `oldSelf`


_LEXER = re.compile(
    r"""\s*(?:
        (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
      | (?P<hex>0x[0-9a-fA-F]+)u?
      | (?P<int>\d+)u?
      | (?P<string>r?(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<punct>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    )""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "`": "`"}
_LITERALS = {"true": True, "false": False, "null": None}
# Names of fields that are keywords or no identifiers are written escaped in rules.
_FIELD_ESCAPES = {"__dot__": ".", "__dash__": "-", "__slash__": "/", "__underscores__": "__"}
_MACROS = frozenset(("all", "exists", "exists_one", "map", "filter"))
_TYPES = frozenset(("int", "double", "string", "bool", "list", "map", "null_type", "uint", "bytes"))
_BINARY = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))


@lru_cache(maxsize=2048)
def compile_rule(text: str) -> Rule:
    """Compile a rule or a message expression. Raises CelUnsupported."""
    parser = _Parser(text)
    node = parser.expression()
    parser.expect_end()
    return Rule(node, "oldSelf" in parser.names, frozenset(parser.paths()))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self.names: set[str] = set()
        position = 0
        while text[position:].strip():
            match = _LEXER.match(text, position)
            if match is None or match.lastgroup is None:
                raise CelSyntaxError(f"cannot read {text[position:].strip()[:20]!r}")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self._at = 0

    def paths(self) -> Iterator[tuple[str, ...]]:
        """The chains of members that begin at `self` or `oldSelf`, as far as they are no method calls."""
        texts = [text for _, text in self._tokens]
        for start, (kind, text) in enumerate(self._tokens):
            if kind != "name" or text not in ("self", "oldSelf") or texts[start - 1 : start] == ["."]:
                continue
            chain = []
            at = start + 1
            while texts[at : at + 1] == ["."] and at + 1 < len(texts) and texts[at + 2 : at + 3] != ["("]:
                chain.append(_unescape(texts[at + 1]))
                at += 2
            if chain:
                yield tuple(chain)

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            raise CelSyntaxError(f"unexpected {self._tokens[self._at][1]!r}")

    def expression(self) -> Node:
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        then = self._binary(0)
        self._need(":")
        otherwise = self.expression()
        return lambda env: then(env) if boolean(condition(env)) else otherwise(env)

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, text: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] in (("punct", text), ("name", text)):
            self._at += 1
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise CelSyntaxError(f"{text!r} expected before {self._peek()!r}")

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while True:
            name = next((text for text in _BINARY[level] if self._take(text)), None)
            if name is None:
                return left
            left = operation(name, left, self._binary(level + 1))

    def _unary(self) -> Node:
        if self._take("!"):
            inner = self._unary()
            return lambda env: not boolean(inner(env))
        if self._take("-"):
            inner = self._unary()
            return lambda env: -number(inner(env))
        return self._postfix(self._primary())

    def _primary(self) -> Node:
        if self._at >= len(self._tokens):
            raise CelSyntaxError("the rule ends early")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind in ("int", "hex", "float"):
            number = float(text) if kind == "float" else int(text, 0 if kind == "hex" else 10)
            return lambda env: number
        if kind == "string":
            value = _string(text)
            return lambda env: value
        if text == "(":
            inner = self.expression()
            self._need(")")
            return inner
        if text == "[":
            items = self._arguments("]")
            return lambda env: [item(env) for item in items]
        if text == "{":
            return self._map_literal()
        if kind == "name":
            return self._name(text)
        raise CelSyntaxError(f"unexpected {text!r}")

    def _map_literal(self) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not self._take("}"):
            key = self.expression()
            self._need(":")
            pairs.append((key, self.expression()))
            if not self._take(","):
                self._need("}")
                break
        return lambda env: {key(env): value(env) for key, value in pairs}

    def _name(self, name: str) -> Node:
        if name in _LITERALS:
            literal = _LITERALS[name]
            return lambda env: literal
        if name == "has" and self._peek() == "(":
            return self._has()
        if self._take("("):
            arguments = self._arguments(")")
            function = FUNCTIONS.get(name)
            if function is None:
                raise CelUnsupported(f"the function {name}()")
            return lambda env: function(*(argument(env) for argument in arguments))
        if name in _TYPES:
            return lambda env: name
        self.names.add(name)
        return lambda env: _variable(env, name)

    def _has(self) -> Node:
        self._need("(")
        start = self._at
        depth = 0
        while self._peek() and not (depth == 0 and self._peek() == ")"):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(self._peek(), 0)
            self._at += 1
        end = self._at
        if end - start < 3 or self._tokens[end - 2] != ("punct", "."):
            raise CelUnsupported("has() takes a member such as self.name")
        member = _unescape(self._tokens[end - 1][1])
        tail, self._tokens = self._tokens[end - 2 :], self._tokens[: end - 2]
        self._at = start
        holder = self.expression()
        self._tokens += tail
        self._at = end
        self._need(")")
        return lambda env: _holds(holder(env), member)

    def _postfix(self, node: Node) -> Node:
        while True:
            if self._take("["):
                index = self.expression()
                self._need("]")
                node = _indexed(node, index)
            elif self._take("."):
                node = self._member(node)
            else:
                return node

    def _member(self, holder: Node) -> Node:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind != "name":
            raise CelSyntaxError("a name is expected after '.'")
        self._at += 1
        if not self._take("("):
            name = _unescape(text)
            return lambda env: _select(holder(env), name)
        if text in _MACROS:
            return self._macro(holder, text)
        arguments = self._arguments(")")
        method = METHODS.get(text)
        if method is None:
            raise CelUnsupported(f"the function .{text}()")
        return lambda env: method(holder(env), *(argument(env) for argument in arguments))

    def _macro(self, holder: Node, macro: str) -> Node:
        kind, variable = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind != "name":
            raise CelUnsupported(f"{macro}() takes a variable first")
        self._at += 1
        self._need(",")
        if self._peek() and self._tokens[self._at + 1 : self._at + 2] == [("punct", ",")]:
            raise CelUnsupported(f"{macro}() with two variables")
        body = self.expression()
        self._need(")")
        return loop(macro, holder, variable, body)

    def _arguments(self, end: str) -> list[Node]:
        found: list[Node] = []
        while not self._take(end):
            found.append(self.expression())
            if not self._take(","):
                self._need(end)
                break
        return found


def _string(text: str) -> str:
    if text.startswith("r"):
        return text[2:-1]

    def replace(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU":
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            raise CelUnsupported(f"the escape \\{code}")
        return _ESCAPES[code]

    return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", replace, text[1:-1])


def _unescape(name: str) -> str:
    for escaped, plain in _FIELD_ESCAPES.items():
        name = name.replace(escaped, plain)
    if len(name) > 4 and name.startswith("__") and name.endswith("__"):
        return name[2:-2]
    return name


def _variable(env: Env, name: str) -> Any:
    if name not in env:
        raise CelError(f"undeclared reference to '{name}'")
    return _fitting(env[name])


def _holds(holder: Any, member: str) -> bool:
    if not isinstance(holder, dict):
        raise CelError(f"no such overload: has() on {type_of(holder)}")
    _fitting(holder.get(member))
    return member in holder


def _fitting(value: Any) -> Any:
    if isinstance(value, Misfit):
        raise CelError(value.problem)
    return value


def _select(holder: Any, name: str) -> Any:
    if not isinstance(holder, dict):
        raise CelError(f"no such overload: {type_of(holder)} has no members")
    if name not in holder:
        raise CelError(f"no such key: {name}")
    return _fitting(holder[name])


def _indexed(holder: Node, index: Node) -> Node:
    def evaluate(env: Env) -> Any:
        value, at = holder(env), index(env)
        if isinstance(value, dict):
            return _select(value, at)
        if not isinstance(value, list) or isinstance(at, bool) or not isinstance(at, int):
            raise CelError(f"no such overload: index of {type_of(value)}")
        if not 0 <= at < len(value):
            raise CelError(f"index out of bounds: {at}")
        return _fitting(value[at])

    return evaluate
