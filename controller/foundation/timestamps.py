"""RFC 3339 timestamps as Kubernetes writes them.

`metav1.Time` has whole seconds, `metav1.MicroTime` exactly six fraction digits (the API server answers 400 to any other
number, and `datetime.isoformat` drops a zero fraction).
"""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(seconds: float) -> str:
    """`2026-11-29T15:49:15Z`: a Kubernetes Time, rounded down to whole seconds."""
    return datetime.fromtimestamp(int(seconds // 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """`2026-11-29T15:49:15.250000Z`: a Kubernetes MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Seconds since the Unix epoch of a Time or MicroTime, any offset. Raises ValueError with the text in it."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"not an RFC 3339 time: {text!r}") from None
    if moment.tzinfo is None:
        raise ValueError(f"an RFC 3339 time needs an offset or Z: {text!r}")
    return moment.timestamp()
