"""The grammar of one sample line, complete and slow: what the scanner falls back to.

Accepts Prometheus text 0.0.4 and 1.0.0 and OpenMetrics: labels in any order, escapes of backslash, quote and newline in
label values, quoted UTF-8 names (`{"name",label="value"}`), blanks and tabs between tokens, a trailing comma,
timestamps and exemplars (dropped). Everything else is a ValueError with a short sentence; nothing is guessed.
"""

from __future__ import annotations

import re

Labels = tuple[tuple[str, str], ...]

_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED_NAME = re.compile(rb'[ \t]*"((?:[^"\\]++|\\.)*+)"[ \t]*(?:,|(?=\}))')
_LABEL = re.compile(
    rb'[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|"((?:[^"\\]++|\\.)*+)")[ \t]*=[ \t]*"((?:[^"\\]++|\\.)*+)"[ \t]*(?:,|(?=\}))'
)
_PLAIN_BLOCK = re.compile(r'(?:[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*+"(?:,|(?=\})))*+\}')
_PLAIN_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"')
_OPEN = re.compile(rb"[ \t]*\{")
_CLOSE = re.compile(rb"[ \t]*\}")
# value, optional timestamp, optional exemplar
_REST = re.compile(rb"[ \t]*([^ \t#]+)(?:[ \t]+([^ \t#]+))?(?:[ \t]*#.*)?")
_ESCAPE = re.compile(rb'\\([\\n"])')
_UNESCAPED = {b"\\": b"\\", b"n": b"\n", b'"': b'"'}


def parse_number(text: bytes) -> float:
    """A value or timestamp: any float that C or Go would print, `+Inf`, `-Inf`, `NaN` in any case and sign."""
    # Python reads 1_000 as a number; nobody prints one, and a parser that accepts it reads corruption as data.
    if b"_" in text:
        raise ValueError("a number with an underscore")
    return float(text)


def parse_plain_labels(block: bytes) -> Labels | None:
    """The labels of a whole block up to its closing brace, if it is written as every client library writes it: no
    blanks, no escapes, no quoted names. None otherwise: `parse_labels` decides."""
    text = block.decode()
    if _PLAIN_BLOCK.fullmatch(text) is None:
        return None
    labels: Labels = tuple(_PLAIN_LABEL.findall(text))
    return labels if len(dict(labels)) == len(labels) else None


def parse_labels(block: bytes, start: int = 0) -> tuple[str | None, Labels, int]:
    """(quoted name if any, labels, offset after the closing brace) of what follows an opening brace at `start`."""
    position = start
    name = None
    labels: list[tuple[str, str]] = []
    if quoted := _QUOTED_NAME.match(block, position):
        name = _text(quoted[1])
        position = quoted.end()
    while label := _LABEL.match(block, position):
        plain, escaped, value = label.groups()
        labels.append((_text(escaped) if plain is None else plain.decode(), _text(value)))
        position = label.end()
    close = _CLOSE.match(block, position)
    if close is None:
        raise ValueError("labels that do not end")
    if len({label_name for label_name, _ in labels}) != len(labels):
        raise ValueError("a label twice")
    return name, tuple(labels), close.end()


def parse_series(line: bytes) -> tuple[str, Labels, int]:
    """(name, labels, offset after them) of a sample line."""
    name = leading_name(line)
    labels: Labels = ()
    position = len(name or "")
    if brace := _OPEN.match(line, position):
        quoted, labels, position = parse_labels(line, brace.end())
        if quoted is not None and name is not None:
            raise ValueError("a name before and inside the braces")
        name = quoted if name is None else name
    elif line[position : position + 1] not in (b" ", b"\t"):
        raise ValueError("a name without a value")
    if name is None:
        raise ValueError("no name")
    return name, labels, position


def parse_line(line: bytes) -> tuple[str, Labels, float]:
    """(name, labels, value) of a sample line without newline and leading blanks. Raises ValueError with a sentence."""
    line = line.rstrip(b" \t\r")
    name, labels, position = parse_series(line)
    rest = _REST.fullmatch(line, position)
    if rest is None:
        raise ValueError("no value, or something after it")
    value, timestamp = rest.groups()
    if timestamp is not None:
        parse_number(timestamp)
    return name, labels, parse_number(value)


def leading_name(line: bytes) -> str | None:
    """The unquoted name that a broken line starts with."""
    start = _NAME.match(line)
    return start[0].decode() if start else None


def _text(value: bytes) -> str:
    if b"\\" in value:
        value = _ESCAPE.sub(lambda escape: _UNESCAPED[escape[1]], value)
    return value.decode()  # strict: two values that differ only in bytes we cannot read must not become one
