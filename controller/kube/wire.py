"""Sending requests: deadlines, retries, credentials, the cap on concurrency, and the write gate.

Promised: every failure is an `ApiError`; each call has a deadline that covers its retries and its wait for a slot;
urgent calls (the lease) wait for nobody; a mutation asks its gate at the call and again when its first byte is about
to leave; a 401 is answered once with newer credentials, when there are any.

Not promised: that a failed write was not applied. `ApiError.outcome` says what is known.
Cancellation: safe; a cancelled write has an unknown outcome.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from controller.kube.classify import classify_response, wire_errors
from controller.kube.connection import Connection
from controller.kube.errors import ApiError
from controller.kube.observers import SILENT, RequestObserver
from controller.kube.retries import retry_delay
from controller.kube.transport import (
    CONNECT_TIMEOUT_SECONDS,
    GATE,
    Gate,
    open_session,
    plain_proxy_headers,
    request_arguments,
)
from controller.kube.watching import ByteStream

Query = Iterable[tuple[str, str]]

JSON = "application/json"
# client-go has none, and a call that hangs then keeps its worker for ever. The largest page takes a few seconds.
REQUEST_TIMEOUT_SECONDS = 30.0
# No token bucket: its waits starved controllers of a few hundred objects for hours (KEDA#1449, #2240). A cap on what is
# in flight, and obedience to 429, protect the server as well.
MAX_CONCURRENT_REQUESTS = 32


@dataclass(frozen=True, slots=True)
class Request:
    """One request before it is sent. `gate` is set for mutations only."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    gate: Gate | None = None


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How a call is made. `retry` False leaves every repetition to the caller."""

    timeout_seconds: float | None = None
    urgent: bool = False
    retry: bool = True


DEFAULT_OPTIONS = CallOptions()
# A proxy's or a portal's page in the place of a stream, sent with 200.
_FOR_PEOPLE = ("text/html", "application/xhtml+xml")
# Of an answer that is no stream, enough for a Status with all its causes.
_EXPLANATION_BYTES = 1 << 20


class Wire:
    """Two HTTP sessions to one API server. Use it from one event loop, close it at the end."""

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        max_concurrent_requests: int = MAX_CONCURRENT_REQUESTS,
        observer: RequestObserver = SILENT,
        rng: random.Random | None = None,
    ) -> None:
        self.connection = connection
        self._user_agent = user_agent
        self._timeout_seconds = timeout_seconds
        self._slots = asyncio.Semaphore(max_concurrent_requests)
        self._observer = observer
        self._rng = rng or random.Random()
        self._host = urlsplit(connection.server).netloc
        self._calls: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections. Requests in flight fail with ConnectionLost."""
        for session in (self._calls, self._streams):
            if session is not None:
                await session.close()

    async def call(self, request: Request, options: CallOptions = DEFAULT_OPTIONS) -> bytes:
        """The body of a 2xx answer. Raises ApiError, or NotLeader from the request's gate."""
        if request.gate is not None:
            request.gate()
        now = asyncio.get_running_loop().time
        timeout = self._timeout_seconds if options.timeout_seconds is None else options.timeout_seconds
        deadline = now() + timeout
        retries = 0
        while True:
            try:
                return await self._within(deadline, request, options)
            except ApiError as failure:
                if not options.retry:
                    raise
                delay = retry_delay(request.method, failure, retries, deadline - now(), self._rng)
                if delay is None:
                    raise
                code = str(failure.status or "<error>")
            retries += 1
            self._observer.request_retried(request.method, self._host, code)
            await asyncio.sleep(delay)

    @asynccontextmanager
    async def stream(
        self, request: Request, *, total_seconds: float, inactivity_seconds: float
    ) -> AsyncIterator[ByteStream]:
        """The body of a 200 answer as it comes, outside the cap and never retried. Raises ApiError."""
        timeout = aiohttp.ClientTimeout(
            total=total_seconds, connect=CONNECT_TIMEOUT_SECONDS, sock_read=inactivity_seconds
        )
        if self._streams is None:
            self._streams = open_session(self._user_agent)
        with wire_errors():
            response = await self._authorized(self._streams, request, timeout)
        try:
            if response.status != 200 or response.content_type in _FOR_PEOPLE:
                with wire_errors():
                    body = await response.content.read(_EXPLANATION_BYTES)
                raise classify_response(response.status, response.headers, body)
            yield ByteStream(response)
        finally:
            # After the regular end this has been given back to the pool; otherwise the server would go on writing.
            response.close()

    async def _within(self, deadline: float, request: Request, options: CallOptions) -> bytes:
        with wire_errors():
            async with asyncio.timeout_at(deadline):
                if options.urgent:
                    return await self._attempt(request)
                async with self._slots:
                    return await self._attempt(request)

    async def _attempt(self, request: Request) -> bytes:
        if self._calls is None:
            self._calls = open_session(self._user_agent)
        # The deadline is ours (`_within`); the library's own would start again with every retry.
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_SECONDS)
        response = await self._authorized(self._calls, request, timeout)
        try:
            body = await response.read()
        finally:
            response.release()
        if not 200 <= response.status < 300:
            raise classify_response(response.status, response.headers, body)
        return body

    async def _authorized(
        self, session: aiohttp.ClientSession, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send; once more after a 401 when there are newer credentials."""
        headers = await self.connection.headers()
        response = await self._send(session, request, headers, timeout)
        if response.status == 401 and self.connection.reject(headers):
            newer = await self.connection.headers()
            if newer is not headers:
                response.close()
                response = await self._send(session, request, newer, timeout)
        return response

    async def _send(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        credentials: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        now = asyncio.get_running_loop().time
        started = now()
        code = "<error>"
        headers = {**credentials, **plain_proxy_headers(self.connection), "Accept": request.accept}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        token = GATE.set(request.gate)
        try:
            response = await session.request(
                request.method,
                self.connection.server + request.path,
                params=request.query,
                data=request.body,
                headers=headers,
                timeout=timeout,
                **request_arguments(self.connection),
            )
            code = str(response.status)
            return response
        finally:
            GATE.reset(token)
            self._observer.request_finished(request.method, self._host, code, now() - started)
