"""The status of a scaler, made from one decision: its roles and columns, and what of it is worth a write. Pure.

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
    AdaptiveState,
    Binding,
    CapacitySource,
    Condition,
    ConditionType,
    LoweringState,
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
from controller.planning import prior_of, remembered
from controller.reconcile.observe import RoleView
from controller.scaling import Capacity, Decision, RoleDecision, State

# Figures that move with every sample are written at most this often.
FIGURES_INTERVAL_SECONDS = 60.0
# What the schema has room for in a printer column; many roles with long names need more.
_MAX_COLUMN = 1024
# What the schema has room for beside our own.
_MAX_FOREIGN_CONDITIONS = 16 - len(ConditionType)
# A number that stands by itself in a message: a rate, an age, a factor. One that is part of a name (`h200`, `tp=4`) is
# none of these.
_FIGURE = re.compile(r"(?<![\w.,=+-])[0-9][0-9.,]*")
# Their numbers are counts and terms, which do not move with the samples.
_COUNTING = (ConditionType.BOUND, ConditionType.REPLICAS_CONFLICT)


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


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_COLUMN else f"{text[: _MAX_COLUMN - 1]}…"


def _counts(counts: Sequence[tuple[str, int | None]]) -> str:
    return ",".join(f"{name}={'?' if count is None else count}" for name, count in counts)
