"""A continuous-batching engine as a state machine: no clock, no I/O.

The caller owns the time. The protocol is: `advance(now)` completes every step that has ended and returns what the
requests got; `submit`, `abort` and `stall` change the state at the time last advanced to; `next_event_seconds()` says
when to call `advance` again. Times are seconds of any origin, never going back.

Promised: every submitted request that is not aborted gets exactly its output tokens, the first one at the end of the
step that completes its prompt, then one a step. Requests start in order of arrival. A run of equal decode steps is
advanced in one go, so the cost is per event (first token, frame, finish), not per token. Calling `advance` late or
often changes nothing in the result.

Disaggregation: a request submitted with `remote` has its prompt computed elsewhere. When there is room for it, it is
`RECEIVING` and its place in the cache is taken; the observer is told, moves the keys and values in its own time and
calls `deliver`, whereupon the request joins the next step with a free slot as a decoding one. With `keep`, a request
that has got its tokens stays `HELD`, its prompt in the cache, until `let_go`.

Not promised: preemption. A request starts only when the cache has room for its whole length, so none is ever needed.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from controller.plant.service_time import DEFAULT_MAX_NUM_BATCHED_TOKENS, ServiceTime

# Lets a step end at the very time that `next_event_seconds` named, although start + n × duration was rounded on the
# way: seconds since the Unix epoch have a resolution of 0.24 µs in a float.
_ROUNDING_SECONDS = 1e-6
_FAR = 1 << 62


class RequestState(Enum):
    """Where a request is."""

    WAITING = auto()
    RECEIVING = auto()  # a place in the cache, no keys and values yet
    RECEIVED = auto()  # those are there, no slot yet
    PREFILLING = auto()
    DECODING = auto()
    HELD = auto()  # all tokens out, the prompt kept in the cache for somebody else
    FINISHED = auto()
    ABORTED = auto()


@dataclass(slots=True, eq=False)
class BatchRequest:
    """A request inside the engine. Read by observers; written only by the batch."""

    key: object
    prompt_tokens: int
    output_tokens: int
    arrived_seconds: float
    remote: bool = False  # the prompt is computed elsewhere
    keep: bool = False  # hold the prompt at the end
    state: RequestState = RequestState.WAITING
    scheduled_seconds: float = 0.0
    first_token_seconds: float = 0.0
    prefilled_tokens: int = 0
    born_step: int = 0  # the decode step after which the first token was there


@dataclass(frozen=True, slots=True)
class Progress:
    """`request` has `tokens` output tokens now; the last of them came at `at_seconds`."""

    request: BatchRequest
    tokens: int
    finished: bool
    at_seconds: float


class BatchObserver:
    """What a batch reports while it advances. Every method may be overridden; none may call back into the batch."""

    def steps(self, duration_seconds: float, count: int, decoding: int, prefill_tokens: int) -> None:
        """`count` equal steps ended, each giving one token to `decoding` requests and prefilling `prefill_tokens` (of a
        remote prompt its last token, which makes the first one of the answer)."""

    def receiving(self, request: BatchRequest, at_seconds: float) -> None:
        """A remote request has a place in the cache: its keys and values may come."""

    def scheduled(self, request: BatchRequest, at_seconds: float) -> None:
        """A request leaves the queue; its prefill starts."""

    def first_token(self, request: BatchRequest, at_seconds: float) -> None:
        """The prompt of a request is complete and its first token is there."""

    def finished(self, request: BatchRequest, at_seconds: float) -> None:
        """A request got its last token. What is kept is held from now on."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of an engine, named as vLLM's flags. `frame_tokens`: how many tokens may pass between two `Progress`."""

    max_num_seqs: int
    max_num_batched_tokens: int = DEFAULT_MAX_NUM_BATCHED_TOKENS
    kv_cache_tokens: int = _FAR
    frame_tokens: int = 1

    def __post_init__(self) -> None:
        if self.max_num_seqs < 1 or self.frame_tokens < 1:
            raise ValueError("max_num_seqs and frame_tokens must be at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("max_num_batched_tokens must be at least max_num_seqs")


class ContinuousBatch:
    """One engine. See the module for the protocol."""

    def __init__(self, service: ServiceTime, limits: BatchLimits, observer: BatchObserver | None = None) -> None:
        self.service = service
        self.limits = limits
        self._observer = observer or BatchObserver()
        self._waiting: deque[BatchRequest] = deque()
        self._receiving = 0
        self._received: deque[BatchRequest] = deque()
        self._held = 0
        self._prefilling: deque[BatchRequest] = deque()
        self._due: list[tuple[int, int, BatchRequest]] = []  # heap: decode step, tie-break, request
        self._order = 0
        self._decoding = 0
        self._born_total = 0  # sum of `born_step` over decoding requests
        self._step_number = 0
        self._reserved_tokens = 0
        self._prompt_tokens_held = 0
        self._now = float("-inf")
        # The step in progress, once planned: it and its equal successors.
        self._start = float("-inf")
        self._planned = False
        self._duration = 0.0
        self._run = 0
        self._chunks: list[tuple[BatchRequest, int]] = []

    @property
    def running(self) -> int:
        """Requests in the batch, prefilling or decoding."""
        return self._decoding + len(self._prefilling)

    @property
    def waiting(self) -> int:
        """Requests that have not been started, whatever they wait for."""
        return len(self._waiting) + self._receiving + len(self._received)

    @property
    def receiving(self) -> int:
        """Of the waiting: those with a place in the cache whose keys and values are on their way."""
        return self._receiving

    @property
    def received(self) -> int:
        """Of the waiting: those with their keys and values, and no slot."""
        return len(self._received)

    @property
    def held(self) -> int:
        """Requests that have ended and whose prompt is kept."""
        return self._held

    @property
    def kv_tokens(self) -> int:
        """Tokens whose keys and values are held."""
        return self._prompt_tokens_held + self._decoding * (self._step_number + 1) - self._born_total

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a request of this length can ever run here."""
        return prompt_tokens + output_tokens <= self.limits.kv_cache_tokens

    def submit(
        self,
        key: object,
        prompt_tokens: int,
        output_tokens: int,
        now: float,
        *,
        remote: bool = False,
        keep: bool = False,
    ) -> BatchRequest:
        """Queue a request. The caller has advanced to `now`. Raises ValueError for a length that can never run."""
        if prompt_tokens < 1 or output_tokens < 1:
            raise ValueError("a request needs at least one prompt token and one output token")
        if not self.fits(prompt_tokens, output_tokens):
            raise ValueError(f"a request of {prompt_tokens + output_tokens} tokens does not fit the cache")
        request = BatchRequest(key, prompt_tokens, output_tokens, now, remote, keep)
        self._waiting.append(request)
        if self.running < self.limits.max_num_seqs:
            self._replan_after_step()
        self._now = max(self._now, now)
        return request

    def deliver(self, request: BatchRequest) -> None:
        """The keys and values of a RECEIVING request are there; no effect on one that is not RECEIVING any more."""
        if request.state is RequestState.RECEIVING:
            self._receiving -= 1
            self._received.append(request)
            request.state = RequestState.RECEIVED
            self._replan_after_step()

    def let_go(self, request: BatchRequest) -> None:
        """Free what a HELD request keeps; no effect on another one."""
        if request.state is RequestState.HELD:
            self._held -= 1
            self._release(request)
            request.state = RequestState.FINISHED
            self._replan_after_step()

    def abort(self, request: BatchRequest) -> None:
        """Take a request out, wherever it is; no effect on one that has ended."""
        match request.state:
            case RequestState.WAITING:
                self._waiting.remove(request)
            case RequestState.RECEIVING:
                self._receiving -= 1
                self._release(request)
            case RequestState.RECEIVED:
                self._received.remove(request)
                self._release(request)
            case RequestState.HELD:
                self._held -= 1
                self._release(request)
            case RequestState.PREFILLING:
                self._prefilling.remove(request)
                self._release(request)
            case RequestState.DECODING:
                self._leave_decoding(request)
                self._release(request)
            case RequestState.FINISHED | RequestState.ABORTED:
                return
        request.state = RequestState.ABORTED
        self._replan_after_step()

    def stall(self, seconds: float) -> None:
        """Nothing happened for `seconds`: the step in progress ends that much later."""
        self._start += seconds
        self._now += seconds

    def next_event_seconds(self) -> float | None:
        """When something will have happened, None while idle. Starts the next step, so submit first what came now."""
        if not self._planned:
            self._plan()
        return self._start + self._run * self._duration if self._planned else None

    def advance(self, now: float) -> list[Progress]:
        """Complete every step that ended by `now`. What the requests got, in order of time."""
        progress: list[Progress] = []
        while True:
            if not self._planned:
                if (self._start if self.running else max(self._start, self._now)) >= now:
                    break  # starts now: leave it open for what else arrives now
                self._plan()
            if not self._planned:
                break
            ended = int((now - self._start + _ROUNDING_SECONDS) / self._duration)
            if ended < 1:
                break
            count = min(ended, self._run)
            self._complete(count, progress)
        self._now = max(self._now, now)
        return progress

    def _plan(self) -> None:
        """Fix the content of the next step and of its equal successors; leaves `_planned` false when there is none."""
        decoding = self._decoding
        budget = self.limits.max_num_batched_tokens - decoding
        chunks: list[tuple[BatchRequest, int]] = []
        for request in self._prefilling:
            if budget <= 0:
                break
            take = min(budget, request.prompt_tokens - request.prefilled_tokens)
            chunks.append((request, take))
            budget -= take
        if not decoding and not chunks:
            # Idle until now: the step starts with the arrival, not where the last one ended.
            self._start = max(self._start, self._now)
        while budget > 0 and (admitted := self._admit()) is not None:
            take = min(budget, admitted.prompt_tokens - admitted.prefilled_tokens)
            chunks.append((admitted, take))
            budget -= take
        if not decoding and not chunks:
            return
        self._chunks = chunks
        # The last token of a prompt that came from elsewhere is computed as any decoded token is.
        joining = sum(request.remote for request, _ in chunks)
        prefill_tokens = sum(take for request, take in chunks if not request.remote)
        self._duration = self.service.step_seconds(decoding + joining, prefill_tokens)
        self._run = 1 if chunks else max(1, self._next_due() - self._step_number)
        self._planned = True

    def _admit(self) -> BatchRequest | None:
        """The next request that starts now, if there is room for one. Remote ones that have waited for room move on to
        RECEIVING on the way, and those that have their keys and values go first."""
        if self._received and self.running < self.limits.max_num_seqs:
            request = self._received.popleft()
            self._begin(request)
            return request
        while self._waiting and self._admissible(self._waiting[0]):
            request = self._waiting.popleft()
            self._reserved_tokens += request.prompt_tokens + request.output_tokens
            if not request.remote:
                self._begin(request)
                return request
            request.state = RequestState.RECEIVING
            request.prefilled_tokens = request.prompt_tokens - 1
            self._prompt_tokens_held += request.prefilled_tokens
            self._receiving += 1
            self._observer.receiving(request, self._start)
        return None

    def _begin(self, request: BatchRequest) -> None:
        request.state = RequestState.PREFILLING
        request.scheduled_seconds = self._start
        self._prefilling.append(request)
        self._observer.scheduled(request, self._start)

    def _admissible(self, request: BatchRequest) -> bool:
        length = request.prompt_tokens + request.output_tokens
        fits = self._reserved_tokens + length <= self.limits.kv_cache_tokens
        return self.running < self.limits.max_num_seqs and fits

    def _next_due(self) -> int:
        due = self._due
        while due and due[0][2].state is not RequestState.DECODING:
            heapq.heappop(due)
        return due[0][0] if due else self._step_number + 1

    def _complete(self, count: int, progress: list[Progress]) -> None:
        decoding, chunks = self._decoding, self._chunks
        self._start += count * self._duration
        if decoding:
            self._step_number += count
        self._observer.steps(self._duration, count, decoding, sum(take for _, take in chunks))
        self._run -= count
        if self._run <= 0:
            self._planned = False
        while self._due and self._due[0][0] <= self._step_number:
            _, _, request = heapq.heappop(self._due)
            if request.state is RequestState.DECODING:
                self._report(request, progress)
        for request, take in chunks:
            if request.state is not RequestState.PREFILLING:
                continue  # aborted during the step
            request.prefilled_tokens += take
            self._prompt_tokens_held += take
            if request.prefilled_tokens == request.prompt_tokens:
                self._prefilling.remove(request)
                request.state = RequestState.DECODING
                request.first_token_seconds = self._start
                request.born_step = self._step_number
                self._decoding += 1
                self._born_total += request.born_step
                self._observer.first_token(request, self._start)
                self._report(request, progress)
        self._chunks = []

    def _report(self, request: BatchRequest, progress: list[Progress]) -> None:
        tokens = 1 + self._step_number - request.born_step
        finished = tokens >= request.output_tokens
        progress.append(Progress(request, tokens, finished, self._start))
        if finished:
            self._leave_decoding(request)
            if request.keep:
                self._held += 1
                request.state = RequestState.HELD
            else:
                self._release(request)
                request.state = RequestState.FINISHED
            self._observer.finished(request, self._start)
            return
        last = request.born_step + request.output_tokens - 1
        self._order += 1
        heapq.heappush(self._due, (min(last, self._step_number + self.limits.frame_tokens), self._order, request))

    def _leave_decoding(self, request: BatchRequest) -> None:
        self._decoding -= 1
        self._born_total -= request.born_step

    def _release(self, request: BatchRequest) -> None:
        self._reserved_tokens -= request.prompt_tokens + request.output_tokens
        self._prompt_tokens_held -= request.prefilled_tokens

    def _replan_after_step(self) -> None:
        if self._planned:
            self._run = 1
