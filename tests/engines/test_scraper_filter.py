"""The filter by name: who is asked to send our series only, and what happens when it does not work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from controller.engines import BodyReader, ScrapeResult
from controller.engines.endpoints import Endpoints
from tests.engines import dumps
from tests.engines.scraping import LOADED, Handler, http, reading_of, scraper, target

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
