"""Routers as they are asked what they hold."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web


class FakeRouter:
    """Answers `/observer/endpoints` with what it was given."""

    def __init__(self) -> None:
        self.body = b'{"workers": []}'
        self.status = 200
        self.url = ""
        self._runner: web.AppRunner | None = None

    def holds(self, *workers: dict[str, Any]) -> None:
        self.body = orjson.dumps({"workers": workers})

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/observer/endpoints", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, _: web.Request) -> web.Response:
        return web.Response(body=self.body, status=self.status, content_type="application/json")
