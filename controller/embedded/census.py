"""How many replicas there are, role by role, as the API shows it: what was declared, what has Pods, what is Ready.

Follows the ModelDeployments and Pods of one namespace and keeps every change of the counts with its model time, so that
replica-seconds are exact. Run until cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.embedded import contract
from controller.embedded.apiclient import ApiClient, ListWatch
from controller.embedded.contract import read_roles
from controller.embedded.pods import is_ready
from controller.foundation import Clock


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """Replicas of one role. A replica is Ready when all its Pods are."""

    desired: int = 0
    created: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """The replicas of all roles from `t_seconds` (model time) on."""

    t_seconds: float
    roles: Mapping[str, RoleCounts]

    @property
    def total(self) -> RoleCounts:
        """Of all roles together."""
        roles = self.roles.values()
        return RoleCounts(
            sum(role.desired for role in roles), sum(role.created for role in roles), sum(role.ready for role in roles)
        )


class Census:
    """The counts of one deployment."""

    def __init__(self, api: ApiClient, clock: Clock, namespace: str, deployment: str) -> None:
        self.timeline: list[Counts] = []
        self.on_change: Callable[[], None] | None = None
        self._clock = clock
        self._deployment = deployment
        of_deployment = f"{contract.APP_NAME}={contract.APP},{contract.APP_INSTANCE}={deployment}"
        self._deployments = ListWatch(api, contract.MODEL_DEPLOYMENTS, namespace, self._count)
        self._pods = ListWatch(api, contract.PODS, namespace, self._count, of_deployment)

    @property
    def now(self) -> Counts:
        """The counts now."""
        return self.timeline[-1] if self.timeline else Counts(self._clock.now(), {})

    async def run(self) -> None:
        """Follow both kinds."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deployments.run())
            group.create_task(self._pods.run())

    def _count(self) -> None:
        if not (self._deployments.synced.is_set() and self._pods.synced.is_set()):
            return
        deployment = self._deployments.objects.get(self._deployment)
        desired = {} if deployment is None else {role.name: role.replicas for role in read_roles(deployment)}
        replicas: dict[str, dict[str, bool]] = {role: {} for role in desired}
        for pod in self._pods.objects.values():
            labels = pod["metadata"].get("labels") or {}
            role, ordinal = labels.get(contract.APP_COMPONENT), labels.get(contract.POD_ORDINAL, "")
            if role is not None:
                seats = replicas.setdefault(role, {})
                seats[ordinal] = seats.get(ordinal, True) and is_ready(pod)
        roles = {
            role: RoleCounts(desired.get(role, 0), len(seats), sum(seats.values())) for role, seats in replicas.items()
        }
        if not self.timeline or roles != self.timeline[-1].roles:
            self.timeline.append(Counts(self._clock.now(), roles))
            if self.on_change is not None:
                self.on_change()
