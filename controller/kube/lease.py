"""Leader election as pure decisions: what a Lease says, and what one candidate does about it.

The rules are client-go's, with one made stricter: validity starts when a request is *sent*, not when its answer
arrives.

* Time is this process's monotonic clock. A remote timestamp is never compared with a local clock: what counts is when
  this process *saw* the record change, plus the record's own duration (skewed clocks, and holders with other settings).
* The first sight of a held lease starts the timer, however old its renewTime claims to be.
* A holder renews every `retry_seconds` and gives up `renew_deadline_seconds` after its last successful renewal was
  sent; others take the lease `lease_seconds` after they last saw it change. The difference is what a holder has to
  stop in.
* Taking a lease over adds one to `leaseTransitions` and sets `acquireTime`; a renewal keeps both.
* A lease that somebody deletes is not free at once: its last holder does not know yet. Whoever saw it held waits as
  long as if it were there; only a process that never saw it makes it anew at once.

No fencing token comes from this: a process that is paused between the gate and the wire can still write. Writes that
must not happen twice carry a resourceVersion or a fenced patch.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from controller.foundation import ObjectMeta, Resource, UsageError, format_micro_time

LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")

# Numbers of a Lease are int32: one more, and the server refuses the record from then on.
_MAX_INT32 = 2**31 - 1
# client-go's rule: a renewal and one late retry must fit into the deadline.
DEADLINE_FACTOR = 1.2


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How patient an election is. Defaults are client-go's; OpenShift uses 137/107/26 to survive an API outage."""

    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if self.retry_seconds <= 0:
            raise UsageError(f"lease retry period must be positive, got {self.retry_seconds:g} s")
        if self.renew_deadline_seconds <= DEADLINE_FACTOR * self.retry_seconds:
            raise UsageError(
                f"lease renew deadline ({self.renew_deadline_seconds:g} s) must be longer than {DEADLINE_FACTOR:g} × "
                f"the retry period ({self.retry_seconds:g} s)"
            )
        if self.lease_seconds <= self.renew_deadline_seconds:
            raise UsageError(
                f"lease duration ({self.lease_seconds:g} s) must be longer than the renew deadline "
                f"({self.renew_deadline_seconds:g} s)"
            )
        if self.lease_seconds < 1:
            raise UsageError(f"lease duration must be at least 1 s, got {self.lease_seconds:g} s")


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """coordination.k8s.io/v1 LeaseSpec; every field may be missing or null."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """A Lease as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec | None = None

    @property
    def holder(self) -> str:
        """Who holds it; empty when it is free."""
        return (self.spec.holder_identity if self.spec else None) or ""

    def duration_seconds(self, fallback: float) -> float:
        """How long it holds; `fallback` when it says nothing that a Lease can say."""
        duration = (self.spec.lease_duration_seconds if self.spec else None) or 0
        return float(duration) if 0 < duration <= _MAX_INT32 else fallback


@dataclass(frozen=True, slots=True)
class Observation:
    """A record, and when this process first saw it in this state (monotonic seconds)."""

    lease: Lease
    seen_at: float

    def updated(self, lease: Lease, now: float) -> Observation:
        """The record was read again: the timer starts anew only if its spec has changed."""
        if lease.spec == self.lease.spec:
            return Observation(lease, self.seen_at)
        return Observation(lease, now)

    def expires_at(self, fallback_seconds: float) -> float:
        """When others may take it, by the record's own duration; `fallback_seconds` when it has none that is
        positive."""
        return self.seen_at + self.lease.duration_seconds(fallback_seconds)


@dataclass(frozen=True, slots=True)
class Create:
    """There is no lease: make it, ours."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """It is free or its holder has not been heard for long enough."""


@dataclass(frozen=True, slots=True)
class Renew:
    """It is ours."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody else holds it; it cannot expire before this moment."""

    until: float


Action = Create | TakeOver | Renew | Wait


def decide(
    observation: Observation | None, identity: str, now: float, times: LeaseTimes, *, missing: bool = False
) -> Action:
    """What a candidate does, given the record as last seen (None: there never was one). `missing`: it is gone now."""
    holder = observation.lease.holder if observation else ""
    if observation and holder and holder != identity:
        expires_at = observation.expires_at(times.lease_seconds)
        if now < expires_at:
            return Wait(expires_at)
    if observation is None or missing:
        return Create()
    return Renew() if holder and holder == identity else TakeOver()


def claim(
    action: Create | TakeOver | Renew, lease: Lease | None, identity: str, wall: float, times: LeaseTimes
) -> LeaseSpec:
    """The spec to write for an action; `wall` is only shown to people and never compared."""
    stamp = format_micro_time(wall)
    old = (lease.spec if lease else None) or LeaseSpec()
    transitions = max(0, old.lease_transitions or 0)
    acquired = stamp
    if isinstance(action, Renew):
        acquired = old.acquire_time or stamp
    elif isinstance(action, TakeOver):
        transitions += 1
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=whole_seconds(times.lease_seconds),
        acquire_time=acquired,
        renew_time=stamp,
        lease_transitions=min(transitions, _MAX_INT32),
    )


def released(lease: Lease, wall: float) -> LeaseSpec:
    """The spec of a lease that is given back: free at once, its history kept."""
    stamp = format_micro_time(wall)
    old = lease.spec or LeaseSpec()
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=stamp,
        renew_time=stamp,
        lease_transitions=max(0, old.lease_transitions or 0),
    )


def whole_seconds(seconds: float) -> int:
    """A duration as the API has it; rounded up, so that others never wait less than we count on."""
    return max(1, -int(-seconds // 1))
