"""One border where foreign failures become `ApiError`s: HTTP answers, Status objects, exceptions of the HTTP library.

Reason *or* code decides, because servers, aggregators and proxies each leave one of them out: a 410 has four shapes, a
429 may be plain text with its hint in the header only.
"""

from __future__ import annotations

import asyncio
import email.utils
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp
import msgspec

from controller.foundation import wall_now
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    BadAnswer,
    Cause,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Outcome,
    ResourceVersionTooLarge,
    ServerFailed,
    Throttled,
    TimedOut,
    TooLarge,
    Transient,
    Unauthorized,
    Unsupported,
)

# Enough to recognise a proxy's page, short enough for a log line.
_EXCERPT_CHARACTERS = 160
# A server that wants to be left alone for longer is asked again all the same: a typing mistake in a proxy's settings,
# or a date by a clock that is hours ahead, must not blind a watch for a day.
MAX_HINT_SECONDS = 300.0
_TOO_LARGE_VERSION = "ResourceVersionTooLarge"
# Servers before 1.17 had no cause for it; this text has been stable since.
_TOO_LARGE_VERSION_TEXT = "too large resource version"


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.StatusDetails, the part that is read."""

    name: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: float = 0


class Status(msgspec.Struct, frozen=True):
    """metav1.Status, the part that is read."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


_STATUS = msgspec.json.Decoder(Status)

_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Expired,
    "Gone": Expired,
    "Invalid": Invalid,
    "BadRequest": Invalid,
    "MethodNotAllowed": Unsupported,
    "NotAcceptable": Unsupported,
    "UnsupportedMediaType": Unsupported,
    "RequestEntityTooLarge": TooLarge,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "TooManyRequests": Throttled,
    "Timeout": TimedOut,
    "ServerTimeout": TimedOut,
    "InternalError": ServerFailed,
    "ServiceUnavailable": Transient,
    "StoreReadError": Transient,
}

_BY_CODE: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Unsupported,
    406: Unsupported,
    408: TimedOut,
    409: Conflict,
    410: Expired,
    413: TooLarge,
    415: Unsupported,
    422: Invalid,
    429: Throttled,
    500: ServerFailed,
    504: TimedOut,
}


def classify_status(status: Status, *, http_status: int = 0, retry_after_seconds: float | None = None) -> ApiError:
    """The error that a Status object stands for, wherever it was found (error body, 200 body, ERROR event)."""
    code = status.code or http_status
    details = status.details or StatusDetails()
    causes = details.causes or ()
    hints = [min(hint, MAX_HINT_SECONDS) for hint in (retry_after_seconds, details.retry_after_seconds) if hint]
    hints = [hint for hint in hints if hint > 0]
    kind = _kind_of_error(code, status.reason)
    if _is_too_large_version(code, status, causes):
        kind = ResourceVersionTooLarge
    outcome = Outcome.UNKNOWN if issubclass(kind, Transient) else Outcome.REFUSED
    return kind(
        status.message or f"the server answered {code or 'with a failure'} without a message",
        status=code,
        reason=status.reason,
        retry_after_seconds=max(hints) if hints else None,
        causes=causes,
        outcome=outcome,
    )


def classify_response(http_status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error of an HTTP answer that is no success, or only says so. The body may be a Status, text, HTML or
    nothing."""
    hint = parse_retry_after(headers.get("Retry-After"), headers.get("Date"))
    status = read_status(body)
    if status is None:
        message = _describe_body(http_status, headers, body)
        if 200 <= http_status < 300:
            return BadAnswer(message, status=http_status, reason="BadAnswer", outcome=Outcome.UNKNOWN)
        status = Status(kind="Status", code=http_status, message=message)
    return classify_status(status, http_status=http_status, retry_after_seconds=hint)


def classify_exception(failure: BaseException) -> ApiError | None:
    """The error of an exception that the network or the HTTP library raised; None for one that is not theirs.

    Cancellation is never translated. `asyncio.TimeoutError` is the built-in TimeoutError since 3.11.
    """
    text = str(failure) or type(failure).__name__
    if isinstance(failure, ApiError):
        return failure
    if isinstance(failure, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return ConnectFailed(_certificate_message(failure), reason="CertificateRefused", outcome=Outcome.NOT_SENT)
    if isinstance(failure, aiohttp.ConnectionTimeoutError):
        return ConnectFailed(f"no connection in time: {text}", reason="ConnectTimeout", outcome=Outcome.NOT_SENT)
    if isinstance(failure, aiohttp.ClientHttpProxyError):
        # Not its text, which quotes the proxy's URL.
        refusal = f"the proxy refused the connection: {failure.status} {failure.message}"
        return ConnectFailed(refusal, reason="ProxyRefused", outcome=Outcome.NOT_SENT)
    if isinstance(failure, aiohttp.ClientConnectorError):
        return ConnectFailed(text, reason="ConnectFailed", outcome=Outcome.NOT_SENT)
    if isinstance(failure, TimeoutError):
        return TimedOut(f"no answer in time: {text}", reason="ClientTimeout", outcome=Outcome.UNKNOWN)
    if isinstance(failure, aiohttp.InvalidURL):
        return Invalid(f"not a usable address: {text}", reason="InvalidAddress", outcome=Outcome.NOT_SENT)
    if isinstance(failure, aiohttp.ClientError | asyncio.IncompleteReadError | OSError | EOFError):
        return ConnectionLost(text, reason="ConnectionLost", outcome=Outcome.UNKNOWN)
    if isinstance(failure, msgspec.DecodeError):
        return BadAnswer(f"the answer is not what was asked for: {text}", reason="BadAnswer", outcome=Outcome.UNKNOWN)
    return None


@contextmanager
def wire_errors() -> Iterator[None]:
    """The border: inside, exceptions of the network and the HTTP library; outside, only `ApiError`s."""
    try:
        yield
    except ApiError:
        raise
    except (aiohttp.ClientError, OSError, EOFError, msgspec.DecodeError) as failure:
        translated = classify_exception(failure)
        if translated is None:
            raise
        # A proxy's refusal holds the header that was sent to it.
        raise translated from (None if isinstance(failure, aiohttp.ClientHttpProxyError) else failure)


def read_status(body: bytes) -> Status | None:
    """The Status in a body, None when it holds something else."""
    try:
        status = _STATUS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return status if status.kind == "Status" else None


def parse_retry_after(header: str | None, date: str | None = None) -> float | None:
    """Seconds of a Retry-After header, None when unreadable: a number, or an HTTP date, which is compared with the same
    answer's Date (the server's clock), and with our wall clock only without one."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        at, now = _parse_date(header), _parse_date(date)
        if at is None:
            return None
        seconds = at - (wall_now() if now is None else now)
    return seconds if 0 <= seconds < float("inf") else None


def _parse_date(text: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _kind_of_error(code: int, reason: str) -> type[ApiError]:
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    if code in _BY_CODE:
        return _BY_CODE[code]
    if 300 <= code < 400:
        return Unsupported
    if 400 <= code < 500:
        return Invalid
    return Transient


def _is_too_large_version(code: int, status: Status, causes: tuple[Cause, ...]) -> bool:
    if any(cause.reason == _TOO_LARGE_VERSION for cause in causes):
        return True
    timed_out = code == 504 or status.reason in ("Timeout", "ServerTimeout")
    return timed_out and _TOO_LARGE_VERSION_TEXT in status.message.lower()


def _describe_body(http_status: int, headers: Mapping[str, str], body: bytes) -> str:
    excerpt = " ".join(body[: _EXCERPT_CHARACTERS * 4].decode("utf-8", "replace").split())[:_EXCERPT_CHARACTERS]
    content_type = headers.get("Content-Type", "no content type")
    if not excerpt:
        return f"the server answered {http_status} with an empty body"
    return f"the server answered {http_status} with {content_type}: {excerpt}"


def _certificate_message(failure: BaseException) -> str:
    inner = getattr(failure, "certificate_error", failure)
    text = getattr(inner, "verify_message", "") or str(inner)
    message = f"the certificate of the API server is refused: {text}"
    strict = ("Missing Authority Key Identifier", "Missing Subject Key Identifier", "not marked critical", "Key usage")
    if any(word.lower() in text.lower() for word in strict):
        message += (
            " (Python 3.13 and later check certificates strictly by RFC 5280; "
            "have the cluster's CA renewed, or set MDSCALER_TLS_RELAX_X509_STRICT=1 to relax the check)"
        )
    return message
