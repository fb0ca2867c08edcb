"""A wire between a client and a server that a test can cut or freeze."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """Forwards TCP connections.

    While it is cut, connections break and new ones are closed at once; while it is frozen, they stay open and nothing
    comes through. Healed, it lets new connections through; frozen ones break.
    """

    def __init__(self, url: str) -> None:
        self._upstream = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._cut = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{self._upstream.scheme}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        assert self._server is not None
        self._server.close()

    def cut(self) -> None:
        """Break everything, and let nothing through from now on."""
        self._cut = True
        self._break()

    def freeze(self) -> None:
        """Let nothing through, and let nobody notice."""
        self._flowing.clear()

    def heal(self) -> None:
        """Let new connections through again."""
        self._cut = False
        if not self._flowing.is_set():
            self._break()
            self._flowing.set()

    def _break(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._cut:
                return
            there = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
            self._open |= {writer, there[1]}
            await asyncio.gather(self._pump(reader, there[1]), self._pump(there[0], writer))
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._flowing.wait()
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
