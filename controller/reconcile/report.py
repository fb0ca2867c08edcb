"""The status of a scaler: conditions and roles, made from one decision. Pure.

`changed` says whether a new status is worth a write: when conditions, counts, history, binding or panic differ, also in
what a message says; measured figures alone, in a message too, wait up to a minute, or a busy cluster would write every
scaler at every tick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from catalog import RolePrior, ScalerPriors
from controller import scaling
from controller.api import (
    ActiveReason,
    AdaptiveState,
    Binding,
    CapacitySource,
    Condition,
    ConditionStatus,
    ConditionType,
    LimitedReason,
    LoweringState,
    MetricsReason,
    ModelDeployment,
    ObservedRole,
    OperatingPoint,
    PlannerStage,
    QuotaShortfall,
    RoleCapacity,
    RoleStatus,
    ScalerSpec,
    ScalerStatus,
    Summary,
    parse_status,
    render,
    set_condition,
    status_number,
)
from controller.api.scaler_status import MAX_REASON
from controller.foundation import FieldError
from controller.planning import prior_of, remembered
from controller.reconcile.observe import RoleView
from controller.scaling import Capacity, Decision, DecisionSpec, MetricsStatus, RoleDecision, State

# Figures that move with every sample are written at most this often.
FIGURES_INTERVAL_SECONDS = 60.0
# What the schema has room for in a printer column; many roles with long names need more.
_MAX_COLUMN = 1024
# What the schema has room for beside our own.
_MAX_FOREIGN_CONDITIONS = 16 - len(ConditionType)
# More findings than this help nobody in a one-line message; all of them are counted.
_SHOWN_FINDINGS = 5
# Worst first: what the condition shows when roles differ.
_METRICS_ORDER = (
    MetricsStatus.ALL_SCRAPES_FAILED,
    MetricsStatus.STALE_SAMPLES,
    MetricsStatus.NO_READY_REPLICAS,
    MetricsStatus.PARTIAL_COVERAGE,
    MetricsStatus.SAMPLED,
)
# A number that stands by itself in a message: a rate, an age, a factor. One that is part of a name (`h200`, `tp=4`) is
# none of these.
_FIGURE = re.compile(r"(?<![\w.,=+-])[0-9][0-9.,]*")
# Their numbers are counts and terms, which do not move with the samples.
_COUNTING = (ConditionType.BOUND, ConditionType.REPLICAS_CONFLICT)
_ANSWERED = (MetricsStatus.PARTIAL_COVERAGE, MetricsStatus.SAMPLED)


def condition(type_: ConditionType, status: bool | None, reason: str, message: str, generation: int) -> Condition:
    """A condition; `status` None is Unknown: not observed."""
    words = {True: ConditionStatus.TRUE, False: ConditionStatus.FALSE, None: ConditionStatus.UNKNOWN}
    return Condition(type=type_, status=words[status], reason=reason, message=message, observed_generation=generation)


def with_conditions(status: ScalerStatus, new: Iterable[Condition], now: float) -> ScalerStatus:
    """`status` with these conditions in place: one of each type, and others' conditions only as far as there is room,
    or a status that somebody else filled could never be written again."""
    first: dict[str, Condition] = {}
    for known in status.conditions:
        first.setdefault(known.type, known)
    foreign = [type_ for type_ in first if type_ not in list(ConditionType)][_MAX_FOREIGN_CONDITIONS:]
    conditions = tuple(known for type_, known in first.items() if type_ not in foreign)
    for each in new:
        conditions = set_condition(conditions, each, now)
    return msgspec.structs.replace(status, conditions=conditions)


def invalid_spec_message(findings: Sequence[FieldError]) -> str:
    """The findings in one message."""
    shown = "; ".join(str(finding) for finding in findings[:_SHOWN_FINDINGS])
    more = len(findings) - _SHOWN_FINDINGS
    return f"{shown}; and {more} more" if more > 0 else shown


def metrics_condition(decision: Decision, generation: int) -> Condition:
    """MetricsAvailable: the worst role decides, the message lists every role that is not wholly sampled."""
    worst = min((role.metrics for role in decision.roles), key=_METRICS_ORDER.index, default=MetricsStatus.SAMPLED)
    notes = []
    for role in decision.roles:
        if role.metrics is MetricsStatus.SAMPLED:
            continue
        age = (
            "never sampled"
            if role.last_sample_time is None
            else f"last sample {decision.now - role.last_sample_time:.0f} s ago"
        )
        notes.append(f"role {role.name}: {role.metrics} ({age})")
    message = "; ".join(notes) or "every Ready member was sampled"
    return condition(ConditionType.METRICS_AVAILABLE, worst in _ANSWERED, MetricsReason(worst), message, generation)


def limited_condition(decision: Decision, generation: int) -> Condition:
    """ScalingLimited: the first limited role in spec order decides, the message lists all."""
    limited = [role for role in decision.roles if role.limited_by is not None]
    if not limited:
        message = "nothing stands between what is wanted and what is recommended"
        return condition(ConditionType.SCALING_LIMITED, False, LimitedReason.WITHIN_LIMITS, message, generation)
    message = "; ".join(f"role {role.name}: {_limit(role)}" for role in limited)
    reason = LimitedReason.of_stage(str(limited[0].limited_by))
    return condition(ConditionType.SCALING_LIMITED, True, reason, message, generation)


def active_condition(
    decision: Decision, without_capacity: Sequence[str], priors: ScalerPriors | None, generation: int
) -> Condition:
    """ScalingActive of a decision that no guard held up."""
    if without_capacity:
        way_out = (
            "give a target in tokens per second, or ask for a prior with capacityPrior"
            if priors is None
            else "the prior that capacityPrior asks for does not serve; the condition CapacityPriorResolved says why"
        )
        return condition(
            ConditionType.SCALING_ACTIVE,
            False,
            ActiveReason.NO_CAPACITY,
            f"nothing says what one replica of {', '.join(without_capacity)} serves: {way_out}; the counts are held",
            generation,
        )
    if nobody_to_ask(decision):
        return condition(
            ConditionType.SCALING_ACTIVE,
            False,
            ActiveReason.NO_READY_REPLICAS,
            "no replica is Ready, so there is nobody to ask; the counts are held within their bounds until one is",
            generation,
        )
    if all(role.metrics not in _ANSWERED for role in decision.roles):
        return condition(
            ConditionType.SCALING_ACTIVE,
            False,
            ActiveReason.METRICS_UNAVAILABLE,
            "no Ready replica could be sampled; the counts are held within their bounds",
            generation,
        )
    words = ", ".join(
        f"{role.name} stays at {role.current}"
        if role.current == role.desired
        else f"{role.name} {role.current} → {role.desired}"
        for role in decision.roles
    )
    return condition(ConditionType.SCALING_ACTIVE, True, ActiveReason.DECIDING, words, generation)


def nobody_to_ask(decision: Decision) -> bool:
    """Whether no role has a Ready replica, as at a first start: no answer is then no outage of the network."""
    return all(role.metrics is MetricsStatus.NO_READY_REPLICAS for role in decision.roles)


def without_capacity(spec: DecisionSpec, capacity: Capacity) -> list[str]:
    """Roles whose demand cannot be divided by anything. Encode has no token capacity, Proportional needs none."""
    if isinstance(spec.algorithm, scaling.Proportional):
        return []
    return [role.name for role in spec.roles if role.kind is not scaling.RoleKind.ENCODE and role.name not in capacity]


def priors_condition(priors: ScalerPriors, drift_notes: Iterable[str], generation: int) -> Condition:
    """CapacityPriorResolved: the worst role decides, the message has every role's outcome and measured drifts."""
    message = "; ".join([priors.message, *drift_notes])
    return condition(ConditionType.CAPACITY_PRIOR_RESOLVED, priors.resolved, priors.reason, message, generation)


def role_statuses(
    views: Mapping[str, RoleView],
    decision: Decision,
    capacity: Capacity,
    priors: ScalerPriors | None,
    state: State,
    lowering: Mapping[str, LoweringState],
) -> tuple[RoleStatus, ...]:
    """`status.roles[]` of a decision, in spec order."""
    return tuple(
        msgspec.structs.replace(
            remembered(
                _role_status(
                    views[role.name], role, _capacity(role, capacity.get(role.name), prior_of(priors, role.name))
                ),
                state,
            ),
            lowering=lowering.get(role.name),
        )
        for role in decision.roles
    )


def summary_of(roles: Sequence[RoleStatus]) -> Summary:
    """The printer columns."""
    limited = [
        f"{role.name}={role.limited_by}" if len(roles) > 1 else role.limited_by for role in roles if role.limited_by
    ]
    return Summary(
        ready=_clipped(_counts([(role.name, role.ready_replicas) for role in roles])),
        desired=_clipped(_counts([(role.name, role.recommended_replicas) for role in roles])),
        limited_by=_clipped(",".join(limited)),
    )


def observed_summary(spec: ScalerSpec, target: ModelDeployment) -> Summary:
    """The printer columns while nothing is decided: what the target reports of the scaler's roles, and no count that
    would be read as wanted now."""
    reported = {role.name: role.ready for role in target.status.roles or ()}
    return Summary(ready=_clipped(_counts([(role.name, reported.get(role.name)) for role in spec.roles])))


def as_stored(status: ScalerStatus) -> ScalerStatus:
    """The status as it comes back from the API server, times and numbers in the digits that are kept. Only that can be
    compared with what is stored: a time with more digits would differ for ever."""
    return parse_status(render(status))[0]


def changed(old: ScalerStatus, new: ScalerStatus) -> bool:
    """Whether anything differs that must not wait for the figures' interval; both as stored."""
    return _essence(old) != _essence(new)


def status_patch(resource_version: str, status: ScalerStatus) -> dict[str, object]:
    """A merge patch that makes the stored status equal to `status`: what is absent here is removed there."""
    complete: dict[str, object] = {field.encode_name: None for field in msgspec.structs.fields(ScalerStatus)}
    rendered = render(status)
    for name, kind in (("summary", Summary), ("binding", Binding)):
        if (part := rendered.get(name)) is not None and isinstance(part, dict):
            rendered[name] = {field.encode_name: None for field in msgspec.structs.fields(kind)} | part
    complete |= rendered
    complete["observedGeneration"] = status.observed_generation
    return {"metadata": {"resourceVersion": resource_version}, "status": complete}


def _role_status(view: RoleView, role: RoleDecision, capacity: RoleCapacity | None) -> RoleStatus:
    observed, learned = role.observed, role.learned
    return RoleStatus(
        name=role.name,
        current_replicas=view.declared,
        ready_replicas=view.ready,
        pending_replicas=view.unadmitted + view.starting,
        unadmitted_replicas=view.unadmitted,
        starting_replicas=view.starting,
        retiring_replicas=view.retiring,
        unlisted_replicas=view.unlisted,
        quota=None
        if not view.unadmitted
        else QuotaShortfall(asked=view.declared, granted=view.declared - view.unadmitted, missing=view.unadmitted),
        raw_recommended_replicas=role.raw,
        recommended_replicas=role.desired,
        limited_by=str(role.limited_by or ""),
        reason=role.algorithm_reason[:MAX_REASON],
        stages=tuple(
            PlannerStage(
                stage=str(each.stage),
                before=each.before,
                after=each.after,
                floor=each.floor,
                ceiling=each.ceiling,
                reason=each.reason[:MAX_REASON],
            )
            for each in role.stages
        ),
        next_change_time=role.next_change_time,
        observed=ObservedRole(
            tokens_per_second=status_number(observed.demand_tokens_per_second),
            running_requests=status_number(observed.running_requests),
            waiting_requests=status_number(observed.waiting_requests),
            ttft_milliseconds=status_number(observed.ttft_milliseconds),
            itl_milliseconds=status_number(observed.itl_milliseconds),
            input_output_ratio=status_number(observed.input_output_ratio),
            coverage=status_number(observed.coverage),
        ),
        capacity=capacity,
        adaptive=None
        if learned is None
        else AdaptiveState(
            headroom=status_number(learned.headroom, 4),
            peak=status_number(learned.peak_replicas, 4),
            miss_factor=status_number(learned.miss_factor, 4),
        ),
    )


def _capacity(
    role: RoleDecision, capacity: scaling.RoleCapacity | None, prior: RolePrior | None
) -> RoleCapacity | None:
    if capacity is None:
        return None
    measured = status_number(role.capacity_factor, 3)
    resolved = None if prior is None else prior.capacity
    if prior is None or resolved is None:
        return RoleCapacity(
            source=CapacitySource.EXPLICIT,
            effective_tokens_per_second=status_number(capacity.effective_tokens_per_second, 12),
            fingerprint=capacity.fingerprint,
            measured_factor=measured,
        )
    point = resolved.point
    return RoleCapacity(
        source=CapacitySource.CATALOG,
        seed_tokens_per_second=status_number(resolved.seed_tokens_per_second, 12),
        effective_tokens_per_second=status_number(resolved.effective_tokens_per_second, 12),
        identity=prior.identity,
        declared=prior.declared,
        workload=resolved.workload,
        observed_workload=prior.observed_workload,
        profile_digest=resolved.profile_digest,
        fingerprint=resolved.fingerprint,
        operating_point=OperatingPoint(
            concurrency=resolved.concurrency,
            ttft_milliseconds=None if point.ttft is None else status_number(float(point.ttft.milliseconds)),
            itl_milliseconds=None if point.per_token is None else status_number(float(point.per_token.milliseconds)),
        ),
        selection=resolved.selection,
        mix_factor=None if prior.mix is None else status_number(prior.mix.factor, 4),
        sigma=None if prior.mix is None else status_number(prior.mix.sigma, 4),
        measured_factor=measured,
    )


def _essence(status: ScalerStatus) -> tuple[object, ...]:
    conditions = tuple(
        (each.type, each.status, each.reason, _gist(each), each.observed_generation) for each in status.conditions
    )
    roles = tuple(
        (
            role.name,
            role.current_replicas,
            role.ready_replicas,
            role.unadmitted_replicas,
            role.starting_replicas,
            role.retiring_replicas,
            role.unlisted_replicas,
            role.recommended_replicas,
            role.limited_by,
            tuple(entry.replicas for entry in role.stabilization_history),
            role.panic,
            role.settling,
            role.lowering,
            _without_measurement(role.capacity),
        )
        for role in status.roles
    )
    return (
        status.observed_generation,
        conditions,
        roles,
        status.binding,
        status.summary,
        status.foreign_reversals,
        status.resumed,
    )


def _gist(condition: Condition) -> str:
    """The message without the figures that move with every sample."""
    return condition.message if condition.type in _COUNTING else _FIGURE.sub("#", condition.message)


def _without_measurement(capacity: RoleCapacity | None) -> RoleCapacity | None:
    return None if capacity is None else msgspec.structs.replace(capacity, measured_factor=None)


def _limit(role: RoleDecision) -> str:
    stage = next((record for record in reversed(role.stages) if record.stage is role.limited_by), None)
    return f"{role.limited_by}{': ' + stage.reason if stage is not None and stage.reason else ''}"


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_COLUMN else f"{text[: _MAX_COLUMN - 1]}…"


def _counts(counts: Sequence[tuple[str, int | None]]) -> str:
    return ",".join(f"{name}={'?' if count is None else count}" for name, count in counts)
