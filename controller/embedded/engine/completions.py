"""The OpenAI-style completions API of an engine server: reading a request, writing answers. Pure.

Read: `model`, `prompt` (a string, or a list of token ids), `max_tokens` (16), `stream`, `stream_options`
(`include_usage`, `continuous_usage_stats`), `n` (only 1). One extension: `prompt_tokens`, a number, stands for a prompt
of that many tokens, so that a load generator need not send megabytes of text. A string counts one token for four bytes
of UTF-8, the usual rule of thumb for English. A second extension: `mm_items`, a list of numbers, stands for images (or
other media) of that many tokens each, which come on top of the prompt's.

Hand-over between processes: `kv_transfer_params` as vLLM's NixlConnector takes and gives them (`do_remote_decode` to a
prefill process; what it answered, to a decode process), and `bootstrap_host`, `bootstrap_port`, `bootstrap_room` as
SGLang takes them on both sides. The port is the one of the engine's HTTP server here.

The answer always has exactly `max_tokens` tokens and finishes with `length`: this engine has no model that would stop
earlier. A streamed frame may carry several tokens. Usage is part of every frame with `continuous_usage_stats`, and a
frame of its own at the end with `include_usage`, as in vLLM; a client that asks for neither counts the tokens itself.
Everything a client may get wrong raises `BadRequest`, which becomes an error object as vLLM writes it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from controller.embedded.engine.receiver import KvSource

DEFAULT_MAX_TOKENS = 16  # of the OpenAI completions API
_BYTES_PER_TOKEN = 4
_WORD = " tok"

SSE_DONE = b"data: [DONE]\n\n"


class BadRequest(Exception):
    """The request cannot be served. `status` is the HTTP status, the text is for the client."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> bytes:
        """The JSON error object."""
        kind = "NotFoundError" if self.status == 404 else "BadRequestError"
        return orjson.dumps({"error": {"message": str(self), "type": kind, "param": None, "code": self.status}})


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _KvTransfer(msgspec.Struct, frozen=True):
    do_remote_decode: bool = False
    do_remote_prefill: bool = False
    remote_request_id: str | None = None
    remote_host: str | None = None
    remote_port: int | None = None


class _Body(msgspec.Struct, frozen=True):
    model: str | None = None
    prompt: str | list[Any] | None = None
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: int | None = None
    mm_items: tuple[int, ...] = ()
    kv_transfer_params: _KvTransfer | None = None
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    bootstrap_room: int | None = None


class Completion(msgspec.Struct, frozen=True):
    """What to generate and how to answer. `keep`: hold the prompt for a decode process. `source`: where the keys and
    values of the prompt are. `room`: under which name the two processes meet (SGLang)."""

    prompt_tokens: int
    output_tokens: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    encoder_tokens: int = 0
    keep: bool = False
    source: KvSource | None = None
    room: str | None = None


def parse_completion(body: bytes, *, model_name: str, max_model_len: int) -> Completion:
    """A request body. Raises BadRequest."""
    try:
        request = msgspec.json.decode(body, type=_Body)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not a completion request: {error}") from None
    if request.model is not None and request.model != model_name:
        raise BadRequest(f"The model `{request.model}` does not exist.", status=404)
    if request.n not in (None, 1):
        raise BadRequest("n: only 1 is served")
    if any(tokens < 1 for tokens in request.mm_items):
        raise BadRequest("mm_items: every item must have at least 1 token")
    encoder_tokens = sum(request.mm_items)
    prompt_tokens = _prompt_tokens(request) + encoder_tokens
    output_tokens = DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens
    if output_tokens < 1:
        raise BadRequest(f"max_tokens: must be at least 1, got {output_tokens}")
    if prompt_tokens + output_tokens > max_model_len:
        raise BadRequest(
            f"This model's maximum context length is {max_model_len} tokens, but {prompt_tokens + output_tokens} were "
            f"requested ({prompt_tokens} in the prompt, {output_tokens} for the completion)."
        )
    options = request.stream_options or _StreamOptions()
    transfer = request.kv_transfer_params or _KvTransfer()
    return Completion(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        stream=bool(request.stream),
        include_usage=options.include_usage,
        continuous_usage=options.continuous_usage_stats,
        encoder_tokens=encoder_tokens,
        keep=transfer.do_remote_decode,
        source=_source(request, transfer),
        room=None if request.bootstrap_room is None else str(request.bootstrap_room),
    )


def _source(request: _Body, transfer: _KvTransfer) -> KvSource | None:
    if transfer.do_remote_prefill:
        if not (transfer.remote_host and transfer.remote_port and transfer.remote_request_id):
            raise BadRequest("kv_transfer_params: remote_host, remote_port and remote_request_id must be given")
        return KvSource(f"http://{transfer.remote_host}:{transfer.remote_port}", transfer.remote_request_id)
    if request.bootstrap_room is not None:
        if not (request.bootstrap_host and request.bootstrap_port):
            raise BadRequest("bootstrap_host and bootstrap_port must be given with bootstrap_room")
        return KvSource(f"http://{request.bootstrap_host}:{request.bootstrap_port}", str(request.bootstrap_room))
    return None


def _prompt_tokens(request: _Body) -> int:
    if request.prompt_tokens is not None:
        if request.prompt is not None:
            raise BadRequest("prompt_tokens: stands for a prompt, so send one or the other")
        if request.prompt_tokens < 1:
            raise BadRequest(f"prompt_tokens: must be at least 1, got {request.prompt_tokens}")
        return request.prompt_tokens
    if isinstance(request.prompt, str) and request.prompt:
        return -(-len(request.prompt.encode()) // _BYTES_PER_TOKEN)
    if isinstance(request.prompt, list) and request.prompt:
        if all(type(token) is int and token >= 0 for token in request.prompt):
            return len(request.prompt)
        if len(request.prompt) > 1 or not isinstance(request.prompt[0], str | list):
            raise BadRequest("prompt: must be one string or one list of token ids; send several prompts one by one")
        return _prompt_tokens(msgspec.structs.replace(request, prompt=request.prompt[0]))
    raise BadRequest("prompt: must be a string or a list of token ids that is not empty")


class Answer:
    """Writes the frames, or the one body, of a completion."""

    __slots__ = ("_completion", "_head", "_sent")

    def __init__(self, completion: Completion, request_id: str, model_name: str, created_seconds: float) -> None:
        self._completion = completion
        self._sent = 0
        head = {
            "id": request_id,
            "object": "text_completion",
            "created": int(created_seconds),
            "model": model_name,
        }
        self._head = orjson.dumps(head)[:-1]

    def frame(self, tokens: int, finished: bool) -> bytes:
        """The server-sent event that brings the answer from what was sent so far to `tokens` tokens."""
        text = _WORD * (tokens - self._sent)
        self._sent = tokens
        reason = b'"length"' if finished else b"null"
        usage = b""
        if self._completion.continuous_usage:
            usage = b',"usage":%s' % self._usage(tokens)
        return b'data: %s,"choices":[{"index":0,"text":"%s","logprobs":null,"finish_reason":%s}]%s}\n\n' % (
            self._head,
            text.encode(),
            reason,
            usage,
        )

    def end(self) -> bytes:
        """What follows the last frame of a stream."""
        if not self._completion.include_usage:
            return SSE_DONE
        return b'data: %s,"choices":[],"usage":%s}\n\n%s' % (self._head, self._usage(self._sent), SSE_DONE)

    def whole(self, transfer: dict[str, object] | None = None) -> bytes:
        """The body of an answer that is not streamed; `transfer` is what a decode process needs."""
        tokens = self._completion.output_tokens
        return b'%s,"choices":[{"index":0,"text":"%s","logprobs":null,"finish_reason":"length"}],"usage":%s%s}' % (
            self._head,
            (_WORD * tokens).encode(),
            self._usage(tokens),
            b"" if transfer is None else b',"kv_transfer_params":%s' % orjson.dumps(transfer),
        )

    def encoded(self) -> bytes:
        """The body of an encoder's answer: no tokens."""
        return b'%s,"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}],"usage":%s}' % (
            self._head,
            self._usage(0),
        )

    def failed(self, message: str) -> bytes:
        """What ends a stream that cannot go on: the status line is out, so the error comes as a frame, as in vLLM."""
        return b"data: %s\n\n%s" % (server_error(message), SSE_DONE)

    def _usage(self, tokens: int) -> bytes:
        prompt = self._completion.prompt_tokens
        return b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % (prompt, tokens, prompt + tokens)


def server_error(message: str) -> bytes:
    """The JSON error object of a request that the engine could not end."""
    return orjson.dumps({"error": {"message": message, "type": "InternalServerError", "param": None, "code": 500}})
