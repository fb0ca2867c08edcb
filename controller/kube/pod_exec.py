"""Running a command in a container: the `exec` subresource of Pods over a WebSocket.

    exec = PodExec(client.connection, user_agent="name/1")
    result = await exec.run(
        "team", "chat-server-0", ["python3", "-c", TEXT], container="main", timeout_seconds=5.0, limit_bytes=1_000_000
    )

Promised: the command is passed as it is, no shell in between; no more than `limit_bytes` of its output are kept, and
none of it is asked for after `timeout_seconds`; every failure is an ApiError (also an output that is too large), and a
command that ran and failed is a result. On every way out the connection is closed.

Not promised: that the command ended when the connection did; it has to bound itself. Nothing is repeated.
Cancellation: safe.

The protocol: binary messages, of which the first byte is the channel; channel 3 carries a Status at the end. v5 differs
from v4 in how stdin is closed, which is not used here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import aiohttp
import msgspec

from controller.foundation import Resource
from controller.kube.classify import Status, classify_response, wire_errors
from controller.kube.client import object_path
from controller.kube.connection import Connection
from controller.kube.errors import BadAnswer, ConnectionLost, TooLarge
from controller.kube.transport import open_session, plain_proxy_headers, request_arguments

POD: Final = Resource("", "v1", "pods", "Pod")
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")

if TYPE_CHECKING:
    Socket: TypeAlias = aiohttp.ClientWebSocketResponse[Any]
Query = list[tuple[str, str]]

_STDOUT, _STDERR, _ERROR = 1, 2, 3
# Enough for a traceback's last lines, or a Status with a long message.
_MAX_STDERR_BYTES: Final = 4096
_MAX_STATUS_BYTES: Final = 65_536
_EXIT_CODE: Final = "ExitCode"
_IS_CODE: Final = re.compile("[0-9]{1,10}").fullmatch
# How long the other side may take to say goodbye.
_CLOSING: Final = aiohttp.ClientWSTimeout(ws_close=0.2)
# Kubelets leave the kind out.
_END: Final = msgspec.json.Decoder(Status)


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What became of a command. `exit_code` is None where it could not be started; `message` then says why."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    message: str = ""


class PodExec:
    """Commands in the containers of one API server's Pods. Use it from one event loop, close it at the end."""

    def __init__(self, connection: Connection, *, user_agent: str, protocols: Sequence[str] = PROTOCOLS) -> None:
        self._connection = connection
        self._user_agent = user_agent
        self._protocols = tuple(protocols)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections. The next command opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def run(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str,
        timeout_seconds: float,
        limit_bytes: int,
    ) -> ExecResult:
        """Run a command to its end. Raises ApiError."""
        path = object_path(POD, namespace, pod, "exec")
        query = [("container", container), ("stdout", "true"), ("stderr", "true")]
        query += [("command", part) for part in command]
        with wire_errors():
            async with asyncio.timeout(timeout_seconds):
                try:
                    socket = await self._connect(path, query, limit_bytes)
                except aiohttp.WSServerHandshakeError as refusal:
                    # The library does not keep the body of a refusal.
                    raise classify_response(refusal.status, refusal.headers or {}, b"") from None
                try:
                    if socket.protocol not in self._protocols:
                        raise BadAnswer(
                            f"exec speaks none of {', '.join(self._protocols)} here", reason="ProtocolNotNegotiated"
                        )
                    return await _follow(socket, limit_bytes)
                finally:
                    await socket.close()

    async def _connect(self, path: str, query: Query, limit_bytes: int) -> Socket:
        """Shake hands; once more after a 401 when there are newer credentials."""
        headers = await self._connection.headers()
        try:
            return await self._shake_hands(path, query, headers, limit_bytes)
        except aiohttp.WSServerHandshakeError as refusal:
            if refusal.status != 401 or not self._connection.reject(headers):
                raise
            newer = await self._connection.headers()
            if newer is headers:
                raise
            return await self._shake_hands(path, query, newer, limit_bytes)

    async def _shake_hands(self, path: str, query: Query, headers: Mapping[str, str], limit_bytes: int) -> Socket:
        if self._session is None:
            self._session = open_session(self._user_agent)
        arguments = request_arguments(self._connection)
        del arguments["allow_redirects"]  # a handshake never follows one
        socket: Socket = await self._session.ws_connect(
            self._connection.server + path,
            params=query,
            headers={**headers, **plain_proxy_headers(self._connection)},
            protocols=self._protocols,
            timeout=_CLOSING,
            max_msg_size=limit_bytes + _MAX_STATUS_BYTES,
            **arguments,
        )
        return socket


async def _follow(socket: Socket, limit_bytes: int) -> ExecResult:
    out, err, status = bytearray(), bytearray(), bytearray()
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == _STDOUT:
            out += data
            if len(out) > limit_bytes:
                raise TooLarge(f"the command printed more than {limit_bytes} bytes", reason="OutputTooLarge")
        elif channel == _STDERR:
            err += data[: _MAX_STDERR_BYTES - len(err)]
        elif channel == _ERROR:
            status += data[: _MAX_STATUS_BYTES - len(status)]
    if socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
        raise TooLarge("a message of exec is larger than all of its output may be", reason="OutputTooLarge")
    if not status:
        raise ConnectionLost("exec ended without saying how", reason="NoStatus")
    return _result(bytes(out), bytes(err), bytes(status))


def _result(out: bytes, err: bytes, body: bytes) -> ExecResult:
    try:
        status = _END.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise BadAnswer("the end of exec cannot be read", reason="BadStatus") from None
    if status.status == "Success":
        return ExecResult(0, out, err)
    causes = (status.details.causes if status.details is not None else None) or ()
    codes = [cause.message for cause in causes if cause.reason == _EXIT_CODE and _IS_CODE(cause.message)]
    return ExecResult(int(codes[0]) if codes else None, out, err, status.message)
