"""The scraper against real servers on loopback that behave."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from controller.engines import BodyReader, EngineReading, Reason, Role, Target
from controller.foundation import ManualClock
from tests.engines import dumps
from tests.engines.scraping import LOADED, answers, hang, http, raw, reading_of, reason_of, scrape_one, scraper, target

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
