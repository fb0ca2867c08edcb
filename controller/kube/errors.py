"""Errors named after what the caller should do, translated once, at the wire.

Whatever goes wrong between us and an API server (a refused connection, an HTML page of a proxy, a Status object
inside a stream that began with 200) becomes one of these through `classify_response`, `classify_status` or
`classify_exception`. Nothing above the client ever sees an exception of the HTTP library.

    NotFound        the object is gone: treat it as deleted
    AlreadyExists   somebody made it first: read it
    Conflict        it changed under us: read again, decide again
    Expired         the resourceVersion is too old: list again
    Invalid         the request itself is wrong: repeating it cannot help
    Unsupported     this server cannot do it this way: use another way
    TooLarge        the request or the answer is beyond a limit
    Unauthorized    the credentials are not accepted: refresh them
    Forbidden       permission is missing: keep trying slowly and say so loudly, a person can grant it at any time
    Throttled       the server is protecting itself: wait as long as it says
    Transient       try again later; `outcome` says whether a write may have been applied
    NotLeader       the write gate refused before anything was sent

A failed `test` of a JSON patch cannot be told from a malformed patch (both are 422 Invalid with an empty detail, seen
on 1.36): re-read the object and compare, never look at the message.
"""

from __future__ import annotations

import enum

import msgspec

# The reason of a TimedOut that was found by silence: tells a dead peer from a server that answered 504.
SILENT_REASON = "Silent"
# The reason of a TimedOut that was found by a streamed list without its end mark.
NO_MARK_REASON = "NoEndMark"


class Outcome(enum.Enum):
    """What is known about the effect of a request that failed."""

    REFUSED = "refused"  # the server answered: nothing was changed
    NOT_SENT = "not sent"  # no byte reached the server
    UNKNOWN = "unknown"  # it may have been applied: read before deciding again


class Cause(msgspec.Struct, frozen=True):
    """One entry of a Status' details: machine-readable reason, sentence, field path."""

    reason: str = ""
    message: str = ""
    field: str = ""


class KubeError(Exception):
    """Base of everything that this room raises."""


class NotLeader(KubeError):
    """The write gate is closed: this process does not hold the lease (any more), so nothing was sent."""


class ApiError(KubeError):
    """A request that failed.

    status: the HTTP or Status code; 0 when no answer came. reason: Kubernetes' StatusReason, or a short CamelCase word
    for failures without one. retry_after_seconds: the server's hint, the longer of header and body; None without one.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after_seconds: float | None = None,
        causes: tuple[Cause, ...] = (),
        outcome: Outcome = Outcome.REFUSED,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        self.causes = causes
        self.outcome = outcome

    def __str__(self) -> str:
        code = " ".join(part for part in (str(self.status or ""), self.reason) if part)
        return f"{self.message} ({code})" if code else self.message

    def has_cause(self, reason: str) -> bool:
        """Whether the Status names this cause, for instance NamespaceTerminating."""
        return any(cause.reason == reason for cause in self.causes)


class NotFound(ApiError):
    """404: the object, or the whole resource, does not exist."""


class AlreadyExists(ApiError):
    """409 AlreadyExists: an object of this name is there."""


class Conflict(ApiError):
    """409: the resourceVersion or another precondition no longer holds."""


class Expired(ApiError):
    """410 in any of its shapes: the resourceVersion or the continue token is too old."""


class Invalid(ApiError):
    """400 or 422: the server refuses the content of the request."""


class Unsupported(ApiError):
    """405, 406, 415 or a redirect: the server does not do this at all."""


class TooLarge(ApiError):
    """413, or a line of a watch beyond our limit."""


class Unauthorized(ApiError):
    """401: no or wrong credentials."""


class Forbidden(ApiError):
    """403: the credentials are fine, the permission is missing."""


class Throttled(ApiError):
    """429: priority and fairness, or a rate limit in front of the server."""


class Transient(ApiError):
    """Anything that may go away by itself: 5xx, a lost connection, a time-out, an answer that is not what it should
    be.
    """


class ConnectFailed(Transient):
    """No connection could be made: nothing was sent."""


class ConnectionLost(Transient):
    """The connection broke after the request was sent, or before a stream ended."""


class TimedOut(Transient):
    """The answer did not come in time, or the server gave up waiting (504, Timeout)."""


class ServerFailed(Transient):
    """500 InternalError: the server tried and failed."""


class ResourceVersionTooLarge(TimedOut):
    """This server has not yet reached the resourceVersion that was asked for: it lags behind another one."""


class BadAnswer(Transient):
    """A success status with a body that is not what was asked for (HTML of a proxy, half a document, a Table)."""
