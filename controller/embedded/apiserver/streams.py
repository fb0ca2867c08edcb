"""The writer of a watch: lines to the connection, and the faults that a plan puts on the way.

Ends when the watch ends, and by cancellation when the client goes away.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence

import orjson
from aiohttp import web

from controller.embedded.apiserver.faults import Action, Cut, CutStream, RepeatLines, StreamError
from controller.embedded.apiserver.watch import Watcher, frame


async def stream_lines(request: web.BaseRequest, watcher: Watcher, actions: Sequence[Action]) -> web.StreamResponse:
    """Write the watcher's lines until it ends."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    script = next((action for action in actions if isinstance(action, CutStream | StreamError)), None)
    copies = 2 if any(isinstance(action, RepeatLines) for action in actions) else 1
    written = 0
    while True:
        if script is not None and written >= script.after_lines and not _needs_a_line(script):
            await _play(request, response, script, b"")
            return response
        lines = await watcher.next_lines()
        if lines is None:
            break
        lines = [line for line in lines for _ in range(copies)]
        if script is not None and written + len(lines) > script.after_lines:
            lines, rest = lines[: script.after_lines - written], lines[script.after_lines - written :]
            if lines:
                await response.write(b"".join(lines))
            await _play(request, response, script, rest[0])
            return response
        await response.write(b"".join(lines))
        written += len(lines)
    await response.write_eof()
    return response


def _needs_a_line(script: CutStream | StreamError) -> bool:
    return isinstance(script, CutStream) and script.how is Cut.HALF_LINE


async def _play(
    request: web.BaseRequest, response: web.StreamResponse, script: CutStream | StreamError, line: bytes
) -> None:
    if isinstance(script, StreamError):
        await response.write(frame("ERROR", orjson.dumps(script.error.status())))
        await response.write_eof()
        return
    if script.how is Cut.END:
        await response.write_eof()
    elif script.how is Cut.HALF_LINE:
        await response.write(line[: len(line) // 2])
        await drop(request)
    elif script.how is Cut.STALL:
        await stall()
    elif script.how is Cut.RESET:
        await drop(request, reset=True)
    else:
        await drop(request)


async def stall() -> None:
    """Wait for ever: until the client goes away or the server stops."""
    await asyncio.get_running_loop().create_future()


async def drop(request: web.BaseRequest, *, reset: bool = False) -> None:
    """Close the connection under the request; the handler is cancelled with it. With `reset` the peer gets RST."""
    transport = request.transport
    if transport is not None:
        if reset:
            connection = transport.get_extra_info("socket")
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()
    await stall()
