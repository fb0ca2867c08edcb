"""One process of an engine: its data-parallel ranks, its counters, what it holds for others and fetches from them.

A restart makes a new `EngineProcess`. Time is the clock's; the owner calls `advance` when `next_event_seconds` comes,
and whenever it wants to see the state of now. `wake` is called when something happened outside of that: ask for the
next event then.

A request goes to the rank with the least to do, as vLLM's coordinator counts it (a waiting request as four running
ones), among equals to the next in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from controller.embedded.engine.config import EngineConfig, EngineLoad
from controller.embedded.engine.counters import EnginePage, Gauges
from controller.embedded.engine.handover import Handovers
from controller.embedded.engine.kinds import EngineDialect, EngineKind
from controller.embedded.engine.receiver import KvSource, Receiver
from controller.embedded.engine.sglang import SglangPage
from controller.embedded.engine.sglang_encoder import SglangEncoderPage
from controller.embedded.engine.streams import HandoverFailed, Stream
from controller.embedded.engine.vllm import VllmPage
from controller.foundation import Clock
from controller.plant import BatchRequest, ContinuousBatch, RequestState

_WAITING_WEIGHT = 4  # vLLM's data-parallel coordinator


def make_page(config: EngineConfig, started_seconds: float) -> EnginePage:
    """The metrics page of an engine of this kind and dialect."""
    if config.dialect is EngineDialect.VLLM:
        return VllmPage(config, started_seconds)
    if config.kind is EngineKind.ENCODE:
        return SglangEncoderPage(config, started_seconds)
    return SglangPage(config, started_seconds)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request in one of the ranks."""

    rank: int
    request: BatchRequest
    stream: Stream
    source: KvSource | None = None


class EngineProcess:
    """The process. `close` it when it ends."""

    def __init__(self, config: EngineConfig, clock: Clock, wake: Callable[[], None]) -> None:
        self.config = config
        self.started_seconds = clock.now()
        self._clock = clock
        self._wake = wake
        self._page = make_page(config, self.started_seconds)
        self._counters = [self._page.rank(number) for number in range(config.data_parallel)]
        self._ranks = [ContinuousBatch(config.service, config.limits, counters) for counters in self._counters]
        self._turn = 0
        self._bootstrapping = [0] * config.data_parallel
        self._receiver = Receiver(clock)
        self._tickets: dict[int, Ticket] = {}  # by id() of their request: those that wait for keys and values
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._frozen_since: float | None = None
        self._ended = False
        self.handovers = Handovers(config, clock, self._expired)

    # Time

    def advance(self) -> None:
        """Bring everything to now; nothing while frozen or closed."""
        if self._ended or self._frozen_since is not None:
            return
        now = self._clock.now()
        for number, batch in enumerate(self._ranks):
            for progress in batch.advance(now):
                if isinstance(progress.request.key, Stream):
                    progress.request.key.push(progress)
            self._after(number, now)

    def next_event_seconds(self) -> float | None:
        """When to advance next; None: when something happens."""
        upcoming = [batch.next_event_seconds() for batch in self._ranks]
        now = self._clock.now()
        for number in range(len(self._ranks)):
            self._after(number, now)
        return min((seconds for seconds in upcoming if seconds is not None), default=None)

    def freeze(self) -> None:
        """Stop working until `thaw`."""
        self.advance()
        self._frozen_since = self._clock.now()

    def thaw(self) -> None:
        """Go on."""
        if self._frozen_since is not None:
            gap = self._clock.now() - self._frozen_since
            for batch in self._ranks:
                batch.stall(gap)
            self._frozen_since = None

    async def close(self) -> None:
        """The process is gone, with all that it held. Idempotent."""
        self._ended = True
        self.handovers.close()
        for task in self._fetches.values():
            task.cancel()
        self._fetches.clear()
        await self._receiver.close()

    # Requests

    def choose_rank(self) -> int:
        """The rank for the next request."""
        self.advance()
        self._turn += 1

        def load(number: int) -> tuple[int, int]:
            gauges = self._gauges(number)
            return _WAITING_WEIGHT * gauges.waiting + gauges.running, (number - self._turn) % len(self._ranks)

        return min(range(len(self._ranks)), key=load)

    def submit(
        self,
        stream: Stream,
        prompt_tokens: int,
        output_tokens: int,
        *,
        rank: int | None = None,
        source: KvSource | None = None,
        keep: bool = False,
        arrived_seconds: float | None = None,
    ) -> Ticket:
        """Queue a request: its prompt comes from `source`, or is kept at the end for a decode process.

        `arrived_seconds`: when its client sent it, if it has been waiting for a decode process since."""
        number = self.choose_rank() if rank is None else rank
        self.advance()
        batch, now = self._ranks[number], self._clock.now()
        request = batch.submit(stream, prompt_tokens, output_tokens, now, remote=source is not None, keep=keep)
        request.arrived_seconds = now if arrived_seconds is None else arrived_seconds
        self._counters[number].submitted(request)
        ticket = Ticket(number, request, stream, source)
        if source is not None:
            self._tickets[id(request)] = ticket
            if self.config.dialect is EngineDialect.VLLM:
                self._receiver.want(source)
        self._wake()
        return ticket

    def drop(self, ticket: Ticket) -> None:
        """Take a request out that did not end by itself: its client has gone. No effect on one that failed."""
        if self._ended or ticket.request.state is RequestState.ABORTED:
            return
        self.advance()
        self._forget(ticket)
        fetch = self._fetches.pop(id(ticket.request), None)
        if fetch is not None:
            fetch.cancel()
        self._ranks[ticket.rank].abort(ticket.request)
        self._counters[ticket.rank].aborted(ticket.request)
        self._wake()

    def let_go(self, ticket: Ticket) -> None:
        """Free the prompt of a request that was kept."""
        self.advance()
        self._ranks[ticket.rank].let_go(ticket.request)
        self._wake()

    def handed_over(self, ticket: Ticket) -> None:
        """A decode process has taken the prompt of a request."""
        self._counters[ticket.rank].handed_over(ticket.request, self._clock.now())

    def bootstrapping(self, rank: int, change: int) -> None:
        """A request that waits for its decode process came (1) or went (-1)."""
        self._bootstrapping[rank] += change

    # What others see

    def load(self) -> EngineLoad:
        """Requests in flight now."""
        self.advance()
        ranks = [self._gauges(number) for number in range(len(self._ranks))]
        return EngineLoad(
            sum(gauges.running for gauges in ranks),
            sum(gauges.waiting for gauges in ranks),
            sum(gauges.held for gauges in ranks),
        )

    def render(self, names: frozenset[str] | None) -> bytes:
        """The metrics page of now."""
        self.advance()
        return self._page.render([self._gauges(number) for number in range(len(self._ranks))], names)

    def _gauges(self, number: int) -> Gauges:
        batch = self._ranks[number]
        return Gauges(
            running=batch.running,
            queued=batch.waiting - batch.receiving - batch.received,
            receiving=batch.receiving,
            received=batch.received,
            bootstrapping=self._bootstrapping[number],
            held=batch.held,
            kv_tokens=batch.kv_tokens,
        )

    # Keys and values

    def _after(self, number: int, now: float) -> None:
        counters = self._counters[number]
        for request in counters.take_receiving():
            ticket = self._tickets[id(request)]
            self._fetches[id(request)] = asyncio.create_task(self._fetch(ticket), name="fetch KV blocks")
        self._page.note(number, self._gauges(number), now)

    async def _fetch(self, ticket: Ticket) -> None:
        assert ticket.source is not None  # noqa: S101 - only remote requests are fetched
        began = self._clock.now()
        batch, counters = self._ranks[ticket.rank], self._counters[ticket.rank]
        try:
            tokens = await self._receiver.fetch(ticket.source)
        except HandoverFailed as failure:
            self.advance()
            batch.abort(ticket.request)
            counters.handover_failed(ticket.request, self._clock.now())
            ticket.stream.fail(failure)
        else:
            self.advance()
            batch.deliver(ticket.request)
            counters.transferred(tokens, self._clock.now() - began)
        self._forget(ticket)
        self._fetches.pop(id(ticket.request), None)
        self._wake()

    def _forget(self, ticket: Ticket) -> None:
        self._tickets.pop(id(ticket.request), None)
        if ticket.source is not None:
            self._receiver.has(ticket.source)

    def _expired(self) -> None:
        self._counters[0].expired()
