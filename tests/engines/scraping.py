"""Servers on loopback that answer as a test says, and scrapes of them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from controller.engines import EngineReading, Reason, Scraper, ScrapeResult, Target
from controller.foundation import ManualClock
from tests.engines import dumps

LOADED = dumps.dump("vllm-02")
MIB = 1024 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Connection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def http(
    *routes: tuple[str, Handler], tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """A server with these GET routes; yields its port."""
    app = web.Application()
    for path, handler in routes:
        app.router.add_get(path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw(connection: Connection) -> AsyncIterator[int]:
    """A server that treats every connection like this; yields its port."""
    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def target(port: int, **options: Any) -> Target:
    return Target(**({"key": f"pod-{port}", "host": "127.0.0.1", "port": port} | options))


def scraper(**options: Any) -> Scraper:
    monotonic = asyncio.get_running_loop().time
    return Scraper(**({"clock": ManualClock(), "timeout_seconds": 5.0, "monotonic": monotonic} | options))


async def scrape_one(port: int, *, scraper_options: dict[str, Any] | None = None, **options: Any) -> ScrapeResult:
    async with scraper(**(scraper_options or {})) as under_test:
        (result,) = await under_test.scrape([target(port, **options)])
    return result


def reading_of(result: ScrapeResult) -> EngineReading:
    assert result.failure is None
    assert result.reading is not None
    return result.reading


def reason_of(result: ScrapeResult) -> Reason:
    assert result.reading is None
    assert result.answered_at is None
    assert result.failure is not None
    assert result.failure.message
    return result.failure.reason


def answers(body: bytes, *, status: int = 200, **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, status=status, headers={"Content-Type": "text/plain; version=1.0.0"} | named)

    return handler


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.read()  # until the scraper gives up
    finally:
        writer.close()
