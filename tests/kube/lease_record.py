"""A linearizable Lease in memory, behind a network that can delay, lose and hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from controller.foundation import ObjectMeta
from controller.kube import AlreadyExists, ApiError, Conflict, Lease, LeaseSpec, NotFound, TimedOut

T = TypeVar("T")


@dataclass
class Record:
    """The one record that all electors share, and everything that was done to it."""

    lease: Lease | None = None
    version: int = 0
    operations: list[tuple[str, str]] = field(default_factory=list)

    def write(self, who: str, verb: str, spec: LeaseSpec, expected: str | None) -> Lease:
        self.operations.append((who, verb))
        if verb == "create" and self.lease is not None:
            raise AlreadyExists("there is one", status=409, reason="AlreadyExists")
        if verb == "update":
            if self.lease is None:
                raise NotFound("there is none", status=404)
            if expected != self.lease.metadata.resource_version:
                raise Conflict("changed", status=409)
        self.version += 1
        self.lease = Lease(ObjectMeta(name="l", namespace="ns", uid="u", resource_version=str(self.version)), spec)
        return self.lease

    def touch(self, **changes: object) -> None:
        """Somebody changes the spec behind everybody's back."""
        assert self.lease is not None
        assert self.lease.spec is not None
        self.version += 1
        meta = msgspec.structs.replace(self.lease.metadata, resource_version=str(self.version))
        self.lease = Lease(meta, msgspec.structs.replace(self.lease.spec, **changes))


Network = Callable[[], Awaitable[None]]


async def instant() -> None:
    """A perfect network."""


class RecordLock:
    """One elector's way to the record. `there` and `back` are awaited before and after the server's moment; an ApiError
    raised in them is what the elector sees (in `back`, although the write was applied)."""

    def __init__(self, record: Record, who: str, there: Network = instant, back: Network = instant) -> None:
        self.name = "ns/l"
        self.there = there
        self.back = back
        self._record = record
        self._who = who

    async def read(self, timeout_seconds: float) -> Lease | None:
        async def moment() -> Lease | None:
            self._record.operations.append((self._who, "get"))
            return self._record.lease

        return await self._travel(moment, timeout_seconds)

    async def create(self, spec: LeaseSpec, timeout_seconds: float) -> Lease:
        async def moment() -> Lease:
            return self._record.write(self._who, "create", spec, None)

        return await self._travel(moment, timeout_seconds)

    async def update(self, lease: Lease, spec: LeaseSpec, timeout_seconds: float) -> Lease:
        async def moment() -> Lease:
            return self._record.write(self._who, "update", spec, lease.metadata.resource_version)

        return await self._travel(moment, timeout_seconds)

    async def _travel(self, moment: Callable[[], Awaitable[T]], timeout_seconds: float) -> T:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.there()
                answer: T | ApiError
                try:
                    answer = await moment()
                except ApiError as refused:
                    answer = refused
                await self.back()
        except TimeoutError:
            raise TimedOut("no answer in time", reason="ClientTimeout") from None
        if isinstance(answer, ApiError):
            raise answer
        return answer
