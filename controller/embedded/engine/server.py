"""An engine server: the continuous batch of the plant behind the HTTP API of vLLM or SGLang, on an address of its own.

    POST /v1/completions   GET /v1/models   GET /health   GET /metrics   GET /metrics/?name[]=…
    POST /kv/fetch         POST /kv/renew   of a prefill process, for decode processes

Promised: answers take the model time that the batch gives them; a request that was accepted (its status line was
sent) gets all its tokens unless the server is stopped, crashes, or its client goes away, whereupon the request is
aborted and its place in the batch is free. `/metrics` shows what was generated up to the moment of the scrape. While
the model loads (`startup_seconds`) everything answers 503. vLLM's `/metrics` ignores a filter, its `/metrics/` honours
it; SGLang honours it on both.

What an engine of each kind does with a request is told in `answering`, what it counts in `vllm` and `sglang`.

For tests and demonstrations of trouble: `crash` kills the process as the kernel would (connections reset, counters
gone) and lets it come up again like a restarted container; `hang` stops it from answering and working until `resume`.

`on_change` is called, on the event loop, whenever `state` has changed. Cancelling `start` or `stop` leaves the server
stopped or stopping.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import msgspec
import orjson
from aiohttp import web

from controller.embedded.engine.answering import Answering
from controller.embedded.engine.completions import BadRequest, parse_completion
from controller.embedded.engine.config import DEFAULT_PORT, EngineConfig, EngineLoad, EngineState
from controller.embedded.engine.kinds import EngineDialect, EngineKind
from controller.embedded.engine.process import EngineProcess
from controller.embedded.httpserver import AddressInUse, HttpServer
from controller.embedded.loopback import LoopbackAddresses
from controller.foundation import Clock

_JSON = "application/json"
_PLAIN_PAGE = "text/plain; version=1.0.0; charset=utf-8"  # what /metrics of vLLM 0.32 says, whatever was asked for
_FILTERED_PAGE = "text/plain; version=0.0.4; charset=utf-8"


class _Blocks(msgspec.Struct):
    id: str = ""
    ids: tuple[str, ...] = ()


class EngineServer:
    """One replica member. Create, `start`, use, `stop`."""

    def __init__(
        self, config: EngineConfig, clock: Clock, *, on_change: Callable[[EngineServer], None] | None = None
    ) -> None:
        self.config = config
        self.restart_count = 0
        self._clock = clock
        self._on_change = on_change
        self._http = HttpServer(self._handle)
        self._state = EngineState.STOPPED
        self._boot: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._arming = False
        self._resumed = asyncio.Event()
        self._ids = itertools.count()
        self._process = EngineProcess(config, clock, self._arm_soon)

    @property
    def started_seconds(self) -> float:
        """Model time of the start of the current process."""
        return self._process.started_seconds

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
        return self._process.load()

    async def start(self, addresses: LoopbackAddresses, port: int = DEFAULT_PORT) -> None:
        """Listen on a free address and begin to load the model. Raises OperationFailed when there is no address."""
        await addresses.listen(self._http, port)
        self._begin()

    async def stop(self) -> None:
        """Stop at once; requests in progress are cut. Idempotent."""
        self._end(EngineState.STOPPED)
        await self._http.stop()
        await self._process.close()

    async def crash(self, *, down_seconds: float | None = 10.0) -> None:
        """Die as if killed, and come up again after `down_seconds` of model time (None: stay down)."""
        host, port = self._http.host, self._http.port
        self._end(EngineState.DOWN)
        await self._http.abort()
        await self._process.close()
        if down_seconds is not None:
            self._boot = asyncio.create_task(self._restart(host, port, down_seconds), name=f"restart {host}")

    def hang(self) -> None:
        """Stop answering and working; connections stay open. No effect unless serving."""
        if self._state is EngineState.SERVING:
            self._process.freeze()
            self._disarm()
            self._resumed.clear()
            self._become(EngineState.HUNG)

    def resume(self) -> None:
        """Go on where `hang` stopped."""
        if self._state is EngineState.HUNG:
            self._process.thaw()
            self._become(EngineState.SERVING)
            self._resumed.set()
            self._arm()

    def _begin(self) -> None:
        self._process = EngineProcess(self.config, self._clock, self._arm_soon)
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

    # The process and the clock: one timer, set to the next event.

    def _tick(self) -> None:
        self._timer = None
        self._process.advance()
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
        upcoming = self._process.next_event_seconds()
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
            case ("POST", "/encode") if self.config.kind is EngineKind.ENCODE:
                return await self._complete(request)
            case ("POST", "/kv/fetch" | "/kv/renew") if self.config.kind is EngineKind.PREFILL:
                return await self._hand_over(request)
            case ("GET", "/health" | "/ping" | "/health_generate"):
                return web.Response()
            case ("GET", "/metrics") if self.config.dialect is EngineDialect.VLLM:
                return self._page(None, _PLAIN_PAGE)
            case ("GET", "/metrics"):
                return self._page(frozenset(request.query.getall("name[]", [])), _FILTERED_PAGE)
            case ("GET", "/metrics/"):
                return self._page(frozenset(request.query.getall("name[]", [])), _FILTERED_PAGE)
            case ("GET", "/v1/models"):
                model = {"id": self.config.model_name, "object": "model", "max_model_len": self.config.max_model_len}
                return web.Response(body=orjson.dumps({"object": "list", "data": [model]}), content_type=_JSON)
        return web.Response(status=404, body=b'{"detail":"Not Found"}', content_type=_JSON)

    def _page(self, names: frozenset[str] | None, content_type: str) -> web.Response:
        return web.Response(body=self._process.render(names), headers={"Content-Type": content_type})

    async def _complete(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            body = await request.read()
            config = self.config
            completion = parse_completion(body, model_name=config.model_name, max_model_len=config.max_model_len)
            if completion.prompt_tokens + completion.output_tokens > config.kv_cache_tokens:
                raise BadRequest(f"the cache holds {config.kv_cache_tokens} tokens, fewer than were requested")
            answering = Answering(self._process, self._http, completion, next(self._ids), self._clock.now())
        except BadRequest as error:
            return web.Response(status=error.status, body=error.body(), content_type=_JSON)
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, body=BadRequest("the body is too large", 413).body(), content_type=_JSON)
        if self._state is not EngineState.SERVING:  # it changed while the body was read
            return web.Response(status=503, text="the engine is not serving\n")
        return await answering.answer(request)

    async def _hand_over(self, request: web.BaseRequest) -> web.Response:
        handovers = self._process.handovers
        try:
            asked = msgspec.json.decode(await request.read(), type=_Blocks)
        except msgspec.DecodeError as error:
            return web.Response(status=400, text=f"{error}\n")
        if request.path == "/kv/renew":
            handovers.renew(asked.ids)
            return web.Response()
        tokens = await handovers.fetch(asked.id, wait=self.config.dialect is EngineDialect.SGLANG)
        if tokens is None:
            return web.Response(status=404, text="no such blocks\n")
        return web.Response(body=orjson.dumps({"tokens": tokens}), content_type=_JSON)
