"""Reading one untrusted YAML or JSON document into plain values, within bounds.

A catalog comes from a ConfigMap that anyone in the namespace may write, so reading must not be a way to stop the
controller: the size, the depth, the number of nodes and the length of a scalar are bounded before anything is built,
and YAML anchors, aliases, tags, merge keys and repeated keys are refused. The bounds are checked on the event stream
of the C parser, one event at a time, so a document of a million open brackets ends after a few dozen of them (plain
safe loading of hostile documents was measured at 2.6 s and 122 MiB).

Scalars follow the YAML 1.2 core schema: `yes`, `010` and `1:30` are not booleans, octals or minutes. Numbers that are
not finite become floats; refusing them is the validator's business, which can name the field.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

import yaml

MAX_BYTES: Final = 1024 * 1024
# profiles[0].points[0].ttftMilliseconds.p50 is six levels; anything deeper is not a catalog.
MAX_DEPTH: Final = 16
# The densest honest document of 1 MiB (a point is at least 150 bytes and 20 scalars) stays below 170,000 nodes.
MAX_NODES: Final = 200_000
# Notes are the longest honest scalar.
MAX_SCALAR: Final = 16_384
_LONGEST_NUMBER = 64
_NODES_BETWEEN_LOOKS: Final = 8192

_INT: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, object]] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    ".inf": float("inf"),
    ".Inf": float("inf"),
    ".INF": float("inf"),
    "+.inf": float("inf"),
    "-.inf": float("-inf"),
    "-.Inf": float("-inf"),
    ".nan": float("nan"),
    ".NaN": float("nan"),
    ".NAN": float("nan"),
}
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentError(ValueError):
    """The text is no acceptable document. The message says where and what to change."""


class Bounds(NamedTuple):
    """What a document may hold. The defaults are for a catalog that anyone in a namespace may have written; they are
    widened only for files that a person names on a command line."""

    max_bytes: int = MAX_BYTES
    max_depth: int = MAX_DEPTH
    max_nodes: int = MAX_NODES
    # A catalog has names and numbers of several digits; half a million zeros need not be read to the limit of nodes.
    min_node_bytes: int = 3
    aliases: bool = False
    max_scalar: int = MAX_SCALAR


CATALOG_BOUNDS: Final = Bounds()
# Manifests nest deeper (schemas, managed fields), hold whole files as one scalar (ConfigMaps), and what writes them may
# write a repeated part as an alias.
MANIFEST_BOUNDS: Final = Bounds(
    max_bytes=8 * MAX_BYTES, max_depth=64, min_node_bytes=0, aliases=True, max_scalar=8 * MAX_BYTES
)


def read_document(text: str | bytes, bounds: Bounds = CATALOG_BOUNDS) -> object:
    """The plain value (dict, list, str, int, float, bool, None) of the one document in `text`. Raises DocumentError."""
    decoded = _decoded(text, bounds)
    if decoded.lstrip()[:1] == "{":
        try:
            return _read_json(decoded, bounds)
        except _NotJson:
            pass  # a YAML flow mapping starts with a brace too
    values = _read_yaml(decoded, bounds, most=1)
    if not values:
        raise DocumentError("the document is empty")
    return values[0]


def read_documents(text: str | bytes, bounds: Bounds = MANIFEST_BOUNDS) -> list[object]:
    """The plain values of all documents in a YAML or JSON text, as a manifest holds them. Raises DocumentError."""
    return _read_yaml(_decoded(text, bounds), bounds, most=bounds.max_nodes)


def _decoded(text: str | bytes, bounds: Bounds) -> str:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > bounds.max_bytes:
        raise DocumentError(f"the document has {len(data):,} bytes; the limit is {bounds.max_bytes:,}: split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(f"byte {error.start} is not UTF-8: save the document as UTF-8 text") from None


class _NotJson(Exception):
    pass


def _read_json(text: str, bounds: Bounds) -> object:
    nodes = 0
    # Entries of lists are not seen while JSON is built. Counted where nobody trusted wrote the text: commas inside its
    # strings count too, but an honest catalog has neither so many.
    if bounds.min_node_bytes and text.count(",") > bounds.max_nodes:
        raise DocumentError(f"the document has more than {bounds.max_nodes:,} nodes: split it")

    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal nodes
        nodes += len(pairs) + 1
        if nodes > bounds.max_nodes:
            raise DocumentError(f"the document has more than {bounds.max_nodes:,} nodes: split it")
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    raise DocumentError(f"key {_show(key)} is given twice in one mapping: keep one")
                seen.add(key)
        return mapping

    try:
        value: object = json.loads(text, object_pairs_hook=build)
    except DocumentError:
        raise
    except RecursionError:
        raise DocumentError(f"the document is nested deeper than {bounds.max_depth} levels") from None
    except ValueError:
        raise _NotJson from None
    if not _within_depth(value, bounds.max_depth):
        raise DocumentError(f"the document is nested deeper than {bounds.max_depth} levels")
    return value


def _within_depth(value: object, depth: int) -> bool:
    level: list[object] = [value]
    while level:
        containers = [v for v in level if isinstance(v, dict | list)]
        if not containers:
            return True
        if depth == 0:
            return False
        depth -= 1
        level = [child for v in containers for child in (v.values() if isinstance(v, dict) else v)]
    return True


def _read_yaml(text: str, bounds: Bounds, most: int) -> list[object]:
    try:
        return _build(yaml.parse(text, Loader=_Loader), bounds, most)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not a YAML document"
        raise DocumentError(f"{where}{problem}") from None


_MISSING: Final = object()


class _Open:
    """A collection that is being read: its value, its pending key (`_MISSING` when a key comes next, or in a list), its
    anchor, and how many nodes there were before it."""

    __slots__ = ("anchor", "before", "key", "value")

    def __init__(self, value: dict[str, object] | list[object], anchor: str | None, before: int) -> None:
        self.value = value
        self.key: object = _MISSING
        self.anchor = anchor
        self.before = before


def _build(events: Any, bounds: Bounds, most: int) -> list[object]:
    """The values of the documents in an event stream, `most` of them. One stack entry per open collection."""
    stack: list[_Open] = []
    roots: list[object] = []
    anchors: dict[str, tuple[object, int]] = {}  # name → value, nodes in it
    nodes = 0
    for event in events:
        kind = type(event)
        size = 1
        value: object
        if kind is yaml.ScalarEvent:
            _check_node(event, bounds)
            if len(event.value) > bounds.max_scalar:
                raise _at(event, f"a scalar has more than {bounds.max_scalar:,} characters")
            value = _resolve(event.value) if event.implicit[0] else event.value
            if event.anchor is not None:
                anchors[event.anchor] = (value, 1)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            _check_node(event, bounds)
            if len(stack) >= bounds.max_depth:
                raise _at(event, f"the document is nested deeper than {bounds.max_depth} levels")
            value = {} if kind is yaml.MappingStartEvent else []
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            closed = stack.pop()
            if closed.anchor is not None:
                anchors[closed.anchor] = (closed.value, nodes - closed.before)
            continue
        elif kind is yaml.AliasEvent:
            if not bounds.aliases:
                raise _at(event, "aliases are not accepted: write the value out")
            if event.anchor not in anchors:
                raise _at(event, f"alias {_show(event.anchor)} refers to nothing that is complete")
            value, size = anchors[event.anchor]
        elif kind is yaml.DocumentStartEvent and len(roots) >= most:
            raise _at(event, "a second document follows: a catalog is exactly one document")
        else:
            continue
        if nodes % _NODES_BETWEEN_LOOKS == 0 and event.start_mark.index < bounds.min_node_bytes * nodes:
            raise _at(event, "this is a list of tiny values and no catalog")
        # What an alias repeats counts each time: whoever walks the value walks it each time.
        nodes += size
        if nodes > bounds.max_nodes:
            raise _at(event, f"the document has more than {bounds.max_nodes:,} nodes: split it")
        if not stack:
            roots.append(value)
        else:
            _place(stack[-1], value, event)
        if kind is not yaml.ScalarEvent and kind is not yaml.AliasEvent:
            stack.append(_Open(value, event.anchor, nodes - 1))  # type: ignore[arg-type]
    return roots


def _place(parent: _Open, value: object, event: Any) -> None:
    if isinstance(parent.value, list):
        parent.value.append(value)
    elif parent.key is _MISSING:
        if not isinstance(event, yaml.ScalarEvent):
            raise _at(event, "a mapping key must be a plain word")
        key = event.value  # keys are field names: never numbers or booleans
        if key in parent.value:
            raise _at(event, f"key {_show(key)} is given twice in one mapping: keep one")
        if key == "<<":
            raise _at(event, "merge keys are not accepted: write the fields out")
        parent.key = key
    else:
        parent.value[parent.key] = value  # type: ignore[index]
        parent.key = _MISSING


def _check_node(event: Any, bounds: Bounds) -> None:
    if event.anchor is not None and not bounds.aliases:
        raise _at(event, "anchors are not accepted: write the value out")
    if event.tag is not None and not (event.tag == "!" and isinstance(event, yaml.ScalarEvent)):
        raise _at(event, f"tag {_show(event.tag)} is not accepted: write a plain or quoted value")


def _resolve(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _LONGEST_NUMBER:
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def _at(event: Any, message: str) -> DocumentError:
    mark = event.start_mark
    return DocumentError(f"line {mark.line + 1}, column {mark.column + 1}: {message}")


def _show(text: str) -> str:
    return repr(text if len(text) <= 64 else f"{text[:64]}…")
