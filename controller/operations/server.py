"""The HTTP endpoints for people and machines that watch this process: `/metrics`, `/healthz`, `/readyz`.

They are up before anything else starts and go down last, so that a probe gets an answer during start and stop.
"""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from controller.foundation import OperationFailed, UsageError
from controller.operations.health import Health, Probe

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A scrape that is still being written at shutdown gets this long.
_SHUTDOWN_SECONDS = 1.0


def parse_bind_address(text: str, option: str) -> tuple[str, int] | None:
    """`HOST:PORT`, `:PORT` (all addresses) or `0` (switched off) → (host, port) or None. Raises UsageError."""
    if text == "0":
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"{option}: {text!r} is not HOST:PORT; write for example 127.0.0.1:8080, :8080, or 0 to switch it off"
        )
    return (host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104 - :PORT means all addresses, as everywhere


# What the command line calls the addresses.
_BIND_OPTIONS = {"metrics": "--metrics-bind-address", "health": "--health-bind-address"}


class OperationsServer:
    """Serves metrics and health on one or two addresses. Not restartable."""

    def __init__(
        self,
        registry: CollectorRegistry,
        health: Health,
        metrics: tuple[str, int] | None,
        probes: tuple[str, int] | None,
    ) -> None:
        self._registry = registry
        self._health = health
        self._addresses = {"metrics": metrics, "health": probes}
        self._runners: list[web.AppRunner] = []
        self.bound: dict[str, tuple[str, int]] = {}

    async def start(self) -> None:
        """Listen. Raises OperationFailed, naming the address, when a port is in use."""
        same = self._addresses["metrics"] == self._addresses["health"]
        for purpose, address in self._addresses.items():
            if address is None or (same and purpose == "health"):
                continue
            app = web.Application()
            if purpose == "metrics":
                app.router.add_get("/metrics", self._metrics)
            if purpose == "health" or same:
                for probe in Probe:
                    app.router.add_get(f"/{probe}", self._probe)
                    app.router.add_get(f"/{probe}/{{name}}", self._probe)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
            await runner.setup()
            self._runners.append(runner)
            try:
                await web.TCPSite(runner, *address).start()
            except (OSError, UnicodeError) as error:
                await self.stop()
                why = getattr(error, "strerror", None) or error
                raise OperationFailed(
                    f"cannot listen on {address[0]}:{address[1]} for {purpose}: {why}; "
                    f"{_BIND_OPTIONS[purpose]} gives another address, or 0 for none"
                ) from error
            self.bound[purpose] = runner.addresses[0][:2]
        if same and "metrics" in self.bound:
            self.bound["health"] = self.bound["metrics"]

    async def stop(self) -> None:
        """Close the listeners; requests under way get a second."""
        runners, self._runners = self._runners, []
        for runner in runners:
            await runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": _METRICS_TYPE})

    async def _probe(self, request: web.Request) -> web.Response:
        probe = Probe(request.path.split("/")[1])
        verdict = self._health.verdict(probe, request.match_info.get("name"), verbose="verbose" in request.query)
        return web.Response(text=verdict.text, status=verdict.status)
