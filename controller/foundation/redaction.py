"""Keeping secrets out of messages.

Every text that may hold the value of an environment variable or a credential passes through `redact` before it
reaches a log, a status, an event or an error.
"""

from __future__ import annotations

from collections.abc import Iterable

REDACTED = "[redacted]"
# Shorter values would blank out ordinary words.
_SHORTEST_SECRET = 4


def redact(text: str, secrets: Iterable[str]) -> str:
    """`text` with every occurrence of a secret of at least four characters replaced; longest first, so that a secret
    that contains another is replaced whole. A secret that is part of the marker itself is left out, or replacing would
    never end."""
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=lambda s: (-len(s), s)):
        if secret not in REDACTED:
            text = text.replace(secret, REDACTED)
    return text
