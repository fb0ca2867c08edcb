"""Streaming clients of a real engine, and a ledger of what they were given, to compare with what the engine says.

Prompts are token numbers, so their lengths are exact; generation ends at `max_tokens` and nowhere else. Everything is
counted by the moment it arrived. A request that was accepted and did not get all its tokens in order is a failure, with
the reason in words.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from controller.foundation import Clock
from hack.engine.model import FIRST_WORD, VOCABULARY

_DATA = b"data: "
# Of the prompts, those that were sent before: what the engine has of them in its prefix cache is no work.
REPEATED_SHARE = 0.2
REPEATED_PROMPTS = 4


@dataclass
class Request:
    """One request, as its client saw it. Times on the clients' clock."""

    prompt_tokens: int
    asked_tokens: int
    sent_at: float
    first_at: float | None = None
    ended_at: float | None = None
    tokens: int = 0
    cached_tokens: int | None = None
    failure: str = ""


@dataclass(frozen=True)
class Sums:
    """What arrived in a stretch of time."""

    prompt_tokens: int
    generation_tokens: int
    first_tokens: int
    ttft_seconds: float  # summed, of those whose first token arrived in it
    itl_seconds: float  # summed
    later_tokens: int


@dataclass
class Ledger:
    """All requests of a run."""

    requests: list[Request] = field(default_factory=list)
    arrivals: list[tuple[float, int, float]] = field(default_factory=list)  # at, tokens, seconds since the one before

    @property
    def failures(self) -> list[str]:
        return [request.failure for request in self.requests if request.failure]

    @property
    def completed(self) -> int:
        return sum(request.ended_at is not None and not request.failure for request in self.requests)

    def in_flight(self, at: float) -> int:
        """How many requests were sent and not ended at a moment."""
        return sum(
            request.sent_at <= at and (request.ended_at is None or request.ended_at > at) for request in self.requests
        )

    def between(self, start: float, end: float) -> Sums:
        """What arrived after `start` and not after `end`."""
        first = [each for each in self.requests if each.first_at is not None and start < each.first_at <= end]
        begin = bisect.bisect_right(self.arrivals, (start, 1 << 60, 0.0))
        stop = bisect.bisect_right(self.arrivals, (end, 1 << 60, 0.0))
        arrived = self.arrivals[begin:stop]
        later = [(tokens, gap) for _, tokens, gap in arrived if gap > 0.0]
        return Sums(
            prompt_tokens=sum(request.prompt_tokens for request in first),
            generation_tokens=sum(tokens for _, tokens, _ in arrived),
            first_tokens=len(first),
            ttft_seconds=sum((request.first_at or 0.0) - request.sent_at for request in first),
            itl_seconds=sum(gap for _, gap in later),
            later_tokens=sum(tokens for tokens, _ in later),
        )


class Clients:
    """Sends to one URL. `prompt` and `output` are (shortest, longest), in tokens."""

    def __init__(
        self,
        clock: Clock,
        url: str,
        model: str,
        *,
        prompt: tuple[int, int] = (50, 300),
        output: tuple[int, int] = (50, 200),
        seed: int = 1,
    ) -> None:
        self._clock = clock
        self._url = f"{url}/v1/completions"
        self._model = model
        self._prompt = prompt
        self._output = output
        self._random = random.Random(seed)
        self._repeated = [self._words() for _ in range(REPEATED_PROMPTS)]
        self._tasks: set[asyncio.Task[None]] = set()
        self.ledger = Ledger()

    @asynccontextmanager
    async def streams(self, number: int) -> AsyncIterator[None]:
        """So many clients, each of which sends its next request when the last one was answered. At the end the
        requests under way are waited for."""
        stop = asyncio.Event()

        async def one(session: aiohttp.ClientSession) -> None:
            while not stop.is_set():
                await self._send(session)

        async with self._session() as session, asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(one(session))
            try:
                yield
            finally:
                stop.set()

    @asynccontextmanager
    async def paced(self, per_second: float) -> AsyncIterator[None]:
        """So many requests a second, whatever becomes of them. At the end those under way are waited for."""
        stop = asyncio.Event()

        async def all_of_them(session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
            start = self._clock.now()
            for number in itertools.count():
                await self._clock.sleep(start + number / per_second - self._clock.now())
                if stop.is_set():
                    return
                group.create_task(self._send(session))

        async with self._session() as session, asyncio.TaskGroup() as group:
            group.create_task(all_of_them(session, group))
            try:
                yield
            finally:
                stop.set()

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=300.0, sock_connect=5.0)
        )

    def _words(self) -> list[int]:
        return [self._random.randrange(FIRST_WORD, VOCABULARY) for _ in range(self._random.randint(*self._prompt))]

    async def _send(self, session: aiohttp.ClientSession) -> None:
        repeated = self._random.random() < REPEATED_SHARE
        words = self._random.choice(self._repeated) if repeated else self._words()
        asked = self._random.randint(*self._output)
        request = Request(len(words), asked, self._clock.now())
        self.ledger.requests.append(request)
        body = {
            "model": self._model,
            "prompt": words,
            "max_tokens": asked,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        try:
            async with session.post(self._url, json=body) as answer:
                if answer.status != 200:
                    request.failure = f"HTTP {answer.status}: {(await answer.text())[:200]}"
                else:
                    request.failure = await self._read(answer.content, request)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            request.failure = f"{type(error).__name__}: {error}"[:200]
        finally:
            request.ended_at = self._clock.now()
        if request.failure:
            await self._clock.sleep(0.5)  # a client that fails tries again, and not in a busy loop

    async def _read(self, content: aiohttp.StreamReader, request: Request) -> str:
        """Take the stream to its end; what was wrong with it, in words."""
        last = request.sent_at
        done = False
        async for line in content:
            if not line.startswith(_DATA):
                continue
            text = line[len(_DATA) :].strip()
            if text == b"[DONE]":
                done = True
                continue
            frame: dict[str, Any] = orjson.loads(text)
            if frame.get("error"):
                return f"error in the stream: {frame['error']}"[:200]
            usage = frame.get("usage") or {}
            details = usage.get("prompt_tokens_details") or {}
            if "cached_tokens" in details:
                request.cached_tokens = details["cached_tokens"]
            new = usage.get("completion_tokens", 0) - request.tokens
            if new > 0:
                now = self._clock.now()
                first = request.first_at is None
                request.first_at = now if first else request.first_at
                self.ledger.arrivals.append((now, new, 0.0 if first else now - last))
                request.tokens, last = request.tokens + new, now
        if not done:
            return "the stream ended without its end mark"
        if request.tokens != request.asked_tokens:
            return f"{request.tokens} of {request.asked_tokens} tokens came"
        return ""
