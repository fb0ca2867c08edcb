"""The hop of a router: one request to one member, and its answer to the client.

`Refused`: the member has not accepted it (no connection, or 503). `Broken`: it has, and nothing of an answer has
reached the client. `Rejected`: the member's own error, for the client. Once an answer has begun to go out, a member
that breaks off cuts the client's connection: an orderly end would pass for a complete answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from controller.embedded.roster import Member

_PASSED_ON = ("Content-Type", "Cache-Control")  # of an answer; the rest is the hop's own
_CONNECT_SECONDS = 2.0  # wall time; on loopback a connection stands or falls at once
_ERROR_FRAME = b'data: {"error"'


class Refused(Exception):
    """Nobody has accepted the request. `uid` is the member that refused, empty where there was none to ask."""

    def __init__(self, message: str, uid: str = "") -> None:
        super().__init__(message)
        self.uid = uid


class Broken(Exception):
    """A request was accepted and will get no answer; nothing has reached the client. `uid` is the member to avoid."""

    def __init__(self, message: str, uid: str = "") -> None:
        super().__init__(message)
        self.uid = uid


class Rejected(Exception):
    """A member says that the request is wrong."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body


class Relay:
    """The client side of a router. Between `start` and `stop`."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def start(self) -> None:
        """Open for requests."""
        # vLLM closes a connection that was idle for 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE), counted from when it wrote the
        # last byte and not from when that was read here. A request that is sent at that moment is lost, for it must not
        # be sent twice; so each gets a connection of its own.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )

    async def stop(self) -> None:
        """Close every connection. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def proxy(self, request: web.BaseRequest, member: Member, body: bytes) -> web.StreamResponse:
        """Pass the request to the member and its answer on as it comes. Raises Refused or Broken."""
        async with await self._request(request.method, member, request.path_qs, body, _type_of(request)) as answer:
            return await _pass_on(request, answer, b"")

    async def first_token(
        self, request: web.BaseRequest, member: Member, body: bytes, begun: Callable[[], None]
    ) -> web.StreamResponse:
        """As `proxy`, but the client sees nothing before the first frame of an answer is here; an error in its place is
        Broken. `begun` is called then."""
        async with await self._request("POST", member, request.path_qs, body) as answer:
            if answer.status >= 500:
                raise Broken(f"{member.name} answered {answer.status}: {_words(await answer.read())}", member.uid)
            try:
                first = await answer.content.readany()
            except aiohttp.ClientError as error:
                raise Broken(f"{member.name} broke off: {type(error).__name__}", member.uid) from None
            if first.startswith(_ERROR_FRAME):
                raise Broken(f"{member.name}: {_words(first[6:])}", member.uid)
            begun()
            return await _pass_on(request, answer, first)

    async def ask(self, member: Member, path: str, message: dict[str, Any]) -> dict[str, Any]:
        """The whole answer of a member, for the router itself. Raises Refused, Broken or Rejected."""
        async with await self._request("POST", member, path, orjson.dumps(message)) as answer:
            try:
                body = await answer.read()
            except aiohttp.ClientError as error:
                raise Broken(f"{member.name} broke off: {type(error).__name__}", member.uid) from None
            if answer.status >= 500:
                raise Broken(f"{member.name} answered {answer.status}: {_words(body)}", member.uid)
            if answer.status != 200:
                raise Rejected(answer.status, body)
            found: dict[str, Any] = orjson.loads(body)
            return found

    async def _request(
        self, method: str, member: Member, path: str, body: bytes, content_type: str = "application/json"
    ) -> aiohttp.ClientResponse:
        assert self._session is not None  # noqa: S101 - set by start, before anything can be received
        url, headers = member.url + path, {"Content-Type": content_type}
        try:
            answer = await self._session.request(method, url, data=body or None, headers=headers)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            # No connection stood, so nothing was sent: a machine that stalls must not cost a request.
            raise Refused(f"{member.name} cannot be reached", member.uid) from None
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(f"{member.name} broke off before it answered: {type(error).__name__}", member.uid) from None
        if answer.status == 503:
            answer.release()
            raise Refused(f"{member.name} takes no requests", member.uid)
        return answer


async def _pass_on(request: web.BaseRequest, answer: aiohttp.ClientResponse, first: bytes) -> web.StreamResponse:
    response = web.StreamResponse(
        status=answer.status, headers={name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
    )
    if answer.content_length is not None:
        response.content_length = answer.content_length
    await response.prepare(request)
    try:
        if first:
            await response.write(first)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    except aiohttp.ClientPayloadError:
        # The member died in mid-answer.
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response


def _type_of(request: web.BaseRequest) -> str:
    return request.headers.get("Content-Type", "application/json")


def _words(body: bytes) -> str:
    """The message of an error object."""
    try:
        return str(orjson.loads(body.partition(b"\n")[0])["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
