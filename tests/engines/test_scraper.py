"""The scraper against real servers on loopback, well-behaved and not."""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
import ipaddress
import logging
import socket
import ssl
import tracemalloc
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from controller.engines import BodyReader, EngineReading, Reason, Role, Scraper, ScrapeResult, Target
from controller.engines.endpoints import Endpoints
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


# ---------------------------------------------------------------- what goes out and what comes back


async def test_a_healthy_engine_gives_a_reading() -> None:
    requests: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        response = web.Response(body=LOADED)
        response.set_cookie("tracked", "yes")
        return response

    async with http(("/metrics", handler)) as port, scraper() as under_test:
        for _ in range(2):
            (result,) = await under_test.scrape([target(port, served_model_names=("tiny-llama",), role=Role.SERVER)])
            assert reading_of(result).running_requests == 8.0
            assert result.target.key == f"pod-{port}"
    first = requests[0].headers
    assert first["Accept"] == "text/plain;version=0.0.4"
    assert first["Accept-Encoding"] == "identity"
    assert first["Host"] == f"127.0.0.1:{port}"
    assert all("Cookie" not in request.headers for request in requests)


async def test_times_are_those_of_the_injected_clocks() -> None:
    clock = ManualClock(1_000.0)
    wall = iter(range(100))

    async def handler(request: web.Request) -> web.StreamResponse:
        clock.advance(30.0)
        return web.Response(body=LOADED)

    async with http(("/metrics", handler)) as port:
        result = await scrape_one(port, scraper_options={"clock": clock, "monotonic": lambda: float(next(wall))})
    assert (result.started_at, result.answered_at) == (1_000.0, 1_030.0)
    assert result.duration_seconds >= 1.0


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with http(("/metrics", answers(LOADED))) as port:
        reading_of(await scrape_one(port))


async def test_an_address_can_be_dialled_elsewhere_and_stays_in_the_host_header() -> None:
    hosts: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        hosts.append(request.headers["Host"])
        return web.Response(body=LOADED)

    async with http(("/metrics", handler)) as port:
        dial = {("198.18.0.7", 8000): ("127.0.0.1", port)}
        options = {"dial": lambda host, number: dial[host, number]}
        reading_of(await scrape_one(8000, host="198.18.0.7", scraper_options=options))
    assert hosts == ["198.18.0.7:8000"]


async def test_an_ipv6_target_is_bracketed() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback here")
    hosts: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        hosts.append(request.headers["Host"])
        return web.Response(body=LOADED)

    async with http(("/metrics", handler), host="::1") as port:
        reading_of(await scrape_one(port, host="::1"))
    assert hosts == [f"[::1]:{port}"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        pytest.param({"host": "engine.example"}, "host", id="a name"),
        pytest.param({"host": "fe80::1%eth0"}, "host", id="an address with a zone"),
        pytest.param({"host": "127.0.0.1@evil"}, "host", id="an address with something after it"),
        pytest.param({"port": 0}, "port", id="port zero"),
        pytest.param({"port": 65_536}, "port", id="a port too high"),
        pytest.param({"scheme": "ftp"}, "scheme", id="another scheme"),
        pytest.param({"path": "metrics"}, "path", id="a relative path"),
        pytest.param({"path": "/metrics\r\nX: y"}, "path", id="a path with a line end"),
    ],
)
def test_a_bad_target_is_refused_with_its_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field}: "):
        Target(**({"key": "pod", "host": "127.0.0.1", "port": 8000} | options))


# ---------------------------------------------------------------- engines that misbehave


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.read()  # until the scraper gives up
    finally:
        writer.close()


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


# ---------------------------------------------------------------- many targets


async def test_results_come_in_the_order_of_the_targets() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        number = int(request.match_info["number"])
        await asyncio.sleep(0.01 * (5 - number))
        return web.Response(body=b"vllm:num_requests_running %d\n" % number)

    async with http(("/{number}", handler)) as port, scraper() as under_test:
        results = await under_test.scrape([target(port, path=f"/{number}") for number in range(5)])
    assert [reading_of(result).running_requests for result in results] == [0.0, 1.0, 2.0, 3.0, 4.0]


async def test_concurrency_is_bounded_over_all_calls() -> None:
    under_way = most = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return web.Response(body=LOADED)

    async with http(("/metrics", handler)) as port, scraper(concurrency=3) as under_test:
        calls = [under_test.scrape([target(port, key=f"{call}-{n}") for n in range(6)]) for call in range(2)]
        results = await asyncio.gather(*calls)
    assert all(result.failure is None for call in results for result in call)
    assert most == 3


async def test_a_deadline_ends_the_whole_scrape_and_keeps_what_arrived() -> None:
    async with (
        raw(hang) as silent,
        http(("/metrics", answers(LOADED))) as good,
        scraper(concurrency=2, timeout_seconds=60.0) as under_test,
    ):
        targets = [target(good), *(target(silent, key=f"silent-{n}") for n in range(4))]
        results = await under_test.scrape(targets, deadline_seconds=0.3)
    reading_of(results[0])
    assert {reason_of(result) for result in results[1:]} == {Reason.DEADLINE}


async def test_cancellation_passes_through_and_leaves_nothing_behind() -> None:
    closed = asyncio.Event()
    connected = asyncio.Event()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        closed.set()
        writer.close()

    async with raw(connection) as port, scraper() as under_test:
        scraping = asyncio.create_task(under_test.scrape([target(port)]))
        await connected.wait()
        scraping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await scraping
        async with asyncio.timeout(60):
            await closed.wait()
        assert [task for task in asyncio.all_tasks() if "Scraper" in repr(task)] == []


async def test_no_targets_no_results() -> None:
    async with scraper() as under_test:
        assert await under_test.scrape([]) == []


async def test_a_closed_scraper_opens_again() -> None:
    async with http(("/metrics", answers(LOADED))) as port:
        under_test = scraper()
        for _ in range(2):
            reading_of((await under_test.scrape([target(port)]))[0])
            await under_test.close()


async def test_a_defect_of_ours_costs_one_sample_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(BodyReader):
        def read(self, body: bytes, **options: Any) -> EngineReading:
            if b"sglang" in body:
                raise ZeroDivisionError
            return super().read(body, **options)

    routes = ("/a", answers(dumps.dump("sglang-01"))), ("/b", answers(LOADED))
    async with http(*routes) as port, scraper(reader=Broken()) as under_test:
        with caplog.at_level(logging.ERROR):
            results = await under_test.scrape([target(port, path="/a", key="pod-a"), target(port, path="/b")])
    assert reason_of(results[0]) is Reason.INTERNAL
    reading_of(results[1])
    assert "pod-a" in caplog.text
    assert "ZeroDivisionError" in caplog.text


# ---------------------------------------------------------------- the filter by name


class Vllm:
    """`/metrics` sends everything; `/metrics/` what `filtered` makes of it. Counts requests by path."""

    def __init__(self, filtered: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None) -> None:
        self.body = LOADED
        self.requests: list[str] = []
        self.filtered = filtered or self.by_name

    async def by_name(self, request: web.Request) -> web.StreamResponse:
        names = tuple(name.encode() for name in request.query.getall("name[]"))
        lines = (line for line in self.body.splitlines(keepends=True) if line.startswith(names))
        return web.Response(body=b"".join(line for line in lines if line.split(b"{")[0].split(b" ")[0] in names))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        return await self.filtered(request) if request.path.endswith("/") else web.Response(body=self.body)

    async def scrapes(self, times: int, **options: Any) -> list[ScrapeResult]:
        results = []
        async with (
            http(("/metrics", self.handle), ("/metrics/", self.handle)) as port,
            scraper(**options) as under_test,
        ):
            for _ in range(times):
                results += await under_test.scrape([target(port)])
        return results


async def test_an_engine_that_filters_is_asked_for_our_series_only() -> None:
    engine = Vllm()
    whole, *filtered = await engine.scrapes(3)
    assert engine.requests == ["/metrics", "/metrics/", "/metrics/"]
    for result in filtered:
        assert reading_of(result) == reading_of(whole)


async def rejects(request: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


async def redirects(request: web.Request) -> web.StreamResponse:
    raise web.HTTPTemporaryRedirect("/metrics")


async def fails(request: web.Request) -> web.StreamResponse:
    raise web.HTTPInternalServerError


async def sends_nothing(request: web.Request) -> web.StreamResponse:
    return web.Response()


async def sends_no_histograms(request: web.Request) -> web.StreamResponse:
    lines = LOADED.splitlines(keepends=True)
    return web.Response(body=b"".join(line for line in lines if b"_seconds_" not in line))


async def sends_html(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html></html>", content_type="text/html")


@pytest.mark.parametrize("form", [rejects, redirects, fails, sends_nothing, sends_no_histograms, sends_html])
async def test_a_filter_that_does_not_work_is_tried_once_and_costs_no_sample(form: Handler) -> None:
    engine = Vllm(form)
    results = await engine.scrapes(4)
    assert engine.requests == ["/metrics", "/metrics/", "/metrics", "/metrics", "/metrics"]
    assert {reading_of(result) for result in results} == {reading_of(results[0])}


async def test_a_filter_that_hangs_costs_one_sample() -> None:
    async def hangs(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60.0)
        return web.Response()

    engine = Vllm(hangs)
    results = await engine.scrapes(3, timeout_seconds=0.2)
    assert engine.requests == ["/metrics", "/metrics/", "/metrics"]
    assert [result.failure is None for result in results] == [True, False, True]


async def test_a_number_that_is_nan_just_now_is_not_blamed_on_the_filter() -> None:
    engine = Vllm()

    async def nan(request: web.Request) -> web.StreamResponse:
        engine.body = LOADED.replace(b" 0.002624671916010457\n", b" NaN\n")
        return await engine.by_name(request)

    engine.filtered = nan
    results = await engine.scrapes(3)
    assert engine.requests == ["/metrics", "/metrics/", "/metrics/"]
    assert reading_of(results[2]).kv_cache_usage is None


async def test_sglang_is_never_asked_to_filter() -> None:
    paths: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(body=dumps.dump("sglang-01"))

    async with http(("/metrics", handler)) as port, scraper() as under_test:
        for _ in range(2):
            reading_of((await under_test.scrape([target(port)]))[0])
    assert paths == ["/metrics", "/metrics"]


def test_endpoints_are_forgotten_after_a_while_and_beyond_a_number() -> None:
    endpoints = Endpoints(max_endpoints=3, remember_seconds=10.0)
    reading = BodyReader().read(LOADED)
    for port in range(1, 6):
        endpoints.learn(target(port), reading, filters_by_name=True, now=float(port))
        endpoints.filtered_engine(target(3), 5.0)
    assert len(endpoints) == 3
    assert [port for port in range(1, 6) if endpoints.filtered_engine(target(port), 5.0)] == [3, 4, 5]
    assert endpoints.filtered_engine(target(3), 12.9) == "vllm"
    assert endpoints.filtered_engine(target(3), 13.0) is None
    assert len(endpoints) == 2


# ---------------------------------------------------------------- TLS


def self_signed(folder: Path) -> tuple[ssl.SSLContext, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "engine")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)
    return context, path


async def test_a_certificate_is_verified_unless_the_caller_knows_better(tmp_path: Path) -> None:
    server, path = self_signed(tmp_path)
    trusting = ssl.create_default_context(cafile=str(path))
    async with http(("/metrics", answers(LOADED)), tls=server) as port:
        assert reason_of(await scrape_one(port, scheme="https")) is Reason.TLS
        assert reading_of(await scrape_one(port, scheme="https", scraper_options={"tls": trusting})).engine == "vllm"
    async with http(("/metrics", answers(LOADED))) as port:
        assert reason_of(await scrape_one(port, scheme="https")) is Reason.TLS
