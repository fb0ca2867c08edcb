"""A least-loaded HTTP dispatcher in front of the replicas.

    POST /v1/…, GET /v1/…        to a member, or through those that share the work; streams passed on as they come
    GET /observer/endpoints      what the dispatcher holds: {"workers": [{"url", "selection", "inFlight", "eligible"}]}
    GET /health

A request goes to the eligible member with the fewest requests in flight, by the dispatcher's own count; among equals to
the one chosen longest ago. Where no Server member is eligible and Prefill or Decode members are known, it is handed
from one to the other (`handoff`). The members it does not use any more but whose answers are still under way stay
visible in `members` with `eligible` false until the last of them has ended: whoever wants to stop a member waits for
that. When a member that is shown is used, and how fast it is dropped, is told in `roster`.

What a Server member accepted is never sent twice. A member that cannot be connected to, or answers 503 (loading, or its
queue full), has not accepted: the next one is tried. Once the connection stands and the request is out, silence is an
answer lost: 502 before the status line, a cut stream after it. A request that is handed over may be begun anew as long
as no token of it has reached the client; it gives up with 502 after as many tries as the real routers make.

With no eligible member a request is held, up to `hold_seconds` of model time (long enough for a replica to start) and
up to `most_held` requests; then 503. It is not held while members are merely busy: their queues are where a scaler
looks. With `hold_seconds` 0 it behaves as most real routers do: a worker that is not registered (yet), or is gone,
costs a 503 within milliseconds, so a replica that is Ready and not listed is no supply. A client that goes away while
it waits is forgotten; one that goes away later takes its request with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import orjson
from aiohttp import web

from controller.embedded.engine import EngineKind
from controller.embedded.handoff import Handoff
from controller.embedded.httpserver import HttpServer
from controller.embedded.relay import Broken, Refused, Rejected, Relay
from controller.embedded.roster import Member, MemberView, Roster
from controller.foundation import Clock

__all__ = ["Member", "MemberView", "Router"]

# How long, in model time, a request waits before it tries members again that have just refused it.
_RETRY_SECONDS = 2.0
# Of a request that is handed over: the default of vllm-router and of SGLang's gateway, first try included.
_MOST_TRIES = 5


class Router:
    """The dispatcher. `set_members` may be called at any time, also before `start`."""

    def __init__(
        self,
        clock: Clock,
        *,
        hold_seconds: float = 240.0,
        most_held: int = 2000,
        membership_delay_seconds: float = 0.0,
        leave_delay_seconds: float = 0.0,
    ) -> None:
        self._clock = clock
        self._hold_seconds = hold_seconds
        self._most_held = most_held
        self._http = HttpServer(self._handle)
        self._relay = Relay()
        self._roster = Roster(clock, membership_delay_seconds, leave_delay_seconds)
        self._handoff = Handoff(self._roster, self._relay, clock)
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
        return self._roster.views()

    @property
    def held(self) -> int:
        """Requests that wait for an eligible member."""
        return self._held

    def holds(self, uid: str) -> bool:
        """Whether a member is eligible or still answering."""
        return any(view.member.uid == uid for view in self._roster.views())

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen. Raises OperationFailed."""
        self._relay.start()
        await self._http.start(host, port)

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Stop; requests in progress get `grace_seconds` of wall time. Idempotent."""
        await self._http.stop(grace_seconds)
        await self._relay.stop()

    def set_members(self, members: Iterable[Member]) -> None:
        """Show exactly these members."""
        self._roster.set(members)

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
        avoided: set[str] = set()
        tries = 0
        while True:
            try:
                return await self._serve(request, body, avoided)
            except Refused as refusal:
                if refusal.uid:
                    avoided.add(refusal.uid)
                elif await self._hold(deadline, retry=bool(avoided)):
                    avoided.clear()
                else:
                    return _error(503, str(refusal))
            except Broken as broken:
                tries += 1
                if not self._may_repeat(request) or tries >= _MOST_TRIES:
                    return _error(502, str(broken))
                avoided.add(broken.uid)
            except Rejected as rejected:
                return web.Response(status=rejected.status, body=rejected.body, content_type="application/json")

    async def _serve(self, request: web.BaseRequest, body: bytes, avoided: set[str]) -> web.StreamResponse:
        """Give the request to whoever may have it. Raises Refused, Broken or Rejected."""
        whole = EngineKind.SERVER
        if self._shares_work(avoided):
            if request.method == "POST":
                return await self._handoff.carry(request, _message(body), avoided)
            whole = EngineKind.DECODE
        worker = self._roster.choose(whole, avoided)
        if worker is None:
            raise Refused("no replica is ready")
        with self._roster.using(worker):
            return await self._relay.proxy(request, worker.member, body)

    def _shares_work(self, avoided: set[str]) -> bool:
        return self._roster.choose(EngineKind.SERVER, avoided) is None and self._roster.has(
            EngineKind.PREFILL, EngineKind.DECODE
        )

    def _may_repeat(self, request: web.BaseRequest) -> bool:
        return request.method == "POST" and self._shares_work(set())

    async def _hold(self, deadline: float, *, retry: bool) -> bool:
        """Wait for a change of the members, or a moment where they have just refused; False when it has been enough."""
        remaining = deadline - self._clock.now()
        if remaining <= 0 or self._held >= self._most_held:
            return False
        upcoming = self._roster.next_change_seconds()
        if upcoming is not None and upcoming < deadline:
            remaining, retry = min(remaining, max(0.0, upcoming - self._clock.now())), True
        self._held += 1
        try:
            wait = self._clock.wall_seconds(min(remaining, _RETRY_SECONDS) if retry else remaining)
            async with asyncio.timeout(wait):
                await self._roster.changed()
        except TimeoutError:
            return retry
        finally:
            self._held -= 1
        return True


def _message(body: bytes) -> dict[str, Any]:
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Rejected(400, _error_body(400, f"the body is not JSON: {error}")) from None
    if not isinstance(message, dict):
        raise Rejected(400, _error_body(400, "the body is not a JSON object"))
    return message


def _error_body(status: int, message: str) -> bytes:
    return orjson.dumps({"error": {"message": message, "type": "RouterError", "param": None, "code": status}})


def _error(status: int, message: str) -> web.Response:
    return web.Response(status=status, body=_error_body(status, message), content_type="application/json")
