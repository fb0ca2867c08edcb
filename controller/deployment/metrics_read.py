"""Runs inside an engine's container, where its port cannot be reached from outside: prints the engine's own metrics.

The text of this file is what runs: in the engine's image, by its Python, with the standard library alone, as

    python3 -c TEXT SECONDS BYTES URL...

The first URL that answers counts; each has `SECONDS`. Ends with status 0 and the body, or with status 1 and one line
that says why: no URL answers, or the body has more than `BYTES`.
"""

from __future__ import annotations

import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence


def fetch(url: str, seconds: float, most: int) -> bytes:
    """The body behind `url`, at most one byte more than `most`. Raises OSError, ValueError."""
    # Our own container at its own address: there is nobody to be mistaken for, engines sign their certificates
    # themselves, and a proxy of the environment leads elsewhere.
    secure = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())  # noqa: S323, SLF001
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), secure)
    with opener.open(url, timeout=seconds) as answer:
        body: bytes = answer.read(most + 1)
        return body


def main(arguments: Sequence[str]) -> str:
    """Print the body; why that was not possible, empty where it was."""
    seconds, most = float(arguments[0]), int(arguments[1])
    why = "no URL"
    for url in arguments[2:]:
        try:
            body = fetch(url, seconds, most)
        except urllib.error.HTTPError as refusal:
            return f"{url}: HTTP {refusal.code}"
        except (OSError, ValueError) as failure:
            why = f"{url}: {failure}"
            continue
        if len(body) > most:
            return f"{url}: more than {most} bytes"
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return ""
    return why


if __name__ == "__main__":
    failed = main(sys.argv[1:])
    if failed:
        sys.exit(failed)
