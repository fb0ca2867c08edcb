"""How a request is answered, by the kind of the engine.

* Server, and whoever is asked for a whole answer: prompt and tokens are computed here.
* Prefill of vLLM (`do_remote_decode`): the prompt is computed and one token made; the answer carries what a decode
  process needs to fetch the blocks, which are held for it.
* Prefill of SGLang: nothing is computed before the decode process has asked; the answer, of one token, comes when that
  process has the blocks.
* Decode, with a source: blocks are fetched when there is a place for them, then tokens are made. If they cannot be
  fetched, the request ends with an error: status 500, or a frame of a stream that has begun.
* Encode: media are computed, no token is made.

Whatever ends an answer early (its client gone, the process stopped) takes the request out and lets go what was held.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from controller.embedded.engine.completions import Answer, BadRequest, Completion, server_error
from controller.embedded.engine.kinds import EngineDialect, EngineKind
from controller.embedded.engine.process import EngineProcess, Ticket
from controller.embedded.engine.streams import HandoverFailed, Stream
from controller.embedded.httpserver import HttpServer

_SSE_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
_JSON = "application/json"


class Answering:
    """One request. Raises BadRequest from the constructor for what this kind of engine does not serve."""

    def __init__(
        self, process: EngineProcess, http: HttpServer, completion: Completion, number: int, now: float
    ) -> None:
        self._process = process
        self._http = http
        self._arrived_seconds = now
        # Unlike any id of an earlier process at this address, whose blocks are gone.
        self._id = f"cmpl-{int(process.started_seconds * 1000):x}-{number:08x}"
        if process.config.kind is EngineKind.PREFILL and process.config.dialect is EngineDialect.SGLANG:
            completion = msgspec.structs.replace(completion, output_tokens=1)  # whatever was asked for
        self._completion = completion
        self._answer = Answer(completion, self._id, process.config.model_name, now)
        self._respond = self._chosen()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Carry it out."""
        try:
            return await self._respond(request)
        except HandoverFailed as failure:
            return web.Response(status=500, body=server_error(str(failure)), content_type=_JSON)

    def _chosen(self) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        config, completion = self._process.config, self._completion
        if config.kind is EngineKind.ENCODE:
            if not completion.encoder_tokens:
                raise BadRequest("mm_items: an encoder serves media only")
            return self._encode
        if config.dialect is EngineDialect.SGLANG and config.kind in (EngineKind.PREFILL, EngineKind.DECODE):
            if completion.room is None:
                raise BadRequest("bootstrap_room: must be given to a process of a disaggregated pair")
            if config.kind is EngineKind.PREFILL:
                return self._prefill_when_asked
        if config.kind is EngineKind.PREFILL and completion.keep:
            return self._prefill_and_hold
        return self._generate

    async def _generate(self, request: web.BaseRequest) -> web.StreamResponse:
        completion, stream = self._completion, Stream(self._completion.stream)
        source = completion.source if self._process.config.kind is EngineKind.DECODE else None
        ticket = self._process.submit(stream, completion.prompt_tokens, completion.output_tokens, source=source)
        try:
            if completion.stream:
                return await self._send(request, stream)
            await stream.beyond(completion.output_tokens - 1)
            return self._whole()
        finally:
            self._drop_unless(stream.finished, ticket)

    async def _prefill_and_hold(self, request: web.BaseRequest) -> web.StreamResponse:
        completion, stream = self._completion, Stream(streaming=False)
        ticket = self._process.submit(stream, completion.prompt_tokens, completion.output_tokens, keep=True)
        held = False
        try:
            await stream.beyond(completion.output_tokens - 1)
            self._process.handovers.hold(self._id, completion.prompt_tokens, lambda: self._process.let_go(ticket))
            held = True
            return self._whole(
                {
                    "do_remote_prefill": True,
                    "do_remote_decode": False,
                    "remote_request_id": self._id,
                    "remote_host": self._http.host,
                    "remote_port": self._http.port,
                    "remote_num_tokens": completion.prompt_tokens,
                }
            )
        finally:
            self._drop_unless(held, ticket)

    async def _prefill_when_asked(self, request: web.BaseRequest) -> web.StreamResponse:
        process, completion, stream = self._process, self._completion, Stream(self._completion.stream)
        room = completion.room or ""
        ticket: Ticket | None = None
        answered = False
        try:
            rank = process.choose_rank()
            process.bootstrapping(rank, 1)
            try:
                handover = await process.handovers.bootstrap(room)
            finally:
                process.bootstrapping(rank, -1)
            ticket = process.submit(
                stream, completion.prompt_tokens, 1, rank=rank, keep=True, arrived_seconds=self._arrived_seconds
            )
            await stream.beyond(0)
            kept = ticket
            handover.computed(completion.prompt_tokens, lambda: process.let_go(kept))
            await process.handovers.taken(handover)
            process.handed_over(ticket)
            answered = True
            return self._whole()
        finally:
            if ticket is not None:
                self._drop_unless(answered, ticket)
            process.handovers.forget(room)

    async def _encode(self, request: web.BaseRequest) -> web.StreamResponse:
        stream = Stream(streaming=False)
        ticket = self._process.submit(stream, self._completion.encoder_tokens, 1)
        try:
            await stream.beyond(0)
            return web.Response(body=self._answer.encoded(), content_type=_JSON)
        finally:
            self._drop_unless(stream.finished, ticket)

    async def _send(self, request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse(headers=_SSE_HEADERS)
        await response.prepare(request)
        sent = 0
        try:
            while not stream.finished or sent < stream.tokens:
                await stream.beyond(sent)
                sent = stream.tokens
                frame = self._answer.frame(sent, stream.finished)
                await response.write(frame + self._answer.end() if stream.finished else frame)
            await response.write_eof()
        except HandoverFailed as failure:
            await response.write(self._answer.failed(str(failure)))
            await response.write_eof()
        except ConnectionError:
            pass  # the client has gone: no error of this server, and the caller takes the request out
        return response

    def _whole(self, transfer: dict[str, object] | None = None) -> web.Response:
        return web.Response(body=self._answer.whole(transfer), content_type=_JSON)

    def _drop_unless(self, done: bool, ticket: Ticket) -> None:
        if not done:
            self._process.drop(ticket)
