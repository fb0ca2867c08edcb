"""Gathers what one step of an operation is decided from: the cache, the API server live, the routers, the engines.

Only what the operation's state asks for is looked at. Raises ApiError where the API server does not answer a question
without which no step may be made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.api import (
    COMPONENT_LABEL,
    INSTANCE_LABEL,
    ORDINAL_LABEL,
    PODS,
    ModelDeployment,
    Pod,
    RetirementRetry,
    RetirementState,
)
from controller.deployment.drain import DrainReader
from controller.deployment.memory import Track
from controller.deployment.observers import DeploymentMetrics
from controller.deployment.replicas import Replica
from controller.deployment.retirement import Evidence, Listing, Load, Look, Operation, Presence
from controller.deployment.withdrawal import Sighting, Withdrawal
from controller.foundation import Clock
from controller.kube import KubeClient

# Between two looks (model time): long enough for a request that a router had already handed over when it let go of the
# replica to show up in the engine's gauges, so that two idle looks in a row mean that there was none.
LOOK_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Gathered:
    """The evidence, and the Pods that it is about as far as they exist."""

    evidence: Evidence
    members: tuple[Pod, ...]


class EvidenceCollector:
    """Looks for one process."""

    def __init__(
        self, client: KubeClient, withdrawal: Withdrawal, drain: DrainReader, metrics: DeploymentMetrics, clock: Clock
    ) -> None:
        self._client = client
        self._withdrawal = withdrawal
        self._drain = drain
        self._metrics = metrics
        self._clock = clock

    async def gather(
        self,
        deployment: ModelDeployment,
        track: Track,
        replica: Replica | None,
        *,
        declared: bool,
        retry: RetirementRetry | None = None,
    ) -> Gathered:
        """What there is to know. `replica`: the operation's, from the cache, with those members only that it is about;
        None where the cache has none of them."""
        operation = track.operation
        if operation.deletes:
            # Gone is what neither the cache nor the API server has: a pass after the end must not find a ghost.
            members = replica.members if replica is not None else await self._live_members(deployment, operation)
            presence = Presence.THERE if members else Presence.GONE
            return Gathered(Evidence(presence, declared, labelled=False, served=True, retry=retry), members)
        if replica is None or replica.broken or all(pod.finished for pod in replica.members):
            return Gathered(Evidence(Presence.LOST, declared, labelled=False, served=True, retry=retry), ())
        sighting, look = await self._look_around(deployment, track, replica, declared=declared)
        evidence = Evidence(
            Presence.THERE,
            declared,
            labelled=any(pod.eligible and not pod.deleting for pod in replica.members),
            served=replica.served or replica.stripped,  # with the annotation that would tell, maybe
            listing=sighting.listing,
            listing_note=sighting.note,
            look=look,
            retry=retry,
        )
        return Gathered(evidence, replica.members)

    async def _look_around(
        self, deployment: ModelDeployment, track: Track, replica: Replica, *, declared: bool
    ) -> tuple[Sighting, Look | None]:
        operation, now = track.operation, self._clock.now()
        nothing = Sighting(Listing.GONE)
        if declared:
            return nothing, None  # it is given back, whatever it does
        if operation.state is RetirementState.DISQUALIFIED:
            return await self._withdrawal.look(deployment, replica.members), None
        if operation.state is not RetirementState.DRAINING or now < max(track.next_look_at, operation.reads_count_from):
            return nothing, None
        track.next_look_at = now + LOOK_SECONDS
        sighting = await self._withdrawal.look(deployment, replica.members)
        look = await self._drain.look(deployment, replica)
        if look.load is Load.IDLE and sighting.in_flight > 0:
            note = f"answers of {replica.name} are under way at a router"
            look = Look(Load.BUSY, look.incarnation, note, f"{sighting.in_flight} answers under way at a router")
        self._metrics.drain_look(deployment.metadata.namespace, deployment.metadata.name, look.load)
        return sighting, look

    async def _live_members(self, deployment: ModelDeployment, operation: Operation) -> tuple[Pod, ...]:
        """The operation's Pods as the API server has them: a cache can be behind, and a name may be another Pod's."""
        meta = deployment.metadata
        selector = (
            f"{INSTANCE_LABEL}={meta.name},{COMPONENT_LABEL}={operation.role},{ORDINAL_LABEL}={operation.ordinal}"
        )
        found = await self._client.list(PODS, meta.namespace, type_=Pod, label_selector=selector)
        return tuple(pod for pod in found.items if pod.metadata.uid in operation.member_uids)


def replica_of(operation: Operation, replicas: Sequence[Replica]) -> Replica | None:
    """The operation's replica, reduced to the Pods that it is about; None where none of them is left."""
    for replica in replicas:
        if (replica.role, replica.ordinal) == (operation.role, operation.ordinal):
            members = tuple(pod for pod in replica.members if pod.metadata.uid in operation.member_uids)
            return Replica(replica.deployment, replica.role, replica.ordinal, members) if members else None
    return None
