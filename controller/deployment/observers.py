"""What this room reports about itself, as protocols that a registry and an event recorder implement.

Every method is synchronous, quick, and does not raise.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from controller.api import RetirementState
from controller.deployment.retirement import Load, Outcome
from controller.kube import EventType, ObjectRef


class Recorder(Protocol):
    """Events for people: `kube.EventRecorder` is one."""

    def event(self, regarding: ObjectRef, type_: EventType, reason: str, action: str, note: str) -> None:
        """Something happened to an object."""
        ...


class DeploymentMetrics(Protocol):
    """Numbers about ModelDeployments that this controller carries out."""

    def role(
        self,
        namespace: str,
        deployment: str,
        role: str,
        *,
        desired: int,
        ready: int,
        eligible: int | None,
        outdated: int,
    ) -> None:
        """Where a role stands."""
        ...

    def keep_roles(self, namespace: str, deployment: str, roles: Collection[str]) -> None:
        """These are all the roles there are."""
        ...

    def retirement_state(self, namespace: str, deployment: str, state: RetirementState | None) -> None:
        """The state of the one retirement there can be; None: there is none."""
        ...

    def retirement_step(
        self, namespace: str, deployment: str, role: str, outcome: Outcome, state: RetirementState, seconds: float
    ) -> None:
        """A retirement left `state` after so many (model) seconds in it, with this outcome."""
        ...

    def drain_look(self, namespace: str, deployment: str, load: Load) -> None:
        """The answering members of a retiring replica were read."""
        ...

    def pods_created(self, namespace: str, deployment: str, role: str, count: int) -> None:
        """Pods were created."""
        ...

    def pods_deleted(self, namespace: str, deployment: str, role: str, count: int) -> None:
        """Deletions of Pods were accepted by the API server."""
        ...

    def forget(self, namespace: str, deployment: str) -> None:
        """The deployment is gone, or another operator's: its series must go with it."""
        ...


class NoMetrics:
    """Tells nobody."""

    def role(
        self,
        namespace: str,
        deployment: str,
        role: str,
        *,
        desired: int,
        ready: int,
        eligible: int | None,
        outdated: int,
    ) -> None: ...
    def keep_roles(self, namespace: str, deployment: str, roles: Collection[str]) -> None: ...
    def retirement_state(self, namespace: str, deployment: str, state: RetirementState | None) -> None: ...
    def retirement_step(
        self, namespace: str, deployment: str, role: str, outcome: Outcome, state: RetirementState, seconds: float
    ) -> None: ...
    def drain_look(self, namespace: str, deployment: str, load: Load) -> None: ...
    def pods_created(self, namespace: str, deployment: str, role: str, count: int) -> None: ...
    def pods_deleted(self, namespace: str, deployment: str, role: str, count: int) -> None: ...
    def forget(self, namespace: str, deployment: str) -> None: ...
