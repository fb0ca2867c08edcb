"""One GET of an exposition: bounded in bytes, also after decompression. Time is bounded by the caller.

Raises `ScrapeFailed` and nothing else of its own; a time-out or cancellation by the caller passes through and leaves no
connection open.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from controller.engines.refusal import Reason

# 2 MiB must pass; one SGLang server grew an exposition of 8 MB from hostile URLs (sglang PR #31193); 16 MiB is an end.
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024

HEADERS: Final = {
    # Asked for OpenMetrics 1.0.0, prometheus_client >= 0.23 renames the samples (client_python#1177).
    "Accept": "text/plain;version=0.0.4",
    # /metrics shares the engine's event loop with its requests; compressing would spend that loop's time to save ours.
    "Accept-Encoding": "identity",
    "User-Agent": "model-deployment-scaler",
}


class ScrapeFailed(Exception):
    """A request that gave no body. `reason` is for machines, `message` one sentence for the person on call."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Answer:
    """A body, whether it calls itself OpenMetrics, and the model time at which it began to arrive."""

    body: bytes
    openmetrics: bool
    answered_at: float


async def get(
    session: aiohttp.ClientSession, url: URL, *, host: str, now: Callable[[], float], limit: int = MAX_BODY_BYTES
) -> Answer:
    """The body behind `url`. `host` is what stands in the Host header.

    aiohttp repeats a GET once when a kept-alive connection turns out to be closed, which engines do after 5 s idle.
    """
    try:
        async with session.get(url, headers={"Host": host}, allow_redirects=False) as response:
            answered_at = now()
            _refuse_status(response)
            body = await _read(response, limit)
            return Answer(body, response.content_type == "application/openmetrics-text", answered_at)
    except aiohttp.ClientSSLError as error:
        raise ScrapeFailed(Reason.TLS, f"TLS: {_cause(error)}") from error
    except aiohttp.ClientConnectorError as error:
        raise ScrapeFailed(Reason.UNREACHABLE, f"no connection: {_cause(error)}") from error
    except aiohttp.ClientPayloadError as error:
        raise ScrapeFailed(Reason.TRUNCATED, "the answer ended before its announced end") from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError) as error:
        raise ScrapeFailed(Reason.RESET, "the connection was closed before an answer came") from error
    except (aiohttp.ClientError, ValueError) as error:
        # ValueError: aiohttp's parsers let some of theirs through.
        raise ScrapeFailed(Reason.PROTOCOL, f"not a readable HTTP answer ({type(error).__name__})") from error


def _refuse_status(response: aiohttp.ClientResponse) -> None:
    status = response.status
    if 300 <= status < 400:
        raise ScrapeFailed(Reason.REDIRECT, f"HTTP {status}: redirects are not followed")
    if status != 200:
        hint = " (SGLang needs --enable-metrics)" if status == 404 else ""
        raise ScrapeFailed(Reason.HTTP_STATUS, f"HTTP {status}{hint}")


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    if (response.content_length or 0) > limit:
        raise _too_large(limit)
    decode = _decoder(response.headers.get("Content-Encoding", ""))
    parts: list[bytes] = []
    received = size = 0
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        received += len(chunk)
        part = decode.feed(chunk, limit - size + 1)
        size += len(part)
        if received > limit or size > limit:
            raise _too_large(limit)
        parts.append(part)
    decode.finish()
    return b"".join(parts)


class _Identity:
    def feed(self, data: bytes, _room: int) -> bytes:
        return data

    def finish(self) -> None:
        return


class _Deflated:
    """gzip (also of several members), zlib or raw deflate. A bomb is noticed `room` bytes after its start."""

    def __init__(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self._decompress = zlib.decompressobj(window_bits)
        self._began = False

    def feed(self, data: bytes, room: int) -> bytes:
        parts: list[bytes] = []
        try:
            while data and room > 0:
                if self._decompress.eof:
                    self._decompress = zlib.decompressobj(self._window_bits)
                part = self._decompress.decompress(data, room)
                room -= len(part)
                parts.append(part)
                data = self._decompress.unconsumed_tail or self._decompress.unused_data
        except zlib.error:
            if self._began or self._window_bits != zlib.MAX_WBITS:
                raise ScrapeFailed(Reason.BAD_ENCODING, "a compressed body that does not decompress") from None
            # "deflate" is zlib by the standard and raw deflate in some servers.
            self._window_bits = -zlib.MAX_WBITS
            self._decompress = zlib.decompressobj(self._window_bits)
            return self.feed(data, room)
        self._began = True
        return b"".join(parts)

    def finish(self) -> None:
        if not self._decompress.eof:
            raise ScrapeFailed(Reason.TRUNCATED, "a compressed body that ends too early")


def _decoder(encoding: str) -> _Identity | _Deflated:
    match encoding.strip().lower():
        case "" | "identity":
            return _Identity()
        case "gzip" | "x-gzip":
            return _Deflated(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Deflated(zlib.MAX_WBITS)
        case other:
            raise ScrapeFailed(Reason.BAD_ENCODING, f"Content-Encoding {other[:40]!r} is not read")


def _too_large(limit: int) -> ScrapeFailed:
    return ScrapeFailed(Reason.TOO_LARGE, f"the body is larger than {limit // 1024} KiB")


def _cause(error: aiohttp.ClientConnectorError | aiohttp.ClientSSLError) -> str:
    cause = getattr(error, "os_error", None) or error
    return getattr(cause, "strerror", None) or type(cause).__name__
