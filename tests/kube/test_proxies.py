"""Proxy rules as kubectl has them."""

from __future__ import annotations

import pytest

from controller.foundation import UsageError
from controller.kube.proxies import proxy_for

PROXY = "http://proxy.corp:3128"

CASES: list[tuple[str, str, dict[str, str], str | None, str | None]] = [
    ("nothing is set", "https://api.example.org", {}, None, None),
    ("HTTPS_PROXY serves https", "https://api.example.org", {"HTTPS_PROXY": PROXY}, None, PROXY),
    ("in lower case as well", "https://api.example.org", {"https_proxy": PROXY}, None, PROXY),
    ("upper case wins", "https://a.b", {"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, None, PROXY),
    ("HTTP_PROXY does not serve https", "https://api.example.org", {"HTTP_PROXY": PROXY}, None, None),
    ("HTTP_PROXY serves plain http", "http://api.example.org", {"HTTP_PROXY": PROXY}, None, PROXY),
    (
        "a proxy without a scheme is an http proxy",
        "https://a.b",
        {"HTTPS_PROXY": "proxy:3128"},
        None,
        "http://proxy:3128",
    ),
    ("localhost is never proxied", "https://localhost:6443", {"HTTPS_PROXY": PROXY}, None, None),
    ("nor is loopback", "https://127.1.2.3:6443", {"HTTPS_PROXY": PROXY}, None, None),
    ("nor is IPv6 loopback", "https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None, None),
    (
        "NO_PROXY names the host",
        "https://api.example.org",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.example.org"},
        None,
        None,
    ),
    (
        "NO_PROXY names its domain",
        "https://api.example.org",
        {"HTTPS_PROXY": PROXY, "no_proxy": "x, example.org"},
        None,
        None,
    ),
    (
        "a leading dot means subdomains",
        "https://api.example.org",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example.org"},
        None,
        None,
    ),
    (
        "a leading dot excludes the domain itself",
        "https://example.org",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example.org"},
        None,
        PROXY,
    ),
    (
        "a star and a dot mean subdomains",
        "https://api.example.org",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "*.example.org"},
        None,
        None,
    ),
    (
        "a suffix without a dot is no domain",
        "https://notexample.org",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.org"},
        None,
        PROXY,
    ),
    ("a star means everything", "https://api.example.org", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None, None),
    ("an address", "https://10.0.0.1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.1"}, None, None),
    ("another address", "https://10.0.0.2", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.1"}, None, PROXY),
    (
        "a CIDR block holds the address",
        "https://10.96.0.1:443",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.96.0.0/12"},
        None,
        None,
    ),
    (
        "a CIDR block does not hold it",
        "https://10.0.0.1",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.96.0.0/12"},
        None,
        PROXY,
    ),
    (
        "a broken CIDR block is ignored",
        "https://10.0.0.1",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/99"},
        None,
        PROXY,
    ),
    (
        "a port that is ours",
        "https://api.example.org:6443",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.org:6443"},
        None,
        None,
    ),
    (
        "a port that is not ours",
        "https://api.example.org",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.org:6443"},
        None,
        PROXY,
    ),
    (
        "the default port counts",
        "https://api.example.org",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.org:443"},
        None,
        None,
    ),
    (
        "an IPv6 address with colons of its own",
        "https://[2001:db8::1]",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "2001:db8::1"},
        None,
        None,
    ),
    ("case does not matter", "https://API.Example.org", {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.ORG"}, None, None),
    ("proxy-url of the kubeconfig wins over all", "https://localhost", {"NO_PROXY": "*"}, "http://k:1", "http://k:1"),
]


@pytest.mark.parametrize(
    ("server", "environment", "explicit", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_proxy(server: str, environment: dict[str, str], explicit: str | None, expected: str | None) -> None:
    assert proxy_for(server, environment, explicit) == expected


def test_a_socks_proxy_is_refused_without_telling_its_password() -> None:
    with pytest.raises(UsageError, match="socks5") as caught:
        proxy_for("https://a.b", {"HTTPS_PROXY": "socks5://user:hunter2@proxy:1080"})
    assert "hunter2" not in str(caught.value)
