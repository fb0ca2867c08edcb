"""Creates the Pods of a plan. A Pod that cannot be created is a sentence for people, never an exception that would keep
the rest of the deployment from its work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controller.api import InstanceType, ModelDeployment, Role
from controller.deployment.faults import Faults
from controller.deployment.lookups import Lookups
from controller.deployment.memory import DeploymentMemory
from controller.deployment.pods import Seat, pod_body
from controller.deployment.reporter import Reporter
from controller.deployment.weights import Weights
from controller.deployment.writes import NameTaken, Refused, Writes

# Pods that one pass creates: their own events wake the next one, and a retirement does not wait for a thousand others.
MOST_AT_ONCE: Final = 64


class Creating:
    """Creations of one process."""

    def __init__(self, lookups: Lookups, writes: Writes, reporter: Reporter) -> None:
        self._lookups = lookups
        self._writes = writes
        self._reporter = reporter

    async def create(
        self,
        deployment: ModelDeployment,
        seats: Sequence[tuple[Role, Seat]],
        weights: Weights,
        memory: DeploymentMemory,
        faults: Faults,
    ) -> list[str]:
        """Create the first of these Pods; what was refused, in words. After the first refusal of a role its other
        Pods are not tried: what refused one (a quota, a policy) refuses all. After a failure that may pass none is: a
        webhook that is down costs its time-out each time. Raises ApiError for what is not about these Pods."""
        problems: list[str] = []
        made: dict[str, list[tuple[str, int]]] = {}
        refused: set[str] = set()
        pools: dict[str, InstanceType | None] = {}
        for role, seat in seats:
            if role.name in refused:
                continue
            if sum(map(len, made.values())) >= MOST_AT_ONCE:
                break
            if role.name not in pools:
                failed = len(faults.problems)
                pools[role.name] = await self._pool(deployment, role, memory, faults)
                if len(faults.problems) > failed:
                    refused.add(role.name)
                    continue
            body = pod_body(deployment, role, seat, weights, pools[role.name])
            secrets = [variable.value for variable in role.env or ()]
            try:
                create = self._writes.create_pod(deployment, body, secrets)
                created = await faults.attempt(f"creating Pods of role {role.name}", create)
                if created is None:
                    break
                if created:
                    memory.provenance.made(role.name, seat.ordinal)
                    made.setdefault(role.name, []).append((body["metadata"]["name"], seat.ordinal))
            except Refused as refusal:
                if not isinstance(refusal, NameTaken):
                    refused.add(role.name)
                problems.append(str(refusal))
        for name, pods in made.items():
            self._reporter.created(deployment, name, [pod for pod, _ in pods], [ordinal for _, ordinal in pods])
        return problems

    async def _pool(
        self, deployment: ModelDeployment, role: Role, memory: DeploymentMemory, faults: Faults
    ) -> InstanceType | None:
        failed = len(faults.problems)
        pool = await faults.attempt(f"reading InstanceType {role.pool}", self._lookups.pool(role))
        if len(faults.problems) > failed:
            return None
        missing = role.pool and pool is None
        note = (
            f"role {role.name}: InstanceType {role.pool} does not exist, so its Pods ask for no accelerator, CPU or "
            "memory of it and may be placed on any node: create it"
            if missing
            else ""
        )
        self._reporter.tell(deployment, memory, f"pool {role.name}", "InstanceTypeNotFound", "Render", note)
        return pool
