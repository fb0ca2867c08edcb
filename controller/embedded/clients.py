"""Open-loop streaming clients: they send every request at its time, whatever became of the earlier ones.

Latencies are in model time and count from the moment a request was due, not from when the client got round to it, so a
client that lags cannot flatter the server. `latest_seconds` tells how far it ever lagged, `late` how many requests were
sent more than `LATE_SECONDS` after their time: the load was then not the one that was asked for. A request ends in one
of four ways:

* completed: all tokens it asked for, and an orderly end;
* lost: anything that its user would call a failure (a 5xx, a broken connection, a stream cut or short);
* rejected: a 4xx, the request's own fault;
* abandoned: `run` was cancelled, or `drain_seconds` after the last arrival it was still not answered.

Memory does not grow with the number of requests, only with the length of the run (a few hundred bytes an interval).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import aiohttp
import msgspec
import orjson

from controller.embedded.measures import Distribution, IntervalSeries
from controller.foundation import Clock
from controller.plant import Arrival

_DONE = b"data: [DONE]"
_DATA = b"data: "
# Different texts of losses, kept for the report; a broken run loses thousands in the same way.
_MOST_REASONS = 20
# Model time: the interval at which a scaler looks.
LATE_SECONDS = 10.0


class Outcome(Enum):
    """How a request ended."""

    COMPLETED = "completed"
    LOST = "lost"
    REJECTED = "rejected"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class ClientTotals:
    """Counts since the start. `tokens` are those received plus the prompts that were answered."""

    requests: int
    in_flight: int
    completed: int
    lost: int
    rejected: int
    abandoned: int
    tokens: int
    output_tokens: int


class _Usage(msgspec.Struct, frozen=True):
    completion_tokens: int


class _Frame(msgspec.Struct, frozen=True):
    usage: _Usage | None = None
    error: Any = None


_FRAMES = msgspec.json.Decoder(_Frame)


class _Lost(Exception):
    pass


class OpenLoopClients:
    """All clients of a run. `run` once; read `totals`, `series`, `ttft`, `itl` and `losses` at any time."""

    def __init__(
        self, clock: Clock, url: str, model_name: str, *, interval_seconds: float = 10.0, media_tokens: int = 0
    ) -> None:
        """`media_tokens`: an image of up to so many tokens stands for a part of every prompt, at most for half of
        it."""
        self._clock = clock
        self._url = f"{url}/v1/completions"
        self._model_name = model_name
        self._interval_seconds = interval_seconds
        self._media_tokens = media_tokens
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._requests = 0
        self._tokens = 0
        self._output_tokens = 0
        self.series = IntervalSeries(clock.now(), interval_seconds)
        self.ttft = Distribution()
        self.itl = Distribution()
        self.losses: Counter[str] = Counter()  # how often each text was given
        self.latest_seconds = 0.0
        self.late = 0
        self.lag_seconds = 0.0  # of the sending now; 0 while it waits for the next request's time

    @property
    def totals(self) -> ClientTotals:
        """The counts now."""
        outcomes = self._outcomes
        return ClientTotals(
            requests=self._requests,
            in_flight=self._requests - sum(outcomes.values()),
            completed=outcomes[Outcome.COMPLETED],
            lost=outcomes[Outcome.LOST],
            rejected=outcomes[Outcome.REJECTED],
            abandoned=outcomes[Outcome.ABANDONED],
            tokens=self._tokens,
            output_tokens=self._output_tokens,
        )

    async def run(self, arrivals: Iterable[Arrival], *, drain_seconds: float = 600.0) -> None:
        """Send all `arrivals`, counted from now, and wait for their answers. Cancelling abandons what is in flight."""
        start = self._clock.now()
        self.series = IntervalSeries(start, self._interval_seconds)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
        in_flight: set[asyncio.Task[None]] = set()
        session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json"},
        )
        async with session:
            try:
                for arrival in arrivals:
                    due = start + arrival.t_seconds
                    early = due - self._clock.now()
                    if early > 0:
                        self.lag_seconds = 0.0
                        await self._clock.sleep(early)
                    else:
                        await asyncio.sleep(0)  # let the answers be read, however far behind the sending is
                    self.lag_seconds = max(0.0, self._clock.now() - due)
                    self.latest_seconds = max(self.latest_seconds, self.lag_seconds)
                    self.late += self.lag_seconds > LATE_SECONDS
                    task = asyncio.create_task(self._request(session, arrival, due))
                    in_flight.add(task)
                    task.add_done_callback(in_flight.discard)
                self.lag_seconds = 0.0
                if in_flight:
                    await asyncio.wait(in_flight, timeout=self._clock.wall_seconds(drain_seconds))
            finally:
                for task in in_flight:
                    task.cancel()
                await asyncio.gather(*in_flight, return_exceptions=True)

    async def _request(self, session: aiohttp.ClientSession, arrival: Arrival, due: float) -> None:
        self._requests += 1
        interval = self.series.at(due)
        interval.requests += 1
        interval.arrived_tokens += arrival.prompt_tokens + arrival.output_tokens
        interval.arrived_prompt_tokens += arrival.prompt_tokens
        outcome = Outcome.ABANDONED
        try:
            outcome = await self._answered(session, arrival, due)
        except (_Lost, aiohttp.ClientError, OSError) as error:
            outcome = Outcome.LOST
            self.series.at(self._clock.now()).lost += 1
            reason = str(error) or type(error).__name__
            if reason in self.losses or len(self.losses) < _MOST_REASONS:
                self.losses[reason] += 1
        finally:
            self._outcomes[outcome] += 1

    async def _answered(self, session: aiohttp.ClientSession, arrival: Arrival, due: float) -> Outcome:
        media = min(self._media_tokens, arrival.prompt_tokens // 2)
        body = orjson.dumps(
            {
                "model": self._model_name,
                "prompt_tokens": arrival.prompt_tokens - media,
                "max_tokens": arrival.output_tokens,
                "stream": True,
                "stream_options": {"continuous_usage_stats": True},
                **({"mm_items": [media]} if media else {}),
            }
        )
        async with session.post(self._url, data=body) as response:
            if response.status != 200:
                text = (await response.text())[:200]
                if 400 <= response.status < 500:
                    return Outcome.REJECTED
                raise _Lost(f"status {response.status}: {text}")
            tokens = await self._read_stream(response.content, arrival, due)
        if tokens != arrival.output_tokens:
            raise _Lost(f"{tokens} of {arrival.output_tokens} tokens came")
        self.series.at(self._clock.now()).completed += 1
        return Outcome.COMPLETED

    async def _read_stream(self, content: aiohttp.StreamReader, arrival: Arrival, due: float) -> int:
        """The number of tokens that came. Raises _Lost where the stream ends in disorder."""
        tokens = 0
        last = due
        rest = b""
        done = False
        async for chunk in content.iter_any():
            *events, rest = (rest + chunk).split(b"\n\n")
            for event in events:
                if event.startswith(_DONE):
                    done = True
                    continue
                try:
                    frame = _FRAMES.decode(event[len(_DATA) :])
                except msgspec.DecodeError as error:
                    raise _Lost(f"a frame cannot be read: {error}") from None
                if frame.error is not None:
                    raise _Lost(f"error in the stream: {str(frame.error)[:200]}")
                if frame.usage is not None and frame.usage.completion_tokens > tokens:
                    now = self._clock.now()
                    self._count(frame.usage.completion_tokens - tokens, arrival, now - last, now, first=tokens == 0)
                    tokens, last = frame.usage.completion_tokens, now
        if not done:
            raise _Lost("the stream ended without its end mark")
        return tokens

    def _count(self, tokens: int, arrival: Arrival, seconds: float, now: float, *, first: bool) -> None:
        interval = self.series.at(now)
        served = tokens
        if first:
            # A first frame may bring more than the first token when the reader is late; its time is still the TTFT.
            self.ttft.add(seconds)
            interval.ttft.add(seconds)
            served += arrival.prompt_tokens
        else:
            self.itl.add(seconds / tokens, tokens)
            interval.itl.add(seconds / tokens, tokens)
        self._tokens += served
        self._output_tokens += tokens
        interval.served_tokens += served
