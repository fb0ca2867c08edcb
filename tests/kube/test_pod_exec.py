"""Commands in containers, against a server that speaks the channel protocol as it is told."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from controller.kube import (
    ApiError,
    BadAnswer,
    Connection,
    ConnectionLost,
    Credentials,
    ExecResult,
    Forbidden,
    NotFound,
    PodExec,
    TimedOut,
    TooLarge,
    Unauthorized,
)

Play = Callable[[web.WebSocketResponse], Awaitable[None]]
OK = {"metadata": {}, "status": "Success"}


def failed(code: str | None, message: str = "it failed") -> dict[str, Any]:
    """The last Status of a command that did not succeed."""
    causes = [] if code is None else [{"reason": "ExitCode", "message": code}]
    reason = "InternalError" if code is None else "NonZeroExitCode"
    return {"metadata": {}, "status": "Failure", "reason": reason, "message": message, "details": {"causes": causes}}


def plays(*messages: tuple[int, bytes], status: Mapping[str, Any] | bytes | None = OK) -> Play:
    """These messages, then how it ended."""

    async def play(socket: web.WebSocketResponse) -> None:
        for channel, data in messages:
            await socket.send_bytes(bytes([channel]) + data)
        if status is not None:
            body = status if isinstance(status, bytes) else json.dumps(status).encode()
            await socket.send_bytes(b"\x03" + body)

    return play


class Server:
    """One `exec` endpoint."""

    def __init__(self) -> None:
        self.play: Play = plays()
        self.protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io")
        self.refusals: list[int] = []
        self.requests: list[web.Request] = []
        self.left = asyncio.Event()  # the other side has gone
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/exec", self._exec)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.refusals:
            return web.json_response({"kind": "Status", "message": "no"}, status=self.refusals.pop(0))
        socket = web.WebSocketResponse(protocols=self.protocols)
        await socket.prepare(request)
        try:
            await self.play(socket)
            await socket.close()
        finally:
            self.left.set()
        return socket


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    await made.start()
    yield made
    await made.stop()


class Tokens:
    """A source whose credentials can be rejected once."""

    def __init__(self) -> None:
        self.loads = 0

    async def load(self, *, rejected: bool) -> Credentials:
        self.loads += 1
        return Credentials({"Authorization": f"Bearer {self.loads}"})


async def run(
    server: Server, *command: str, connection: Connection | None = None, timeout: float = 5.0, limit: int = 1000
) -> ExecResult:
    made = PodExec(connection or Connection(server.url), user_agent="test/1")
    try:
        return await made.run(
            "team", "chat-0", command or ("true",), container="main", timeout_seconds=timeout, limit_bytes=limit
        )
    finally:
        await made.close()


async def test_a_command_is_passed_as_it_is(server: Server):
    server.play = plays((1, b"one "), (2, b"warning\n"), (1, b"two"))
    result = await run(server, "python3", "-c", "print('a b;c')", "$HOME")
    assert result == ExecResult(0, b"one two", b"warning\n")
    (request,) = server.requests
    assert request.path == "/api/v1/namespaces/team/pods/chat-0/exec"
    assert request.query.getall("command") == ["python3", "-c", "print('a b;c')", "$HOME"]
    assert {key: request.query[key] for key in request.query if key != "command"} == {
        "container": "main",
        "stdout": "true",
        "stderr": "true",
    }
    assert request.headers["User-Agent"] == "test/1"


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_either_version_of_the_protocol_will_do(server: Server, protocol: str):
    server.protocols = (protocol,)
    server.play = plays((1, b"x"))
    assert (await run(server)).stdout == b"x"


ENDS: list[tuple[str, Any, ExecResult]] = [
    ("it succeeded", OK, ExecResult(0, b"out", b"")),
    ("it failed by itself", failed("3"), ExecResult(3, b"out", b"", "it failed")),
    ("it could not be started", failed(None, "no such file"), ExecResult(None, b"out", b"", "no such file")),
    ("an exit status that is none", failed("many"), ExecResult(None, b"out", b"", "it failed")),
    ("more digits than Python reads", failed("9" * 5000), ExecResult(None, b"out", b"", "it failed")),
    ("digits of another script", failed("\u0663"), ExecResult(None, b"out", b"", "it failed")),
]


@pytest.mark.parametrize(("status", "result"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
async def test_how_a_command_ended(server: Server, status: Any, result: ExecResult):
    server.play = plays((1, b"out"), status=status)
    assert await run(server) == result


FAILURES: list[tuple[str, Play, type[ApiError]]] = [
    ("it ends without a status", plays((1, b"out"), status=None), ConnectionLost),
    ("its status cannot be read", plays(status=b"<html>"), BadAnswer),
    ("it prints without end, in small pieces", plays(*[(1, b"x" * 100)] * 50), TooLarge),
    ("it prints one piece that is too large", plays((1, b"x" * 1_000_000)), TooLarge),
]


@pytest.mark.parametrize(("play", "error"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
async def test_what_is_no_result(server: Server, play: Play, error: type[ApiError]):
    server.play = play
    with pytest.raises(error):
        await run(server)


async def test_errors_without_end_are_cut(server: Server):
    server.play = plays(*[(2, b"e" * 1000)] * 100)
    assert len((await run(server)).stderr) == 4096


async def test_what_comes_on_other_channels_or_empty_is_left_aside(server: Server):
    async def play(socket: web.WebSocketResponse) -> None:
        await socket.send_str("hello")
        await socket.send_bytes(b"")
        await socket.send_bytes(b"\x07what")
        await plays((1, b"out"))(socket)

    server.play = play
    assert (await run(server)).stdout == b"out"


REFUSALS = [(403, Forbidden), (404, NotFound), (401, Unauthorized)]


@pytest.mark.parametrize(("code", "error"), REFUSALS)
async def test_a_refusal_has_its_name(server: Server, code: int, error: type[ApiError]):
    server.refusals = [code]
    with pytest.raises(error):
        await run(server)


async def test_rejected_credentials_are_renewed_once(server: Server):
    server.refusals = [401]
    minutes = itertools.count(0.0, 60.0)
    connection = Connection(server.url, source=Tokens(), now=lambda: next(minutes))
    assert (await run(server, connection=connection)).exit_code == 0
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer 1", "Bearer 2"]


async def test_a_server_that_speaks_another_protocol_is_left(server: Server):
    server.protocols = ()
    with pytest.raises(BadAnswer, match="v5"):
        await run(server)


async def _wait_for_the_end(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        assert message.type is not WSMsgType.ERROR


async def test_a_command_that_hangs_is_left_in_time(server: Server):
    server.play = _wait_for_the_end
    with pytest.raises(TimedOut):
        await run(server, timeout=0.2)
    await asyncio.wait_for(server.left.wait(), 60)


async def test_a_cancellation_hangs_up(server: Server):
    server.play = _wait_for_the_end
    task = asyncio.create_task(run(server))
    while not server.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await asyncio.wait_for(server.left.wait(), 60)


async def test_nobody_there_is_no_answer():
    made = PodExec(Connection("http://127.0.0.1:1"), user_agent="test/1")
    with pytest.raises(ApiError, match="127"):
        await made.run("team", "chat-0", ["true"], container="main", timeout_seconds=1.0, limit_bytes=10)
    await made.close()


@pytest.mark.parametrize("name", ["", "a/b", ".."])
async def test_a_name_that_leads_elsewhere_is_refused(server: Server, name: str):
    made = PodExec(Connection(server.url), user_agent="test/1")
    with pytest.raises(ApiError):
        await made.run("team", name, ["true"], container="main", timeout_seconds=1.0, limit_bytes=10)
    assert server.requests == []
    await made.close()
