"""The JSONPath of printer columns: members, indices, wildcards and filters.

`.status.conditions[?(@.type=="Ready")].reason`, `.spec.roles[*].name`, `.metadata.labels.app\\.kubernetes\\.io/name`,
`.spec['a b']`. A path yields a list of values; an absent part yields none, and the column is empty then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(
    r"""\.\.(?P<deep>[^.\[]+)
      | \.?\[\?\(\s*@(?P<left>[^=!<>)]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>"[^"]*"|'[^']*'|[^)\s]+)\s*)?\)\]
      | \.?\[\s*'(?P<quoted>[^']*)'\s*\] | \.?\[\s*"(?P<quoted2>[^"]*)"\s*\]
      | \.?\[\s*(?P<index>-?\d+)\s*\]
      | \.?\[\s*(?P<start>-?\d*)\s*:\s*(?P<stop>-?\d*)\s*\]
      | \.?(?P<all>\[\s*\*\s*\]|\*)
      | \.(?P<member>(?:\\.|[^.\[\\])+)
      | (?P<bare>^(?:\\.|[^.\[\\$@])+)
    """,
    re.VERBOSE,
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
Step = Callable[[Any], list[Any]]


class BadPath(ValueError):
    """A JSONPath outside the grammar; the message names the rest that could not be read."""


@lru_cache(maxsize=1024)
def compile_path(path: str) -> tuple[Step, ...]:
    """The steps of a path. Raises BadPath."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        if text[position:] == ".":
            break
        match = _TOKEN.match(text, position)
        if match is None or match.end() == position:
            raise BadPath(f"cannot read {text[position:]!r} in the path {path!r}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def find(value: Any, path: str) -> list[Any]:
    """Every value that the path leads to, in order."""
    found = [value]
    for step in compile_path(path):
        found = [result for item in found for result in step(item)]
    return found


def _step(match: re.Match[str]) -> Step:
    if match["deep"] is not None:
        return lambda value: list(_deep(value, match["deep"]))
    if match["left"] is not None:
        return _filter(match["left"], match["op"], match["right"])
    if match["index"] is not None:
        return _item(int(match["index"]))
    if match["start"] is not None:
        part = slice(*(int(match[name]) if match[name] else None for name in ("start", "stop")))
        return lambda value: value[part] if isinstance(value, list) else []
    if match["all"] is not None:
        return _every
    name = next(match[group] for group in ("quoted", "quoted2", "member", "bare") if match[group] is not None)
    return _member(re.sub(r"\\(.)", r"\1", name))


def _member(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _item(index: int) -> Step:
    return lambda value: [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []


def _every(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _deep(value: Any, name: str) -> list[Any]:
    found = []
    if isinstance(value, dict):
        found += [value[name]] if name in value else []
    for child in _every(value):
        found += _deep(child, name)
    return found


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _filter(left: str, operator: str | None, right: str | None) -> Step:
    path = left.strip()
    steps = compile_path(path) if path else ()

    def keep(item: Any) -> bool:
        found = [item]
        for step in steps:
            found = [result for value in found for result in step(value)]
        if operator is None or right is None:
            return bool(found)
        wanted = _literal(right)
        try:
            return any(_COMPARE[operator](value, wanted) for value in found)
        except TypeError:
            return False

    return lambda value: [item for item in _every(value) if keep(item)]
