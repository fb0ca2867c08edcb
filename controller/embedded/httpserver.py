"""One HTTP listener on one loopback address: what engine servers and the router stand on.

A handler is cancelled when its client goes away, so that abandoned work is dropped; one that learns it by writing the
last bytes just ends. `stop` lets requests in progress end for a while; `abort` is a crash: every connection is reset at
once. Both free the address. Bodies up to `MAX_BODY_BYTES` are read; larger ones get 413.
"""

from __future__ import annotations

import asyncio
import errno
import functools
from collections.abc import Awaitable, Callable

from aiohttp import ClientConnectionResetError, web

from controller.foundation import OperationFailed

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES = 16 << 20  # a prompt of a million tokens in plain text is about 4 MiB

CLIENT_GONE = 499  # nobody reads it; nginx writes this into its log


class AddressInUse(OperationFailed):
    """Somebody else listens there: choose another address or port."""


class HttpServer:
    """A listener and its connections."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self.host = ""
        self.port = 0

    @property
    def url(self) -> str:
        """`http://host:port` of the listener."""
        return f"http://{self.host}:{self.port}"

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any free one. Raises AddressInUse or OperationFailed."""
        loop = asyncio.get_running_loop()
        server = web.Server(
            self._answer,
            request_factory=functools.partial(_request, loop=loop),
            handler_cancellation=True,
            access_log=None,
        )
        try:
            self._listener = await loop.create_server(server, host, port, backlog=512)
        except OSError as error:
            place = f"{host}:{port}"
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(f"{place} is in use by another process") from None
            raise OperationFailed(f"cannot listen on {place}: {error.strerror or error}") from None
        self._web = server
        self.host, self.port = self._listener.sockets[0].getsockname()[:2]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._handler(request)
        except ClientConnectionResetError:
            return web.Response(status=CLIENT_GONE)

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Accept nothing more, give requests in progress `grace_seconds` of wall time, then close. Idempotent."""
        server, listener = self._web, self._listener
        self._web = self._listener = None
        if server is None or listener is None:
            return
        listener.close()
        server.pre_shutdown()
        # Each phase of aiohttp's shutdown takes up to this long, and zero would mean "wait for ever" to nobody's use.
        await server.shutdown(max(grace_seconds, 0.001))

    async def abort(self) -> None:
        """Reset every connection and stop listening, as a process that was killed."""
        server, listener = self._web, self._listener
        self._web = self._listener = None
        if server is None or listener is None:
            return
        listener.close()
        for connection in server.connections:
            transport = connection.transport
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        await server.shutdown(0.001)


def _request(
    message: object, payload: object, protocol: object, writer: object, task: object, *, loop: asyncio.AbstractEventLoop
) -> web.BaseRequest:
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES)  # type: ignore[arg-type]
