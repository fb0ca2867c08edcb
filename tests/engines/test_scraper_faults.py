"""Engines that hang, drip, lie about sizes or close connections, and what the scraper makes of them."""

from __future__ import annotations

import asyncio
import gzip
import socket
import tracemalloc
import zlib
from collections import Counter

import pytest
from aiohttp import web

from controller.engines import Reason
from tests.engines.scraping import (
    LOADED,
    MIB,
    Connection,
    answers,
    hang,
    http,
    raw,
    reading_of,
    reason_of,
    scrape_one,
    scraper,
    target,
)

# ---------------------------------------------------------------- engines that misbehave


def sends(data: bytes) -> Connection:
    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()
        writer.close()

    return connection


def head(*headers: str) -> bytes:
    return "".join(f"{line}\r\n" for line in ("HTTP/1.1 200 OK", *headers, "")).encode()


GZIPPED = gzip.compress(LOADED)


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        pytest.param(sends(b""), Reason.RESET, id="closes without a word"),
        pytest.param(sends(b"\x00\x01garbage\r\n\r\n"), Reason.PROTOCOL, id="answers garbage"),
        pytest.param(
            sends(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 20_000 + b"\r\n\r\n"), Reason.PROTOCOL, id="a huge header"
        ),
        pytest.param(sends(head("Content-Length: 99999") + LOADED[:500]), Reason.TRUNCATED, id="dies in the body"),
        pytest.param(sends(head("Transfer-Encoding: chunked") + b"5\r\nvllm:"), Reason.TRUNCATED, id="dies in a chunk"),
        pytest.param(sends(head() + LOADED[:-20]), Reason.TRUNCATED, id="dies in a line of a body without length"),
        pytest.param(sends(head("Content-Length: 0")), Reason.EMPTY, id="an empty body"),
        pytest.param(sends(head(f"Content-Length: {17 * MIB}")), Reason.TOO_LARGE, id="announces too much"),
        pytest.param(sends(head("Content-Length: many")), Reason.PROTOCOL, id="a length that is a word"),
        pytest.param(sends(head("Content-Encoding: gzip") + LOADED), Reason.BAD_ENCODING, id="says gzip and is not"),
        pytest.param(
            sends(head("Content-Encoding: br") + LOADED), Reason.BAD_ENCODING, id="an encoding nobody asked for"
        ),
        pytest.param(sends(head("Content-Encoding: gzip") + GZIPPED[:-100]), Reason.TRUNCATED, id="half a gzip body"),
        pytest.param(sends(head() + b"<html></html>\n"), Reason.NOT_EXPOSITION, id="HTML"),
        pytest.param(sends(head() + b'{"a": 1}'), Reason.NOT_EXPOSITION, id="JSON"),
        pytest.param(sends(head() + b"go_goroutines 7\n"), Reason.NO_ENGINE_SERIES, id="another program"),
        pytest.param(sends(b"HTTP/1.1 500 Oops\r\n\r\n"), Reason.HTTP_STATUS, id="an internal error"),
        pytest.param(sends(b"HTTP/1.1 204 Nothing\r\n\r\n"), Reason.HTTP_STATUS, id="no content"),
        pytest.param(
            sends(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"), Reason.REDIRECT, id="a redirect"
        ),
        pytest.param(
            sends(head("Content-Type: application/openmetrics-text; version=1.0.0") + LOADED),
            Reason.TRUNCATED,
            id="OpenMetrics without its end",
        ),
    ],
)
async def test_a_misbehaving_engine_costs_its_own_sample(connection: Connection, reason: Reason) -> None:
    async with raw(connection) as bad, http(("/metrics", answers(LOADED))) as good, scraper() as under_test:
        results = await under_test.scrape([target(bad), target(good)])
    assert reason_of(results[0]) is reason
    assert reading_of(results[1]).running_requests == 8.0


async def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and kept, or somebody else may listen there
        assert reason_of(await scrape_one(unused.getsockname()[1])) is Reason.UNREACHABLE


async def test_a_redirect_is_not_followed() -> None:
    followed: list[str] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        followed.append(request.path)
        return web.Response(body=LOADED)

    async def redirect(request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect("/elsewhere")

    async with http(("/metrics", redirect), ("/elsewhere", elsewhere)) as port:
        assert reason_of(await scrape_one(port)) is Reason.REDIRECT
    assert followed == []


async def test_a_hanging_engine_delays_nobody_but_itself() -> None:
    async with (
        raw(hang) as silent,
        http(("/metrics", answers(LOADED))) as good,
        scraper(timeout_seconds=0.3) as under_test,
    ):
        results = await under_test.scrape([target(silent), target(good)])
    assert reason_of(results[0]) is Reason.TIMEOUT
    assert results[0].duration_seconds > 0.29
    assert reading_of(results[1]).running_requests == 8.0
    assert results[1].duration_seconds < results[0].duration_seconds


async def test_a_body_that_drips_is_timed_out() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head(f"Content-Length: {len(LOADED)}"))
        try:
            for byte in LOADED:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with raw(drip) as port:
        assert reason_of(await scrape_one(port, scraper_options={"timeout_seconds": 0.1})) is Reason.TIMEOUT


def padded(size: int) -> bytes:
    filler = b'other:metric{path="/' + b"x" * 78 + b'"} 1\n'
    return LOADED + filler * ((size - len(LOADED)) // len(filler))


async def test_two_mebibytes_pass() -> None:
    body = padded(2 * MIB)
    async with http(("/metrics", answers(body))) as port:
        assert reading_of(await scrape_one(port)).running_requests == 8.0


async def test_a_body_without_end_is_cut_off_at_the_limit() -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"other:metric 1\n" * 4_096)
            sent += 15 * 4_096

    async with http(("/metrics", endless)) as port:
        assert reason_of(await scrape_one(port, scraper_options={"max_body_bytes": MIB})) is Reason.TOO_LARGE
    assert sent < 16 * MIB


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_bomb_is_noticed_before_it_fills_the_memory(encoding: str) -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    bomb = squeeze.compress(bytes(64 * MIB)) + squeeze.flush()
    assert len(bomb) < MIB
    async with http(("/metrics", answers(bomb, Content_Encoding=encoding))) as port, scraper() as under_test:
        tracemalloc.start()
        try:
            (result,) = await under_test.scrape([target(port)])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert reason_of(result) is Reason.TOO_LARGE
    assert peak < 48 * MIB


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        pytest.param("gzip", GZIPPED, id="gzip"),
        pytest.param("gzip", gzip.compress(LOADED[:1_000]) + gzip.compress(LOADED[1_000:]), id="gzip of two members"),
        pytest.param("GZIP", GZIPPED, id="gzip in capitals"),
        pytest.param("deflate", zlib.compress(LOADED), id="deflate with its header"),
        pytest.param("deflate", zlib.compress(LOADED)[2:-4], id="deflate without its header"),
        pytest.param("identity", LOADED, id="identity"),
    ],
)
async def test_a_compressed_body_is_read(encoding: str, body: bytes) -> None:
    async with http(("/metrics", answers(body, Content_Encoding=encoding))) as port:
        assert reading_of(await scrape_one(port)).running_requests == 8.0


async def test_a_connection_that_the_engine_closed_is_opened_again() -> None:
    """An engine closes idle connections after 5 s; the request that finds out is repeated once."""
    served = Counter[str]()
    answer = head(f"Content-Length: {len(LOADED)}") + LOADED

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served["connections"] += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        try:
            await reader.readuntil(b"\r\n\r\n")  # the second request on this connection gets no answer
            served["requests on a dead connection"] += 1
        except asyncio.IncompleteReadError:
            pass
        writer.transport.abort()

    async with raw(once) as port, scraper() as under_test:
        for _ in range(2):
            # A path with a slash at its end is never filtered, so each scrape is one request.
            (result,) = await under_test.scrape([target(port, path="/metrics/")])
            reading_of(result)
    assert served == {"connections": 2, "requests on a dead connection": 1}


async def test_a_connection_is_kept_between_scrapes() -> None:
    peers = set()

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(body=LOADED)

    async with http(("/metrics", handler)) as port, scraper() as under_test:
        for _ in range(3):
            await under_test.scrape([target(port)])
    assert len(peers) == 1
