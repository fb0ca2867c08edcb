"""An HTTP server that answers each request with the next step of a script, and remembers what it was asked.

Only for faults and bytes: it knows nothing of Kubernetes. A step that nobody asks for is a failed test.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """One request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def answer(
    body: object = None, status: int = 200, headers: dict[str, str] | None = None, text: str | None = None
) -> Answer:
    """A complete answer: JSON, or text as it is."""

    async def reply(_: web.Request) -> web.StreamResponse:
        if text is not None:
            return web.Response(text=text, status=status, headers=headers, content_type="text/html")
        return web.Response(
            body=json.dumps(body).encode(), status=status, headers=headers, content_type="application/json"
        )

    return reply


def status(code: int, reason: str, message: str = "no", **details: Any) -> Answer:
    """A Status object as an API server sends it."""
    return answer(status_body(code, reason, message, **details), code)


def status_body(code: int, reason: str, message: str = "no", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def stream(*parts: bytes | float, abort: bool = False) -> Answer:
    """A chunked answer: bytes are sent, numbers are seconds of silence; `abort` resets the connection at the end."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for part in parts:
            if isinstance(part, bytes):
                await response.write(part)
            else:
                await asyncio.sleep(part)
        if abort:
            assert request.transport is not None
            request.transport.abort()
        return response

    return reply


def hang(seconds: float = 1e6) -> Answer:
    """No answer at all."""

    async def reply(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response()

    return reply


def reset() -> Answer:
    """The connection is cut before the answer."""

    async def reply(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return reply


@dataclass
class ScriptedServer:
    """See the module."""

    requests: list[Seen] = field(default_factory=list)
    steps: deque[Answer] = field(default_factory=deque)
    url: str = ""
    connections: int = 0

    def script(self, *answers: Answer) -> None:
        self.steps.extend(answers)

    async def start(self, ssl_context: Any = None) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            self.requests.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body))
            if not self.steps:
                return web.Response(status=599, text="the script has ended")
            return await self.steps.popleft()(request)

        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=ssl_context)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if ssl_context else 'http'}://127.0.0.1:{port}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    @property
    def verbs(self) -> list[str]:
        return [seen.method for seen in self.requests]
