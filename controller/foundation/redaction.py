"""Keeping secrets out of messages.

Every text that may hold the value of an environment variable or a credential passes through `redact` before it
reaches a log, a status, an event or an error, and before it is shortened: half a secret is no longer recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

REDACTED = "[redacted]"
# Shorter values would blank out ordinary words.
_SHORTEST_SECRET = 4


def redact(text: str, secrets: Iterable[str]) -> str:
    """`text` with every occurrence of a secret of at least four characters replaced by the marker.

    Also found are a secret as JSON or Python's `repr` escapes it, and secrets that overlap each other or themselves:
    they become one marker. A marker that is already there is left alone, so redacting twice changes nothing (unless a
    secret holds the marker's own brackets).
    """
    hidden = sorted(span for spelling in _spellings(secrets) for span in _occurrences(text, spelling))
    pieces: list[str] = []
    position = 0
    for start, end in hidden:
        if end <= position:
            continue
        if start > position or not pieces:
            pieces += (text[position:start], REDACTED)
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _spellings(secrets: Iterable[str]) -> set[str]:
    plain = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
    in_json = {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for secret in plain for ascii_only in (True, False)}
    return plain | in_json | {repr(secret)[1:-1] for secret in plain}


def _occurrences(text: str, spelling: str) -> list[tuple[int, int]]:
    """The spans of one spelling, overlapping ones too; those inside a marker are left out."""
    spans: list[tuple[int, int]] = []
    start = text.find(spelling)
    while start >= 0:
        end = start + len(spelling)
        around = text[max(0, end - len(REDACTED)) : start + len(REDACTED)]
        if REDACTED not in around:
            spans.append((start, end))
        start = text.find(spelling, start + 1)
    return spans
