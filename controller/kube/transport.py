"""Sessions to one API server: socket options, TLS per request, time-outs, and the write gate at the last moment.

Watches have a session of their own, so that hundreds of them cannot starve the writes and a closed one can be dropped
alone. What this room uses of the HTTP library is in this module, `wire`, `watching` and `classify`.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import aiohttp
from yarl import URL

from controller.kube.connection import Connection

# TCP, TLS and proxy together; longer than that and another server of the load balancer is the better bet.
CONNECT_TIMEOUT_SECONDS = 15.0
# aiohttp pauses the socket at twice this size. One read then holds at most 512 KiB: some 40 Pods of 12 KB, well below
# the time budget of one turn of the loop.
READ_BUFFER_BYTES = 256 * 1024

# A load balancer or NAT that forgot a connection never tells. 30 s idle, then 3 probes 5 s apart, and at most 30 s for
# bytes that are not acknowledged (client-go finds dead peers with HTTP/2 pings of 30 + 15 s).
_KEEPALIVE = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 30_000),
)

Gate = Callable[[], None]
# Set around one request by the client; read in the same task when its first byte is about to leave.
GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)


class _GatedRequest(aiohttp.ClientRequest):
    """Asks the gate after the connection has been made and before anything is written.

    Making a connection can take seconds (DNS, TLS, a stalled event loop), and the library may send an idempotent
    request a second time on a fresh connection: a check at the call alone would let a deposed leader write.
    """

    async def send(self, conn: Any) -> Any:
        if (gate := GATE.get()) is not None:
            gate()
        return await super().send(conn)


def open_session(user_agent: str) -> aiohttp.ClientSession:
    """A session with this project's defaults; needs a running loop. Close it."""
    session = aiohttp.ClientSession(
        # The number of requests is limited by the client, which knows which of them are urgent.
        connector=aiohttp.TCPConnector(limit=0, socket_factory=_make_socket, keepalive_timeout=90.0),
        cookie_jar=aiohttp.DummyCookieJar(),
        # API servers compress lists over 128 KiB; inside a cluster that costs both sides more than it saves.
        headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
        request_class=_GatedRequest,
        trust_env=False,  # proxies follow kubectl's rules (`proxies`), and ~/.netrc is none of our business
        read_bufsize=READ_BUFFER_BYTES,
    )
    # The library sends PUT and DELETE a second time when the connection broke. Whether a write is repeated is decided
    # in `retries`, where its outcome is known to be open. There is no public switch; without it the gate still holds.
    session._retry_connection = False  # noqa: SLF001
    return session


def request_arguments(connection: Connection) -> dict[str, Any]:
    """How the connection wants each request to be sent; TLS is looked up every time because its files may change."""
    arguments: dict[str, Any] = {"allow_redirects": False}
    if connection.proxy is not None:
        proxy = URL(connection.proxy)
        # Apart from the address: the library's errors quote that.
        arguments["proxy"] = proxy.with_user(None)
        arguments["proxy_headers"] = _proxy_credentials(connection)
    if connection.ssl_context is not None:
        arguments["ssl"] = connection.ssl_context
        arguments["server_hostname"] = connection.server_hostname
    return arguments


def plain_proxy_headers(connection: Connection) -> dict[str, str]:
    """What a request without TLS carries for the proxy that it goes through; with TLS the CONNECT before it does."""
    return {} if connection.proxy is None or connection.ssl_context is not None else _proxy_credentials(connection)


def _proxy_credentials(connection: Connection) -> dict[str, str]:
    proxy = URL(connection.proxy or "")
    if proxy.user is None:
        return {}
    secret = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return {"Proxy-Authorization": f"Basic {secret}"}


def _make_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family=family, type=kind, proto=protocol)
    for level, name, value in _KEEPALIVE:
        option = getattr(socket, name, None)  # TCP_USER_TIMEOUT and TCP_KEEPIDLE are not everywhere
        if option is not None:
            made.setsockopt(level, option, value)
    return made
