"""Whom a router sends requests to: its members, how each came and goes, and how much is under way at it.

A member is used `membership_delay_seconds` of model time after it was first shown (routers probe a worker, or read a
list now and then, before they use it), and one that is not shown any more is dropped at once, or after
`leave_delay_seconds`. A dropped member stays in view, not eligible, until its last answer has ended; whoever wants to
stop it waits for that. One that is shown again while it leaves goes on as if nothing had been; once dropped, it comes
as a new one.

Nothing happens by itself: the state follows the clock whenever somebody looks. `next_change_seconds` says when it will
differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

from controller.embedded.engine import EngineDialect, EngineKind
from controller.foundation import Clock


@dataclass(frozen=True, slots=True)
class Member:
    """A replica member that may get requests, or its part of them."""

    uid: str
    name: str
    url: str
    kind: EngineKind = EngineKind.SERVER
    dialect: EngineDialect = EngineDialect.VLLM


@dataclass(frozen=True, slots=True)
class MemberView:
    """What a router holds of a member. `selections` counts requests given to it."""

    member: Member
    eligible: bool
    in_flight: int
    selections: int


class WorkerState(Enum):
    """Where a member is between being shown and being forgotten."""

    REGISTERING = auto()  # shown, not used yet
    USED = auto()
    LEAVING = auto()  # not shown any more, still used
    DROPPED = auto()


@dataclass(slots=True, eq=False)
class Worker:
    """A member and what is under way at it."""

    member: Member
    state: WorkerState
    since_seconds: float
    in_flight: int = 0
    selections: int = 0
    last_selection: int = 0

    @property
    def eligible(self) -> bool:
        """Whether it may get a request."""
        return self.state in (WorkerState.USED, WorkerState.LEAVING)


class Roster:
    """The members of one router."""

    def __init__(self, clock: Clock, membership_delay_seconds: float, leave_delay_seconds: float) -> None:
        self._clock = clock
        self._delays = {
            WorkerState.REGISTERING: membership_delay_seconds,
            WorkerState.LEAVING: leave_delay_seconds,
        }
        self._workers: dict[str, Worker] = {}
        self._selections = 0
        self._changed = asyncio.Event()

    def set(self, members: Iterable[Member]) -> None:
        """Exactly these members are shown from now on."""
        now = self._clock.now()
        self._settle(now)
        wanted = {member.uid: member for member in members}
        for uid, worker in self._workers.items():
            if uid not in wanted:
                if worker.state is WorkerState.USED:
                    worker.state, worker.since_seconds = WorkerState.LEAVING, now
                elif worker.state is WorkerState.REGISTERING:
                    worker.state = WorkerState.DROPPED
        for uid, member in wanted.items():
            known = self._workers.get(uid)
            if known is None:
                self._workers[uid] = Worker(member, WorkerState.REGISTERING, now)
                continue
            known.member = member
            if known.state is WorkerState.LEAVING:
                known.state = WorkerState.USED
            elif known.state is WorkerState.DROPPED:
                known.state, known.since_seconds = WorkerState.REGISTERING, now
        self._settle(now)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def views(self) -> tuple[MemberView, ...]:
        """All members that are eligible or still answering."""
        return tuple(
            MemberView(worker.member, worker.eligible, worker.in_flight, worker.selections)
            for worker in self._current()
            if worker.eligible or worker.in_flight
        )

    def has(self, *kinds: EngineKind) -> bool:
        """Whether any member of these kinds is known, whatever its state."""
        return any(worker.member.kind in kinds for worker in self._current())

    def choose(self, kind: EngineKind, without: Collection[str] = ()) -> Worker | None:
        """The eligible member of a kind with the least under way, among equals the one chosen longest ago."""
        candidates = [
            worker
            for worker in self._current()
            if worker.eligible and worker.member.kind is kind and worker.member.uid not in without
        ]
        return min(candidates, key=lambda worker: (worker.in_flight, worker.last_selection), default=None)

    @contextmanager
    def using(self, worker: Worker) -> Iterator[None]:
        """A request is at this member."""
        self._selections += 1
        worker.selections += 1
        worker.last_selection = self._selections
        worker.in_flight += 1
        try:
            yield
        finally:
            worker.in_flight -= 1
            self._settle(self._clock.now())

    def next_change_seconds(self) -> float | None:
        """When a delay ends next, in model time."""
        ends = [
            worker.since_seconds + self._delays[worker.state]
            for worker in self._current()
            if worker.state in self._delays
        ]
        return min(ends, default=None)

    async def changed(self) -> None:
        """Wait until other members are shown. Ends of delays do not count."""
        await self._changed.wait()

    def _current(self) -> list[Worker]:
        self._settle(self._clock.now())
        return list(self._workers.values())

    def _settle(self, now: float) -> None:
        for uid, worker in list(self._workers.items()):
            delay = self._delays.get(worker.state)
            if delay is not None and worker.since_seconds + delay <= now:
                came = worker.state is WorkerState.REGISTERING
                worker.state = WorkerState.USED if came else WorkerState.DROPPED
            if worker.state is WorkerState.DROPPED and not worker.in_flight:
                del self._workers[uid]
