"""An engine that prints what a test says it serves."""

from __future__ import annotations

import asyncio

from aiohttp import web

from controller.foundation import ScaledClock


class ScriptedEngine:
    """Serves vLLM's metrics for a load that the test sets, as counters that integrate it over model time."""

    def __init__(self, clock: ScaledClock, address: str) -> None:
        self._clock = clock
        self.address = address
        self.mode = "ok"  # ok, garbage, error
        self._since = clock.now()
        self._prompt = self._generation = 0.0
        self._rates = (0.0, 0.0)
        self._runner: web.AppRunner | None = None
        self.hanging = 0  # requests that wait for `resume`
        self._resumed = asyncio.Event()
        self._resumed.set()

    def load(self, prompt_tokens_per_second: float, generation_tokens_per_second: float) -> None:
        """From now on this much is served."""
        self._integrate()
        self._rates = (prompt_tokens_per_second, generation_tokens_per_second)

    def restart(self) -> None:
        """The counters start anew."""
        self._integrate()
        self._prompt = self._generation = 0.0

    def hang(self) -> None:
        """Requests are accepted and not answered."""
        self._resumed.clear()

    def resume(self) -> None:
        """Requests are answered again."""
        self._resumed.set()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/metrics/", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, 8000).start()

    async def stop(self) -> None:
        self._resumed.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def _integrate(self) -> None:
        now = self._clock.now()
        seconds, self._since = now - self._since, now
        self._prompt += seconds * self._rates[0]
        self._generation += seconds * self._rates[1]

    async def _metrics(self, _: web.Request) -> web.Response:
        self.hanging += 1
        try:
            await self._resumed.wait()
        finally:
            self.hanging -= 1
        if self.mode == "garbage":
            return web.Response(body=b"\x00\xff<html>vllm:num_requests_running{ 1 nonsense")
        if self.mode == "error":
            return web.Response(status=500, text="boom")
        self._integrate()
        labels = 'engine="0",model_name="m"'
        running = 4.0 if any(self._rates) else 0.0
        lines = [
            f"vllm:num_requests_running{{{labels}}} {running}",
            f"vllm:num_requests_waiting{{{labels}}} 0.0",
            f"vllm:prompt_tokens_total{{{labels}}} {self._prompt}",
            f'vllm:prompt_tokens_by_source_total{{{labels},source="local_compute"}} {self._prompt}',
            f"vllm:prompt_tokens_cached_total{{{labels}}} 0.0",
            f"vllm:generation_tokens_total{{{labels}}} {self._generation}",
            f'vllm:request_success_total{{{labels},finished_reason="stop"}} {self._generation / 100}',
        ]
        return web.Response(text="\n".join(lines) + "\n")
