"""RFC 3339 timestamps as Kubernetes writes them.

`metav1.Time` has whole seconds, `metav1.MicroTime` exactly six fraction digits (the API server answers 400 to any other
number, and `datetime.isoformat` drops a zero fraction).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from controller.foundation.quantity import describe

# `datetime.fromisoformat` alone takes all of ISO 8601: week dates, basic form, a comma, offsets with seconds.
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3])(?::[0-9]{2}){2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def format_time(seconds: float) -> str:
    """`2026-11-29T15:49:15Z`: a Kubernetes Time, rounded down to whole seconds."""
    return _utc(datetime.fromtimestamp(int(seconds // 1), UTC), "seconds")


def format_micro_time(seconds: float) -> str:
    """`2026-11-29T15:49:15.250000Z`: a Kubernetes MicroTime."""
    return _utc(datetime.fromtimestamp(seconds, UTC), "microseconds")


def parse_time(text: str) -> float:
    """Seconds since the Unix epoch of a Time or MicroTime, any offset; digits beyond microseconds are cut off.

    Raises ValueError with the text in it.
    """
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f'not an RFC 3339 time such as "2026-11-29T15:49:15Z": {describe(text)}')
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except ValueError as error:
        raise ValueError(f"not a time that exists ({error}): {describe(text)}") from None


def _utc(moment: datetime, precision: str) -> str:
    # `strftime` leaves years before 1000 unpadded on Linux; Go's zero time has the year 0001
    return moment.isoformat(timespec=precision).removesuffix("+00:00") + "Z"
