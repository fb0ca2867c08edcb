"""Every failure of the wire has one name: HTTP answers, Status objects, exceptions."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import aiohttp
import msgspec
import pytest

from controller.kube import errors
from controller.kube.classify import (
    Status,
    classify_exception,
    classify_response,
    classify_status,
    parse_retry_after,
    wire_errors,
)
from controller.kube.errors import ApiError, Outcome
from tests.kube.scripted_server import status_body

STATUSES = [
    ("an object that is not there", 404, "NotFound", errors.NotFound),
    ("an object that exists already", 409, "AlreadyExists", errors.AlreadyExists),
    ("a stale resourceVersion", 409, "Conflict", errors.Conflict),
    ("a conflict without a reason", 409, "", errors.Conflict),
    ("an expired version, as new servers say it", 410, "Expired", errors.Expired),
    ("an expired version, as old servers say it", 410, "Gone", errors.Expired),
    ("expired by reason alone", 0, "Expired", errors.Expired),
    ("expired by code alone", 410, "", errors.Expired),
    ("a validation failure", 422, "Invalid", errors.Invalid),
    ("a malformed request", 400, "BadRequest", errors.Invalid),
    ("a verb that is not there", 405, "MethodNotAllowed", errors.Unsupported),
    ("a representation that is not there", 406, "NotAcceptable", errors.Unsupported),
    ("a patch type that is not there", 415, "UnsupportedMediaType", errors.Unsupported),
    ("a body beyond the limit", 413, "RequestEntityTooLarge", errors.TooLarge),
    ("no credentials", 401, "Unauthorized", errors.Unauthorized),
    ("no permission", 403, "Forbidden", errors.Forbidden),
    ("priority and fairness", 429, "TooManyRequests", errors.Throttled),
    ("a server that gave up waiting", 504, "Timeout", errors.TimedOut),
    ("a server that asks to try again", 500, "ServerTimeout", errors.TimedOut),
    ("a server that failed", 500, "InternalError", errors.ServerFailed),
    ("a 500 without a reason", 500, "", errors.ServerFailed),
    ("a server that is going down", 503, "ServiceUnavailable", errors.Transient),
    ("a code that nobody knows", 599, "", errors.Transient),
    ("a client error that nobody knows", 418, "", errors.Invalid),
    ("an unknown reason: the code decides", 404, "Whatever", errors.NotFound),
]


@pytest.mark.parametrize(("code", "reason", "kind"), [row[1:] for row in STATUSES], ids=[row[0] for row in STATUSES])
def test_a_status_has_one_name_by_reason_or_code(code: int, reason: str, kind: type[ApiError]) -> None:
    body = json.dumps(status_body(code, reason, "sorry")).encode()
    from_body = classify_response(code or 200, {}, body)
    from_event = classify_status(Status(kind="Status", code=code, reason=reason, message="sorry"))
    assert type(from_body) is kind
    assert type(from_event) is kind
    assert from_body.message == "sorry"


BODIES = [
    ("the page of a proxy", 502, b"<html><h1>502 Bad Gateway</h1></html>", errors.Transient, "502 Bad Gateway"),
    (
        "plain text of a throttling proxy",
        429,
        b"Too many requests, please try again later.",
        errors.Throttled,
        "Too many",
    ),
    ("an empty body", 503, b"", errors.Transient, "empty body"),
    ("half a Status", 410, b'{"kind":"Status","code":4', errors.Expired, "410"),
    ("JSON of another kind", 404, b'{"kind":"Pod"}', errors.NotFound, "404"),
    ("bytes that are no text", 500, b"\xff\xfe\x00", errors.ServerFailed, "500"),
    ("a redirect to a login page", 302, b"", errors.Unsupported, "302"),
    ("a Status with null details", 404, b'{"kind":"Status","details":null,"message":"gone"}', errors.NotFound, "gone"),
]


@pytest.mark.parametrize(("code", "body", "kind", "part"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_a_body_that_is_no_status_is_told_in_a_line(code: int, body: bytes, kind: type[ApiError], part: str) -> None:
    failure = classify_response(code, {"Content-Type": "text/html"}, body)
    assert type(failure) is kind
    assert part in str(failure)
    assert "\n" not in str(failure)


@pytest.mark.parametrize(
    ("reason", "message", "causes"),
    [
        ("Timeout", "Too large resource version: 20, current: 10", [{"reason": "ResourceVersionTooLarge"}]),
        ("Timeout", "Too large resource version: 20, current: 10", []),
        ("Timeout", "too large resource version", []),
    ],
    ids=["by its cause", "by the message of 1.17", "by the message of 1.16"],
)
def test_a_server_that_lags_behind_our_version_is_recognised(
    reason: str, message: str, causes: list[dict[str, str]]
) -> None:
    """R8, the three shapes."""
    body = json.dumps(status_body(504, reason, message, causes=causes)).encode()
    assert isinstance(classify_response(504, {}, body), errors.ResourceVersionTooLarge)


def test_any_other_timeout_is_not_taken_for_a_lagging_server() -> None:
    body = json.dumps(status_body(504, "Timeout", "request did not complete")).encode()
    assert type(classify_response(504, {}, body)) is errors.TimedOut


@pytest.mark.parametrize(
    ("header", "in_body", "expected"),
    [(None, None, None), ("7", None, 7.0), (None, 3, 3.0), ("2", 9, 9.0), ("9", 2, 9.0), ("soon", None, None)],
    ids=["no hint", "only the header", "only the body", "the body is longer", "the header is longer", "unreadable"],
)
def test_the_longer_hint_of_header_and_body_counts(
    header: str | None, in_body: int | None, expected: float | None
) -> None:
    details = {} if in_body is None else {"retryAfterSeconds": in_body}
    headers = {} if header is None else {"Retry-After": header}
    body = json.dumps(status_body(429, "TooManyRequests", **details)).encode()
    assert classify_response(429, headers, body).retry_after_seconds == expected


def test_a_retry_after_date_is_turned_into_seconds() -> None:
    seconds = parse_retry_after("Fri, 31 Dec 2100 23:59:59 GMT")
    assert seconds is not None
    assert seconds > 3600
    assert parse_retry_after("-5") is None
    assert parse_retry_after("nan") is None
    assert parse_retry_after("Fri, 31 Dec 1999 23:59:59 GMT") is None


def test_causes_are_kept_for_those_who_ask() -> None:
    body = status_body(403, "Forbidden", causes=[{"reason": "NamespaceTerminating", "message": "m", "field": "f"}])
    failure = classify_response(403, {}, json.dumps(body).encode())
    assert failure.has_cause("NamespaceTerminating")
    assert not failure.has_cause("Other")


KEY = aiohttp.client_reqrep.ConnectionKey("host", 443, True, True, None, None, None)  # type: ignore[attr-defined]
EXCEPTIONS: list[tuple[str, BaseException, type[ApiError], Outcome]] = [
    ("refused", aiohttp.ClientConnectorError(KEY, OSError(111, "refused")), errors.ConnectFailed, Outcome.NOT_SENT),
    ("no such host", aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "dns")), errors.ConnectFailed, Outcome.NOT_SENT),
    ("no connection in time", aiohttp.ConnectionTimeoutError("slow"), errors.ConnectFailed, Outcome.NOT_SENT),
    ("silence on the socket", aiohttp.SocketTimeoutError("slow"), errors.TimedOut, Outcome.UNKNOWN),
    ("the deadline of a task", TimeoutError(), errors.TimedOut, Outcome.UNKNOWN),
    ("disconnected", aiohttp.ServerDisconnectedError(), errors.ConnectionLost, Outcome.UNKNOWN),
    ("reset", aiohttp.ClientOSError(104, "reset"), errors.ConnectionLost, Outcome.UNKNOWN),
    ("reset, raw", ConnectionResetError(), errors.ConnectionLost, Outcome.UNKNOWN),
    ("a broken pipe", BrokenPipeError(), errors.ConnectionLost, Outcome.UNKNOWN),
    ("half a body", aiohttp.ClientPayloadError("not enough data"), errors.ConnectionLost, Outcome.UNKNOWN),
    ("half a line", asyncio.IncompleteReadError(b"", 1), errors.ConnectionLost, Outcome.UNKNOWN),
    ("a closed session", aiohttp.ClientConnectionError("Connector is closed."), errors.ConnectionLost, Outcome.UNKNOWN),
    ("a bad certificate", ssl.SSLCertVerificationError("expired"), errors.ConnectFailed, Outcome.NOT_SENT),
    ("not an address", aiohttp.InvalidURL("http:/"), errors.Invalid, Outcome.NOT_SENT),
    ("not what was asked for", msgspec.ValidationError("odd"), errors.BadAnswer, Outcome.UNKNOWN),
]


@pytest.mark.parametrize(
    ("raised", "kind", "outcome"), [row[1:] for row in EXCEPTIONS], ids=[row[0] for row in EXCEPTIONS]
)
def test_every_exception_of_the_network_has_a_name(
    raised: BaseException, kind: type[ApiError], outcome: Outcome
) -> None:
    failure = classify_exception(raised)
    assert type(failure) is kind
    assert failure.outcome is outcome
    assert str(failure)


@pytest.mark.parametrize("raised", [KeyError("x"), ValueError("y"), asyncio.CancelledError()], ids=repr)
def test_what_is_not_of_the_network_is_left_alone(raised: BaseException) -> None:
    assert classify_exception(raised) is None
    with pytest.raises(type(raised)), wire_errors():
        raise raised


def test_an_api_error_passes_the_border_unchanged() -> None:
    original = errors.Conflict("c")
    with pytest.raises(errors.Conflict) as caught, wire_errors():
        raise original
    assert caught.value is original


def test_a_strict_x509_failure_names_the_way_out() -> None:
    """Python 3.13 refuses CAs without key identifiers, and says only that the verification failed."""
    refused = ssl.SSLCertVerificationError(1, "certificate verify failed: Missing Authority Key Identifier")
    refused.verify_message = "Missing Authority Key Identifier"
    failure = classify_exception(refused)
    assert failure is not None
    assert "Missing Authority Key Identifier" in str(failure)
    assert "MDSCALER_TLS_RELAX_X509_STRICT=1" in str(failure)


def test_an_ordinary_certificate_failure_offers_no_such_way_out() -> None:
    refused = ssl.SSLCertVerificationError(1, "certificate has expired")
    refused.verify_message = "certificate has expired"
    assert "relax" not in str(classify_exception(refused))


@pytest.mark.parametrize(
    "malformed",
    [b"null", b"[]", b'"x"', b"{}", b'{"kind":"Status","code":"four"}', b'{"kind":"Status","details":{"causes":null}}'],
    ids=lambda body: body.decode(),
)
def test_malformed_statuses_never_raise_anything_else(malformed: Any) -> None:
    assert isinstance(classify_response(500, {}, malformed), errors.Transient)


DATES: list[tuple[str, str | None, str | None, float | None]] = [
    ("a number", "17", None, 17.0),
    ("a fraction", "0.5", None, 0.5),
    ("a date by the same answer's clock", "Fri, 01 Jan 2021 00:00:30 GMT", "Fri, 01 Jan 2021 00:00:00 GMT", 30.0),
    ("a date that has passed", "Fri, 01 Jan 2021 00:00:00 GMT", "Fri, 01 Jan 2021 00:00:30 GMT", None),
    ("a date in another decade", "Fri, 01 Jan 2100 00:00:00 GMT", "Fri, 01 Jan 2021 00:00:00 GMT", 300.0),
    ("eleven days", "1000000", None, 300.0),
    ("infinity", "inf", None, None),
    ("no number", "nan", None, None),
    ("a negative number", "-5", None, None),
    ("a word", "later", None, None),
    ("a date beyond the calendar", "Fri, 99 Jan 99999 00:00:00 GMT", None, None),
]


@pytest.mark.parametrize(("header", "date", "seconds"), [row[1:] for row in DATES], ids=[row[0] for row in DATES])
def test_a_hint_is_a_time_to_wait_that_a_person_can_wait_for(
    header: str, date: str | None, seconds: float | None
) -> None:
    """Neither a clock that is hours ahead nor a typing mistake in a proxy may blind a watch for a day."""
    headers = {"Retry-After": header} | ({"Date": date} if date else {})
    assert classify_response(429, headers, b"").retry_after_seconds == seconds


@pytest.mark.parametrize(("hint", "seconds"), [(-7, None), (0, None), (4, 4.0), (10**12, 300.0)])
def test_a_hint_in_a_status_is_read_with_the_same_care(hint: int, seconds: float | None) -> None:
    status = b'{"kind":"Status","code":429,"details":{"retryAfterSeconds":%d}}' % hint
    assert classify_response(429, {}, status).retry_after_seconds == seconds
