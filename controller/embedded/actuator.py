"""The embedded operator and kubelet: ModelDeployments become engine servers and Pods.

Watches ModelDeployments and Pods of one namespace through the API and carries out `spec.roles[].replicas` of roles of
kind Server, level by level: missing ordinals are created, surplus ones retired from the highest down, one at a time
(`retirement`), Pods and `status` are kept as the contract shapes them. Flags of `extraArgs` that an engine server knows
(`--max-num-seqs`, `--max-num-batched-tokens`, `--max-model-len`) are obeyed.

Promised: a replica that may hold a request is never stopped; a raised count adopts back what is being retired; a Pod
that somebody deletes is replaced; a failed API call is repeated by the next pass. `failure` resolves when the operator
itself cannot go on (no address for an engine, say). Not promised: other role kinds (they stay at zero, and status says
so), survival of a restart: the engines live in this process.

One pass at a time; it runs when something changed, and every few model seconds while something is under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from controller.embedded import contract
from controller.embedded.apiclient import ApiClient, ApiFailure, ListWatch
from controller.embedded.contract import DeploymentSpec, RoleSpec, read_deployment
from controller.embedded.deployment_status import RoleCounts, deployment_status
from controller.embedded.engine import EngineConfig, EngineServer, EngineState
from controller.embedded.engine_roles import engine_config, read_in_flight
from controller.embedded.loopback import LoopbackAddresses
from controller.embedded.pods import PodFacts, pod_object, pod_status
from controller.embedded.retirement import (
    Retirement,
    RetirementAction,
    RetirementState,
    RetirementView,
    step_retirement,
)
from controller.embedded.router import Router
from controller.foundation import Clock

_LOG = logging.getLogger(__name__)

_QUIET_SECONDS = 10.0  # between passes when nothing happens; only a safety net
_BUSY_SECONDS = 2.0  # while a replica is being retired or does not answer
# A readiness probe every 10 s, three failures: how long a container that stopped answering stays Ready.
_UNREADY_AFTER_SECONDS = 30.0
_READ_SECONDS = 2.0  # wall time for one idle read, as the contract allows
_RETRY_SECONDS = 0.2  # wall time after an API call that failed


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Totals over all deployments from `t_seconds` (model time) on."""

    t_seconds: float
    desired: int
    created: int
    ready: int


@dataclass(slots=True, eq=False)
class _Replica:
    role: str
    ordinal: int
    pod_name: str
    pod_uid: str
    image: str
    engine: EngineServer
    created_seconds: float
    changed_seconds: float  # when the engine's state last changed
    ready: bool = False
    ready_changed_seconds: float = 0.0
    labelled: bool = False
    was_eligible: bool = False
    seen: bool = False  # the Pod has been in the watch
    status: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Deployment:
    spec: DeploymentSpec
    replicas: dict[tuple[str, int], _Replica] = field(default_factory=dict)
    retirement: Retirement | None = None
    status: dict[str, Any] = field(default_factory=dict)


class Actuator:
    """The operator of one namespace.

    `engine` is what every replica is, apart from model name and flags, which come from the ModelDeployment. `quota`
    bounds the replicas that get a Pod; the rest stay pending, as beside a full queue.
    """

    def __init__(
        self,
        api: ApiClient,
        clock: Clock,
        router: Router,
        *,
        namespace: str,
        engine: EngineConfig,
        addresses: LoopbackAddresses | None = None,
        quota: int | None = None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._router = router
        self._namespace = namespace
        self._engine = engine
        self._addresses = addresses or LoopbackAddresses()
        self._wake = asyncio.Event()
        self._specs = ListWatch(api, contract.MODEL_DEPLOYMENTS, namespace, self._wake.set)
        self._pods = ListWatch(api, contract.PODS, namespace, self._wake.set, f"{contract.APP_NAME}={contract.APP}")
        self._deployments: dict[str, _Deployment] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._reads: aiohttp.ClientSession | None = None
        self.quota = quota
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timeline: list[ReplicaCounts] = []
        self.on_counts: Callable[[ReplicaCounts], None] | None = None

    @property
    def engines(self) -> tuple[EngineServer, ...]:
        """The engine servers that run, retiring ones included."""
        return tuple(replica.engine for one in self._deployments.values() for replica in one.replicas.values())

    @property
    def counts(self) -> ReplicaCounts:
        """The totals now."""
        if self.timeline:
            return self.timeline[-1]
        return ReplicaCounts(self._clock.now(), 0, 0, 0)

    async def start(self) -> None:
        """Begin to watch and act."""
        self._reads = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_READ_SECONDS))
        self._tasks = [
            asyncio.create_task(self._specs.run(), name="watch model deployments"),
            asyncio.create_task(self._pods.run(), name="watch pods"),
            asyncio.create_task(self._run(), name="actuate"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop acting, then every engine, whatever it holds. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.gather(*(engine.stop() for engine in self.engines))
        if self._reads is not None:
            await self._reads.close()
            self._reads = None
        if not self.failure.done():
            self.failure.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)

    async def _run(self) -> None:
        await self._specs.synced.wait()
        await self._pods.synced.wait()
        while True:
            self._wake.clear()
            try:
                await self._pass()
            except (ApiFailure, aiohttp.ClientError, OSError) as error:
                # Reads and writes alike are repeated by the next pass, which starts from what is there then.
                _LOG.warning("embedded operator: %s; trying again", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            try:
                async with asyncio.timeout(self._clock.wall_seconds(self._period())):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _period(self) -> float:
        retiring = any(one.retirement for one in self._deployments.values())
        hung = any(engine.state is EngineState.HUNG for engine in self.engines)
        return _BUSY_SECONDS if retiring or hung else _QUIET_SECONDS

    async def _pass(self) -> None:
        specs = {spec.uid: spec for spec in map(read_deployment, self._specs.objects.values()) if not spec.deleting}
        for uid in list(self._deployments):
            if uid not in specs:
                await self._tear_down(self._deployments.pop(uid))
        for uid, spec in specs.items():
            deployment = self._deployments.setdefault(uid, _Deployment(spec))
            deployment.spec = spec
            await self._drop_lost_pods(deployment)
            await self._retire(deployment)
            await self._grow(deployment)
            for replica in deployment.replicas.values():
                await self._sync_pod(deployment, replica)
            await self._write_status(deployment)
        self._count()

    # Creating and losing replicas

    async def _grow(self, deployment: _Deployment) -> None:
        for role in deployment.spec.roles:
            if role.kind != "Server":
                continue
            for ordinal in range(role.replicas):
                if (role.name, ordinal) in deployment.replicas:
                    continue
                if self.quota is not None and len(self.engines) >= self.quota:
                    return
                await self._create(deployment, role, ordinal)

    async def _create(self, deployment: _Deployment, role: RoleSpec, ordinal: int) -> None:
        spec = deployment.spec
        engine = EngineServer(engine_config(self._engine, spec, role), self._clock, on_change=self._engine_changed)
        pod = await self._api.create(contract.PODS, spec.namespace, pod_object(spec, role, ordinal))
        now = self._clock.now()
        deployment.replicas[role.name, ordinal] = _Replica(
            role=role.name,
            ordinal=ordinal,
            pod_name=pod["metadata"]["name"],
            pod_uid=pod["metadata"]["uid"],
            image=spec.image,
            engine=engine,
            created_seconds=now,
            changed_seconds=now,
            ready_changed_seconds=now,
        )
        await engine.start(self._addresses, role.port)

    async def _drop_lost_pods(self, deployment: _Deployment) -> None:
        present = {pod["metadata"]["uid"] for pod in self._pods.objects.values()}
        for key, replica in list(deployment.replicas.items()):
            if replica.pod_uid in present:
                replica.seen = True
            elif replica.seen and not _is_target(deployment.retirement, replica):
                _LOG.warning("embedded operator: pod %s was deleted by somebody else", replica.pod_name)
                del deployment.replicas[key]
                await replica.engine.stop()

    async def _tear_down(self, deployment: _Deployment) -> None:
        for replica in deployment.replicas.values():
            await self._api.delete(contract.PODS, deployment.spec.namespace, replica.pod_name, uid=replica.pod_uid)
            await replica.engine.stop()

    # Retiring

    async def _retire(self, deployment: _Deployment) -> None:
        if deployment.retirement is None:
            deployment.retirement = self._next_retirement(deployment)
        before = deployment.retirement
        if before is None:
            return
        replica = deployment.replicas[before.role, before.ordinal]
        view = await self._view(deployment, replica, before)
        retirement, action = step_retirement(before, view, self._clock.now())
        if retirement.state is not before.state:
            self._wake.set()  # the next step need not wait
        deployment.retirement = retirement
        match action:
            case RetirementAction.DELETE:
                await self._api.delete(contract.PODS, deployment.spec.namespace, replica.pod_name, uid=replica.pod_uid)
            case RetirementAction.STOP:
                await replica.engine.stop()
            case RetirementAction.REINSTATE:
                deployment.retirement = None
            case RetirementAction.WITHDRAW | RetirementAction.NONE:
                pass  # the label follows from the retirement's being there
        if retirement.state is RetirementState.COMPLETED:
            del deployment.replicas[retirement.role, retirement.ordinal]
            deployment.retirement = None

    def _next_retirement(self, deployment: _Deployment) -> Retirement | None:
        surplus = [replica for key, replica in deployment.replicas.items() if not _wanted(deployment.spec, *key)]
        if not surplus:
            return None
        victim = max(surplus, key=lambda replica: replica.ordinal)
        now = self._clock.now()
        generation = deployment.spec.generation
        return Retirement(victim.role, victim.ordinal, victim.pod_uid, generation, now, now)

    async def _view(self, deployment: _Deployment, replica: _Replica, retirement: Retirement) -> RetirementView:
        pod = self._pods.objects.get(replica.pod_name)
        exists = (pod is not None and pod["metadata"]["uid"] == replica.pod_uid) or not replica.seen
        labels = (pod["metadata"].get("labels") or {}) if pod is not None else {}
        routed = [member for member in self._router.members if member.member.uid == replica.pod_uid]
        draining = retirement.state is RetirementState.DRAINING
        return RetirementView(
            wanted=_wanted(deployment.spec, replica.role, replica.ordinal),
            was_eligible=replica.was_eligible,
            labelled=replica.labelled or contract.ENDPOINT_ELIGIBLE in labels,
            routed=any(member.eligible for member in routed),
            answering=sum(member.in_flight for member in routed),
            in_flight=await read_in_flight(self._reads, replica.engine)
            if draining and self._reads is not None
            else None,
            pod_exists=exists,
        )

    # Pods and status

    def _engine_changed(self, engine: EngineServer) -> None:
        for deployment in self._deployments.values():
            for replica in deployment.replicas.values():
                if replica.engine is engine:
                    replica.changed_seconds = self._clock.now()
        self._wake.set()

    async def _sync_pod(self, deployment: _Deployment, replica: _Replica) -> None:
        retirement = deployment.retirement
        if _is_leaving(retirement, replica):
            return
        now, engine, namespace = self._clock.now(), replica.engine, deployment.spec.namespace
        hung = engine.state is EngineState.HUNG
        ready = engine.state is EngineState.SERVING or (hung and now - replica.changed_seconds < _UNREADY_AFTER_SECONDS)
        if ready != replica.ready:
            replica.ready, replica.ready_changed_seconds = ready, now
        facts = PodFacts(
            created_seconds=replica.created_seconds,
            address=engine.host,
            started_seconds=engine.started_seconds if engine.host else None,
            ready=ready,
            ready_changed_seconds=replica.ready_changed_seconds,
            restart_count=engine.restart_count,
            down=engine.state is EngineState.DOWN,
        )
        status = pod_status(replica.pod_uid, replica.image, facts)
        if status != replica.status:
            patch = {"status": status}
            await self._api.merge_patch(contract.PODS, namespace, replica.pod_name, patch, subresource="status")
            replica.status = status
        eligible = ready and not _is_target(retirement, replica)
        if eligible != replica.labelled:
            labels = {contract.ENDPOINT_ELIGIBLE: "true" if eligible else None}
            await self._api.merge_patch(contract.PODS, namespace, replica.pod_name, {"metadata": {"labels": labels}})
            replica.labelled = eligible
            replica.was_eligible |= eligible

    async def _write_status(self, deployment: _Deployment) -> None:
        spec = deployment.spec
        counts = {role.name: _role_counts(deployment, role.name) for role in spec.roles}
        status = deployment_status(
            spec,
            counts,
            deployment.retirement,
            endpoint=self._router.url,
            previous=deployment.status,
            now=self._clock.now(),
        )
        if status != deployment.status:
            await self._api.merge_patch(
                contract.MODEL_DEPLOYMENTS, spec.namespace, spec.name, {"status": status}, subresource="status"
            )
            deployment.status = status

    def _count(self) -> None:
        roles = [(one, role) for one in self._deployments.values() for role in one.spec.roles]
        counts = ReplicaCounts(
            t_seconds=self._clock.now(),
            desired=sum(role.replicas for _, role in roles),
            created=sum(len(one.replicas) for one in self._deployments.values()),
            ready=sum(_role_counts(one, role.name).ready for one, role in roles),
        )
        if not self.timeline or replace(counts, t_seconds=self.timeline[-1].t_seconds) != self.timeline[-1]:
            self.timeline.append(counts)
            if self.on_counts is not None:
                self.on_counts(counts)


def _wanted(spec: DeploymentSpec, role: str, ordinal: int) -> bool:
    return any(one.name == role and ordinal < one.replicas for one in spec.roles)


def _is_target(retirement: Retirement | None, replica: _Replica) -> bool:
    return retirement is not None and retirement.pod_uid == replica.pod_uid


def _is_leaving(retirement: Retirement | None, replica: _Replica) -> bool:
    """Whether its Pod is being deleted, so that nothing may be written to it any more."""
    leaving = (RetirementState.DELETING, RetirementState.SETTLING)
    return retirement is not None and retirement.pod_uid == replica.pod_uid and retirement.state in leaving


def _role_counts(deployment: _Deployment, role: str) -> RoleCounts:
    replicas = [replica for replica in deployment.replicas.values() if replica.role == role]
    staying = [replica for replica in replicas if not _is_leaving(deployment.retirement, replica)]
    return RoleCounts(
        admitted=len(staying),
        ready=sum(replica.ready for replica in staying),
        eligible=sum(replica.labelled for replica in staying),
    )
