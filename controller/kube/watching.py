"""Open answers: the bytes of a response as they come, and lines of them.

    async with client.watch(path, query, …) as stream:
        while lines := await stream.next_lines():
            …

Promised: only complete lines; an empty list exactly at a regular end (the server closed the stream, or the client's
total time-out passed); every failure is an ApiError; the connection is closed once, on every way out. Cancellation:
safe at any await; bytes not yet returned are lost with the stream, which is harmless because the next watch resumes
from the last event that was applied.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import aiohttp

from controller.kube.classify import wire_errors
from controller.kube.errors import SILENT_REASON, TimedOut
from controller.kube.lines import LineSplitter

Read = TypeVar("Read")

_TOTAL_REASON = "TotalTimeout"
# Pieces handed out at once hold no more than this, so that a fast server cannot keep a turn of the loop to itself.
_BATCH_BYTES = 512 * 1024


class ByteStream:
    """The body of an answer."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self._taken_bytes = 0

    async def next_chunk(self) -> bytes:
        """The next bytes, none at the regular end. Raises ApiError; TimedOut with a reason of its own for silence."""
        return await self._read(self._content.readany())

    async def next_pieces(self) -> list[bytes]:
        """All that has arrived, in the pieces that the server flushed: usually one for each event. None at the regular
        end. Not to be mixed with `next_chunk`; raises as that does.

        What has arrived is not joined: to copy 12 KB a second time costs a tenth of what an event costs in all.
        """
        return await self._read(self._pieces())

    async def _pieces(self) -> list[bytes]:
        content = self._content
        pieces: list[bytes] = []
        size = 0
        # Only the first read may wait: of the others every byte is there already.
        while not pieces or (self._taken_bytes < content.total_bytes and size < _BATCH_BYTES):
            piece, ends_http_chunk = await content.readchunk()
            if piece:
                pieces.append(piece)
                size += len(piece)
                self._taken_bytes += len(piece)
            elif not ends_http_chunk:
                break
        return pieces

    async def _read(self, reading: Coroutine[Any, Any, Read]) -> Read:
        try:
            with wire_errors():
                return await reading
        except TimedOut as failure:
            if isinstance(failure.__cause__, aiohttp.SocketTimeoutError):
                raise TimedOut("the server was silent for too long", reason=SILENT_REASON) from failure
            raise TimedOut("the answer took too long", reason=_TOTAL_REASON) from failure


class WatchStream:
    """The lines of an open watch."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._splitter = LineSplitter()

    async def next_lines(self) -> list[bytes]:
        """The next lines, at least one; an empty list at the end. Raises ApiError."""
        while True:
            try:
                pieces = await self._stream.next_pieces()
            except TimedOut as failure:
                if failure.reason == _TOTAL_REASON:
                    return []  # the server should have closed it before; it is an end like any other
                raise
            if not pieces:
                return []
            if lines := [line for piece in pieces for line in self._splitter.feed(piece)]:
                return lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while lines := await self.next_lines():
            for line in lines:
                yield line
