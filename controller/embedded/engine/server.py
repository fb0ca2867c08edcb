"""An engine server: the continuous batch of the plant behind vLLM's HTTP API, on an address of its own.

    POST /v1/completions   GET /v1/models   GET /health   GET /metrics   GET /metrics/?name[]=…

Promised: answers take the model time that the batch gives them; a request that was accepted (its status line was
sent) gets all its tokens unless the server is stopped, crashes, or its client goes away, whereupon the request is
aborted and its place in the batch is free. `/metrics` shows what was generated up to the moment of the scrape. While
the model loads (`startup_seconds`) everything answers 503. `/metrics` ignores a filter, `/metrics/` honours it, as vLLM
does.

For tests and demonstrations of trouble: `crash` kills the process as the kernel would (connections reset, counters
gone) and lets it come up again like a restarted container; `hang` stops it from answering and working until `resume`.

`on_change` is called, on the event loop, whenever `state` has changed. Cancelling `start` or `stop` leaves the server
stopped or stopping.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import orjson
from aiohttp import web

from controller.embedded.engine.completions import Answer, BadRequest, parse_completion
from controller.embedded.engine.exposition import template
from controller.embedded.engine.kinds import EngineDialect, EngineKind
from controller.embedded.engine.metrics import EngineMetrics
from controller.embedded.httpserver import AddressInUse, HttpServer
from controller.embedded.loopback import LoopbackAddresses
from controller.foundation import Clock
from controller.plant import BatchLimits, BatchRequest, ContinuousBatch, Progress, ServiceTime

DEFAULT_PORT = 8000  # the contract's serving port
# Measured from the creation of a Pod to its readiness for vLLM on an H200 with cached weights (scaling benchmark).
DEFAULT_STARTUP_SECONDS = 76.0
# Qwen3-8B on an H200: 110 GB of cache at 144 KiB a token.
DEFAULT_KV_CACHE_TOKENS = 736_000
DEFAULT_MAX_MODEL_LEN = 40_960

_SSE_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
_JSON = "application/json"
_PLAIN_PAGE = "text/plain; version=1.0.0; charset=utf-8"  # what /metrics of vLLM 0.32 says, whatever was asked for
_FILTERED_PAGE = "text/plain; version=0.0.4; charset=utf-8"


class EngineState(Enum):
    """Where an engine server is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"  # the model loads
    SERVING = "serving"
    HUNG = "hung"
    DOWN = "down"  # crashed, not yet restarted


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What an engine is. `service` carries its slowdown already; token frames hold up to `frame_tokens`.

    `data_parallel` ranks each have the limits given here, as in vLLM and SGLang.
    """

    model_name: str
    service: ServiceTime
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 8192
    max_model_len: int = DEFAULT_MAX_MODEL_LEN
    kv_cache_tokens: int = DEFAULT_KV_CACHE_TOKENS
    startup_seconds: float = DEFAULT_STARTUP_SECONDS
    frame_tokens: int = 32
    kind: EngineKind = EngineKind.SERVER
    dialect: EngineDialect = EngineDialect.VLLM
    data_parallel: int = 1

    def __post_init__(self) -> None:
        if self.data_parallel < 1:
            raise ValueError(f"data_parallel: must be at least 1, got {self.data_parallel}")

    @property
    def limits(self) -> BatchLimits:
        """The limits of the batch."""
        return BatchLimits(self.max_num_seqs, self.max_num_batched_tokens, self.kv_cache_tokens, self.frame_tokens)


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """In-flight requests of an engine at one moment."""

    running: int
    waiting: int


class _Stream:
    """What a request got so far, and whoever waits for more."""

    __slots__ = ("_waiter", "finished", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        self.finished = False
        self._waiter: asyncio.Future[None] | None = None

    def push(self, progress: Progress) -> None:
        self.tokens, self.finished = progress.tokens, progress.finished
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def beyond(self, tokens: int) -> None:
        """Wait until there are more than `tokens`."""
        while self.tokens <= tokens:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


class EngineServer:
    """One replica member. Create, `start`, use, `stop`."""

    def __init__(
        self, config: EngineConfig, clock: Clock, *, on_change: Callable[[EngineServer], None] | None = None
    ) -> None:
        self.config = config
        self.restart_count = 0
        self.started_seconds = 0.0  # model time of the start of the current process
        self._clock = clock
        self._on_change = on_change
        self._http = HttpServer(self._handle)
        self._state = EngineState.STOPPED
        self._boot: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._arming = False
        self._hung_since = 0.0
        self._resumed = asyncio.Event()
        self._ids = itertools.count()
        self._new_process()

    @property
    def state(self) -> EngineState:
        """Where it is in its life."""
        return self._state

    @property
    def host(self) -> str:
        """The loopback address; empty before `start`."""
        return self._http.host

    @property
    def port(self) -> int:
        """The port; 0 before `start`."""
        return self._http.port

    @property
    def url(self) -> str:
        """`http://host:port`."""
        return self._http.url

    def load(self) -> EngineLoad:
        """Requests in flight now."""
        self._advance()
        return EngineLoad(self._batch.running, self._batch.waiting)

    async def start(self, addresses: LoopbackAddresses, port: int = DEFAULT_PORT) -> None:
        """Listen on a free address and begin to load the model. Raises OperationFailed when there is no address."""
        await addresses.listen(self._http, port)
        self._begin()

    async def stop(self) -> None:
        """Stop at once; requests in progress are cut. Idempotent."""
        self._end(EngineState.STOPPED)
        await self._http.stop()

    async def crash(self, *, down_seconds: float | None = 10.0) -> None:
        """Die as if killed, and come up again after `down_seconds` of model time (None: stay down)."""
        host, port = self._http.host, self._http.port
        self._end(EngineState.DOWN)
        await self._http.abort()
        if down_seconds is not None:
            self._boot = asyncio.create_task(self._restart(host, port, down_seconds), name=f"restart {host}")

    def hang(self) -> None:
        """Stop answering and working; connections stay open. No effect unless serving."""
        if self._state is EngineState.SERVING:
            self._advance()
            self._disarm()
            self._hung_since = self._clock.now()
            self._resumed.clear()
            self._become(EngineState.HUNG)

    def resume(self) -> None:
        """Go on where `hang` stopped."""
        if self._state is EngineState.HUNG:
            self._batch.stall(self._clock.now() - self._hung_since)
            self._become(EngineState.SERVING)
            self._resumed.set()
            self._arm()

    def _new_process(self) -> None:
        self.started_seconds = self._clock.now()
        config = self.config
        page = template(config.model_name, config.max_model_len, config.kv_cache_tokens)
        self._metrics = EngineMetrics(page, self.started_seconds)
        self._batch = ContinuousBatch(config.service, config.limits, self._metrics)

    def _begin(self) -> None:
        self._new_process()
        self._resumed.set()
        self._become(EngineState.STARTING)
        self._boot = asyncio.create_task(self._load_model(), name=f"load model at {self._http.host}")

    async def _load_model(self) -> None:
        await self._clock.sleep(self.config.startup_seconds)
        self._become(EngineState.SERVING)

    async def _restart(self, host: str, port: int, down_seconds: float) -> None:
        while True:
            await self._clock.sleep(down_seconds)
            try:
                await self._http.start(host, port)
                break
            except AddressInUse:
                continue  # somebody took the port meanwhile; a container would crash-loop
        self.restart_count += 1
        self._begin()

    def _end(self, state: EngineState) -> None:
        if self._boot is not None:
            self._boot.cancel()
            self._boot = None
        self._disarm()
        self._become(state)
        self._resumed.set()

    def _become(self, state: EngineState) -> None:
        if state is not self._state:
            self._state = state
            if self._on_change is not None:
                self._on_change(self)

    # The batch and the clock: one timer, set to the next event of the batch.

    def _advance(self) -> None:
        if self._state is EngineState.SERVING:
            for progress in self._batch.advance(self._clock.now()):
                stream = progress.request.key
                if isinstance(stream, _Stream):
                    stream.push(progress)

    def _tick(self) -> None:
        self._timer = None
        self._advance()
        self._arm()

    def _arm_soon(self) -> None:
        """Set the timer once all that arrives in this turn of the loop has been submitted."""
        if not self._arming:
            self._arming = True
            asyncio.get_running_loop().call_soon(self._arm)

    def _arm(self) -> None:
        self._arming = False
        self._disarm()
        if self._state is not EngineState.SERVING:
            return
        upcoming = self._batch.next_event_seconds()
        if upcoming is not None:
            delay = self._clock.wall_seconds(max(0.0, upcoming - self._clock.now()))
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # HTTP

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._state is EngineState.HUNG:
            await self._resumed.wait()
        if self._state is not EngineState.SERVING:
            return web.Response(status=503, text="the model is loading\n")
        match (request.method, request.path):
            case ("POST", "/v1/completions"):
                return await self._complete(request)
            case ("GET", "/health" | "/ping"):
                return web.Response()
            case ("GET", "/metrics"):
                return self._page(None, _PLAIN_PAGE)
            case ("GET", "/metrics/"):
                return self._page(frozenset(request.query.getall("name[]", [])), _FILTERED_PAGE)
            case ("GET", "/v1/models"):
                model = {"id": self.config.model_name, "object": "model", "max_model_len": self.config.max_model_len}
                return web.Response(body=orjson.dumps({"object": "list", "data": [model]}), content_type=_JSON)
        return web.Response(status=404, body=b'{"detail":"Not Found"}', content_type=_JSON)

    def _page(self, names: frozenset[str] | None, content_type: str) -> web.Response:
        self._advance()
        batch = self._batch
        body = self._metrics.render(
            running=batch.running,
            waiting=batch.waiting,
            kv_usage=batch.kv_tokens / self.config.kv_cache_tokens,
            names=names,
        )
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _complete(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            body = await request.read()
            config = self.config
            completion = parse_completion(body, model_name=config.model_name, max_model_len=config.max_model_len)
            if completion.prompt_tokens + completion.output_tokens > config.kv_cache_tokens:
                raise BadRequest(f"the cache holds {config.kv_cache_tokens} tokens, fewer than were requested")
        except BadRequest as error:
            return web.Response(status=error.status, body=error.body(), content_type=_JSON)
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, body=BadRequest("the body is too large", 413).body(), content_type=_JSON)
        if self._state is not EngineState.SERVING:  # it changed while the body was read
            return web.Response(status=503, text="the engine is not serving\n")
        self._advance()
        stream = _Stream()
        now = self._clock.now()
        batch = self._batch
        entry = batch.submit(stream, completion.prompt_tokens, completion.output_tokens, now)
        self._arm_soon()
        answer = Answer(completion, f"cmpl-{next(self._ids):08x}", self.config.model_name, now)
        try:
            if completion.stream:
                return await self._send_stream(request, stream, answer)
            await stream.beyond(completion.output_tokens - 1)
            return web.Response(body=answer.whole(), content_type=_JSON)
        finally:
            if not stream.finished:
                self._drop(batch, entry)

    async def _send_stream(self, request: web.BaseRequest, stream: _Stream, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers=_SSE_HEADERS)
        await response.prepare(request)
        sent = 0
        try:
            while True:
                await stream.beyond(sent)
                sent = stream.tokens
                frame = answer.frame(sent, stream.finished)
                if stream.finished:
                    await response.write(frame + answer.end())
                    break
                await response.write(frame)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has gone: no error of this server, and the caller takes the request out
        return response

    def _drop(self, batch: ContinuousBatch, entry: BatchRequest) -> None:
        """Take a request out that did not end by itself: its client has gone, or the process has."""
        if batch is self._batch:
            self._advance()
            batch.abort(entry)
            self._arm_soon()
