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

from collections.abc import AsyncIterator

import aiohttp

from controller.kube.classify import wire_errors
from controller.kube.errors import SILENT_REASON, TimedOut
from controller.kube.lines import LineSplitter

_TOTAL_REASON = "TotalTimeout"


class ByteStream:
    """The body of an answer."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content

    async def next_chunk(self) -> bytes:
        """The next bytes, none at the regular end. Raises ApiError; TimedOut with a reason of its own for silence."""
        try:
            with wire_errors():
                return await self._content.readany()
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
                chunk = await self._stream.next_chunk()
            except TimedOut as failure:
                if failure.reason == _TOTAL_REASON:
                    return []  # the server should have closed it before; it is an end like any other
                raise
            if not chunk:
                return []
            if lines := self._splitter.feed(chunk):
                return lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while lines := await self.next_lines():
            for line in lines:
                yield line
