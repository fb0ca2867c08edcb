"""What one tick came to, carried out: bind the target, report, commit the counts.

The order of writes is the order of safety: the memory that a shrink relies on is in the status before the count falls
(a raise does not wait for a status that cannot be written), and a count is only ever written under the fence.

Cancellation: safe at every await; the next tick starts from what the API server has.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from controller.api import BoundReason, MdsView, Mode, ScalerSpec, ScalerStatus
from controller.foundation import Clock
from controller.kube import ApiError, Invalid, Outcome
from controller.operations import ScalerMetrics
from controller.reconcile.baseline import baseline_of
from controller.reconcile.binder import Binder, BoundState, claim_of
from controller.reconcile.committer import CommitOutcome, Committer, RefusedForAnUnknownReason
from controller.reconcile.conditions import without_capacity
from controller.reconcile.decided import Tick
from controller.reconcile.fence import Holding
from controller.reconcile.guards import holds
from controller.reconcile.memory import ScalerMemory
from controller.reconcile.reporter import Reporter
from controller.reconcile.status_writer import StatusOutcome
from controller.reconcile.tick import tick_status
from controller.reconcile.writing import plan_writing


class Acting:
    """Carries out the ticks of one process."""

    def __init__(
        self, binder: Binder, committer: Committer, reporter: Reporter, metrics: ScalerMetrics, clock: Clock
    ) -> None:
        self._binder = binder
        self._committer = committer
        self._reporter = reporter
        self._metrics = metrics
        self._clock = clock
        self._only_shadow = ""  # why this process writes to no target; empty: it may
        self._log = structlog.get_logger(component="reconcile")

    def stay_in_shadow(self, reason: str) -> None:
        """Treat every scaler as Shadow from now on."""
        self._only_shadow = reason

    async def act(
        self, key: str, scaler: MdsView, spec: ScalerSpec, status: ScalerStatus, tick: Tick, memory: ScalerMemory
    ) -> None:
        """Bind, report, commit: in the order that a crash at any point leaves safe. Raises ApiError."""
        target, decision = tick.sampled.target, tick.decision
        refusal: Invalid | None = None
        try:
            bound = await self._bind(key, scaler, spec, status, tick, memory)
        except Invalid as error:
            # An object whose stored status its schema refuses takes no finalizer before that status is replaced.
            bound, refusal = None, error
        holding = None if bound is None else bound.holding
        baseline = baseline_of(scaler, target, spec, status, holding, self._clock.now())
        guard = holds(target)
        writing = plan_writing(spec, status, tick, holding, guard, baseline, self._clock.now())
        wanted = writing.wanted
        new = tick_status(scaler, status, tick, memory, bound, guard, baseline, writing, self._clock.now())
        self._reporter.drifted(scaler, memory, tick.drift_notes)
        failure: ApiError | None = refusal
        try:
            # Also before a raise: the write tells whether the scaler still asks for it, which a cache may not show yet.
            outcome = await self._reporter.write(
                key,
                scaler,
                status,
                new,
                memory,
                now_or_never=bool(wanted) or refusal is not None,
            )
        except ApiError as error:
            failure, outcome = error, StatusOutcome.FAILED
        self._reporter.held(scaler, baseline.hold, baseline.message, memory)
        self._reporter.silence(scaler, memory, decision, spec.sampling.interval_seconds)
        if outcome in (StatusOutcome.CONTENDED, StatusOutcome.FAILED):
            wanted = writing.raises_only()
        elif outcome is not StatusOutcome.WRITTEN:
            return
        if wanted and holding is not None and not memory.deposed:
            await self._commit(key, scaler, tick, holding, wanted, writing.reasons, memory)
        if failure is not None:
            raise failure

    async def _bind(
        self,
        key: str,
        scaler: MdsView,
        spec: ScalerSpec,
        status: ScalerStatus,
        tick: Tick,
        memory: ScalerMemory,
    ) -> BoundState | None:
        """The binding to write under; None: there is no plan to take the target for, and nothing is known of it."""
        target = tick.sampled.target
        if self._only_shadow:
            return BoundState(None, BoundReason.SHADOW, self._only_shadow)
        if spec.mode is not Mode.ACTIVE:
            return BoundState(None, BoundReason.SHADOW, "Shadow: recommendations are reported, nothing is written")
        held = claim_of(target).holder_uid == scaler.metadata.uid
        if not held and without_capacity(tick.spec, tick.capacity) and not tick.decision.changes:
            return None  # another scaler may have a plan for it
        stored_term = status.binding.term if status.binding is not None else 0
        return await self._binder.hold(key, scaler, target, memory, stored_term)

    async def _commit(
        self,
        key: str,
        scaler: MdsView,
        tick: Tick,
        holding: Holding,
        wanted: Mapping[str, int],
        reasons: Mapping[str, str],
        memory: ScalerMemory,
    ) -> None:
        """Write counts under the fence, and tell what became of it."""
        target, decision = tick.sampled.target, tick.decision
        counts = {role.name: wanted.get(role.name, role.current) for role in decision.roles}
        namespace, _, name = key.partition("/")
        try:
            result = await self._committer.commit(key, scaler, target, holding, wanted, counts)
        except RefusedForAnUnknownReason:
            self._metrics.report_commit(namespace, name, "refused")
            raise
        except ApiError as failure:
            self._metrics.report_commit(namespace, name, "failed")
            if failure.outcome is Outcome.UNKNOWN:
                # It may still be on its way, and the counts it tests may come round again: under a term of ours it
                # would then be carried out. So the next count is written under a higher one.
                memory.own_term = None
            raise
        self._metrics.report_commit(namespace, name, str(result))
        if result is CommitOutcome.COMMITTED:
            self._reporter.committed(key, scaler, decision, wanted, reasons)
        else:
            self._log.warning("the counts were not written", scaler=key, outcome=result, wanted=wanted)
