"""Runs inside the engine's container when its Pod is deleted: holds the termination signal back until nothing runs.

Retirement has drained a replica before it is deleted; this is for everything else that deletes a Pod (a node drain, an
eviction, a hand). For a few seconds the engine serves on, because endpoints disappear from routers and nodes only after
the deletion has begun; then the engine's own gauges are read until they are zero twice in a row.

The text of this file is what runs: in the engine's image, by its Python, with the standard library alone, as

    python3 -c TEXT URL SECONDS TERM...

`URL` is the engine's metrics, `SECONDS` the time there is in all. A `TERM` is a series, and what is in flight is the
sum of all: `name` counts and must be printed, `name?` counts where it is printed, `-name?` is taken off likewise, and
of `new|old` the first that is printed counts. What cannot be summed is not idle: the hook then waits as long as it
may, because nobody else knows of the requests that it would cut.
Ends with status 0 whatever it finds: a hook that fails would only be an event that nobody reads.
"""

from __future__ import annotations

import ssl
import sys
import time
import urllib.request
from collections.abc import Callable, Collection

# Endpoints leave routers and nodes within seconds of the deletion.
SETTLE_SECONDS = 5.0
PERIOD_SECONDS = 1.0
READ_SECONDS = 2.0
IDLE_READS = 2


def in_flight(text: str, terms: Collection[str]) -> float | None:
    """The sum of `terms`; None where one that must be there is missing, a value is no number, or the sum cannot be."""
    wanted = {name for term in terms for name in _names(term)}
    sums: dict[str, float] = {}
    for line in text.splitlines():
        name = line.split("{", 1)[0].split(" ", 1)[0]
        if name not in wanted:
            continue
        rest = line.rpartition("}")[2] if "{" in line else line[len(name) :]
        try:
            sums[name] = sums.get(name, 0.0) + float(rest.split()[0])
        except (ValueError, IndexError):
            return None
    total = 0.0
    for term in terms:
        printed = next((sums[name] for name in _names(term) if name in sums), None)
        if printed is not None:
            total += -printed if term.startswith("-") else printed
        elif not term.endswith("?"):
            return None
    return total if total >= 0 else None  # more ended than came, or no number


def _names(term: str) -> list[str]:
    return term.strip("-?").split("|")


def read(url: str, terms: Collection[str]) -> float | None:
    """What is in flight, None where the engine does not say."""
    # Our own container on its own address: there is nobody to be mistaken for, engines sign their certificates
    # themselves, and a proxy of the environment leads elsewhere.
    secure = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())  # noqa: S323, SLF001
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), secure)
    try:
        with opener.open(url, timeout=READ_SECONDS) as answer:
            return in_flight(answer.read().decode("utf-8", "replace"), terms)
    except (OSError, ValueError):
        return None


def wait(
    url: str,
    seconds: float,
    terms: Collection[str],
    *,
    look: Callable[[str, Collection[str]], float | None] = read,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when the engine was idle twice in a row, or after `seconds`; never sooner because it does not say."""
    end = now() + seconds
    idle = 0
    sleep(min(SETTLE_SECONDS, seconds))
    while now() < end:
        idle = idle + 1 if look(url, terms) == 0.0 else 0
        if idle >= IDLE_READS:
            return
        sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    wait(sys.argv[1], float(sys.argv[2]), frozenset(sys.argv[3:]))
