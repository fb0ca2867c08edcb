"""Which Ready replicas requests can reach: those that the router (without one: the EndpointSlices) lists. Pure.

Between Ready and listed lie seconds in which a router answers 503 for a replica that it does not know. So a new replica
is on its way, and no supply to shrink on, until it is listed. The target's status tells how many endpoints of a role
are listed, not which: those that were listed before are, then those that have been Ready for longest.

Unknown is not zero. A router that cannot be asked hides nothing: Ready and eligible is then all there is to know. One
whose view is still changing (NotConverged) makes only new replicas wait, and not for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controller.api import DeploymentRoleStatus, ServingState

# A router learns of an endpoint within seconds (21 s were measured for a withdrawal, reference §2.8). After this long
# a view that does not settle says nothing about this replica any more.
REGISTRATION_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """What this process has seen of one Pod: when first, and since when it is Ready (model time)."""

    first_seen: float
    ready_since: float | None
    was_ready: bool  # it has been Ready at some time: becoming Ready again is no start-up
    was_listed: bool = False
    unlisted_since: float | None = None  # Ready and not listed

    def looked_up(self, *, listed: bool, now: float) -> Sighting:
        """The same after a look at who is listed."""
        if listed:
            return replace(self, was_listed=True, unlisted_since=None)
        since = now if self.unlisted_since is None else min(self.unlisted_since, now)
        return replace(self, unlisted_since=since)


def unlisted(
    role: DeploymentRoleStatus | None, candidates: Sequence[str], sightings: Mapping[str, Sighting], now: float
) -> frozenset[str]:
    """Of the UIDs of Pods that are Ready and eligible those that no request reaches yet."""
    endpoints = None if role is None else role.endpoints
    serving = None if endpoints is None else endpoints.serving
    if endpoints is None or serving is None:
        return frozenset()
    match serving.state:
        case ServingState.CONFIRMED:
            listed = serving.value
        case ServingState.NOT_CONFIGURED:
            listed = endpoints.eligible
        case ServingState.NOT_CONVERGED:
            return frozenset(uid for uid in candidates if _is_new(sightings.get(uid), now))
        case _:
            listed = None
    if listed is None or listed >= len(candidates):
        return frozenset()
    return frozenset(sorted(candidates, key=lambda uid: _seniority(sightings.get(uid), uid))[listed:])


def _is_new(sighting: Sighting | None, now: float) -> bool:
    if sighting is None:
        return True
    since = sighting.ready_since
    return not sighting.was_listed and (since is None or now - since < REGISTRATION_SECONDS)


def _seniority(sighting: Sighting | None, uid: str) -> tuple[bool, float, str]:
    if sighting is None or sighting.ready_since is None:
        return True, float("inf"), uid
    return not sighting.was_listed, sighting.ready_since, uid
