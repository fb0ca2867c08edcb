"""Whether a controller runs, as far as its Lease tells somebody who is none of its candidates.

A candidate times a Lease from when it first saw it (`controller/kube/lease.py`). A command has no such past: it
believes a renewal that is recent by its own clock, and looks a second time before it calls a Lease over, because the
holder may renew it under a clock that is behind. A Lease that is given back has no holder and is not in the answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from controller.foundation import parse_time, wall_now

if TYPE_CHECKING:
    from controller.kube import KubeClient, Lease

# A leader renews every two seconds: one that does so under a clock that differs from ours shows within this time.
SECOND_LOOK_SECONDS = 5.0
# A Lease that does not say how long it holds is held as long as ours are.
_LEASE_SECONDS = 15.0


class Standing(Enum):
    """What a Lease with a holder says of it."""

    LASTS = "lasts"  # not over by our clock: the holder runs, or was killed a moment ago
    RENEWED = "renewed"  # over by our clock, yet renewed while we looked: the holder runs
    OVER = "over"  # the holder is gone


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A Lease with a holder. `ends_in_seconds`: by our clock, negative when that was before; minus infinity where the
    Lease does not say when it was renewed."""

    key: str
    holder: str
    standing: Standing
    ends_in_seconds: float


async def held_leases(client: KubeClient, name: str, namespace: str | None) -> list[HeldLease]:
    """The held Leases of this name, in order of their namespaces (None: all of them). Takes SECOND_LOOK_SECONDS where
    all are over by our clock; beside one that lasts the others are judged by our clock alone. Raises ApiError."""
    first = await _read(client, name, namespace)
    if not first:
        return []
    now = wall_now()
    again = first
    if all(_ends_in(lease, now) <= 0 for lease in first.values()):
        # Old by our clock. Whether it is old by theirs shows when it is not renewed.
        await asyncio.sleep(SECOND_LOOK_SECONDS)
        again, now = await _read(client, name, namespace), wall_now()
    return [_judged(key, lease, first.get(key), now) for key, lease in sorted(again.items())]


async def _read(client: KubeClient, name: str, namespace: str | None) -> dict[str, Lease]:
    from controller.kube import LEASE, Lease, NotFound  # noqa: PLC0415 - heavy

    selector = f"metadata.name={name}"
    try:
        found = (await client.list(LEASE, namespace, type_=Lease, field_selector=selector)).items
    except NotFound:
        return {}
    return {f"{lease.metadata.namespace}/{lease.metadata.name}": lease for lease in found if lease.holder}


def _judged(key: str, lease: Lease, before: Lease | None, now: float) -> HeldLease:
    ends_in = _ends_in(lease, now)
    if before is None or before.metadata.resource_version != lease.metadata.resource_version:
        standing = Standing.RENEWED
    else:
        standing = Standing.LASTS if ends_in > 0 else Standing.OVER
    return HeldLease(key, lease.holder, standing, ends_in)


def _ends_in(lease: Lease, now: float) -> float:
    """At most its duration: a holder's clock that is ahead of ours makes no Lease last longer."""
    duration = lease.duration_seconds(_LEASE_SECONDS)
    return min(_renewed(lease) + duration - now, duration)


def _renewed(lease: Lease) -> float:
    """When the Lease was last renewed, by its holder's clock; what cannot be read is long ago."""
    try:
        return parse_time((lease.spec.renew_time if lease.spec else None) or "")
    except ValueError:
        return float("-inf")
