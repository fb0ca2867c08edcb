"""Why a body or a scrape gave no reading: one vocabulary for the scanner, the profiles and the scraper.

A refusal is never an answer. "No observation" and "nothing to do" are different things to a scaler, so nothing in this
room turns a refusal into a zero.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why there is no reading. The values appear in status, logs and metric labels; they never change their meaning."""

    # The request
    UNREACHABLE = "Unreachable"  # no connection: refused, no route, host down
    TIMEOUT = "Timeout"  # the target's own time was up
    DEADLINE = "Deadline"  # the whole scrape's time was up before this target had its turn or its answer
    RESET = "Reset"  # the connection broke before an answer
    TLS = "TLS"
    PROTOCOL = "Protocol"  # not HTTP, or HTTP that cannot be read
    REDIRECT = "Redirect"  # never followed: the numbers of another place are not this target's
    HTTP_STATUS = "HTTPStatus"
    TOO_LARGE = "TooLarge"
    BAD_ENCODING = "BadEncoding"  # a Content-Encoding we do not read, or one that does not decode
    INTERNAL = "Internal"  # a defect of ours; costs this target's sample only

    # The body
    EMPTY = "Empty"
    NOT_EXPOSITION = "NotExposition"  # HTML, JSON, binary
    TRUNCATED = "Truncated"  # ends in the middle of a line, or before the end it announced
    MALFORMED = "Malformed"  # a line that may hold one of our series cannot be read at all
    TOO_MANY_SERIES = "TooManySeries"

    # What it says
    NO_ENGINE_SERIES = "NoEngineSeries"  # an exposition, but of no engine we know, or of one whose statistics are off
    AMBIGUOUS_ENGINE = "AmbiguousEngine"  # series of several engines in one body
    NO_SERIES_FOR_MODEL = "NoSeriesForModel"
    AMBIGUOUS_MODEL = "AmbiguousModel"  # several served models and nobody said which
    ROUTER = "Router"  # a router that repeats the series of other processes under their names


class BodyRefused(Exception):
    """A body that gives no reading. `reason` is for machines, `message` one sentence for the person on call."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
