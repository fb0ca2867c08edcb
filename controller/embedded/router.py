"""A least-loaded HTTP dispatcher in front of the replicas.

    POST /v1/…, GET /v1/…        proxied to a member, streams passed on as they come
    GET /observer/endpoints      what the dispatcher holds: {"workers": [{"url", "selection", "inFlight", "eligible"}]}
    GET /health

A request goes to the eligible member with the fewest requests in flight, by the dispatcher's own count; among equals to
the one chosen longest ago. The members it does not use any more but whose answers are still under way stay visible in
`members` with `eligible` false until the last of them has ended: whoever wants to stop a member waits for that.

What was accepted is never sent twice. A member that cannot be connected to, or answers 503 (loading, or its queue
full), has not accepted: the next one is tried. Once the connection stands and the request is out, silence is an answer
lost: 502 before the status line, a cut stream after it.

With no eligible member a request is held, up to `hold_seconds` of model time (long enough for a replica to start) and
up to `most_held` requests; then 503. It is not held while members are merely busy: their queues are where a scaler
looks. A client that goes away while it waits is forgotten; one that goes away later takes its request with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import aiohttp
import orjson
from aiohttp import web

from controller.embedded.engine import EngineKind
from controller.embedded.httpserver import HttpServer
from controller.foundation import Clock

_PASSED_ON = ("Content-Type", "Cache-Control")  # of an answer; the rest is the hop's own
_CONNECT_SECONDS = 2.0  # wall time; on loopback a connection stands or falls at once
# How long, in model time, a request waits before it tries members again that have just refused it.
_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Member:
    """A replica member that may get requests, or its part of them."""

    uid: str
    name: str
    url: str
    kind: EngineKind = EngineKind.SERVER


@dataclass(frozen=True, slots=True)
class MemberView:
    """What the dispatcher holds of a member. `selections` counts requests given to it."""

    member: Member
    eligible: bool
    in_flight: int
    selections: int


@dataclass(slots=True)
class _Entry:
    member: Member
    eligible: bool = True
    in_flight: int = 0
    selections: int = 0
    last_selection: int = 0


class _Refused(Exception):
    """The member has not accepted the request."""


class Router:
    """The dispatcher. `set_members` may be called at any time, also before `start`."""

    def __init__(
        self, clock: Clock, *, hold_seconds: float = 240.0, most_held: int = 2000, membership_delay_seconds: float = 0.0
    ) -> None:
        self._clock = clock
        self._hold_seconds = hold_seconds
        self._most_held = most_held
        self._http = HttpServer(self._handle)
        self._session: aiohttp.ClientSession | None = None
        self._entries: dict[str, _Entry] = {}
        self._changed = asyncio.Event()
        self._selections = 0
        self._held = 0

    @property
    def url(self) -> str:
        """`http://host:port`."""
        return self._http.url

    @property
    def host(self) -> str:
        """The address of the listener."""
        return self._http.host

    @property
    def members(self) -> tuple[MemberView, ...]:
        """All members that are eligible or still answering."""
        return tuple(
            MemberView(entry.member, entry.eligible, entry.in_flight, entry.selections)
            for entry in self._entries.values()
        )

    @property
    def held(self) -> int:
        """Requests that wait for an eligible member."""
        return self._held

    def holds(self, uid: str) -> bool:
        """Whether a member is eligible or still answering."""
        return uid in self._entries

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen. Raises OperationFailed."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )
        await self._http.start(host, port)

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Stop; requests in progress get `grace_seconds` of wall time. Idempotent."""
        await self._http.stop(grace_seconds)
        if self._session is not None:
            await self._session.close()
            self._session = None

    def set_members(self, members: Iterable[Member]) -> None:
        """Make exactly these members eligible."""
        wanted = {member.uid: member for member in members}
        for uid, entry in list(self._entries.items()):
            entry.eligible = uid in wanted
            self._forget_if_done(uid, entry)
        for uid, member in wanted.items():
            entry = self._entries.setdefault(uid, _Entry(member))
            entry.member = member
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith("/v1/"):
            return await self._dispatch(request)
        if request.path == "/observer/endpoints":
            workers = [
                {
                    "url": view.member.url,
                    "selection": view.selections,
                    "inFlight": view.in_flight,
                    "eligible": view.eligible,
                }
                for view in self.members
            ]
            return web.Response(body=orjson.dumps({"workers": workers}), content_type="application/json")
        if request.path == "/health":
            return web.Response()
        return web.Response(status=404, text="not found\n")

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _error(413, "the body is too large")
        deadline = self._clock.now() + self._hold_seconds
        refused: set[str] = set()
        while True:
            entry = self._choose(refused)
            if entry is None:
                if not await self._hold(deadline, retry=bool(refused)):
                    return _error(503, "no replica is ready")
                refused.clear()
                continue
            self._selections += 1
            entry.selections += 1
            entry.last_selection = self._selections
            entry.in_flight += 1
            try:
                return await self._proxy(request, body, entry.member)
            except _Refused:
                refused.add(entry.member.uid)
            finally:
                entry.in_flight -= 1
                self._forget_if_done(entry.member.uid, entry)

    def _choose(self, refused: set[str]) -> _Entry | None:
        candidates = [entry for uid, entry in self._entries.items() if entry.eligible and uid not in refused]
        return min(candidates, key=lambda entry: (entry.in_flight, entry.last_selection), default=None)

    def _forget_if_done(self, uid: str, entry: _Entry) -> None:
        if not entry.eligible and entry.in_flight == 0 and self._entries.get(uid) is entry:
            del self._entries[uid]

    async def _hold(self, deadline: float, *, retry: bool) -> bool:
        """Wait for a change of the members, or a moment where they have just refused; False when it has been enough."""
        remaining = deadline - self._clock.now()
        if remaining <= 0 or self._held >= self._most_held:
            return False
        self._held += 1
        try:
            wait = self._clock.wall_seconds(min(remaining, _RETRY_SECONDS) if retry else remaining)
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            return retry
        finally:
            self._held -= 1
        return True

    async def _proxy(self, request: web.BaseRequest, body: bytes, member: Member) -> web.StreamResponse:
        assert self._session is not None  # noqa: S101 - set by start, before anything can be received
        url = member.url + request.path_qs
        headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        try:
            answer = await self._session.request(request.method, url, data=body or None, headers=headers)
        except aiohttp.ClientConnectorError:
            raise _Refused from None
        except (aiohttp.ClientError, OSError) as error:
            return _error(502, f"{member.name} broke off before it answered: {type(error).__name__}")
        async with answer:
            if answer.status == 503:
                raise _Refused
            response = web.StreamResponse(
                status=answer.status,
                headers={name: answer.headers[name] for name in _PASSED_ON if name in answer.headers},
            )
            if answer.content_length is not None:
                response.content_length = answer.content_length
            await response.prepare(request)
            try:
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            except aiohttp.ClientPayloadError:
                # The member died in mid-answer. An orderly end would pass for a complete one: cut the connection.
                if request.transport is not None:
                    request.transport.abort()
                return response
            await response.write_eof()
            return response


def _error(status: int, message: str) -> web.Response:
    body = orjson.dumps({"error": {"message": message, "type": "RouterError", "param": None, "code": status}})
    return web.Response(status=status, body=body, content_type="application/json")
