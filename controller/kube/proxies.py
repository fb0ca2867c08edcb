"""Which HTTP proxy a request to the API server goes through: the rules that kubectl follows.

A `proxy-url` of the kubeconfig wins. Otherwise `HTTPS_PROXY` (or `HTTP_PROXY` for a plain server), upper case before
lower case, unless the host is loopback or `NO_PROXY` names it: `*`, an address, a CIDR block, `example.org` (with its
subdomains), `.example.org` or `*.example.org` (subdomains only), each with an optional `:port`. These are the rules of
Go's httpproxy package; those of Python's urllib differ (no CIDR, loopback is not exempt).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from controller.foundation import UsageError


def proxy_for(server: str, environment: Mapping[str, str], explicit: str | None = None) -> str | None:
    """The URL of the proxy for requests to `server` (an absolute URL), None for a direct connection.

    Raises UsageError for a proxy that this client cannot speak to; its message never repeats the URL's password.
    """
    target = urlsplit(server)
    if explicit:
        return _usable(explicit, "proxy-url of the kubeconfig")
    name = "HTTPS_PROXY" if target.scheme == "https" else "HTTP_PROXY"
    proxy = environment.get(name) or environment.get(name.lower())
    if not proxy:
        return None
    host = (target.hostname or "").rstrip(".")
    port = target.port or (443 if target.scheme == "https" else 80)
    exempt = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if _is_loopback(host) or any(_matches(entry, host, port) for entry in exempt.split(",")):
        return None
    return _usable(proxy, name)


def _usable(proxy: str, source: str) -> str:
    url = proxy if "://" in proxy else f"http://{proxy}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"{source}: a proxy of scheme {parts.scheme!r} is not supported; give an http:// or https:// proxy"
        )
    return url


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _matches(entry: str, host: str, port: int) -> bool:
    entry = entry.strip().lower()
    if not entry:
        return False
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = _split_port(entry)
    if wanted_port is not None and wanted_port != port:
        return False
    listed = _address(name)
    if listed is not None or address is not None:
        return listed == address
    if name.startswith("*."):
        name = name[1:]
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, int | None]:
    if _address(entry) is not None:
        return entry, None  # a bare IPv6 address has colons of its own
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit():
        return name.strip("[]"), int(port)
    return entry.strip("[]"), None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
