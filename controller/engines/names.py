"""Which series are wanted: families, their spellings and suffixes, and one compiled pattern that finds their lines.

A *family* is declared once with all its names, newest first. A *printed name* is what stands at the start of a line:
prefix, name, suffix (`vllm:` `time_to_first_token_seconds` `_bucket`). `:` and `_` after the prefix are both accepted,
because real servers and adapters emit both (client_python#1177, opentelemetry-collector-contrib#14135).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a family is, by our declaration: the TYPE line of an exposition is not trusted (or there)."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


# A counter is exposed with `_total`; some simulators and older builds leave it out. `_created` is never wanted.
SUFFIXES: dict[Kind, tuple[str, ...]] = {
    Kind.GAUGE: ("",),
    Kind.COUNTER: ("_total", ""),
    Kind.HISTOGRAM: ("_bucket", "_sum", "_count"),
}


@dataclass(frozen=True, slots=True)
class Family:
    """One quantity and the names it had, newest first. `prefixes` replaces the profile's where a family has its own."""

    kind: Kind
    names: tuple[str, ...]
    prefixes: tuple[str, ...] | None = None

    def stems(self, prefixes: tuple[str, ...]) -> Iterator[str]:
        """Prefix + name, in the order of preference: a newer name in any spelling before an older one."""
        for name in self.names:
            for prefix in prefixes if self.prefixes is None else self.prefixes:
                yield prefix + name


def gauge(*names: str) -> Family:
    """A gauge family."""
    return Family(Kind.GAUGE, names)


def counter(*names: str) -> Family:
    """A counter family; names without `_total`."""
    return Family(Kind.COUNTER, names)


def histogram(*names: str) -> Family:
    """A histogram family; names without suffix."""
    return Family(Kind.HISTOGRAM, names)


@dataclass(frozen=True, slots=True)
class PrintedName:
    """A wanted name as it is printed, with the family it normalises to and its suffix."""

    printed: str
    family: str
    suffix: str


def printed_names(families: Iterable[Family], prefixes: tuple[str, ...]) -> Iterator[PrintedName]:
    """Every name under which the families may be printed."""
    for family in families:
        for stem in family.stems(prefixes):
            for suffix in SUFFIXES[family.kind]:
                yield PrintedName(stem + suffix, stem.replace(":", "_"), suffix)


_Trie = dict[str, "_Trie"]
_END = ""


def line_pattern(names: Iterable[str]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Two patterns with one group, the line of a wanted series: one for lines after a newline, one for the first line.

    The alternatives form a trie, so an unwanted line costs one step per character it shares with a wanted name and the
    whole body is walked in C. A line that starts with `{` may hold a quoted name and is always caught.
    """
    root: _Trie = {}
    for name in names:
        node = root
        for character in name:
            node = node.setdefault(character, {})
        node[_END] = {}
    # A longer name must not be taken for a shorter one: `waiting_by_reason` is not `waiting`.
    wanted = rf"[ \t]*((?:{_alternatives(root)}(?![a-zA-Z0-9_:])|\{{)[^\n]*)" if root else r"[ \t]*(\{[^\n]*)"
    return re.compile(rf"\n{wanted}".encode()), re.compile(wanted.encode())


def _alternatives(node: _Trie) -> str:
    branches = [re.escape(character) + _alternatives(child) for character, child in sorted(node.items()) if character]
    if not branches:
        return ""
    text = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return f"(?:{text})?" if _END in node else text
