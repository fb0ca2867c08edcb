"""Tells people and machines what a reconcile found: status, events, metrics, one log line per change of a decision.

An event is recorded when a reason changes, not at every tick; a log line when the decision differs from the last one
logged. Words reach the status at once, figures that move with every sample at most once a minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from catalog import ScalerPriors
from controller.api import API_VERSIONS, ActiveReason, Condition, ConditionStatus, ConditionType, MdsView, ScalerStatus
from controller.foundation import Clock
from controller.kube import EventRecorder, EventType, ObjectRef
from controller.operations import ScalerMetrics
from controller.planning import prior_of
from controller.reconcile.conditions import metrics_condition, nobody_to_ask, why_moved
from controller.reconcile.event_types import EVENT_TYPES
from controller.reconcile.memory import ScalerMemory
from controller.reconcile.observe import RoleView
from controller.reconcile.report import FIGURES_INTERVAL_SECONDS, as_stored, changed
from controller.reconcile.status_writer import StatusOutcome, StatusWriter
from controller.scaling import Capacity, Decision

# Of `Bound`: they are why nothing is planned, and one event about that is enough.
_WHY_INACTIVE = ("TargetNotFound", "TargetTerminating", "Suspended")
# Samples come and go; three intervals without any are an outage.
SILENT_INTERVALS = 3


class Reporter:
    """Reports of one process."""

    def __init__(self, writer: StatusWriter, events: EventRecorder, metrics: ScalerMetrics, clock: Clock) -> None:
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._log = structlog.get_logger(component="reconcile")

    async def write(
        self,
        key: str,
        scaler: MdsView,
        old: ScalerStatus,
        new: ScalerStatus,
        memory: ScalerMemory,
        *,
        now_or_never: bool = False,
    ) -> StatusOutcome:
        """Store `new` if it differs from `old` in something that matters, or its figures are a minute old.

        `now_or_never`: write it whatever it holds, because something relies on it.
        """
        self._announce(scaler, new.conditions, memory)
        now = self._clock.now()
        # A write that lies in the future was dated before the clock was set back.
        kept = as_stored(new)
        stale = not 0.0 <= now - memory.status_written_at < FIGURES_INTERVAL_SECONDS and kept != old
        if not (now_or_never or stale or changed(old, kept)):
            return StatusOutcome.WRITTEN
        outcome = await self._writer.write(key, scaler, new, memory)
        if outcome is StatusOutcome.WRITTEN:
            memory.status_written_at = now
        elif outcome is StatusOutcome.DEPOSED:
            self._log.warning("another process of this controller wrote the status under a higher term", scaler=key)
        return outcome

    def decided(
        self,
        key: str,
        decision: Decision,
        views: Mapping[str, RoleView],
        capacity: Capacity,
        priors: ScalerPriors | None,
        memory: ScalerMemory,
    ) -> None:
        """Metrics of a decision, and a log line if it says something new."""
        namespace, _, name = key.partition("/")
        self._metrics.decisions.labels(namespace, name).inc()
        for role in decision.roles:
            known = capacity.get(role.name)
            self._metrics.report_role(
                namespace,
                name,
                role.name,
                raw=role.raw,
                desired=role.desired,
                current=role.current,
                ready=views[role.name].ready,
                demand=role.observed.demand_tokens_per_second,
                capacity=None if known is None else known.effective_tokens_per_second,
                coverage=role.observed.coverage,
                capacity_factor=role.capacity_factor,
                drifted=_drifted(role.name, priors, memory),
                limited_by=str(role.limited_by or "none"),
            )
        self._metrics.keep_roles(namespace, name, [role.name for role in decision.roles])
        said = tuple((role.name, role.current, role.desired, role.limited_by, role.metrics) for role in decision.roles)
        if said == memory.last_words:
            return
        memory.last_words = said
        for role in decision.roles:
            self._log.info(
                "decision",
                scaler=key,
                role=role.name,
                current=role.current,
                raw=role.raw,
                desired=role.desired,
                limited_by=role.limited_by,
                ready=views[role.name].ready,
                demand_tokens_per_second=_rounded(role.observed.demand_tokens_per_second),
                coverage=_rounded(role.observed.coverage),
                metrics=role.metrics,
                reason=role.algorithm_reason,
            )

    def committed(
        self, key: str, scaler: MdsView, decision: Decision, wanted: Mapping[str, int], reasons: Mapping[str, str]
    ) -> None:
        """Counts were written; `reasons` where the decision did not ask for them."""
        for role in decision.roles:
            if role.name not in wanted:
                continue
            why = reasons.get(role.name) or why_moved(role)
            note = f"{role.name} {role.current} → {wanted[role.name]}: {why}"
            self._event(scaler, EventType.NORMAL, "Rescaled", "Scale", note)
            self._log.info("rescaled", scaler=key, role=role.name, before=role.current, after=wanted[role.name])

    def refused(self, scaler: MdsView, memory: ScalerMemory, why: str) -> None:
        """The API server refused a write for a reason that trying again does not change: whoever looks at the scaler
        should not have to find it in our log."""
        if why != memory.refusal:
            memory.refusal = why
            self._event(scaler, EventType.WARNING, "WriteRefused", "Reconcile", why)

    def silence(self, scaler: MdsView, memory: ScalerMemory, decision: Decision, interval_seconds: float) -> None:
        """An event once nothing has been sampled for three intervals; news once it is over. A Warning, unless replicas
        that have never answered are still starting."""
        now = self._clock.now()
        if any(role.last_sample_time == decision.now or role.observed.coverage for role in decision.roles):
            if memory.silence_told:
                self._event(scaler, EventType.NORMAL, "MetricsRecovered", "Sample", "engines answer")
            memory.silent_since, memory.silence_told = None, None
            return
        memory.silent_since = now if memory.silent_since is None else min(memory.silent_since, now)
        starting = nobody_to_ask(decision)
        reason = ActiveReason.NO_READY_REPLICAS if starting else ActiveReason.METRICS_UNAVAILABLE
        # Replicas that become Ready and then do not answer are news; the other way round is not.
        news = memory.silence_told is None or (memory.silence_told is ActiveReason.NO_READY_REPLICAS and not starting)
        if news and now - memory.silent_since >= SILENT_INTERVALS * interval_seconds:
            memory.silence_told = reason
            first = starting and all(role.last_sample_time is None for role in decision.roles)
            if first and memory.told.get(ConditionType.SCALING_ACTIVE) == reason:
                return  # the event about the condition has said the same
            kind = EventType.NORMAL if first else EventType.WARNING
            self._event(scaler, kind, reason, "Sample", metrics_condition(decision, 0).message)

    def drifted(self, scaler: MdsView, memory: ScalerMemory, notes: Mapping[str, str]) -> None:
        """A Warning event for every prior that begins not to describe its replicas, news when one does again; both go
        into the status at once."""
        for role in sorted(notes.keys() - memory.drifts_told):
            self._event(scaler, EventType.WARNING, "CapacityPriorDrifted", "Measure", notes[role])
        for role in sorted(memory.drifts_told - notes.keys()):
            note = f"role {role} is no longer seen to differ from its prior"
            self._event(scaler, EventType.NORMAL, "CapacityPriorAgrees", "Measure", note)
        if notes.keys() != memory.drifts_told:
            memory.status_written_at = float("-inf")
        memory.drifts_told = set(notes)

    def held(self, scaler: MdsView, hold: bool, message: str, memory: ScalerMemory) -> None:
        """Whether another writer made this one stop until a person says so; the start of it is an event."""
        if hold and not memory.held:
            self._event(scaler, EventType.WARNING, "WritesStopped", ConditionType.REPLICAS_CONFLICT, message)
        memory.held = hold

    def _announce(self, scaler: MdsView, conditions: Sequence[Condition], memory: ScalerMemory) -> None:
        told_by_bound = any(
            condition.type == ConditionType.BOUND and condition.reason in _WHY_INACTIVE for condition in conditions
        )
        for condition in conditions:
            before = memory.reported.get(condition.type)
            if before == condition.reason:
                continue
            memory.reported[condition.type] = condition.reason
            type_ = ConditionType(condition.type) if condition.type in list(ConditionType) else None
            if type_ is None or type_ not in EVENT_TYPES:
                continue
            if told_by_bound and type_ is ConditionType.SCALING_ACTIVE:
                continue  # `Bound` has said why
            kind = EVENT_TYPES[type_].get(condition.reason, EventType.NORMAL)
            unobserved = condition.status is ConditionStatus.UNKNOWN
            if kind is EventType.NORMAL and (before is None or unobserved):
                continue  # a fresh process finding all well is no news, nor is what was not observed
            memory.told[type_] = condition.reason
            self._event(scaler, kind, condition.reason, type_, condition.message)

    def _event(self, scaler: MdsView, type_: EventType, reason: str, action: str, note: str) -> None:
        meta = scaler.metadata
        regarding = ObjectRef(API_VERSIONS[1], "ModelDeploymentScaler", meta.name, meta.namespace, meta.uid)
        self._events.event(regarding, type_, reason, action, note)


def _drifted(role: str, priors: ScalerPriors | None, memory: ScalerMemory) -> bool | None:
    """Whether a prior that serves is alarmingly off; None for a role without one."""
    prior = prior_of(priors, role)
    if prior is None or prior.capacity is None:
        return None
    drift = memory.drifts.get(role)
    return drift is not None and drift.alarming


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
