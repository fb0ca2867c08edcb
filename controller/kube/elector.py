"""Leader election on a Lease: the shell around `lease`.

    elector = Elector(LeaseLock(client, namespace, name), identity=new_identity(), times=LeaseTimes())
    client.gate = elector.check_write     # every mutation asks, and is refused when the lease may be somebody else's
    await elector.run(lead)               # waits, leads, returns when `lead` does; LeadershipLost ends the process

Promised

1. `lead` runs only while this process holds the lease. It is cancelled at the latest `renew_deadline_seconds` after the
   last successful renewal was *sent*, by a timer that does not depend on any request: a server that swallows requests,
   answers 403 for ever or throttles us beyond the deadline all end the same way.
2. The write gate compares the clock with that deadline at every mutation. An event loop that stalled past it (a long
   garbage collection, a suspended machine) refuses its first write before anything else can run.
3. After a loss `run` raises LeadershipLost, also when `lead` does not react to its cancellation: the process must exit
   (by force if it hangs). It never leads twice.
4. On a regular end, `lead` returning or `run` cancelled, the lease is renewed until `lead` has ended and then released,
   with requests of their own that the cancellation does not touch; never when somebody else holds it, nor while
   `lead` still runs. A loss while `lead` cleans up is a loss like any other.
5. A record that carries our identity but was not written by us is somebody else's: two processes that were given the
   same identity do not lead together.

No lease request may take longer than half the deadline, so that one that hangs leaves time for another.
"""

from __future__ import annotations

import asyncio
import enum
import os
import random
import secrets
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from controller.foundation import UsageError, boot_time, wall_now
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    NotLeader,
    Unauthorized,
)
from controller.kube.lease import (
    Action,
    Create,
    Lease,
    LeaseSpec,
    LeaseTimes,
    Observation,
    Renew,
    TakeOver,
    Wait,
    claim,
    decide,
    released,
)
from controller.kube.leaselock import Lock
from controller.kube.observers import SILENT, ElectorObserver

# Each one is a read and a write; somebody else's write in between is rare, twice in a row is a rival.
_RELEASE_ATTEMPTS = 3
# Candidates wait between 1 and 1.4 retry periods, so that they do not come in step. client-go waits up to 2.2; with
# less a released lease is taken within three seconds, and a dead leader replaced within lease + 2 · retry.
CANDIDATE_JITTER = 0.4
_SHORTEST_WAIT_SECONDS = 0.01
# Of the time between our deadline and the moment when others may take the lease (5 s of 15/10/2): 3 s to stop, the
# rest to end the process.
_STOP_SHARE = 0.6
# Claims whose answer may still be open; there is time for six of them before the deadline.
_REMEMBERED_CLAIMS = 16

_log = structlog.get_logger(__name__)


class _Phase(enum.Enum):
    NEW = "new"
    CANDIDATE = "waiting"
    LEADING = "leading"
    OVER = "over"


class LeadershipLost(KubeError):
    """The lease could not be renewed in time, or somebody else has it. End the process."""


def new_identity(pod_name: str | None = None) -> str:
    """A name for this process start: never the same twice, or a restarted Pod would take its own old lease for held."""
    return f"{pod_name or socket.gethostname()}_{os.getpid()}_{secrets.token_hex(6)}"


class Elector:
    """One candidate of one election. `now` is monotonic seconds that also pass while the machine is suspended; tests
    may give it a skewed rate."""

    def __init__(
        self,
        lock: Lock,
        *,
        identity: str,
        times: LeaseTimes | None = None,
        observer: ElectorObserver = SILENT,
        on_new_leader: Callable[[str], None] | None = None,
        now: Callable[[], float] = boot_time,
        rng: random.Random | None = None,
    ) -> None:
        if not identity:
            raise UsageError("leader election needs an identity that is unique for each process start")
        self.identity = identity
        self._lock = lock
        self._times = times or LeaseTimes()
        self._observer = observer
        self._on_new_leader = on_new_leader
        self._now = now
        self._rng = rng or random.Random()
        self._observation: Observation | None = None
        self._claims: deque[tuple[str | None, str | None]] = deque(maxlen=_REMEMBERED_CLAIMS)
        self._reported_leader: str | None = None
        self._awaited: str | None = None
        self._valid_until = float("-inf")
        self._phase = _Phase.NEW
        self._request_seconds = self._times.renew_deadline_seconds / 2

    # ---- questions -------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this process may act as the leader at this very moment."""
        return self._phase is _Phase.LEADING and self._now() < self._valid_until

    @property
    def leader(self) -> str:
        """The holder as last seen; empty when unknown or free."""
        return self._observation.lease.holder if self._observation else ""

    @property
    def transitions(self) -> int:
        """The lease's own count of changes of hands, as last seen."""
        spec = self._observation.lease.spec if self._observation else None
        return (spec.lease_transitions if spec else None) or 0

    def check_write(self) -> None:
        """The write gate. Raises NotLeader unless the lease is certainly still ours."""
        if self._phase is not _Phase.LEADING:
            raise NotLeader(f"{self.identity} does not hold the lease {self._lock.name}")
        late = self._now() - self._valid_until
        if late >= 0:
            raise NotLeader(f"the lease {self._lock.name} ran out {late:.1f} s ago")

    def check_health(self, tolerance_seconds: float = 20.0) -> None:
        """The watchdog for liveness. Raises LeadershipLost when this process still leads although its lease has expired
        for so long that it should be gone: then only a restart helps."""
        late = self._now() - self._valid_until
        until_lost = self._times.lease_seconds - self._times.renew_deadline_seconds
        if self._phase is _Phase.LEADING and late > until_lost + tolerance_seconds:
            raise LeadershipLost(f"leading without a renewed lease for {late:.0f} s")

    # ---- the election ------------------------------------------------------------------------------------------------

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `lead` while holding it, release it. Raises LeadershipLost when it is lost,
        RuntimeError when called twice."""
        if self._phase is not _Phase.NEW:
            raise RuntimeError(f"an election runs once, this one is {self._phase.value}")
        self._phase = _Phase.CANDIDATE
        try:
            await self._acquire()
            await self._lead(lead)
        finally:
            held = self._phase is _Phase.LEADING
            self._phase = _Phase.OVER
            self._observer.leading(self._lock.name, False)
            if held:
                await self._release()

    async def _acquire(self) -> None:
        while True:
            # A slow answer may come when what it grants is over already.
            if await self._try_once() and self._now() < self._valid_until:
                break
            await asyncio.sleep(self._candidate_delay())
        self._phase = _Phase.LEADING
        self._observer.leading(self._lock.name, True)
        _log.info("became leader", lease=self._lock.name, identity=self.identity)

    def _candidate_delay(self) -> float:
        """A jittered retry period, or less when the lease can be taken sooner: whoever waits for a dead leader knows to
        the millisecond when it may stop waiting."""
        delay = self._times.retry_seconds * (1.0 + CANDIDATE_JITTER * self._rng.random())
        action = self._decide(missing=False)
        if isinstance(action, Wait):
            delay = min(delay, max(action.until - self._now(), _SHORTEST_WAIT_SECONDS))
        return delay

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        """`lead` beside the renewal; the first to end decides. A cancelled `run` goes on renewing while `lead` cleans
        up; after a loss `lead` gets what is left of the lease to end, and is not waited for any longer."""
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                self._step_down()
                renewal.result()  # raises LeadershipLost, or the bug that ended the renewal
            await work
        finally:
            try:
                await self._end(work, renewal)
            finally:
                if not work.done():
                    self._phase = _Phase.OVER  # it may still write: the gate closes, and the lease is not given away
                renewal.cancel()
                await asyncio.gather(renewal, return_exceptions=True)

    async def _end(self, work: asyncio.Future[None], renewal: asyncio.Future[NoReturn]) -> None:
        if work.done():
            return
        work.cancel()
        await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return
        if self._phase is _Phase.LEADING:
            self._step_down()
        grace = self._times.lease_seconds - self._times.renew_deadline_seconds
        await asyncio.wait((work,), timeout=_STOP_SHARE * grace)
        renewal.result()

    def _step_down(self) -> None:
        """Before anything else runs, the gate closes."""
        self._phase = _Phase.OVER
        self._observer.leading(self._lock.name, False)
        _log.error("leadership lost; the process must end", identity=self.identity, leader=self.leader)

    async def _renew(self) -> NoReturn:
        """Renew until it is too late; then raise LeadershipLost."""
        started: float | None = None
        while True:
            await asyncio.sleep(min(self._times.retry_seconds, max(0.0, self._valid_until - self._now())))
            started = self._now() if started is None else started
            if await self._renew_before_deadline():
                self._observer.renewed(self._lock.name, self._now() - started)
                started = None

    async def _renew_before_deadline(self) -> bool:
        """One attempt; False to try again. The deadline stands whatever the attempt does."""
        remaining = self._valid_until - self._now()
        if remaining <= 0:
            raise LeadershipLost(f"the lease was not renewed within {self._times.renew_deadline_seconds:g} s")
        try:
            async with asyncio.timeout(remaining):
                if await self._try_once():
                    return True
        except TimeoutError:
            return False
        if self.leader and not self._is_ours():
            twin = ", which is another process of the same identity" if self.leader == self.identity else ""
            raise LeadershipLost(f"the lease is held by {self.leader}{twin}")
        return False

    # ---- one attempt -------------------------------------------------------------------------------------------------

    async def _try_once(self) -> bool:
        """Take or renew the lease. True when it is ours; failures are logged and False."""
        try:
            if self._phase is _Phase.LEADING and self._observation is not None:
                # The fast path: nobody else writes our lease, so the version that we remember is the right one.
                try:
                    return await self._write(Renew(), self._observation.lease)
                except (Conflict, NotFound, AlreadyExists):
                    self._observer.slow_path(self._lock.name)
            lease = await self._read()
            action = self._decide(missing=lease is None)
            if isinstance(action, Wait):
                self._tell_waiting()
                return False
            return await self._write(action, lease)
        except ApiError as failure:
            self._report(failure)
            return False

    async def _read(self) -> Lease | None:
        lease = await self._lock.read(self._request_seconds)
        if lease is not None:
            self._observe(lease)
        return lease

    def _decide(self, *, missing: bool) -> Action:
        identity = self.identity if self._is_ours() else ""
        return decide(self._observation, identity, self._now(), self._times, missing=missing)

    def _is_ours(self) -> bool:
        """Whether the record, as last seen, is one that this process wrote."""
        spec = self._observation.lease.spec if self._observation else None
        return spec is not None and spec.holder_identity == self.identity and _stamps(spec) in self._claims

    async def _write(self, action: Create | TakeOver | Renew, lease: Lease | None) -> bool:
        sent_at = self._now()
        spec = claim(action, lease, self.identity, wall_now(), self._times)
        self._claims.append(_stamps(spec))
        self._observe(await self._send(spec, lease))
        self._valid_until = sent_at + self._times.renew_deadline_seconds
        return True

    async def _send(self, spec: LeaseSpec, lease: Lease | None) -> Lease:
        if lease is None:
            return await self._lock.create(spec, self._request_seconds)
        return await self._lock.update(lease, spec, self._request_seconds)

    async def _release(self) -> None:
        """Give the lease back, whatever cancelled us: a successor then needs no patience."""
        release = asyncio.ensure_future(self._release_attempts())
        try:
            await asyncio.shield(release)
        except asyncio.CancelledError:  # once more: a last moment, then it expires by itself
            await asyncio.wait((release,), timeout=self._times.retry_seconds)
            raise
        finally:
            release.cancel()

    async def _release_attempts(self) -> None:
        for _ in range(_RELEASE_ATTEMPTS):
            try:
                lease = await self._read()
                if lease is None or not self._is_ours():
                    return
                await self._send(released(lease, wall_now()), lease)
                _log.info("lease released", lease=self._lock.name)
                return
            except Conflict:
                continue
            except ApiError as failure:
                _log.warning("the lease could not be released; it will expire", reason=str(failure))
                return

    def _observe(self, lease: Lease) -> None:
        now = self._now()
        self._observation = self._observation.updated(lease, now) if self._observation else Observation(lease, now)
        if lease.holder and lease.holder != self._reported_leader:
            self._reported_leader = lease.holder
            if self._on_new_leader is not None:
                self._on_new_leader(lease.holder)

    def _tell_waiting(self) -> None:
        """Once for each holder: whoever waits for a lease that will never be free must be able to find out."""
        if self._phase is _Phase.CANDIDATE and self.leader != self._awaited:
            self._awaited = self.leader
            _log.info("waiting for the lease", lease=self._lock.name, held_by=self.leader)

    def _report(self, failure: ApiError) -> None:
        if isinstance(failure, Conflict | AlreadyExists):
            return  # somebody was quicker; the next attempt reads
        log = _log.error if isinstance(failure, Forbidden | Unauthorized) else _log.warning
        hint = "; this ServiceAccount needs get, create and update on leases" if isinstance(failure, Forbidden) else ""
        log("lease request failed", lease=self._lock.name, reason=f"{failure}{hint}")


def _stamps(spec: LeaseSpec) -> tuple[str | None, str | None]:
    """What no two claims have in common, and what nobody has a reason to edit."""
    return spec.acquire_time, spec.renew_time
