"""JSON that is nested deeper than a decoder goes, and where a value ends, by its brackets alone.

An API server stores ten thousand levels; decoders stop at Python's limit of about a thousand with a RecursionError. One
object of some user must not end the process that watches it, nor disappear from its cache: it is decoded without what
lies deeper than anything that is read. The scan is linear and needs no recursion; it is slow (some 20 MB/s), and
therefore only used for what the decoders refuse.
"""

from __future__ import annotations

import re

# Deeper than any field of any projection, and far from the decoders' limit.
MAX_DEPTH = 100

# A lone quote is a string that goes on beyond the end of the data.
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{\]}"]', re.DOTALL)
_OPENING = (ord("["), ord("{"))
_QUOTE = ord('"')


def without_depths(data: bytes | bytearray, max_depth: int = MAX_DEPTH) -> bytes | None:
    """The same JSON with `null` for every value below `max_depth` levels; None when its brackets do not match, which
    is how an incomplete document shows."""
    pieces: list[bytes] = []
    depth = kept = 0
    for token in _TOKENS.finditer(data):
        start, end = token.span()
        character = data[start]
        if character == _QUOTE:
            if end == start + 1:
                return None
        elif character in _OPENING:
            depth += 1
            if depth == max_depth + 1:
                pieces += (bytes(data[kept:start]), b"null")
        else:
            if depth == max_depth + 1:
                kept = end
            depth -= 1
            if depth < 0:
                return None
    if depth:
        return None
    return b"".join((*pieces, bytes(data[kept:])))


class ValueEnd:
    """Looks for the end of the object or array that begins somewhere in a buffer that grows."""

    def __init__(self) -> None:
        self._seen = 0  # bytes of the value that have been looked at
        self._depth = 0

    def find(self, data: bytes | bytearray, start: int) -> int | None:
        """The length of the value that begins at `start`, or None when its end has not arrived yet; then the next call
        goes on where this one stopped."""
        for token in _TOKENS.finditer(data, start + self._seen):
            begin, end = token.span()
            character = data[begin]
            if character == _QUOTE:
                if end == begin + 1:
                    self._seen = begin - start
                    return None
            elif character in _OPENING:
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return end - start
            self._seen = end - start
        return None
