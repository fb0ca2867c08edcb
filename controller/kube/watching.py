"""One open watch: bytes of a response turned into complete lines.

    async with client.watch(POD, query=…) as stream:
        while lines := await stream.next_lines():
            …

Promised: only complete lines; an empty list exactly at a regular end (the server closed the stream, or the client's
total time-out passed); every failure is an ApiError; the connection is closed once, on every way out. Cancellation:
safe at any await; bytes not yet returned are lost with the stream, which is harmless because the next watch resumes
from the last event that was applied.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import aiohttp

from controller.kube.classify import wire_errors
from controller.kube.errors import SILENT_REASON, TimedOut
from controller.kube.lines import LineSplitter


class WatchStream:
    """An answered watch request. Closed by its context manager."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._splitter = LineSplitter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; it is never given back to the pool, the server would go on writing to it."""
        self._response.close()

    async def next_lines(self) -> list[bytes]:
        """The next lines, at least one; an empty list at the end. Raises ApiError."""
        content = self._response.content
        while True:
            try:
                with wire_errors():
                    chunk = await content.readany()
            except TimedOut as failure:
                if isinstance(failure.__cause__, aiohttp.SocketTimeoutError):
                    raise TimedOut("the watch was silent for too long", reason=SILENT_REASON) from failure
                return []  # our total limit: the server should have closed it before
            if not chunk:
                return []
            if lines := self._splitter.feed(chunk):
                return lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while lines := await self.next_lines():
            for line in lines:
                yield line
