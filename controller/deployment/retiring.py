"""Carries retirements and replacements out: gather, step, write down, act. The shell around `retirement`.

The operation is written down first, by a patch that anything else that changed in the ModelDeployment refuses; what it
demands is done afterwards, and done again by every later pass until it shows. A crash at any point leaves an operation
that the next process takes up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.api import (
    AnnotationProblem,
    ModelDeployment,
    Pod,
    RetirementRetry,
    RetirementState,
    Role,
    read_retirement_retry,
)
from controller.deployment.evidence import LOOK_SECONDS, EvidenceCollector, replica_of
from controller.deployment.faults import Faults
from controller.deployment.fingerprint import fingerprint
from controller.deployment.memory import DeploymentMemory, Track
from controller.deployment.plan import Rollout, declares, is_outdated, surplus
from controller.deployment.provenance import Provenance
from controller.deployment.record import MAX_RETRY_TOKEN, restored, retirement_patch, stored
from controller.deployment.replacement import step_replacement
from controller.deployment.replicas import Replica
from controller.deployment.reporter import Reporter
from controller.deployment.retirement import Action, Operation, Outcome, admit, step, take_up
from controller.deployment.writes import Writes
from controller.foundation import Clock

# How soon to look again at what comes without an event of our caches: routers and slices, and Pods on their way out.
_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Carried:
    """The deployment as it is after the writes, and in how many (model) seconds to look again (None: on an event)."""

    deployment: ModelDeployment
    again_in: float | None


class Retiring:
    """Operations of one process."""

    def __init__(self, collector: EvidenceCollector, writes: Writes, reporter: Reporter, clock: Clock) -> None:
        self._collector = collector
        self._writes = writes
        self._reporter = reporter
        self._clock = clock

    async def retire(
        self, deployment: ModelDeployment, replicas: Sequence[Replica], memory: DeploymentMemory, faults: Faults
    ) -> Carried:
        """One step of the deployment's retirement, or its beginning. Raises Conflict, ApiError."""
        # Looked at also while nothing is retiring: whoever ordered a retry shall hear that nobody can read the order.
        retry = self._retry_order(deployment, memory)
        found = await self._take_up(deployment, replicas, memory)
        deployment, track = found.deployment, memory.retirement
        if track is None:
            return await self._admit(deployment, replicas, memory)
        operation = track.operation
        gathered = await self._collector.gather(
            deployment,
            track,
            replica_of(operation, replicas),
            declared=declares(deployment, operation.role, operation.ordinal),
            retry=retry,
        )
        now = self._clock.now()
        taken = step(operation, gathered.evidence, now)
        if taken.outcome is not Outcome.STAYED:
            patch = retirement_patch(deployment.metadata.resource_version, taken.operation)
            deployment = await self._writes.patch_status(deployment, patch)
        memory.retirement = None if taken.operation is None else Track(taken.operation, track.next_look_at)
        self._reporter.stepped(deployment, operation, taken, now)
        if Action.DELETE in taken.actions:
            await self._delete(deployment, gathered.members, faults)
        if Action.CONSUME_RETRY in taken.actions:
            consumed = await faults.attempt("taking the retry annotation away", self._writes.consume_retry(deployment))
            deployment = consumed or deployment
        return Carried(deployment, self._next_look(memory.retirement, now, operation.state))

    async def replace(
        self,
        deployment: ModelDeployment,
        roles: Sequence[Role],
        replicas: Sequence[Replica],
        rollout: Rollout,
        memory: DeploymentMemory,
        faults: Faults,
    ) -> float | None:
        """One step of the replacement under way, or the beginning of the next one; in how many (model) seconds to look
        again. `roles`: those whose Pods can be made now; a replica of another one is given back. Raises ApiError."""
        now = self._clock.now()
        startable = {role.name for role in roles}
        track = memory.replacement
        if track is not None and track.operation.role not in startable and not track.operation.deletes:
            track = memory.replacement = None
        if track is None:
            if rollout.victim is None or rollout.victim.role not in startable or memory.retirement is not None:
                return None
            operation = admit(rollout.victim, deployment.metadata.generation, now, "made from an older spec")
            memory.replacement = Track(operation)
            self._reporter.replaced(deployment, None, operation, operation.reason)
            return 0.0
        track.catch_up(now)
        operation = track.operation
        replica = replica_of(operation, replicas)
        gathered = await self._collector.gather(
            deployment,
            track,
            replica,
            declared=not _still_outdated(deployment, operation, replica, memory.provenance),
        )
        now = self._clock.now()
        taken = step_replacement(operation, gathered.evidence, now)
        memory.replacement = None if taken.operation is None else Track(taken.operation, track.next_look_at)
        if taken.outcome not in (Outcome.STAYED, Outcome.REASON):
            self._reporter.replaced(deployment, operation, taken.operation, taken.reason)
        if Action.DELETE in taken.actions:
            memory.provenance.made(operation.role, operation.ordinal)
            await self._delete(deployment, gathered.members, faults)
        if memory.replacement is None:
            return 0.0
        return self._next_look(memory.replacement, now, operation.state)

    async def _take_up(
        self, deployment: ModelDeployment, replicas: Sequence[Replica], memory: DeploymentMemory
    ) -> Carried:
        """Make the memory agree with what is stored; an operation that this process does not know is taken up."""
        written = deployment.status.retirement
        track = memory.retirement
        if written is None or not written.state:
            memory.retirement = None
            return Carried(deployment, None)
        now = self._clock.now()
        if track is not None and stored(track.operation) == written:
            if track.catch_up(now):
                patch = retirement_patch(deployment.metadata.resource_version, track.operation)
                deployment = await self._writes.patch_status(deployment, patch)
            return Carried(deployment, None)
        operation = restored(written, hands_over=False, now=now)
        replica = replica_of(operation, replicas)
        operation = restored(written, hands_over=replica is not None and replica.hands_over, now=now)
        fresh = take_up(operation, now)
        if stored(fresh) != written:
            patch = retirement_patch(deployment.metadata.resource_version, fresh)
            deployment = await self._writes.patch_status(deployment, patch)
        memory.retirement = Track(fresh)
        if fresh.running:
            self._reporter.taken_up(deployment, fresh)
        return Carried(deployment, None)

    async def _admit(
        self, deployment: ModelDeployment, replicas: Sequence[Replica], memory: DeploymentMemory
    ) -> Carried:
        victim = surplus(deployment, replicas)
        if victim is None:
            return Carried(deployment, None)
        now = self._clock.now()
        role = deployment.role(victim.role)
        why = f"the role declares {role.replicas}" if role is not None else "the role is not declared any more"
        operation = admit(victim, deployment.metadata.generation, now, why)
        patch = retirement_patch(deployment.metadata.resource_version, operation)
        deployment = await self._writes.patch_status(deployment, patch)
        memory.retirement = Track(operation)
        if memory.replacement is not None and not memory.replacement.operation.deletes:
            memory.replacement = None  # one replica out of service at a time; the rollout goes on afterwards
        self._reporter.admitted(deployment, operation)
        return Carried(deployment, 0.0)

    async def _delete(self, deployment: ModelDeployment, members: Sequence[Pod], faults: Faults) -> None:
        """Delete what is not on its way already; every later pass does it again for what the API server still has."""
        for pod in members:
            if pod.deleting:
                continue
            what = f"deleting Pod {pod.metadata.name}"
            if await faults.attempt(what, self._writes.delete_pod(deployment, pod)):
                self._reporter.deleted(deployment, pod.role or "", pod.metadata.name)

    def _retry_order(self, deployment: ModelDeployment, memory: DeploymentMemory) -> RetirementRetry | None:
        order = read_retirement_retry(deployment.metadata)
        note = ""
        if isinstance(order, AnnotationProblem):
            note = str(order)
        elif order is not None and len(order.token) > MAX_RETRY_TOKEN:
            note = f"the token of a retirement retry has at most {MAX_RETRY_TOKEN} characters: choose a shorter one"
        self._reporter.tell(deployment, memory, "retry", "InvalidRetirementRetry", "Retire", note)
        return order if isinstance(order, RetirementRetry) and not note else None

    def _next_look(self, track: Track | None, now: float, before: RetirementState) -> float | None:
        if track is None:
            return 0.0
        again_in = self._after(track, now, before)
        track.carried(now, again_in)
        return again_in

    def _after(self, track: Track, now: float, before: RetirementState) -> float | None:
        operation = track.operation
        if operation.state is RetirementState.ABORTED:
            return None  # a raised count, a retry order or a lost Pod is an event
        if operation.state is RetirementState.DRAINING:
            next_look = max(track.next_look_at, operation.reads_count_from)
            return max(0.0, min(next_look, operation.phase_ends_at) - now)
        if operation.state is not before:
            return 0.0
        return LOOK_SECONDS if operation.deletes else max(0.0, min(_POLL_SECONDS, operation.phase_ends_at - now))


def _still_outdated(
    deployment: ModelDeployment, operation: Operation, replica: Replica | None, provenance: Provenance
) -> bool:
    """Whether the replica still has to be made again: its role declares it, from another spec."""
    role = deployment.role(operation.role)
    if role is None or replica is None or not declares(deployment, operation.role, operation.ordinal):
        return False
    return is_outdated(replica, fingerprint(deployment, role), provenance)
