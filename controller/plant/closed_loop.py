"""Closed-loop load on one simulated engine: what a benchmark client at a fixed concurrency would measure.

Serves the fit of a sweep, its check, and the question how many tokens a second a replica makes under another mix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from controller.plant.batch import BatchLimits, BatchObserver, BatchRequest, ContinuousBatch, Progress
from controller.plant.service_time import ServiceTime

_NO_FRAMES = 1 << 30  # nobody reads the tokens in between


@dataclass(frozen=True, slots=True)
class ClosedLoopResult:
    """Steady state at one concurrency. Quantiles are exact over requests (TTFT) and over tokens (ITL)."""

    concurrency: int
    requests: int
    total_tokens_per_second: float
    output_tokens_per_second: float
    ttft_p50_seconds: float
    ttft_p99_seconds: float
    itl_p50_seconds: float
    itl_p99_seconds: float


class _Recorder(BatchObserver):
    def __init__(self) -> None:
        self.ttft: list[float] = []
        self.itl: dict[float, int] = {}
        self.finished_requests = 0
        self.tokens = 0
        self.output_tokens = 0

    def steps(self, duration_seconds: float, count: int, decoding: int, prefill_tokens: int) -> None:
        if decoding:
            self.itl[duration_seconds] = self.itl.get(duration_seconds, 0) + count * decoding

    def first_token(self, request: BatchRequest, at_seconds: float) -> None:
        self.ttft.append(at_seconds - request.arrived_seconds)

    def finished(self, request: BatchRequest, at_seconds: float) -> None:
        self.finished_requests += 1
        self.tokens += request.prompt_tokens + request.output_tokens
        self.output_tokens += request.output_tokens

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]


def closed_loop(
    service: ServiceTime,
    concurrency: int,
    lengths: Iterable[tuple[int, int]],
    *,
    requests: int,
    waves: bool = False,
    limits: BatchLimits | None = None,
) -> ClosedLoopResult:
    """Keep `concurrency` requests in flight until at least `requests` have finished, after a warm-up of two turnovers.

    `lengths` are (prompt, output) tokens, repeated as needed. With `waves` the client sends the next `concurrency`
    requests only when all of the last have ended; otherwise each request is replaced at once.
    """
    recorder = _Recorder()
    slots = max(concurrency, service.last_batch_size)
    batch = ContinuousBatch(service, limits or BatchLimits(slots, frame_tokens=_NO_FRAMES), recorder)
    source = cycle(lengths)
    now = 0.0
    in_flight = 0
    started = 0.0
    warming = True
    turnover = 2 * concurrency
    while True:
        if in_flight == 0 or not waves:
            for prompt, output in islice(source, concurrency - in_flight):
                batch.submit(None, prompt, output, now)
            in_flight = concurrency
        if warming and recorder.finished_requests >= turnover and (not waves or batch.running == 0):
            recorder.forget()
            warming, started = False, now
        upcoming = batch.next_event_seconds()
        if upcoming is None:
            raise ValueError("no request of these lengths can run within the limits")
        now = upcoming
        in_flight -= _ended(batch.advance(now))
        whole = not waves or in_flight == 0
        if not warming and recorder.finished_requests >= requests and whole:
            break
    seconds = now - started
    return ClosedLoopResult(
        concurrency=concurrency,
        requests=recorder.finished_requests,
        total_tokens_per_second=recorder.tokens / seconds,
        output_tokens_per_second=recorder.output_tokens / seconds,
        ttft_p50_seconds=_quantile([(value, 1) for value in recorder.ttft], 0.50),
        ttft_p99_seconds=_quantile([(value, 1) for value in recorder.ttft], 0.99),
        itl_p50_seconds=_quantile(list(recorder.itl.items()), 0.50),
        itl_p99_seconds=_quantile(list(recorder.itl.items()), 0.99),
    )


def _ended(progress: Sequence[Progress]) -> int:
    return sum(1 for step in progress if step.finished)


def _quantile(weighted: list[tuple[float, int]], share: float) -> float:
    """The smallest value at or below which at least `share` of the weight lies; 0 without values."""
    weighted.sort()
    target = share * sum(weight for _, weight in weighted)
    seen = 0
    for value, weight in weighted:
        seen += weight
        if seen >= target:
            return value
    return 0.0
