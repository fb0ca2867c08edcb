"""From a target and its Pods to what a decision needs to know of each role. Pure.

Labels alone prove nothing: a Pod counts only when the target controls it. A replica is Ready when every one of its
members is; it serves when it is Ready, eligible, listed (`listing`) and not being retired. A replica beyond the
declared count is on its way out: what it still serves is demand, but it is no capacity.

What the operator reports as Ready and shows no Pod of ours (other labels, another owner, a part of the cache that is
missing) is there all the same: it is admitted, and it is a member that is silent.

How long a start took is measured on this controller's clock from the first sight of the Pod; a foreign timestamp serves
only where this process saw no start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controller.api import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    SCRAPE_ANNOTATION,
    EndpointProblem,
    MetricsEndpoint,
    ModelDeployment,
    Pod,
    Role,
)
from controller.reconcile.listing import Sighting, unlisted


@dataclass(frozen=True, slots=True)
class MemberView:
    """A process that answers for a replica, and where its metrics are."""

    pod: Pod
    replica: str
    ready: bool
    serving: bool
    leaving: bool
    ready_since: float | None
    endpoint: MetricsEndpoint | EndpointProblem
    listed: bool = True  # as far as is known

    @property
    def key(self) -> str:
        """The stable name of the process."""
        return self.pod.metadata.uid

    @property
    def incarnation(self) -> str:
        """Changes when its counters start anew."""
        return "/".join(str(part) for part in self.pod.incarnation)


@dataclass(frozen=True, slots=True)
class RoleView:
    """One role of the target at this moment."""

    name: str
    declared: int
    ready: int
    unadmitted: int
    starting: int
    retiring: int
    members: tuple[MemberView, ...]
    starting_since: tuple[float, ...] = ()  # first sight of each replica that has a node and is not Ready
    unlisted: int = 0  # Ready, and no request reaches them yet: on their way like those that start
    unseen: int = 0  # Ready by the operator's count, without a Pod that we know


def update_sightings(
    known: Mapping[str, Sighting], pods: Iterable[Pod], now: float
) -> tuple[dict[str, Sighting], dict[str, float]]:
    """The sightings with these Pods and no others, and the start-ups that ended now (Pod UID → seconds)."""
    seen: dict[str, Sighting] = {}
    startups: dict[str, float] = {}
    for pod in pods:
        uid = pod.metadata.uid
        before = _before(known.get(uid), now)
        if before is None:
            since = _not_later(pod.ready_since, now) if pod.ready else None
            seen[uid] = Sighting(now, since, was_ready=pod.ready)
            if since is not None and pod.created_at is not None and pod.created_at <= since:
                startups[uid] = since - pod.created_at
        elif not pod.ready:
            seen[uid] = replace(before, ready_since=None, unlisted_since=None)
        elif before.ready_since is None:
            seen[uid] = replace(before, ready_since=now, was_ready=True)
            if not before.was_ready:
                startups[uid] = now - before.first_seen
        else:
            seen[uid] = before
    return seen, startups


def view_role(
    target: ModelDeployment, role: Role, pods: Iterable[Pod], sightings: Mapping[str, Sighting], now: float
) -> RoleView:
    """Group the Pods of one role into replicas and count them."""
    replicas: dict[str, list[Pod]] = {}
    ordinals: dict[str, int | None] = {}
    for pod in sorted(pods, key=lambda each: each.metadata.name):
        if pod.role != role.name or pod.router is not None or pod.finished or pod.malformed:
            continue
        name = pod.metadata.uid if pod.ordinal is None else str(pod.ordinal)
        replicas.setdefault(name, []).append(pod)
        ordinals[name] = pod.ordinal
    retirement = target.status.retirement
    leaving_ordinal = (
        retirement.replica_ordinal
        if retirement is not None and retirement.running and retirement.role_name == role.name
        else None
    )
    labelled = any(pod.eligible for group in replicas.values() for pod in group)
    ready = scheduled = retiring = seen = 0
    starting_since: list[float] = []
    members: list[MemberView] = []
    for name, group in replicas.items():
        ordinal = ordinals[name]
        leaving = (
            all(pod.deleting for pod in group)
            or (ordinal is not None and ordinal >= role.replicas)
            or (ordinal is not None and ordinal == leaving_ordinal)
        )
        seats = {pod.member_index for pod in group if pod.ready}
        is_ready = len(seats - {None}) >= role.size
        retiring += leaving
        seen += is_ready
        ready += is_ready and not leaving
        placed = not leaving and sum(pod.scheduled and not pod.deleting for pod in group) >= role.size
        scheduled += placed
        if placed and not is_ready:
            sights = [sightings[pod.metadata.uid].first_seen for pod in group if pod.metadata.uid in sightings]
            starting_since += [min(sights)] if sights else []
        members.extend(
            MemberView(
                pod=pod,
                replica=name,
                ready=is_ready and pod.ready,
                # An operator that does not label its Pods cannot withdraw them either: Ready is all there is to know.
                serving=is_ready and pod.ready and not leaving and (pod.eligible or not labelled),
                leaving=leaving,
                ready_since=sightings[pod.metadata.uid].ready_since if pod.metadata.uid in sightings else None,
                endpoint=pod.metrics_endpoint(),
            )
            for pod in group
            if _answers(pod) and not pod.deleting
        )
    status = target.role_status(role.name)
    candidates = [member.key for member in members if member.serving]
    missing = unlisted(status, candidates, sightings, now)
    members = [replace(member, serving=False, listed=False) if member.key in missing else member for member in members]
    for uid in sorted(missing):
        since = sightings[uid].unlisted_since if uid in sightings else None
        starting_since += [] if since is None else [since]
    admitted = scheduled
    if status is not None and status.quota_reserved is not None:
        admitted = min(admitted, status.quota_reserved)
    reported = status.ready if status is not None and status.ready is not None else 0
    unseen = max(0, min(reported - seen, role.replicas - ready))
    unadmitted = max(0, role.replicas - max(admitted, ready + unseen))
    return RoleView(
        name=role.name,
        declared=role.replicas,
        ready=ready,
        unadmitted=unadmitted,
        starting=max(0, role.replicas - ready - unadmitted),
        retiring=retiring,
        members=tuple(members),
        starting_since=tuple(sorted(starting_since)),
        unlisted=len({member.replica for member in members if member.key in missing}),
        unseen=unseen,
    )


def note_listings(sightings: Mapping[str, Sighting], views: Iterable[RoleView], now: float) -> dict[str, Sighting]:
    """The sightings with which Pods were listed, and since when the others are not."""
    members = [member for view in views for member in view.members if member.serving or not member.listed]
    seen = dict(sightings)
    for member in members:
        if (sighting := seen.get(member.key)) is not None:
            seen[member.key] = sighting.looked_up(listed=member.listed, now=now)
    return seen


def _answers(pod: Pod) -> bool:
    """Of a replica with several members the leader serves metrics and requests; with external data parallelism each of
    them does. Standalone mode annotates exactly those that do; what an operator annotates is not known to tell."""
    if pod.member_index in (0, None):
        return True
    ours = pod.metadata.label(MANAGED_BY_LABEL) == MANAGED_BY
    return ours and pod.metadata.annotation(SCRAPE_ANNOTATION) == "true"


def _before(sighting: Sighting | None, now: float) -> Sighting | None:
    """What was seen by a clock that has been set back since counts as seen now: no start takes less than no time."""
    if sighting is None or (sighting.first_seen <= now and (sighting.ready_since or 0.0) <= now):
        return sighting
    since = None if sighting.ready_since is None else min(sighting.ready_since, now)
    # Not seen from its beginning by this clock: a start that ends now has no measure.
    return replace(sighting, first_seen=min(sighting.first_seen, now), ready_since=since, was_ready=True)


def _not_later(moment: float | None, now: float) -> float:
    return now if moment is None or moment > now else moment
