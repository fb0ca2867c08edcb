"""One pass over one ModelDeployment: look, retire, replace, label, create, front, report.

A pass is made when the deployment, a Pod or a Service of it changed, and while an operation waits for something that no
cache shows. It starts from the caches alone and brings what it finds one step nearer to what is declared; whatever it
could not finish, the next one does. Nothing is touched that another operator owns (`ownership`), and nothing is decided
from an object that could not be read.

One write that is not taken keeps nothing else from its work (`faults`). The order matters: a retirement is written down
before anything is done about it, eligibility follows from what is written down, and Pods are created only for places
that no operation holds.

Cancellation: safe at every await; the next pass starts from what the API server has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from controller.api import ModelDeployment, Pod, Role, RoleEndpoints
from controller.deployment.burial import Burial
from controller.deployment.creating import Creating
from controller.deployment.eligibility import label_changes
from controller.deployment.faults import Faults
from controller.deployment.kinds import EndpointSlice, Service
from controller.deployment.lookups import Lookups
from controller.deployment.memory import DeploymentMemory, Memories
from controller.deployment.names import role_service
from controller.deployment.ownership import who_owns
from controller.deployment.plan import Place, Rollout, plan_replicas, plan_rollout
from controller.deployment.provenance import STOPPED_REASON, UNREADABLE_REASON, stopped_note, unreadable_note
from controller.deployment.refusals import nonsense, role_refusal
from controller.deployment.replicas import Replica, group_replicas
from controller.deployment.reporter import Reporter
from controller.deployment.retiring import Retiring
from controller.deployment.services import desired_services, service_changes
from controller.deployment.serving import (
    SETTLED_SECONDS,
    UNSETTLED_SECONDS,
    eligible_members,
    role_endpoints,
    settled,
)
from controller.deployment.status import Situation, deployment_status, same_status, status_patch
from controller.deployment.weights import WeightsReason, WeightsVerdict, weights_of
from controller.deployment.withdrawal import RouterViews
from controller.deployment.writes import Refused, Writes
from controller.foundation import Clock
from controller.kube import (
    LAG_GIVEN_UP,
    LAG_WORTH_TELLING,
    Conflict,
    ConsistencyStore,
    Done,
    NotFound,
    NotLeader,
    ReconcileOutcome,
    RequeueAfter,
    look_again_seconds,
)

# How soon to look again (wall time) when another writer was faster.
_CONFLICT_SECONDS = 0.2
# What only a person or another controller can put right is looked at again after this long (wall time).
_PROBLEM_SECONDS = 30.0
_NOTHING_TO_ROLL_OUT = Rollout({}, None)
_NO_WEIGHTS = WeightsVerdict(None, WeightsReason.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Caches:
    """What a pass reads; each gives what the cache has now, by `namespace/name` of the deployment."""

    deployment: Callable[[str], ModelDeployment | None]
    pods: Callable[[str], Sequence[Pod]]  # those whose labels name the deployment
    services: Callable[[str], Sequence[Service]]  # likewise
    slices: Callable[[str], Sequence[EndpointSlice]]  # of these Services


@dataclass(slots=True)
class _Pass:
    """What one pass has found out so far."""

    deployment: ModelDeployment
    memory: DeploymentMemory
    replicas: list[Replica]
    carried: list[Role]  # roles that are carried out
    refusals: dict[str, str]
    faults: Faults
    problems: list[str] = field(default_factory=list)
    rollout: Rollout = _NOTHING_TO_ROLL_OUT
    endpoints: dict[str, RoleEndpoints] = field(default_factory=dict)
    again_in: float | None = None  # model seconds

    def look_again(self, seconds: float | None) -> None:
        """No later than in so many model seconds."""
        if seconds is not None:
            self.again_in = seconds if self.again_in is None else min(self.again_in, seconds)


class DeploymentReconciler:
    """Reconciles the deployments of one process; one call per key at a time, which the work queue promises."""

    def __init__(
        self,
        *,
        caches: Caches,
        routers: RouterViews,
        lookups: Lookups,
        retiring: Retiring,
        creating: Creating,
        burial: Burial,
        writes: Writes,
        reporter: Reporter,
        consistency: ConsistencyStore,
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._routers = routers
        self._lookups = lookups
        self._retiring = retiring
        self._creating = creating
        self._burial = burial
        self._writes = writes
        self._reporter = reporter
        self._consistency = consistency
        self._clock = clock
        self._memories = Memories()
        self._log = structlog.get_logger(component="deployment")

    async def reconcile(self, key: str) -> ReconcileOutcome:
        """Bring one deployment one step further. Raises ApiError for the queue to back off."""
        try:
            deployment = self._caches.deployment(key)
            if deployment is None:
                await self._burial.bury(key, self._caches.pods(key), self._caches.services(key), "")
                if self._memories.pop(key) is not None:
                    self._reporter.forget(key)
                return Done()
            memory = self._memories.of(key, deployment.metadata.uid)
            if (wait := self._lag(key, memory)) is not None:
                return RequeueAfter(wait)
            return await self._reconcile(key, deployment, memory)
        except (Conflict, NotFound) as overtaken:
            self._log.debug("another writer was faster", deployment=key, what=overtaken.message)
            return RequeueAfter(_CONFLICT_SECONDS)
        except NotLeader:
            return Done()  # the process is about to end; whoever leads now does the work

    def _lag(self, key: str, memory: DeploymentMemory) -> float | None:
        """How long (wall time) to wait for the caches to show our own writes; None: go on."""
        lag = self._consistency.lag(key)
        if lag is None:
            memory.lags = 0
            return None
        memory.lags += 1
        if memory.lags >= LAG_GIVEN_UP:
            # What is done then is safe on any cache: Pods go by UID, names are taken once, and an operation is written
            # down against the version that it was decided from.
            self._log.warning("the caches do not catch up with our own writes; going on without", deployment=key)
            self._consistency.forget(key, memory.uid)
            memory.lags = 0
            return None
        if memory.lags == LAG_WORTH_TELLING:
            self._log.warning(
                "a cache lags behind our own writes; nothing is done until it shows them",
                deployment=key,
                resource=lag.resource.plural,
                written=lag.written,
                seen=lag.seen,
            )
        return look_again_seconds(memory.lags)

    async def _reconcile(self, key: str, deployment: ModelDeployment, memory: DeploymentMemory) -> ReconcileOutcome:
        everybody = self._caches.pods(key)
        pods = [pod for pod in everybody if pod.owned_by(deployment.metadata.uid) and pod.router is None]
        ownership = who_owns(deployment, pods)
        self._reporter.tell(
            deployment, memory, "owner", "OwnedByAnotherOperator", "Own", "" if ownership.ours else ownership.reason
        )
        if not ownership.ours:
            self._reporter.forget(key)
            return Done()
        damage = deployment.unreadable or nonsense(deployment)
        self._reporter.tell(deployment, memory, "damage", "Unreadable", "Read", damage)
        if damage:
            return Done()
        await self._burial.bury(key, everybody, self._caches.services(key), deployment.metadata.uid)
        this = self._begin(deployment, memory, pods)
        if deployment.deleting:
            await self._burial.tear_down(deployment, pods, this.faults)
            this.problems += this.faults.problems
            await self._report(this, _situation(this, (), _NO_WEIGHTS, ""))
        else:
            await self._work(this, [pod for pod in everybody if pod.router is not None])
        again = [
            None if this.again_in is None else self._clock.wall_seconds(this.again_in),
            this.faults.retry_seconds,
            _PROBLEM_SECONDS if this.problems else None,
        ]
        seconds = min((each for each in again if each is not None), default=None)
        return Done() if seconds is None else RequeueAfter(seconds)

    def _begin(self, deployment: ModelDeployment, memory: DeploymentMemory, pods: Sequence[Pod]) -> _Pass:
        refusals = {role.name: why for role in deployment.roles if (why := role_refusal(deployment, role))}
        note = "; ".join(f"role {role}: {why}" for role, why in refusals.items())
        self._reporter.tell(deployment, memory, "refusals", "RenderFailed", "Render", note)
        return _Pass(
            deployment=deployment,
            memory=memory,
            replicas=group_replicas(deployment.metadata.name, pods),
            carried=[role for role in deployment.roles if role.name not in refusals],
            refusals=refusals,
            faults=Faults(memory),
        )

    async def _work(self, this: _Pass, routers: Sequence[Pod]) -> None:
        this.memory.provenance.look(this.deployment, this.replicas)
        artifact = await this.faults.attempt("reading the ModelArtifact", self._lookups.artifact(this.deployment))
        if this.faults.problems:
            weights = WeightsVerdict(None, WeightsReason.LOOKUP_FAILED, this.faults.problems.pop())
        else:
            weights = weights_of(this.deployment, artifact)
        self._reporter.tell(this.deployment, this.memory, "weights", "WeightsNotReady", "Render", weights.message)
        carried = await self._retiring.retire(this.deployment, this.replicas, this.memory, this.faults)
        this.deployment = carried.deployment
        this.look_again(carried.again_in)
        held = _held(this.memory)
        startable = this.carried if weights.weights is not None else []
        plan = plan_replicas(this.deployment, startable, this.replicas, held, this.memory.provenance)
        for discard in plan.discard:
            what = f"deleting Pod {discard.pod.metadata.name}"
            if await this.faults.attempt(what, self._writes.delete_pod(this.deployment, discard.pod)):
                self._reporter.event(this.deployment, discard.reason, "Restart", discard.note, warning=True)
                self._reporter.deleted(this.deployment, discard.pod.role or "", discard.pod.metadata.name)
        await self._roll_out(this, startable, held)
        await self._label(this)
        if weights.weights is not None:
            this.problems += await self._creating.create(
                this.deployment, plan.create, weights.weights, this.memory, this.faults
            )
        await self._front(this)
        this.problems += this.faults.problems
        self._reporter.tell(
            this.deployment, this.memory, "problems", "FailedCreate", "Create", "; ".join(this.problems)
        )
        if weights.message:
            this.problems.append(weights.message)
        await self._see_endpoints(this)
        revision = artifact.status.resolved.revision if artifact is not None and artifact.status.resolved else ""
        if weights.reason is WeightsReason.LOOKUP_FAILED and this.deployment.status.model is not None:
            revision = this.deployment.status.model.revision
        await self._report(this, _situation(this, routers, weights, revision))

    async def _roll_out(self, this: _Pass, startable: Sequence[Role], held: set[Place]) -> None:
        """One step of carrying a changed spec out, and word of what keeps it from that."""
        memory = this.memory
        this.rollout = rollout = plan_rollout(this.deployment, this.carried, this.replicas, held, memory.provenance)
        for reason, note in (
            (STOPPED_REASON, stopped_note(rollout.stopped)),
            (UNREADABLE_REASON, unreadable_note(rollout.silent)),
        ):
            self._reporter.tell(this.deployment, memory, reason, reason, "Replace", note)
        this.look_again(
            await self._retiring.replace(this.deployment, startable, this.replicas, rollout, memory, this.faults)
        )

    async def _label(self, this: _Pass) -> None:
        memory = this.memory
        retiring = memory.retirement.operation.member_uids if memory.retirement is not None else ()
        replacing = memory.replacement.operation.member_uids if memory.replacement is not None else ()
        for change in label_changes(this.replicas, retiring=retiring, replacing=replacing):
            what = f"changing the eligibility label of Pod {change.pod.metadata.name}"
            await this.faults.attempt(what, self._writes.change_label(this.deployment, change))

    async def _front(self, this: _Pass) -> None:
        deployment = this.deployment
        changes = service_changes(
            deployment,
            desired_services(deployment, this.carried, this.replicas),
            self._caches.services(deployment.metadata.key),
            keep=bool(this.refusals),
            serving={replica.role for replica in this.replicas},
        )
        this.problems += changes.problems
        for body in changes.create:
            try:
                create = self._writes.create_service(deployment, body)
                await this.faults.attempt(f"creating Service {body['metadata']['name']}", create)
            except Refused as refusal:
                this.problems.append(str(refusal))
        for name, change in changes.patch:
            patch = self._writes.patch_service(deployment, name, change)
            await this.faults.attempt(f"correcting Service {name}", patch)
        for service in changes.delete:
            delete = self._writes.delete_service(service)
            await this.faults.attempt(f"deleting Service {service.metadata.name}", delete)

    async def _see_endpoints(self, this: _Pass) -> None:
        """Who is sent requests, as slices and routers have it."""
        deployment = this.deployment
        members = {role.name: eligible_members(this.replicas, role.name) for role in deployment.roles}
        views = await self._routers.views(deployment, [pod for pods in members.values() for pod in pods])
        router = bool(views) or deployment.spec.router is not None
        slices = self._caches.slices(deployment.metadata.key)
        this.endpoints = {
            role: role_endpoints(
                pods, router=router, views=views, slices=slices, service=role_service(deployment.metadata.name, role)
            )
            for role, pods in members.items()
        }
        if views:
            done = all(map(settled, this.endpoints.values()))
            this.look_again(SETTLED_SECONDS if done else UNSETTLED_SECONDS)

    async def _report(self, this: _Pass, situation: Situation) -> None:
        status = deployment_status(situation, self._clock.now())
        self._reporter.standing(this.deployment, status, situation.outdated, this.memory)
        if not same_status(status, this.deployment.status):
            patch = status_patch(this.deployment.metadata.resource_version, status)
            this.deployment = await self._writes.patch_status(this.deployment, patch)


def _held(memory: DeploymentMemory) -> set[Place]:
    """The places that an operation is about: nothing else happens there."""
    tracks = (memory.retirement, memory.replacement)
    return {(track.operation.role, track.operation.ordinal) for track in tracks if track is not None}


def _situation(this: _Pass, routers: Sequence[Pod], weights: WeightsVerdict, revision: str) -> Situation:
    return Situation(
        deployment=this.deployment,
        replicas=tuple(this.replicas),
        routers=tuple(routers),
        weights=weights,
        revision=revision,
        refusals=this.refusals,
        outdated=this.rollout.outdated,
        endpoints=this.endpoints,
        rollout_waits_for=this.rollout.waits_for or ("a replica is being retired" if this.memory.retirement else ""),
        problems=tuple(this.problems),
        silent=this.rollout.silent,
        stopped=this.rollout.stopped,
    )
