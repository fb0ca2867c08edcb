"""Tells people and metrics what became of a deployment: events, log lines, numbers.

Events carry what a person on call needs; repetitions of what was just said are left out here, series are the
recorder's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from controller.api import API_VERSIONS, MODEL_DEPLOYMENTS, ModelDeployment, ModelDeploymentStatus, RetirementState
from controller.deployment.memory import DeploymentMemory
from controller.deployment.names import replica_name
from controller.deployment.observers import DeploymentMetrics, Recorder
from controller.deployment.retirement import Operation, Outcome, Step
from controller.foundation import some_of
from controller.kube import EventType, ObjectRef

# Outcome → reason of the event; MOVED is named after the state that was reached.
_REASONS: Final = {
    Outcome.RETRIED: "RetirementRetried",
    Outcome.ABORTED: "RetirementAborted",
    Outcome.ADOPTED: "RetirementAdopted",
    Outcome.RELEASED: "RetirementReleased",
    Outcome.COMPLETED: "RetirementCompleted",
}

# One event tells of all replicas of a role that one pass made; its note has room for 1,024 characters.
_SHOWN_REPLICAS: Final = 8


class Reporter:
    """What one process says about its deployments."""

    def __init__(self, events: Recorder, metrics: DeploymentMetrics) -> None:
        self._events = events
        self._metrics = metrics
        self._log = structlog.get_logger(component="deployment")

    def admitted(self, deployment: ModelDeployment, operation: Operation) -> None:
        """A retirement has begun."""
        self._say(deployment, EventType.NORMAL, "RetirementAdmitted", "Retire", operation, operation.reason)

    def taken_up(self, deployment: ModelDeployment, operation: Operation) -> None:
        """An operation that another process left goes on."""
        note = f"taken up in {operation.state} with fresh budgets"
        self._say(deployment, EventType.NORMAL, "RetirementResumed", "Retire", operation, note)

    def stepped(self, deployment: ModelDeployment, before: Operation, step: Step, now: float) -> None:
        """A retirement made a step that was written down."""
        after = step.operation
        if step.outcome in (Outcome.STAYED, Outcome.REASON):
            return
        seconds = max(0.0, now - before.phase_started_at)
        self._metrics.retirement_step(*_names(deployment), before.role, step.outcome, before.state, seconds)
        reason = _REASONS.get(step.outcome, f"Retirement{after.state if after is not None else ''}")
        kind = EventType.WARNING if step.outcome is Outcome.ABORTED else EventType.NORMAL
        note = step.reason
        if step.outcome is Outcome.ABORTED:
            order = f"{before.role}:{before.ordinal}:<any token>"
            note = (
                f"{note}; no other replica is retired until the count includes it again, its Pods are deleted, or a "
                f"person sets the annotation modeldeployment.gpustack.ai/retirement-retry={order}"
            )
        self._say(deployment, kind, reason, "Retire", before, note)

    def replaced(
        self, deployment: ModelDeployment, before: Operation | None, operation: Operation | None, note: str
    ) -> None:
        """A replacement began, moved or ended; people hear of its beginning and of the deletion."""
        shown = operation or before
        if shown is None:
            return
        self._log.info(
            "replacement", deployment=deployment.metadata.key, role=shown.role, ordinal=shown.ordinal, note=note
        )
        if before is None or (operation is not None and operation.state is RetirementState.DELETING):
            reason = "ReplicaLeaving" if operation is not None and operation.deletes else "ReplicaReplacing"
            self._say(deployment, EventType.NORMAL, reason, "Replace", shown, note)

    def tell(
        self,
        deployment: ModelDeployment,
        memory: DeploymentMemory,
        topic: str,
        reason: str,
        action: str,
        note: str,
        *,
        warning: bool = True,
    ) -> None:
        """An event about a topic, unless it was the last thing said about it; an empty note ends the topic."""
        if memory.news(topic, note):
            kind = EventType.WARNING if warning else EventType.NORMAL
            self._event(deployment, kind, reason, action, note)

    def event(self, deployment: ModelDeployment, reason: str, action: str, note: str, *, warning: bool = False) -> None:
        """One event."""
        self._event(deployment, EventType.WARNING if warning else EventType.NORMAL, reason, action, note)

    def standing(
        self,
        deployment: ModelDeployment,
        status: ModelDeploymentStatus,
        outdated: Mapping[str, int],
        memory: DeploymentMemory,
    ) -> None:
        """Where the roles and the retirement stand at the end of a pass."""
        for role in status.roles or ():
            self._metrics.role(
                *_names(deployment),
                role.name,
                desired=role.desired or 0,
                ready=role.ready or 0,
                eligible=role.endpoints.eligible if role.endpoints is not None else None,
                outdated=outdated.get(role.name, 0),
            )
        self._metrics.keep_roles(*_names(deployment), {role.name for role in status.roles or ()})
        track = memory.retirement
        self._metrics.retirement_state(*_names(deployment), None if track is None else track.operation.state)

    def created(self, deployment: ModelDeployment, role: str, pods: Sequence[str], ordinals: Iterable[int]) -> None:
        """Pods of these replicas were created."""
        if not pods:
            return
        self._metrics.pods_created(*_names(deployment), role, len(pods))
        self._log.info("created Pods", deployment=deployment.metadata.key, role=role, pods=list(pods))
        names = [replica_name(deployment.metadata.name, role, ordinal) for ordinal in sorted(set(ordinals))]
        shown = some_of(names, _SHOWN_REPLICAS)
        members = f" ({len(pods)} Pods)" if len(pods) != len(names) else ""
        self._event(deployment, EventType.NORMAL, "ReplicaCreated", "Create", f"created {shown}{members}")

    def deleted(self, deployment: ModelDeployment, role: str, name: str) -> None:
        """The API server took the deletion of a Pod."""
        self._metrics.pods_deleted(*_names(deployment), role, 1)
        self._log.info("deleted Pod", deployment=deployment.metadata.key, role=role, pod=name)

    def forget(self, key: str) -> None:
        """The deployment is gone, or another operator's."""
        namespace, _, name = key.partition("/")
        self._metrics.forget(namespace, name)

    def _say(
        self, deployment: ModelDeployment, kind: EventType, reason: str, action: str, operation: Operation, note: str
    ) -> None:
        replica = replica_name(deployment.metadata.name, operation.role, operation.ordinal)
        self._event(deployment, kind, reason, action, f"{replica}: {note}")

    def _event(self, deployment: ModelDeployment, kind: EventType, reason: str, action: str, note: str) -> None:
        meta = deployment.metadata
        # kubectl's `events --for` asks for the group's preferred version.
        regarding = ObjectRef(API_VERSIONS[1], MODEL_DEPLOYMENTS.kind, meta.name, meta.namespace, meta.uid)
        self._events.event(regarding, kind, reason, action, note)
        log = self._log.warning if kind is EventType.WARNING else self._log.info
        log(reason, deployment=meta.key, note=note)


def _names(deployment: ModelDeployment) -> tuple[str, str]:
    return deployment.metadata.namespace, deployment.metadata.name
