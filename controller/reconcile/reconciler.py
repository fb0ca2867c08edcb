"""One reconcile of one ModelDeploymentScaler: look, sample, decide, bind, commit, report.

A reconcile is made when the scaler, its target, a Pod of it or what its priors rest on changed, and at every sampling
interval. Between two intervals it only looks: whether the spec is valid, the target there, a binding to be given back.
At the interval, and at once when the spec or what the priors rest on changed, it samples the engines and decides; an
Active scaler then makes sure of its binding and commits.

A reconcile waits until the cache shows this process' last writes. In which order it writes itself is `acting`'s.

Cancellation: safe at every await; the next reconcile starts from what the API server has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from controller.api import (
    ActiveReason,
    BoundReason,
    Condition,
    ConditionType,
    MdsView,
    Mode,
    ModelDeployment,
    ScalerSpec,
    ScalerStatus,
    Summary,
    drop_condition,
    validate_against_target,
)
from controller.foundation import Clock
from controller.kube import (
    LAG_GIVEN_UP,
    LAG_WORTH_TELLING,
    Conflict,
    ConsistencyStore,
    Done,
    Forbidden,
    Invalid,
    NotFound,
    NotLeader,
    ReconcileOutcome,
    Requeue,
    RequeueAfter,
)
from controller.operations import ScalerMetrics
from controller.planning import PriorSources, Record, capacities, decision_spec, resolve_priors, restored, with_mixes
from controller.reconcile.acting import Acting
from controller.reconcile.binder import Binder, BoundState
from controller.reconcile.committer import Committer, RefusedForAnUnknownReason
from controller.reconcile.conditions import condition, invalid_spec_message
from controller.reconcile.decided import Tick
from controller.reconcile.drift import drifts
from controller.reconcile.guards import Guard, unsupported
from controller.reconcile.memory import Memories, ScalerMemory
from controller.reconcile.records import RecordSink
from controller.reconcile.report import observed_summary, with_conditions
from controller.reconcile.reporter import Reporter
from controller.reconcile.sampler import Sampled, Sampler
from controller.reconcile.status_writer import StatusOutcome
from controller.scaling import decide, stable_window_seconds


@dataclass(frozen=True, slots=True)
class Caches:
    """What a reconcile reads; each gives what is in the cache."""

    scaler: Callable[[str], MdsView | None]
    target: Callable[[str], ModelDeployment | None]
    priors: Callable[[str, ScalerSpec, ModelDeployment], PriorSources]
    # What `priors` would rest on now, to be compared with what it was; empty where no prior is asked for.
    prior_inputs: Callable[[ScalerSpec, ModelDeployment], tuple[object, ...]]
    held: Callable[[str], Sequence[ModelDeployment]]  # by the scaler's UID


class Reconciler:
    """Reconciles the scalers of one process; one call per key at a time, which the work queue promises."""

    def __init__(
        self,
        *,
        caches: Caches,
        sampler: Sampler,
        binder: Binder,
        committer: Committer,
        reporter: Reporter,
        metrics: ScalerMetrics,
        records: RecordSink,
        consistency: ConsistencyStore,
        clock: Clock,
        process: str,
    ) -> None:
        self._caches = caches
        self._sampler = sampler
        self._binder = binder
        self._acting = Acting(binder, committer, reporter, metrics, clock)
        self._reporter = reporter
        self._metrics = metrics
        self._records = records
        self._consistency = consistency
        self._clock = clock
        self._process = process
        self._memories = Memories()
        self._log = structlog.get_logger(component="reconcile")

    def stay_in_shadow(self, reason: str) -> None:
        """Treat every scaler as Shadow from now on."""
        self._acting.stay_in_shadow(reason)

    async def reconcile(self, key: str) -> ReconcileOutcome:
        """Bring one scaler up to date. Raises ApiError for the queue to back off."""
        scaler = self._caches.scaler(key)
        if scaler is None:
            self._forget(key)
            return Done()
        memory = self._memories.of(key, scaler.metadata.uid)
        if (lag := self._consistency.lag(key)) is not None:
            wait = memory.setback_seconds()
            if memory.setbacks == LAG_WORTH_TELLING:
                self._log.warning(
                    "the cache lags behind our own writes; nothing is decided until it shows them",
                    scaler=key,
                    resource=lag.resource.plural,
                    written=lag.written,
                    seen=lag.seen,
                )
            if memory.setbacks < LAG_GIVEN_UP:
                return RequeueAfter(wait)
            # Every write is fenced against what the cache does not show.
            self._log.warning("the cache does not catch up with our own writes; going on without it", scaler=key)
            self._consistency.forget(key, memory.uid)
        try:
            outcome = await self._reconcile(key, scaler, memory)
        except (Conflict, NotFound) as outrun:
            self._log.debug("another writer was faster", scaler=key, what=outrun.message)
            memory.next_tick = 0.0  # whatever the tick had to do was not done
            return RequeueAfter(memory.setback_seconds())
        except (Forbidden, Invalid, RefusedForAnUnknownReason) as refusal:
            self._reporter.refused(scaler, memory, str(refusal))
            raise
        except NotLeader:
            return Done()  # the process is about to end; whoever leads now does the work
        if isinstance(outcome, Requeue):
            return RequeueAfter(memory.setback_seconds())
        memory.setbacks = 0
        return outcome

    async def _reconcile(self, key: str, scaler: MdsView, memory: ScalerMemory) -> ReconcileOutcome:
        status, _ = scaler.parse_status()
        spec, findings = scaler.parse_spec()
        if scaler.deleting:
            held = {target.metadata.name for target in self._caches.held(scaler.metadata.uid)}
            await self._binder.finish(key, scaler, sorted(held if spec is None else held | {spec.target_ref.name}))
            return Done()
        if spec is None:
            return await self._stop(
                key, scaler, status, memory, Guard(ActiveReason.INVALID_SPEC, invalid_spec_message(findings))
            )
        target = self._target_of(scaler, spec)
        if spec.suspend or spec.mode is Mode.SHADOW:
            memory.own_term, memory.acquired_time = None, None
            await self._give_back(key, scaler, keep="")
        else:
            await self._give_back(key, scaler, keep=spec.target_ref.name)
        if spec.suspend:
            bound = BoundState(None, BoundReason.SUSPENDED, "suspended: nothing is planned, nothing is written")
            return await self._stop(
                key,
                scaler,
                status,
                memory,
                Guard(ActiveReason.SUSPENDED, "spec.suspend is true"),
                bound,
                None if target is None else observed_summary(spec, target),
            )
        if target is None:
            name = spec.target_ref.name
            bound = BoundState(
                None, BoundReason.TARGET_NOT_FOUND, f"there is no ModelDeployment {name} in this namespace"
            )
            return await self._stop(
                key,
                scaler,
                status,
                memory,
                Guard(ActiveReason.TARGET_UNSUPPORTED, f"ModelDeployment {name} does not exist"),
                bound,
            )
        memory.meet_target(target.metadata.uid)
        status = _about(status, target)
        if target.deleting:
            bound = BoundState(
                None, BoundReason.TARGET_TERMINATING, f"ModelDeployment {target.metadata.name} is being deleted"
            )
            return await self._stop(
                key,
                scaler,
                status,
                memory,
                Guard(ActiveReason.TARGET_UNSUPPORTED, "the target is being deleted"),
                bound,
                observed_summary(spec, target),
            )
        if (guard := _refusal(spec, target)) is not None:
            return await self._stop(key, scaler, status, memory, guard, summary=observed_summary(spec, target))
        return await self._tick_when_due(key, scaler, spec, status, target, memory)

    async def _tick_when_due(
        self,
        key: str,
        scaler: MdsView,
        spec: ScalerSpec,
        status: ScalerStatus,
        target: ModelDeployment,
        memory: ScalerMemory,
    ) -> ReconcileOutcome:
        names = [role.name for role in spec.roles]
        interval = float(spec.sampling.interval_seconds)
        generation = scaler.metadata.generation
        now = self._clock.now()
        late = now - memory.next_tick
        # A tick further away than an interval was set before the clock was set back: it is due now, not in an hour.
        inputs = self._caches.prior_inputs(spec, target)
        if -interval <= late < 0.0 and generation == memory.tick_generation and inputs == memory.prior_inputs:
            self._sampler.look(target, names, memory)
            return RequeueAfter(self._clock.wall_seconds(-late))
        # On the beat where possible, so that an interval stays an interval; after a pause or a jump, from now.
        memory.next_tick = memory.next_tick + interval if 0.0 <= late < interval else now + interval
        memory.tick_generation = generation
        if memory.state is None:
            memory.state = restored(status.roles, now)
        sampled = await self._sampler.sample(target, names, memory, lambda: self._caches.target(target.metadata.key))
        latest = self._caches.scaler(key)
        if sampled is None or latest is None or not _still_asked(scaler, spec, latest, sampled.target):
            # What a person wants now is not what this tick began with: look again from the start, at once.
            memory.next_tick = 0.0
            return Requeue()
        await self._acting.act(key, latest, spec, status, self._decide(key, spec, status, sampled, memory), memory)
        memory.refusal = ""
        return RequeueAfter(self._clock.wall_seconds(max(0.0, memory.next_tick - self._clock.now())))

    def _decide(self, key: str, spec: ScalerSpec, status: ScalerStatus, sampled: Sampled, memory: ScalerMemory) -> Tick:
        """Decide, remember, record."""
        memory.mixes = with_mixes(memory.mixes, sampled.observation)
        memory.prior_inputs = self._caches.prior_inputs(spec, sampled.target)
        sources = self._caches.priors(key, spec, sampled.target)
        priors = resolve_priors(spec, sampled.target, sources, status, memory.mixes)
        planned, capacity = decision_spec(spec, sampled.target), capacities(spec, sampled.target, priors)
        before = memory.state if memory.state is not None else restored((), sampled.observation.now)
        now = sampled.observation.now
        state, decision = decide(planned, capacity, before, sampled.observation, now)
        memory.state = state
        memory.startups.clear()  # the decision has them now
        self._records.write(
            Record(
                scaler=key,
                process=self._process,
                spec=planned,
                capacity=capacity,
                state=before,
                observation=sampled.observation,
                now=now,
                decision=decision,
            )
        )
        memory.drifts = drifts(memory.drifts, decision, priors, stable_window_seconds(planned))
        self._reporter.decided(key, decision, sampled.views, capacity, priors, memory)
        return Tick(sampled, planned, capacity, priors, decision, state, memory.drifts)

    async def _stop(
        self,
        key: str,
        scaler: MdsView,
        status: ScalerStatus,
        memory: ScalerMemory,
        guard: Guard,
        bound: BoundState | None = None,
        summary: Summary | None = None,
    ) -> ReconcileOutcome:
        """Report why there is no planning; a change of the scaler or its target wakes the key again. `summary`: what is
        seen all the same."""
        # Nothing is known of the roles any more, and a gauge that stands still would be believed.
        namespace, _, name = key.partition("/")
        self._metrics.keep_roles(namespace, name, ())
        generation = scaler.metadata.generation
        new: list[Condition] = [condition(ConditionType.SCALING_ACTIVE, False, guard.reason, guard.message, generation)]
        if bound is not None:
            new.append(condition(ConditionType.BOUND, False, bound.reason, bound.message, generation))
        # What was decided last stays readable, dated by lastDecisionTime. What is said of samples, limits, the target's
        # retirement and other writers would be read as of now, and nobody looks at them; so would the printer columns.
        kept = status.conditions
        for stale in (
            ConditionType.METRICS_AVAILABLE,
            ConditionType.SCALING_LIMITED,
            ConditionType.RETIREMENT_BLOCKED,
            ConditionType.REPLICAS_CONFLICT,
        ):
            kept = drop_condition(kept, stale)
        changed = msgspec.structs.replace(status, observed_generation=generation, conditions=kept, summary=summary)
        outcome = await self._reporter.write(
            key, scaler, status, with_conditions(changed, new, self._clock.now()), memory
        )
        memory.next_tick = 0.0
        again = outcome in (StatusOutcome.OUTDATED, StatusOutcome.CONTENDED)
        return Requeue() if again else Done()

    async def _give_back(self, key: str, scaler: MdsView, *, keep: str) -> None:
        """Release what the scaler holds and does not want, whatever its spec said when it took it."""
        for target in self._caches.held(scaler.metadata.uid):
            if target.metadata.name != keep and await self._binder.release(key, scaler, target):
                self._log.info("released the target", scaler=key, target=target.metadata.key)

    def _target_of(self, scaler: MdsView, spec: ScalerSpec) -> ModelDeployment | None:
        return self._caches.target(f"{scaler.metadata.namespace}/{spec.target_ref.name}")

    def _forget(self, key: str) -> None:
        memory = self._memories.pop(key)
        namespace, _, name = key.partition("/")
        self._metrics.forget(namespace, name)
        if memory is not None:
            self._consistency.forget(key, memory.uid)


def _about(status: ScalerStatus, target: ModelDeployment) -> ScalerStatus:
    """The status without what it remembers of another target that had this name; the term stays."""
    if status.binding is None or status.binding.target_uid == target.metadata.uid:
        return status
    return msgspec.structs.replace(status, roles=(), foreign_reversals=())


def _refusal(spec: ScalerSpec, target: ModelDeployment) -> Guard | None:
    """Why nothing can be planned for this target with this spec."""
    if (guard := unsupported(target, spec.roles)) is not None:
        return guard
    if findings := validate_against_target(spec, target):
        return Guard(ActiveReason.INVALID_SPEC, invalid_spec_message(findings))
    return None


def _still_asked(scaler: MdsView, spec: ScalerSpec, latest: MdsView, target: ModelDeployment) -> bool:
    """Whether a tick may go on after its engines were read: reading takes seconds, in which a person may have changed,
    suspended, deleted or replaced the scaler, or changed the target so that nothing may be planned for it."""
    before, now = scaler.metadata, latest.metadata
    same = before.uid == now.uid and before.generation == now.generation
    return same and not latest.deleting and not target.deleting and _refusal(spec, target) is None
