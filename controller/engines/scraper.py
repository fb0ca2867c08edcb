"""The scraper: asks many engine processes for their metrics at once.

Contract
* `scrape` returns one result per target, in their order, and raises nothing for a target: an engine that hangs, answers
  garbage or dies costs its own sample. Only cancellation passes through; it ends all requests first.
* At most `concurrency` requests are under way at once, over all calls. Each target has `timeout_seconds` of wall time
  from its turn; targets beyond `deadline_seconds` of the whole call fail with `Deadline`.
* A connection is opened to the target's address and nowhere else: no names, no redirects, no proxies, no cookies.
* A body may have `max_body_bytes`, compressed or not.
* Where the engine can filter by name it is asked for our series only, once that has been seen to lose nothing.
* For one event loop; the session is opened at the first scrape and closed by `close` or the end of `async with`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from controller.engines.body import BodyReader
from controller.engines.endpoints import Endpoints
from controller.engines.reading import EngineReading
from controller.engines.refusal import BodyRefused, Reason
from controller.engines.targets import Failure, ScrapeResult, Target
from controller.engines.transport import HEADERS, MAX_BODY_BYTES, ScrapeFailed, get
from controller.foundation import Clock, monotonic

# Independent of the sampling interval: under load on two cores a healthy engine took 4.4 s to answer.
DEFAULT_TIMEOUT_SECONDS = 5.0
DEFAULT_CONCURRENCY = 64
# uvicorn closes idle connections after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE), so keeping them longer keeps dead ones, and
# keeping them as long is a race at every sampling interval of 5 s.
_KEEP_ALIVE_SECONDS = 4.0
# Failures that tell about the process, not about the form of the request: another form would fail as well.
_NO_SECOND_TRY = frozenset({Reason.UNREACHABLE, Reason.TLS})

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Turn:
    """When a target's turn began: model time, and monotonic wall time."""

    started_at: float
    began: float


class Scraper:
    """Scrapes engine processes.

    `dial` maps a target's address and port to those that are connected to (simulated networks). `tls` verifies https
    targets; by default the system's authorities do, which no self-signed engine passes.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        concurrency: int = DEFAULT_CONCURRENCY,
        max_body_bytes: int = MAX_BODY_BYTES,
        tls: ssl.SSLContext | None = None,
        dial: Callable[[str, int], tuple[str, int]] | None = None,
        reader: BodyReader | None = None,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._concurrency = concurrency
        self._max_body_bytes = max_body_bytes
        self._tls = tls
        self._dial = dial
        self._reader = reader or BodyReader()
        self._filters = {
            profile.engine: urlencode([("name[]", name) for name in profile.filter_names()])
            for profile in self._reader.profiles
            if profile.filters_by_name
        }
        self._monotonic = monotonic
        self._endpoints = Endpoints()
        self._turns = asyncio.Semaphore(concurrency)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. The next scrape opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def scrape(self, targets: Sequence[Target], *, deadline_seconds: float | None = None) -> list[ScrapeResult]:
        """One result per target, in their order."""
        if not targets:
            return []
        turns = [_Turn(self._clock.now(), self._monotonic()) for _ in targets]
        pairs = zip(targets, turns, strict=True)
        tasks = [asyncio.create_task(self._scrape_in_turn(target, turn)) for target, turn in pairs]
        try:
            await asyncio.wait(tasks, timeout=deadline_seconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [
            self._failed(target, turn, Reason.DEADLINE, f"not answered within {deadline_seconds} s of the whole scrape")
            if task.cancelled()
            else task.result()
            for target, turn, task in zip(targets, turns, tasks, strict=True)
        ]

    async def _scrape_in_turn(self, target: Target, turn: _Turn) -> ScrapeResult:
        async with self._turns:
            turn.started_at, turn.began = self._clock.now(), self._monotonic()
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    reading, answered_at = await self._read(target)
            except TimeoutError:
                return self._failed(target, turn, Reason.TIMEOUT, f"no answer within {self._timeout_seconds:g} s")
            except (ScrapeFailed, BodyRefused) as failure:
                return self._failed(target, turn, failure.reason, failure.message)
            except Exception as error:  # noqa: BLE001 - the contract: nothing is raised for a target
                _log.exception("a defect in reading the metrics of %s", target.key)
                return self._failed(target, turn, Reason.INTERNAL, f"a defect of the scaler ({type(error).__name__})")
            return ScrapeResult(target, reading, None, turn.started_at, answered_at, self._monotonic() - turn.began)

    def _failed(self, target: Target, turn: _Turn, reason: Reason, message: str) -> ScrapeResult:
        failure = Failure(reason, message)
        return ScrapeResult(target, None, failure, turn.started_at, None, self._monotonic() - turn.began)

    async def _read(self, target: Target) -> tuple[EngineReading, float]:
        """(the reading, when its answer began to arrive)."""
        engine = self._endpoints.filtered_engine(target, self._monotonic())
        if engine is not None:
            try:
                reading, answered_at = await self._request(target, self._filters[engine])
                if self._endpoints.is_complete(target, reading):
                    return reading, answered_at
            except asyncio.CancelledError:
                # Out of time: perhaps a busy engine, perhaps a path that hangs. Never lose a target to the filter.
                self._endpoints.give_up(target)
                raise
            except ScrapeFailed as failure:
                if failure.reason in _NO_SECOND_TRY:
                    raise
            except BodyRefused:
                pass
            self._endpoints.give_up(target)
        reading, answered_at = await self._request(target, None)
        can_filter = reading.engine in self._filters and not target.path.endswith("/")
        self._endpoints.learn(target, reading, filters_by_name=can_filter, now=self._monotonic())
        return reading, answered_at

    async def _request(self, target: Target, names: str | None) -> tuple[EngineReading, float]:
        host, port = self._dial(target.host, target.port) if self._dial else (target.host, target.port)
        url = _url(target.scheme, host, port, target.path, names)
        answer = await get(self._open(), url, host=target.authority, now=self._clock.now, limit=self._max_body_bytes)
        reading = self._reader.read(
            answer.body,
            engine=target.engine,
            models=target.served_model_names,
            role=target.role,
            openmetrics=answer.openmetrics,
        )
        return reading, answer.answered_at

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._concurrency,
                    keepalive_timeout=_KEEP_ALIVE_SECONDS,
                    ssl=True if self._tls is None else self._tls,
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=HEADERS,
                auto_decompress=False,  # transport.py does it within bounds
                trust_env=False,
            )
        return self._session


@lru_cache(maxsize=8_192)
def _url(scheme: str, host: str, port: int, path: str, names: str | None) -> URL:
    url = URL.build(scheme=scheme, host=host, port=port, path=path)
    return url if names is None else URL(f"{url}/?{names}", encoded=True)
