"""The listener under engine servers and the router."""

from __future__ import annotations

import asyncio
import logging

import aiohttp
import pytest
from aiohttp import web

from controller.embedded.httpserver import HttpServer


async def test_a_client_that_is_gone_at_the_last_bytes_is_no_error(caplog: pytest.LogCaptureFixture):
    ended = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        assert request.transport is not None
        request.transport.close()  # as when the client closes in the same turn of the loop
        try:
            await response.write_eof()
        finally:
            ended.set()
        return response

    server = HttpServer(answer)
    await server.start("127.0.0.1", 0)
    with caplog.at_level(logging.ERROR):
        async with aiohttp.ClientSession() as http:
            with pytest.raises(aiohttp.ClientError):
                await (await http.get(server.url)).read()
        await ended.wait()
        await server.stop()
    assert caplog.records == []
