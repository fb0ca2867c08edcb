"""Loopback addresses for simulated Pods: each gets its own 127.x.y.z, on the one port that its deployment declares.

On Linux all of 127.0.0.0/8 is local. Addresses are handed out in ascending order from a start of the caller's choice
and are not reused while the allocator lives: a new Pod at the address of a dead one would look like a counter reset.
Two worlds on one machine start at different places; where they still meet, the next address is taken.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

from controller.embedded.httpserver import AddressInUse
from controller.foundation import OperationFailed

_FIRST = 1 << 16  # 127.1.0.0: below lies what people use by hand (127.0.0.1, Debian's 127.0.1.1)
_LAST = (1 << 24) - 2
# Addresses in a row that were refused before the port itself is the suspect: a listener on 0.0.0.0 refuses them all.
_ATTEMPTS = 16


class Listener(Protocol):
    """Something that listens: an `HttpServer`, a router."""

    async def start(self, host: str, port: int) -> None:
        """Listen there. Raises AddressInUse or OperationFailed."""
        ...


class LoopbackAddresses:
    """An allocator. Not thread-safe; one per world."""

    def __init__(self, seed: int | None = None) -> None:
        self._offset = random.Random(seed).randrange(_FIRST, _LAST)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        offset = self._offset
        self._offset = offset + 1 if offset < _LAST else _FIRST
        # .0 and .255 are valid hosts of a /8, but people and tools take them for network and broadcast.
        if offset & 0xFF in (0x00, 0xFF):
            return next(self)
        return f"127.{offset >> 16 & 0xFF}.{offset >> 8 & 0xFF}.{offset & 0xFF}"

    async def listen(self, server: Listener, port: int) -> None:
        """Start `server` on the next address that is free. Raises OperationFailed, saying why and the way out."""
        for _ in range(_ATTEMPTS):
            try:
                await server.start(next(self), port)
            except AddressInUse:
                continue
            except OperationFailed as error:
                raise OperationFailed(
                    f"{error}; simulated replicas need addresses of 127.0.0.0/8, which Linux provides and other "
                    "systems have to be given (macOS: ifconfig lo0 alias)"
                ) from None
            return
        raise AddressInUse(
            f"port {port} is taken on {_ATTEMPTS} loopback addresses in a row, so a process listens on it on every "
            "address (0.0.0.0); stop that process or choose another port for the replicas"
        )
