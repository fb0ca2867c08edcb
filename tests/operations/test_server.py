"""The endpoints that watch the process."""

import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from controller.foundation import OperationFailed, UsageError
from controller.operations import Health, OperationsServer, Probe, parse_bind_address, register_build_info

ADDRESSES = [
    ("host and port", "127.0.0.1:8080", ("127.0.0.1", 8080)),
    ("a port alone means every address", ":8080", ("0.0.0.0", 8080)),
    ("an IPv6 host stands in brackets", "[::1]:9", ("::1", 9)),
    ("0 switches it off", "0", None),
]


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in ADDRESSES], ids=[c[0] for c in ADDRESSES])
def test_bind_address(text, expected):
    assert parse_bind_address(text, "--metrics-bind-address") == expected


@pytest.mark.parametrize("text", ["", "localhost", "127.0.0.1:", ":99999", "a:b", ":-1", ":٣"])
def test_a_bad_bind_address_names_the_option_and_the_way_out(text):
    with pytest.raises(UsageError, match=r"--metrics-bind-address.*127\.0\.0\.1:8080"):
        parse_bind_address(text, "--metrics-bind-address")


async def _get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_metrics_and_health_share_an_address_or_have_their_own():
    health, registry = Health(), CollectorRegistry()
    register_build_info(registry, "1.2.3")
    health.add(Probe.READY, "caches", lambda: "not synced")
    for metrics, probes in [(("127.0.0.1", 0), ("127.0.0.1", 0))]:
        server = OperationsServer(registry, health, metrics, probes)
        await server.start()
        try:
            host, port = server.bound["metrics"]
            assert "mdscaler_build_info{" in (await _get(f"http://{host}:{port}/metrics"))[1]
            host, port = server.bound["health"]
            assert (await _get(f"http://{host}:{port}/healthz"))[0] == 200
            assert (await _get(f"http://{host}:{port}/readyz?verbose"))[0] == 503
            assert (await _get(f"http://{host}:{port}/readyz/caches"))[0] == 503
        finally:
            await server.stop()


async def test_a_port_in_use_is_one_clear_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = OperationsServer(CollectorRegistry(), Health(), ("127.0.0.1", port), None)
        with pytest.raises(OperationFailed, match=f"127.0.0.1:{port} for metrics"):
            await server.start()
